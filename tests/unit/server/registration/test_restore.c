/* test_restore.c: proves that what a client says was taken of an epoch comes to the engine as it was meant, that it is
 * refused with a reason when it does not fit the job, and that whatever bytes come are either. LARDER_SEED sets the
 * seed. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/random.h"
#include "server/engine/resume.h"
#include "server/registration/registration.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 40, FIRST = 5, END = 35, BATCH = 8, MUTATIONS = 10000, BYTES_MAX = 4096 };

#define VIEW "{\"range\": [5, 35]}"

static char root[TREE_NAME_MAX];
static struct catalog *catalog;

static int set_up(void **state)
{
    (void)state;
    tree_new(root);
    for (int i = 0; i < FILES; i++)
        tree_file("x", "%s/data/class/%02d.jpg", root, i);
    return catalog_create(NULL, &catalog, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    catalog_destroy(catalog);
    tree_remove(root);
    return 0;
}

/* What a rank asks for. */
struct asked {
    uint32_t world_size, rank;
    enum shuffle_mode shuffle;
    uint64_t seed;
    const char *subset;
};

/* Resolves what a rank asks for, with a state in fd; -1: without one. */
static struct registration *resolve(const struct asked *asked, int fd)
{
    static struct config config;
    struct engine_config engine = {.slot_least = 64};
    struct session_peer peer = {.client = "test"};
    char path[TREE_NAME_MAX + 8];
    int len = snprintf(path, sizeof path, "%s/data", root);
    struct wire_register wire = {.batch_size = BATCH,
                                 .prefetch = 2,
                                 .world_size = asked->world_size,
                                 .rank = asked->rank,
                                 .shuffle = asked->shuffle,
                                 .flags = fd >= 0 ? WIRE_WITH_STATE : 0,
                                 .seed = asked->seed,
                                 .weight = 1,
                                 .name = {"job", 3},
                                 .dataset = {path, (uint32_t)len},
                                 .pipeline = {"[]", 2},
                                 .subset = {asked->subset, (uint32_t)strlen(asked->subset)}};
    struct registration *reg = registration_create(1, 1, &peer, &wire, fd);
    registration_resolve(reg, &(struct resolver){.catalog = catalog, .config = &config, .engine = &engine});
    assert_int_equal(reg->asked.file_fd, -1);
    return reg;
}

