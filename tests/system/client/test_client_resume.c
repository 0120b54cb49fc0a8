/* test_client_resume.c: the C library over daemons that die and states that go elsewhere: a ledger of what the program
 * took, in which each sample is once. Usage: system_client_resume LARDERD MAKE_IMAGES [--long]
 * LARDER_SEED is the seed; --long kills more daemons, at other moments, and takes every case in every order. */
#include <larder/larder.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "real_daemon.h"

#define SAMPLES 210u
#define CLASSES 3u
#define BATCH_SIZE 8u
#define SAMPLE_BYTES (16u * 16u * 3u)
#define RANKS_MAX 4u
#define TIMEOUT_MS 120000 /* a sanitizer's build on a busy machine */

static struct real real, other; /* other: another daemon, in another folder, for the same images */
static struct rng rng;
static bool is_long;

struct ledger {
    uint32_t times[SAMPLES], n;
};

static struct larder_options options_of(const struct real *of, uint32_t shuffle)
{
    struct larder_options options;
    larder_options_init(&options);
    options.socket = of->socket;
    options.dataset = real.dataset;
    options.pipeline = "[{\"random_resized_crop\": {\"size\": 16}}]";
    options.batch_size = BATCH_SIZE;
    options.shuffle = shuffle;
    options.seed = 11;
    return options;
}

static struct larder_loader *open_loader(const struct larder_options *options)
{
    struct larder_loader *loader = NULL;
    if (larder_open(options, &loader) != 0)
        fail_msg("%s", larder_last_error(NULL));
    return loader;
}

/* note puts a batch into the ledger and gives it back. */
static void note(struct larder_batch *batch, struct ledger *ledger)
{
    static uint8_t copy[BATCH_SIZE * SAMPLE_BYTES];
    assert_int_equal(larder_batch_copy(batch, copy, sizeof copy), 0);
    for (uint32_t i = 0; i < larder_batch_count(batch); i++) {
        struct larder_sample sample;
        assert_int_equal(larder_batch_sample(batch, i, &sample), 0);
        assert_true(sample.index < SAMPLES);
        assert_int_equal(sample.label, sample.index / (SAMPLES / CLASSES));
        assert_memory_equal(sample.data, copy + i * SAMPLE_BYTES, SAMPLE_BYTES);
        ledger->times[sample.index]++;
        ledger->n++;
    }
    assert_int_equal(larder_batch_release(&batch), 0);
}

/* take waits for a batch; false: the epoch is over. */
static bool take(struct larder_loader *loader, struct ledger *ledger)
{
    struct larder_batch *batch;
    int rc = larder_next(loader, TIMEOUT_MS, &batch);
    if (rc && rc != LARDER_EEND)
        fail_msg("%s: %s", larder_err_name(rc), larder_last_error(loader));
    if (rc == 0)
        note(batch, ledger);
    return rc == 0;
}

/* assert_whole: each sample is there, and `repeats` come twice, which fill the ranks' shares up. */
static void assert_whole(const struct ledger *ledger, uint32_t repeats)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        if (ledger->times[i] < 1 || (ledger->times[i] > 1 && repeats == 0))
            fail_msg("sample %u was taken %u times", i, ledger->times[i]);
    }
    assert_in_range(ledger->n, SAMPLES, SAMPLES + repeats);
}

/* ── daemons that die ────────────────────────────────────────────────────────────────────────────────────────────── */

/* What the loop and the reaper know of each other. Every change is told. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t taken;        /* batches, by the loop */
    uint32_t deaths, owed; /* of daemons, and those that the loop waits for */
    bool over;             /* the loop */
} story = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* wait_to_kill returns when the loop has taken `due` batches, or waits for a death; false: when it is over. */
static bool wait_to_kill(uint32_t due)
{
    pthread_mutex_lock(&story.lock);
    while (story.taken < due && story.deaths >= story.owed && !story.over)
        pthread_cond_wait(&story.changed, &story.lock);
    bool over = story.over;
    pthread_mutex_unlock(&story.lock);
    return !over;
}

