/* test_sampler_model.c: thousands of random histories of the sampler, followed by a model of plain flags. */
#include "tests/unit/sampler/helpers.h"

#define SEEDS 3000
#define STEPS 250
#define JOBS 6
#define SPAN 40 /* ids in a patch */
#define PATCHES 4

/* Where ids lie: at the start, across a block's end, across a page's end, far off. */
static const sample_id patches[PATCHES] = {0, 4096 - SPAN / 2, 65536 - SPAN / 2, 3000000};

struct job_model {
    bool used, started;
    enum shuffle_mode shuffle;
    bool view[PATCHES * SPAN], left[PATCHES * SPAN];
    sample_id order[PATCHES * SPAN];
    uint32_t n_order, drawn, epoch;
};

struct history {
    struct sampler *sampler;
    struct rng rng;
    struct job_model jobs[JOBS];
};

static sample_id id_of(unsigned index)
{
    return patches[index / SPAN] + index % SPAN;
}

static unsigned index_of(sample_id id)
{
    for (unsigned patch = 0; patch < PATCHES; patch++)
        if (id - patches[patch] < SPAN)
            return patch * SPAN + (id - patches[patch]);
    fail_msg("id %u was never in a view", id);
    return 0;
}

static unsigned count_flags(const bool *flags)
{
    unsigned count = 0;
    for (unsigned i = 0; i < PATCHES * SPAN; i++)
        count += flags[i];
    return count;
}

static void check_job(const struct history *history, unsigned job)
{
    const struct job_model *model = &history->jobs[job];
    assert_int_equal(sampler_remaining(history->sampler, job), count_flags(model->left));
    for (unsigned i = 0; i < PATCHES * SPAN; i++)
        assert_int_equal(sampler_wants(history->sampler, job, id_of(i)), model->left[i]);
    assert_false(sampler_wants(history->sampler, job, 2000000));
    assert_false(sampler_wants(history->sampler, job, SAMPLE_NONE));
}

static void add(struct history *history, unsigned job)
{
    struct job_model *model = &history->jobs[job];
    struct rng *rng = &history->rng;
    memset(model, 0, sizeof *model);
    uint64_t density = 1 + random_below(rng, 8), only_patch = random_below(rng, PATCHES * 2);
    struct idset *view;
    assert_int_equal(idset_create(&view), 0);
    for (unsigned i = 0; i < PATCHES * SPAN; i++) {
        if ((only_patch < PATCHES && i / SPAN != only_patch) || random_below(rng, 8) >= density)
            continue;
        model->view[i] = true;
        model->order[model->n_order++] = id_of(i);
        idset_add(view, id_of(i));
    }
    if (model->n_order == 0) {
        model->view[7] = true;
        model->order[model->n_order++] = id_of(7);
        idset_add(view, id_of(7));
    }
    for (uint32_t i = model->n_order - 1; i > 0; i--) {
        uint32_t j = (uint32_t)random_below(rng, i + 1);
        sample_id id = model->order[i];
        model->order[i] = model->order[j];
        model->order[j] = id;
    }
    model->used = true;
    model->shuffle = random_below(rng, 4) ? SHUFFLE_DEPENDENT : random_below(rng, 2) ? SHUFFLE_STRICT : SHUFFLE_NONE;
    struct sampler_job desc = {.shuffle = model->shuffle, .seed = random_u64(rng), .view = view, .order = model->order};
    struct error err;
    assert_int_equal(sampler_add_job(history->sampler, job, &desc, &err), 0);
    idset_destroy(view);
}

static bool intersect(const struct jobset *a, const struct jobset *b)
{
    bool common = false;
    JOBSET_EACH(job, a)
        common = common || jobset_has(b, job);
    return common;
}

/* Picks are as the interface says: every job that asked and has something left is in exactly one, with a sample of its
 * remaining set; no two picks have one sample. */
static void play_round(struct history *history)
{
    struct jobset need = {{0}};
    struct pick picks[JOBS_MAX];
    unsigned expected = 0, served = 0;
    for (unsigned job = 0; job < JOBS; job++) {
        if (!history->jobs[job].used || random_below(&history->rng, 3) == 0)
            continue;
        jobset_add(&need, job);
        expected += count_flags(history->jobs[job].left) > 0;
    }
    size_t n_picks = sampler_round(history->sampler, &need, picks);
    for (size_t i = 0; i < n_picks; i++) {
        assert_false(jobset_empty(&picks[i].jobs));
        for (size_t j = 0; j < i; j++)
            assert_true(picks[i].id != picks[j].id && !intersect(&picks[i].jobs, &picks[j].jobs));
        JOBSET_EACH(job, &picks[i].jobs) {
            assert_true(jobset_has(&need, job));
            struct job_model *model = &history->jobs[job];
            unsigned at = index_of(picks[i].id);
            assert_true(model->left[at]);
            model->left[at] = false;
            if (model->shuffle == SHUFFLE_NONE)
                assert_int_equal(picks[i].id, model->order[model->drawn]);
            model->drawn++;
            served++;
        }
    }
    assert_int_equal(served, expected);
}

/* One sample changes hands: taken when it is left, put back when it is not. */
static void play_exchange(struct history *history, unsigned job)
{
    struct job_model *model = &history->jobs[job];
    unsigned at = (unsigned)random_below(&history->rng, PATCHES * SPAN);
    if (model->shuffle != SHUFFLE_DEPENDENT || !model->started || !model->view[at])
        return;
    if (model->left[at])
        sampler_take(history->sampler, job, id_of(at));
    else
        sampler_put_back(history->sampler, job, id_of(at), 1);
    model->left[at] = !model->left[at];
}

static void play_step(struct history *history)
{
    struct rng *rng = &history->rng;
    unsigned job = (unsigned)random_below(rng, JOBS);
    struct job_model *model = &history->jobs[job];
    uint64_t dice = random_below(rng, 100);
    if (dice < 70) {
        play_round(history);
    } else if (!model->used) {
        add(history, job);
    } else if (dice < 72) {
        sampler_remove_job(history->sampler, job);
        model->used = false;
    } else if (dice < 88) {
        play_exchange(history, job);
    } else if (!model->started || count_flags(model->left) == 0 || dice == 99) {
        sampler_start_epoch(history->sampler, job, ++model->epoch);
        memcpy(model->left, model->view, sizeof model->left);
        model->started = true;
        model->drawn = 0;
    }
}

/* Whatever comes in whatever order, each remaining set is the model's: an epoch gives exactly the view. */
static void test_histories(void **state)
{
    (void)state;
    uint64_t seed = test_seed(20);
    for (uint64_t i = 0; i < SEEDS; i++) {
        struct history history = {.sampler = sampler_create(seed + i)};
        random_seed(&history.rng, ~(seed + i));
        for (unsigned step = 0; step < STEPS; step++) {
            play_step(&history);
            for (unsigned job = 0; step % 25 == 24 && job < JOBS; job++)
                if (history.jobs[job].used)
                    check_job(&history, job);
        }
        sampler_destroy(history.sampler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_histories)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