static int memfd_of(const void *bytes, size_t len)
{
    int fd = memfd_create("state", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    return fd;
}

/* A record of the asked job with nothing in it. */
static struct record record_of(const struct asked *asked)
{
    struct record record = {.seed = asked->seed, .shuffle = asked->shuffle, .epoch = 3, .samples = FILES};
    struct registration *reg = resolve(asked, -1);
    assert_int_equal(reg->code, 0);
    assert_null(reg->found.restore);
    dataset_fingerprint(reg->found.dataset, record.dataset);
    memcpy(record.view, reg->found.view_fingerprint, sizeof record.view);
    registration_destroy(reg);
    return record;
}

static struct registration *present(const struct asked *asked, const struct record *record)
{
    uint8_t bytes[BYTES_MAX];
    size_t len;
    assert_int_equal(record_encode(record, bytes, sizeof bytes, &len), 0);
    return resolve(asked, memfd_of(bytes, len));
}

static void refused(const struct asked *asked, const struct record *record, int code, const char *text)
{
    struct registration *reg = present(asked, record);
    if (reg->code != code || !strstr(reg->err.text, text))
        fail_msg("%d, not %d: \"%s\" without \"%s\"", reg->code, code, reg->err.text, text);
    assert_null(reg->found.restore);
    registration_destroy(reg);
}

static void put_u32s(uint8_t *to, size_t count, const uint32_t *numbers)
{
    for (size_t i = 0; i < count; i++)
        to = put_u32(to, numbers[i]);
}

#define HISTORY(bytes, ...)                                                  \
    do {                                                                     \
        const struct record_batch batches_[] = {__VA_ARGS__};                \
        for (uint32_t i_ = 0; i_ < sizeof batches_ / sizeof *batches_; i_++) \
            record_batch_put(bytes, i_, &batches_[i_]);                      \
    } while (0)

/* ── what the engine gets ── */

static const struct asked shared = {.world_size = 2, .rank = 1, .shuffle = SHUFFLE_DEPENDENT, .subset = VIEW};
static const struct asked fixed = {.world_size = 2, .rank = 1, .shuffle = SHUFFLE_STRICT, .seed = 7, .subset = VIEW};

static void has_indices(const struct idset *set, const struct dataset *dataset, uint32_t first, uint32_t end)
{
    assert_int_equal(idset_count(set), end - first);
    for (uint32_t index = first; index < end; index++)
        assert_true(idset_contains(set, dataset_id(dataset, index)));
}

/* What rank 1 of 2 of a dependent job took: 4 batches before the base, in which 5 to 14 were over, and 2 since. */
static struct record set_record(uint8_t over[FILES / 8], uint8_t history[2 * RECORD_BATCH_BYTES],
                                uint8_t turns[5 * RECORD_TURN_BYTES])
{
    struct record record = record_of(&shared);
    memset(over, 0, FILES / 8);
    for (uint32_t index = FIRST; index < 15; index++)
        record_set_add(over, index);
    HISTORY(history, {.delivered = 3, .n_turns = 2}, {.delivered = 3, .n_turns = 3});
    put_u32s(turns, 5, (const uint32_t[]){22, 20, 21, 24, 23});
    record.batches = 4;
    record.over = over;
    record.over_bytes = FILES / 8;
    record.world_size = 2;
    record.rank = 1;
    record.n_batches = 2;
    record.n_turns = 5;
    record.history = history;
    record.turns = turns;
    return record;
}

/* Of a dependent job: the base and the rank's turns as sets of samples, and how many batches and samples those were. */
static void test_a_set(void **state)
{
    (void)state;
    uint8_t over[FILES / 8], history[2 * RECORD_BATCH_BYTES], turns[5 * RECORD_TURN_BYTES];
    struct record record = set_record(over, history, turns);
    struct registration *reg = present(&shared, &record);
    assert_int_equal(reg->code, 0);
    const struct engine_resume *resume = &reg->found.restore->engine;
    assert_int_equal(resume->epoch, 3);
    assert_int_equal(resume->base_batches, 4);
    has_indices(resume->base, reg->found.dataset, FIRST, 15);
    assert_int_equal(resume->n_segments, 0);
    assert_int_equal(resume->batches, 2);
    assert_int_equal(resume->delivered, 6);
    assert_int_equal(resume->through, 0);
    has_indices(resume->turns, reg->found.dataset, 20, 25);
    assert_true(resume->presented);
    registration_destroy(reg);
}

static void accepted(const struct record *record)
{
    struct registration *reg = present(&shared, record);
    if (reg->code)
        fail_msg("%d: %s", reg->code, reg->err.text);
    registration_destroy(reg);
}

/* A record of the files as they are, of others with their content or with their times, or that says nothing of them,
 * is taken; one of other content is not, nor one of other times where no content is known. */
static void test_versions(void **state)
{
    (void)state;
    struct record record = record_of(&shared);
    struct registration *reg = resolve(&shared, -1);
    const struct dataset_version here = reg->found.version;
    registration_destroy(reg);
    assert_true(dataset_version_has_content(&here));
    accepted(&record);
    record.version = here;
    accepted(&record);
    record.version.times[0]++;
    accepted(&record);
    record.version.content[0] = record.version.content[1] = 0;
    refused(&shared, &record, LARDER_ECHANGED, "files of the same names and sizes have been rewritten");
    record.version.times[0]--;
    accepted(&record);
    record.version = here;
    record.version.content[1]++;
    refused(&shared, &record, LARDER_ECHANGED, "the state is of another version of ");
}

/* A token has no history, and fits any number of ranks. Nothing taken, in whatever form, is one base; another epoch or
 * number of batches is another. */
static void test_a_token(void **state)
{
    (void)state;
    uint8_t none[FILES / 8] = {0};
    struct asked other = shared;
    struct record record = record_of(&shared);
    struct registration *first = present(&shared, &record);
    assert_int_equal(first->code, 0);
    assert_false(first->found.restore->engine.presented);
    assert_null(first->found.restore->engine.base);
    assert_null(first->found.restore->engine.turns);
    for (int i = 0; i < 4; i++) {
        other.world_size = i == 0 ? 5 : 2;
        record.over = i == 1 ? none : NULL;
        record.over_bytes = i == 1 ? sizeof none : 0;
        record.epoch = i == 2 ? 4 : 3;
        record.batches = i == 3;
        struct registration *reg = present(&other, &record);
        assert_int_equal(reg->code, 0);
        assert_int_equal(reg->found.restore->engine.key == first->found.restore->engine.key, i < 2);
        registration_destroy(reg);
    }
    registration_destroy(first);
}

/* Of a fixed order of 30: four ranks took 9, of the 21 left two ranks took 5 and 6. When two ranks go on, these are
 * their parts; when three do, what is left is dealt anew. */
static void test_an_order(void **state)
{
    (void)state;
    uint8_t four[16], two[8], history[2 * RECORD_BATCH_BYTES];
    struct record record = record_of(&fixed);
    put_u32s(four, 4, (const uint32_t[]){3, 2, 2, 2});
    put_u32s(two, 2, (const uint32_t[]){6, 5});
    HISTORY(history, {.delivered = 2, .through = 7}, {.delivered = 1, .through = 9});
    record.n_segments = 2;
    record.segments[0] = (struct record_segment){.world_size = 4, .n = 4, .through = four};
    record.segments[1] = (struct record_segment){.world_size = 2, .n = 2, .through = two};
    record.batches = 3;
    struct registration *reg = present(&fixed, &record);
    assert_int_equal(reg->code, 0);
    const struct engine_resume *resume = &reg->found.restore->engine;
    uint64_t key = resume->key;
    assert_int_equal(resume->n_segments, 1);
    assert_int_equal(resume->segments[0].world_size, 4);
    assert_memory_equal(resume->segments[0].through, ((const uint32_t[]){3, 2, 2, 2}), 4 * sizeof(uint32_t));
    assert_int_equal(resume->through, 5);
    assert_int_equal(resume->delivered, 5); /* rank 0 got as many, and one of its part was bad */
    assert_int_equal(resume->base_batches, 3);
    assert_int_equal(resume->batches, 0);
    registration_destroy(reg);

    record.world_size = 2;
    record.rank = 1;
    record.n_batches = 2;
    record.history = history;
    reg = present(&fixed, &record);
    assert_int_equal(reg->code, 0);
    resume = &reg->found.restore->engine;
    assert_int_equal(resume->key, key);
    assert_int_equal(resume->through, 9);
    assert_int_equal(resume->delivered, 8);
    assert_int_equal(resume->batches, 2);
    registration_destroy(reg);

    struct asked three = fixed;
    three.world_size = 3;
    record.world_size = record.rank = record.n_batches = 0;
    reg = present(&three, &record);
    assert_int_equal(reg->code, 0);
    resume = &reg->found.restore->engine;
    assert_int_equal(resume->n_segments, 2);
    assert_memory_equal(resume->segments[1].through, ((const uint32_t[]){6, 5}), 2 * sizeof(uint32_t));
    assert_int_equal(resume->through, 0);
    assert_int_equal(resume->delivered, 0);
    registration_destroy(reg);

    record.n_segments = 0; /* a rank that took two batches of a whole order */
    record.batches = 0;
    record.world_size = record.n_batches = 2;
    record.rank = 1;
    reg = present(&fixed, &record);
    assert_int_equal(reg->code, 0);
    resume = &reg->found.restore->engine;
    assert_int_equal(resume->n_segments, 0);
    assert_int_equal(resume->through, 9);
    assert_int_equal(resume->delivered, 3);
    registration_destroy(reg);
}

/* ── what does not fit ── */

/* A state of another dataset, view, shuffle, seed or rank is refused for what it is. */
static void test_another_job(void **state)
{
    (void)state;
    uint8_t over[FILES / 8], history[2 * RECORD_BATCH_BYTES], turns[5 * RECORD_TURN_BYTES];
    struct record record = set_record(over, history, turns);
    struct record token = record_of(&shared), strict = record_of(&fixed), changed = token;
    struct asked other = shared;
    changed.dataset[1]++;
    refused(&shared, &changed, LARDER_ECHANGED, "the state is of another dataset than ");
    changed = token;
    changed.samples = FILES + 1;
    refused(&shared, &changed, LARDER_ECHANGED, "it had 41 samples, now there are 40");
    changed = token;
    changed.view[0]++;
    refused(&shared, &changed, LARDER_EINVAL, "give the subset that it was made with");
    other.subset = "";
    refused(&other, &token, LARDER_EINVAL, "give the subset that it was made with");
    refused(&shared, &strict, LARDER_EINVAL, "with shuffle \"strict\", and this one has \"dependent\"");
    other = fixed;
    other.seed = 8;
    refused(&other, &strict, LARDER_EINVAL, "with seed 7, and this one has 8");
    other = shared;
    other.seed = 8; /* which decides nothing */
    struct registration *reg = present(&other, &token);
    assert_int_equal(reg->code, 0);
    registration_destroy(reg);
    other = shared;
    other.rank = 0;
    refused(&other, &record, LARDER_EINVAL, "rank 1 of 2 took, and this is rank 0 of 2");
    other.rank = 1;
    other.world_size = 3;
    refused(&other, &record, LARDER_EINVAL, "rank 1 of 2 took, and this is rank 1 of 3");
}

/* A set with samples beyond the view, or with one twice, is damaged. So is a history of batches that cannot be. */
static void test_a_damaged_set(void **state)
{
    (void)state;
    uint8_t over[FILES / 8], history[2 * RECORD_BATCH_BYTES], turns[5 * RECORD_TURN_BYTES];
    struct record record = set_record(over, history, turns);
    record_set_add(over, FIRST - 1);
    refused(&shared, &record, LARDER_EFORMAT, "it has sample 4, which is no part of what the job trains on");
    record = set_record(over, history, turns);
    put_u32(turns + 4 * RECORD_TURN_BYTES, END);
    refused(&shared, &record, LARDER_EFORMAT, "it has sample 35, which is no part of what the job trains on");
    put_u32(turns + 4 * RECORD_TURN_BYTES, 20);
    refused(&shared, &record, LARDER_EFORMAT, "it has sample 20 twice");
    put_u32(turns + 4 * RECORD_TURN_BYTES, 14);
    refused(&shared, &record, LARDER_EFORMAT, "it has sample 14 twice");
    record = set_record(over, history, turns);
    HISTORY(history, {.delivered = 2, .n_turns = 2}, {.delivered = 9, .n_turns = 3});
    refused(&shared, &record, LARDER_EFORMAT, "a batch of 9 samples, where this job's have 1 to 8");
    HISTORY(history, {.delivered = 5, .n_turns = 5}, {.delivered = 0});
    refused(&shared, &record, LARDER_EFORMAT, "a batch of 0 samples, where this job's have 1 to 8");
    HISTORY(history, {.delivered = 8, .n_turns = 2}, {.delivered = 3, .n_turns = 3});
    refused(&shared, &record, LARDER_EFORMAT, "rank 1 of 2 had 11 samples of a share of 10");
    record.batches = UINT32_MAX;
    refused(&shared, &record, LARDER_EFORMAT, "more batches than can be counted");
}

/* Parts are no longer than the order is, and nobody goes back in one. */
static void test_a_damaged_order(void **state)
{
    (void)state;
    uint8_t two[8], one[4], history[RECORD_BATCH_BYTES];
    struct record record = record_of(&fixed);
    put_u32s(two, 2, (const uint32_t[]){15, 16});
    record.n_segments = 1;
    record.segments[0] = (struct record_segment){.world_size = 2, .n = 2, .through = two};
    refused(&fixed, &record, LARDER_EFORMAT, "rank 1 of 2 is through 16 numbers of its part, which has 15");
    put_u32s(two, 2, (const uint32_t[]){15, 9});
    put_u32(one, 7);
    record.n_segments = 2;
    record.segments[1] = (struct record_segment){.world_size = 1, .n = 1, .through = one};
    refused(&fixed, &record, LARDER_EFORMAT, "rank 0 of 1 is through 7 numbers of its part, which has 6");
    record.n_segments = 1;
    record.world_size = 2;
    record.rank = record.n_batches = 1;
    record.history = history;
    HISTORY(history, {.delivered = 1, .through = 8});
    refused(&fixed, &record, LARDER_EFORMAT, "it goes back from number 9 of the rank's part to 8");
    HISTORY(history, {.delivered = 1, .through = 16});
    refused(&fixed, &record, LARDER_EFORMAT, "rank 1 of 2 is through 16 numbers of its part, which has 15");
}

static void refused_fd(int fd, int code, const char *text)
{
    struct registration *reg = resolve(&shared, fd);
    if (reg->code != code || !strstr(reg->err.text, text))
        fail_msg("%d, not %d: \"%s\" without \"%s\"", reg->code, code, reg->err.text, text);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    registration_destroy(reg);
}

/* Only a memfd of a fitting length is read. A descriptor of whatever kind is closed. */
static void test_descriptors(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0); /* nobody writes: reading it would last for ever */
    refused_fd(pipes[0], LARDER_EINVAL, "no memfd");
    close(pipes[1]);
    refused_fd(open("/dev/zero", O_RDONLY | O_CLOEXEC), LARDER_EINVAL, "no memfd");
    refused_fd(open(root, O_PATH | O_CLOEXEC), LARDER_EINVAL, "no memfd");
    refused_fd(memfd_of("", 0), LARDER_EFORMAT, "the state is empty");
    refused_fd(memfd_of("LDRS\1\0\0\0", 8), LARDER_EFORMAT, "8 bytes do not fit its fields");
    refused_fd(memfd_of("LDRS\2\0\0\0", 8), LARDER_EFORMAT, "8 bytes do not fit its fields");
    refused_fd(memfd_of("LDRS\3\0\0\0", 8), LARDER_EFORMAT, "8 bytes do not fit its fields");
    refused_fd(memfd_of("LDRS\4\0\0\0", 8), LARDER_EFORMAT, "8 bytes do not fit its fields");
    refused_fd(memfd_of("LDRS\5\0\0\0", 8), LARDER_EVERSION, "the state has format version 5");
    refused_fd(memfd_of("a text that is none", 19), LARDER_EFORMAT, "does not begin as a state of Larder does");
    int huge = memfd_of("LDRS\1\0\0\0", 8);
    assert_int_equal(ftruncate(huge, (off_t)1 << 40), 0);
    refused_fd(huge, LARDER_ELIMIT, "the state has 1099511627776 bytes, and one of 40 samples at most 1049856");
    huge = memfd_of("LDRS\1\0\0\0", 8);
    assert_int_equal(ftruncate(huge, 1049856), 0);
    refused_fd(huge, LARDER_EFORMAT, "the state is damaged");
}