/* count_death returns how many batches the loop has taken. */
static uint32_t count_death(void)
{
    pthread_mutex_lock(&story.lock);
    story.deaths++;
    uint32_t taken = story.taken;
    pthread_cond_broadcast(&story.changed);
    pthread_mutex_unlock(&story.lock);
    return taken;
}

/* The reaper kills the daemon, or stops it, after some batches more, and starts another one. */
static void *reap(void *unused)
{
    (void)unused;
    for (uint32_t i = 0, due = 3; wait_to_kill(due); i++) {
        if (i % 4 == 3)
            CHECK(real_stop(&real) == 0); /* an assertion would end the other thread's test from here */
        else
            real_kill(&real);
        due = count_death() + 1 + (i * 7) % 31;
        real_start(&real);
    }
    return NULL;
}

/* tell_of_batch tells the reaper, and waits for the deaths that there are to be by now. */
static void tell_of_batch(uint32_t owed)
{
    pthread_mutex_lock(&story.lock);
    story.taken++;
    story.owed = owed;
    pthread_cond_broadcast(&story.changed);
    while (story.deaths < story.owed)
        pthread_cond_wait(&story.changed, &story.lock);
    pthread_mutex_unlock(&story.lock);
}

static void start_story(pthread_t *reaper)
{
    story.taken = story.deaths = story.owed = 0;
    story.over = false;
    assert_int_equal(pthread_create(reaper, NULL, reap, NULL), 0);
}

static void end_story(pthread_t reaper)
{
    pthread_mutex_lock(&story.lock);
    story.over = true;
    pthread_cond_broadcast(&story.changed);
    pthread_mutex_unlock(&story.lock);
    assert_int_equal(pthread_join(reaper, NULL), 0);
}

/* A loop that is not told goes on over daemons that are killed and stopped at any moment: in each epoch each sample
 * comes once, in each order. */
static void loses_nothing_to_kills(void **state)
{
    (void)state;
    for (uint32_t shuffle = LARDER_SHUFFLE_DEPENDENT; shuffle <= LARDER_SHUFFLE_NONE; shuffle++) {
        struct larder_info info;
        pthread_t reaper;
        real_start(&real);
        struct larder_options options = options_of(&real, shuffle);
        struct larder_loader *loader = open_loader(&options);
        start_story(&reaper);
        for (uint32_t epoch = 0; epoch < (is_long ? 6 : 2); epoch++) {
            struct ledger ledger = {.n = 0};
            assert_int_equal(larder_start_epoch(loader, epoch), 0);
            while (take(loader, &ledger)) /* as many have died as epochs have come to their middles, or more */
                tell_of_batch(ledger.n < SAMPLES / 2 ? epoch : epoch + 1);
            assert_whole(&ledger, 0);
        }
        end_story(reaper);
        assert_int_equal(larder_info_get(loader, &info), 0);
        assert_true(info.reconnects > 0);
        print_message("shuffle %u: %u reconnects\n", shuffle, info.reconnects);
        larder_close(&loader);
        real_kill(&real); /* the reaper's last one goes with its thread */
    }
}

/* What the program holds stays what it is when its daemon is killed, also beside the next one's batches. */
static void keeps_what_is_held(void **state)
{
    (void)state;
    static uint8_t before[BATCH_SIZE * SAMPLE_BYTES], after[BATCH_SIZE * SAMPLE_BYTES];
    struct larder_batch *held = NULL;
    struct ledger ledger = {.n = 0};
    real_start(&real);
    struct larder_options options = options_of(&real, LARDER_SHUFFLE_DEPENDENT);
    struct larder_loader *loader = open_loader(&options);
    assert_int_equal(larder_start_epoch(loader, 0), 0);
    assert_int_equal(larder_next(loader, TIMEOUT_MS, &held), 0);
    assert_int_equal(larder_batch_copy(held, before, sizeof before), 0);
    real_kill(&real);
    real_start(&real);
    while (take(loader, &ledger))
        ;
    assert_int_equal(larder_batch_copy(held, after, sizeof after), 0);
    assert_memory_equal(before, after, sizeof before);
    for (uint32_t i = 0; i < larder_batch_count(held); i++) {
        struct larder_sample sample;
        assert_int_equal(larder_batch_sample(held, i, &sample), 0);
        ledger.times[sample.index]++;
        ledger.n++;
    }
    assert_whole(&ledger, 0);
    assert_int_equal(larder_batch_release(&held), 0);
    larder_close(&loader);
    assert_int_equal(real_stop(&real), 0);
}

/* ── states ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct job {
    struct larder_loader *ranks[RANKS_MAX];
    uint32_t world_size;
};

static void open_job(struct job *job, const struct real *of, uint32_t shuffle, uint32_t world_size,
                     const struct larder_options *more)
{
    struct larder_options options = options_of(of, shuffle);
    options.job = "resumed";
    options.state = more ? more->state : NULL;
    options.state_bytes = more ? more->state_bytes : 0;
    options.drop_last = more ? more->drop_last : 0;
    options.world_size = world_size;
    *job = (struct job){.world_size = world_size};
    for (options.rank = 0; options.rank < world_size; options.rank++)
        job->ranks[options.rank] = open_loader(&options);
}

static void start_job(struct job *job, uint32_t epoch)
{
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        assert_int_equal(larder_start_epoch(job->ranks[rank], epoch), 0);
}

/* try_rank returns what larder_next returns at once; LARDER_ETIMEOUT: nothing yet. */
static int try_rank(struct larder_loader *loader, struct ledger *ledger)
{
    struct larder_batch *batch;
    int rc = larder_next(loader, 0, &batch);
    if (rc && rc != LARDER_EEND && rc != LARDER_ETIMEOUT)
        fail_msg("%s: %s", larder_err_name(rc), larder_last_error(loader));
    if (rc == 0)
        note(batch, ledger);
    return rc;
}

/* step has each rank take a batch, whichever has one first; false: the epoch is over, for all of them at once. */
static bool step(struct job *job, struct ledger *ledger)
{
    int rc[RANKS_MAX];
    uint32_t over = 0, missing = job->world_size;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        rc[rank] = LARDER_ETIMEOUT;
    while (missing > 0) {
        struct pollfd fds[RANKS_MAX];
        missing = 0;
        for (uint32_t rank = 0; rank < job->world_size; rank++) {
            if (rc[rank] == LARDER_ETIMEOUT)
                rc[rank] = try_rank(job->ranks[rank], ledger);
            if (rc[rank] == LARDER_ETIMEOUT)
                fds[missing++] = (struct pollfd){.fd = larder_fd(job->ranks[rank]), .events = POLLIN};
        }
        assert_true(missing == 0 || poll(fds, missing, TIMEOUT_MS) > 0);
    }
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        over += rc[rank] == LARDER_EEND;
    assert_true(over == 0 || over == job->world_size);
    return over == 0;
}

static void close_job(struct job *job)
{
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        larder_close(&job->ranks[rank]);
}

static void save(const struct job *job, uint32_t rank, struct larder_options *out)
{
    static uint8_t kept[4096];
    const void *state;
    size_t bytes;
    int rc = larder_state(job->ranks[rank], TIMEOUT_MS, &state, &bytes);
    if (rc)
        fail_msg("%s", larder_last_error(job->ranks[rank]));
    assert_true(bytes <= sizeof kept);
    if (out->state) { /* every rank's is the same */
        assert_int_equal(bytes, out->state_bytes);
        assert_memory_equal(state, kept, bytes);
    }
    memcpy(kept, state, bytes);
    out->state = kept;
    out->state_bytes = bytes;
}