/* ── whatever comes ── */

static size_t mutate(struct rng *rng, uint8_t *bytes, size_t len)
{
    for (uint64_t n = 1 + random_below(rng, 4); n > 0; n--) {
        size_t at = random_below(rng, len);
        switch (random_below(rng, 5)) {
        case 0: bytes[at] ^= (uint8_t)(1u << random_below(rng, 8)); break;
        case 1: bytes[at] = (uint8_t)random_u64(rng); break;
        case 2: bytes[at]++; break;
        case 3: bytes[at] = bytes[random_below(rng, len)]; break;
        default: len = random_below(rng, 8) ? len : at + 1;
        }
    }
    return len;
}

/* 10,000 changed records: each is refused with a reason, or the engine would find nothing wrong with it. */
static void test_mutations(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 13;
    struct rng rng;
    uint8_t over[FILES / 8], history[2 * RECORD_BATCH_BYTES], turns[5 * RECORD_TURN_BYTES], two[8], one[4];
    struct record records[2] = {set_record(over, history, turns), record_of(&fixed)};
    unsigned accepted = 0;
    put_u32s(two, 2, (const uint32_t[]){8, 7});
    put_u32(one, 3);
    records[1].n_segments = 2;
    records[1].segments[0] = (struct record_segment){.world_size = 3, .n = 1, .through = one};
    records[1].segments[1] = (struct record_segment){.world_size = 2, .n = 2, .through = two};
    random_seed(&rng, seed);
    print_message("LARDER_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < MUTATIONS; i++) {
        const struct asked *asked = i % 2 ? &fixed : &shared;
        uint8_t bytes[BYTES_MAX];
        size_t len;
        assert_int_equal(record_encode(&records[i % 2], bytes, sizeof bytes, &len), 0);
        len = mutate(&rng, bytes, len);
        struct registration *reg = resolve(asked, memfd_of(bytes, len));
        assert_true(reg->code ? reg->err.text[0] && !reg->found.restore : reg->found.restore != NULL);
        if (!reg->code) {
            struct engine_job_desc desc = {.rank = asked->rank,
                                           .world_size = asked->world_size,
                                           .sampled = {.shuffle = asked->shuffle,
                                                       .view = reg->found.selection->view.ids,
                                                       .order = reg->found.selection->view.order},
                                           .resume = &reg->found.restore->engine};
            const char *flaw = resume_flaw(&desc);
            if (flaw)
                fail_msg("mutation %d: %s", i, flaw);
            accepted++;
        }
        registration_destroy(reg);
    }
    print_message("%u of %d accepted\n", accepted, MUTATIONS);
    assert_in_range(accepted, 1, MUTATIONS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_set),           cmocka_unit_test(test_versions),
        cmocka_unit_test(test_a_token),         cmocka_unit_test(test_an_order),
        cmocka_unit_test(test_another_job),     cmocka_unit_test(test_a_damaged_set),
        cmocka_unit_test(test_a_damaged_order), cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