/* A state after any batch goes on in another daemon with another number of ranks, and from there again with the first:
 * what the three parts took is each sample once, but for what fills up the ranks' last shares. */
static void goes_on_with_other_ranks(void **state)
{
    (void)state;
    static const uint32_t worlds[][2] = {{1, 1}, {1, 4}, {4, 1}, {3, 4}, {4, 3}, {2, 2}};
    uint32_t n_worlds = sizeof worlds / sizeof *worlds;
    for (uint32_t n = 0; n < (is_long ? 3 : 1) * n_worlds; n++) {
        const uint32_t *world = worlds[n % n_worlds], shuffle = (n + n / n_worlds) % 3;
        struct larder_info info;
        struct job job;
        struct ledger ledger = {.n = 0};
        uint32_t steps = SAMPLES / (BATCH_SIZE * world[0]), at = (uint32_t)random_below(&rng, steps + 1);
        real_start(&real);
        real_start(&other);
        open_job(&job, &real, shuffle, world[0], NULL);
        start_job(&job, 2);
        for (uint32_t i = 0; i < at; i++)
            assert_true(step(&job, &ledger));
        struct larder_options with = {.state = NULL};
        for (uint32_t rank = 0; rank < world[0]; rank++)
            save(&job, rank, &with);
        close_job(&job);

        open_job(&job, &other, shuffle, world[1], &with);
        assert_int_equal(larder_info_get(job.ranks[0], &info), 0);
        assert_int_equal(info.epoch, 2);
        start_job(&job, info.epoch);
        uint32_t left = (SAMPLES - ledger.n) / (BATCH_SIZE * world[1]);
        for (uint32_t i = (uint32_t)random_below(&rng, left + 1); i > 0; i--)
            assert_true(step(&job, &ledger));
        with.state = NULL;
        save(&job, world[1] - 1, &with);
        close_job(&job);

        open_job(&job, &real, shuffle, world[0], &with);
        start_job(&job, 2);
        while (step(&job, &ledger))
            ;
        /* where samples come as they get ready, a repeat may come before the last steps */
        assert_whole(&ledger, world[0] - 1 + (shuffle == LARDER_SHUFFLE_DEPENDENT ? world[1] - 1 : 0));
        struct ledger next = {.n = 0};
        start_job(&job, 3);
        while (step(&job, &next))
            ;
        assert_whole(&next, world[0] - 1);
        close_job(&job);
        assert_int_equal(real_stop(&real), 0);
        assert_int_equal(real_stop(&other), 0);
    }
}

/* A rank that has not come as far as the one that asks is named, and the job goes on. */
static void names_who_lags_behind(void **state)
{
    (void)state;
    struct job job;
    struct ledger ledger = {.n = 0};
    const void *bytes;
    size_t len;
    real_start(&real);
    open_job(&job, &real, LARDER_SHUFFLE_DEPENDENT, 2, NULL);
    start_job(&job, 0);
    assert_true(step(&job, &ledger));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(take(job.ranks[0], &ledger));
    int rc = larder_state(job.ranks[0], 50, &bytes, &len);
    assert_int_equal(rc, LARDER_ETIMEOUT);
    if (!strstr(larder_last_error(job.ranks[0]), "rank 1 of 2"))
        fail_msg("%s", larder_last_error(job.ranks[0]));
    for (uint32_t i = 0; i < 4; i++)
        assert_true(take(job.ranks[1], &ledger));
    struct larder_options with = {.state = NULL};
    save(&job, 0, &with);
    save(&job, 1, &with);
    while (step(&job, &ledger))
        ;
    assert_whole(&ledger, 0);
    close_job(&job);
    assert_int_equal(real_stop(&real), 0);
}

/* Ranks whose daemon is killed all go on, and what each says of all of them is the same, before and after. */
static void ranks_outlive_their_daemon(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < (is_long ? 9 : 3); n++) {
        uint32_t shuffle = n % 3, kill_at = (uint32_t)random_below(&rng, SAMPLES / (3 * BATCH_SIZE)), steps = 0;
        struct job job;
        struct ledger ledger = {.n = 0};
        real_start(&real);
        open_job(&job, &real, shuffle, 3, NULL);
        start_job(&job, 0);
        do {
            struct larder_options with = {.state = NULL};
            if (steps != kill_at && steps != kill_at + 2)
                continue;
            for (uint32_t rank = 0; rank < 3 && steps == kill_at + 2; rank++)
                save(&job, rank, &with);
            real_kill(&real);
            real_start(&real);
        } while (steps++, step(&job, &ledger));
        assert_whole(&ledger, 2);
        close_job(&job);
        assert_int_equal(real_stop(&real), 0);
    }
}

/* With `strict`, the batches after a state are those of a run that nobody interrupted, to the bit. */
static void strict_is_bit_equal(void **state)
{
    (void)state;
    static uint8_t whole[SAMPLES][SAMPLE_BYTES], copy[BATCH_SIZE * SAMPLE_BYTES];
    for (uint32_t cut = 0; cut < 2; cut++) {
        uint32_t at = 0;
        struct job job;
        real_start(&real);
        open_job(&job, &real, LARDER_SHUFFLE_STRICT, 1, NULL);
        start_job(&job, 5);
        for (uint32_t n = 0;; n++) {
            struct larder_batch *batch;
            if (cut && n == 9) {
                struct larder_options with = {.state = NULL};
                save(&job, 0, &with);
                close_job(&job);
                real_kill(&real);
                real_start(&real);
                open_job(&job, &real, LARDER_SHUFFLE_STRICT, 1, &with);
                start_job(&job, 5);
            }
            int rc = larder_next(job.ranks[0], TIMEOUT_MS, &batch);
            if (rc == LARDER_EEND)
                break;
            assert_int_equal(rc, 0);
            assert_int_equal(larder_batch_index(batch), n);
            assert_int_equal(larder_batch_copy(batch, cut ? copy : whole[at], sizeof copy), 0);
            size_t bytes = larder_batch_bytes(batch);
            if (cut)
                assert_memory_equal(copy, whole[at], bytes);
            at += larder_batch_count(batch);
            assert_int_equal(larder_batch_release(&batch), 0);
        }
        assert_int_equal(at, SAMPLES);
        close_job(&job);
        assert_int_equal(real_stop(&real), 0);
    }
}

static void spoil(const struct real *of, uint32_t number)
{
    char path[160];
    snprintf(path, sizeof path, "%s/class_%02u/%05u.jpg", of->dataset, number % CLASSES, number);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(fputs("no image", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Bad samples are left out or replaced as ever, before and after a daemon was killed and a state was loaded: each good
 * one comes, and where they are replaced as many come as there are. */
static void bad_samples_are_as_ever(void **state)
{
    (void)state;
    static const uint32_t bad[] = {3, 50, 51, 120, 200};
    uint32_t n_bad = sizeof bad / sizeof *bad, whole = SAMPLES / BATCH_SIZE - 2;
    struct real spoilt;
    real_make(&spoilt, SAMPLES, CLASSES);
    for (uint32_t i = 0; i < n_bad; i++)
        spoil(&spoilt, bad[i]);
    for (uint32_t n = 0; n < (is_long ? 12 : 6); n++) {
        uint32_t shuffle = n % 3, policy = n / 3 % 2 ? LARDER_BAD_REPLACE : LARDER_BAD_SKIP, good = 0;
        struct ledger ledger = {.n = 0};
        struct larder_options options = options_of(&spoilt, shuffle), with = {.state = NULL};
        options.dataset = spoilt.dataset;
        options.bad = policy;
        real_start(&spoilt);
        struct job job = {.world_size = 1, .ranks = {open_loader(&options)}};
        start_job(&job, 0);
        for (uint32_t i = (uint32_t)random_below(&rng, whole / 2); i > 0; i--)
            assert_true(step(&job, &ledger));
        real_kill(&spoilt);
        real_start(&spoilt);
        for (uint32_t i = (uint32_t)random_below(&rng, whole / 2); i > 0; i--)
            assert_true(step(&job, &ledger));
        save(&job, 0, &with);
        close_job(&job);
        options.state = with.state;
        options.state_bytes = with.state_bytes;
        job = (struct job){.world_size = 1, .ranks = {open_loader(&options)}};
        start_job(&job, 0);
        while (step(&job, &ledger))
            ;
        for (uint32_t i = 0; i < SAMPLES; i++) {
            good += ledger.times[i] > 0;
            assert_true(policy == LARDER_BAD_REPLACE || ledger.times[i] <= 1);
        }
        assert_int_equal(good, SAMPLES - n_bad);
        assert_int_equal(ledger.n, policy == LARDER_BAD_REPLACE ? SAMPLES : SAMPLES - n_bad);
        close_job(&job);
        assert_int_equal(real_stop(&spoilt), 0);
    }
    real_remove(&spoilt);
}

/* A dataset that changed while there was no daemon is told, by a loader that waited and by one that brings a state. */
static void tells_a_changed_dataset(void **state)
{
    (void)state;
    char path[160], moved[160];
    struct job job;
    struct ledger ledger = {.n = 0};
    struct larder_batch *batch = NULL;
    struct larder_options with = {.state = NULL};
    real_start(&real);
    open_job(&job, &real, LARDER_SHUFFLE_DEPENDENT, 1, NULL);
    start_job(&job, 0);
    assert_true(take(job.ranks[0], &ledger));
    save(&job, 0, &with);
    real_kill(&real);
    snprintf(path, sizeof path, "%s/class_00/00000.jpg", real.dataset);
    snprintf(moved, sizeof moved, "%s/00000.jpg", real.folder);
    assert_int_equal(rename(path, moved), 0);
    real_start(&real);
    int rc;
    while ((rc = larder_next(job.ranks[0], TIMEOUT_MS, &batch)) == 0) /* what was here may still be taken */
        assert_int_equal(larder_batch_release(&batch), 0);
    print_message("%s: %s\n", larder_err_name(rc), larder_last_error(job.ranks[0]));
    assert_int_equal(rc, LARDER_ECHANGED);
    close_job(&job);
    struct larder_options options = options_of(&real, LARDER_SHUFFLE_DEPENDENT);
    struct larder_loader *loader = NULL;
    options.state = with.state;
    options.state_bytes = with.state_bytes;
    rc = larder_open(&options, &loader);
    print_message("%s: %s\n", larder_err_name(rc), larder_last_error(NULL));
    assert_int_equal(rc, LARDER_ECHANGED);
    assert_int_equal(rename(moved, path), 0);
    assert_int_equal(real_stop(&real), 0);
}

int main(int argc, char **argv)
{
    is_long = argc == 4 && strcmp(argv[3], "--long") == 0;
    int code = real_arguments(is_long ? 3 : argc, argv);
    if (code)
        return code;
    const char *given = getenv("LARDER_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;
    printf("seed %llu\n", (unsigned long long)seed);
    random_seed_keys(&rng, seed, 4, 0, 0);
    real_make(&real, SAMPLES, CLASSES);
    real_make(&other, CLASSES, CLASSES);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_nothing_to_kills),   cmocka_unit_test(keeps_what_is_held),
        cmocka_unit_test(goes_on_with_other_ranks), cmocka_unit_test(ranks_outlive_their_daemon),
        cmocka_unit_test(strict_is_bit_equal),      cmocka_unit_test(names_who_lags_behind),
        cmocka_unit_test(bad_samples_are_as_ever),  cmocka_unit_test(tells_a_changed_dataset),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    real_stop(&real);
    real_stop(&other);
    real_remove(&real);
    real_remove(&other);
    return failed;
}
