/* An anchor leaves a home that gives, if the job is faster without it: again and again the job stands still for it
 * alone, for longer than this node takes to prepare what came from there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/cluster/merge.h"

#define S UINT64_C(1000000000)

enum { NODE = 1, OTHER = 2, SAMPLES = 1000, N = MERGE_SAMPLES_MOST, ANSWERS = 30 };

/* A job, as its merge is told of it. */
struct job {
    struct merge *merge;
    struct pace pace;
    uint64_t now_ns, attach, next;
    uint32_t asked, given, moved; /* samples that the engine expects, and that came; answers before the MOVE */
    bool slow;                    /* what the MOVE said */
};

static void tell(struct job *job, struct merge_event event)
{
    const struct merge_action *actions;
    event.now_ns = job->now_ns;
    size_t count = merge_step(job->merge, &event, &actions);
    for (size_t i = 0; i < count; i++) {
        if (actions[i].type == MERGE_ATTACH)
            job->attach = actions[i].request;
        else if (actions[i].type == MERGE_NEXT && actions[i].node == NODE)
            job->next = actions[i].request;
        else if (actions[i].type == MERGE_MOVE && actions[i].node == NODE)
            job->slow = actions[i].move.slow;
        if (actions[i].type == MERGE_MOVE && actions[i].node == NODE)
            job->moved = job->given / N;
    }
}

static void add_part(struct job *job, uint32_t node, sample_id first)
{
    struct bag *ids;
    assert_int_equal(bag_create(&ids), 0);
    for (sample_id id = 0; id < SAMPLES; id++)
        assert_int_equal(bag_put(ids, first + id, 1), 0);
    tell(job, (struct merge_event){.type = MERGE_PART, .part = {node, ids, node == NODE ? &job->pace : NULL}});
    tell(job, (struct merge_event){.type = MERGE_ATTACHED, .request = job->attach, .guest = node});
}

/* expect has the engine expect so many samples more of those from `first` on, for which the node is asked at once. */
static void expect(struct job *job, sample_id first)
{
    for (uint32_t i = 0; i < N; i++, job->asked++)
        tell(job, (struct merge_event){.type = MERGE_EXPECT, .expect = {job->asked, first + i, N}});
    tell(job, (struct merge_event){.type = MERGE_TICK});
}

/* play has the node give N samples a second, or ten times as many beside another one. The job lacks `lacks` samples all
 * the time, and this node would take sample_s for each. It gives the number of answers before the node was left; 0: it
 * was not. */
static uint32_t play(uint64_t lacks, double sample_s, bool other)
{
    struct job job = {0};
    struct merge_sample samples[N] = {{0}};
    assert_int_equal(merge_create(0, &job.merge), 0);
    add_part(&job, NODE, 0);
    if (other) { /* it is asked too, and does not answer either */
        add_part(&job, OTHER, SAMPLES);
        expect(&job, SAMPLES);
    }
    for (uint32_t answer = 0; answer < ANSWERS && !job.moved; answer++) {
        expect(&job, job.given);
        tell(&job, (struct merge_event){.type = MERGE_LACKS, .lacks = {lacks, sample_s}});
        job.now_ns += other ? S / 10 : S;
        for (uint32_t i = 0; i < N; i++)
            samples[i].id = job.given++;
        struct merge_event batch = {.type = MERGE_BATCH, .request = job.next};
        batch.batch.count = N;
        batch.batch.samples = samples;
        tell(&job, batch);
        for (uint32_t i = 0; i < N; i++)
            tell(&job, (struct merge_event){.type = MERGE_TAKEN, .taken = {true, true}});
    }
    assert_int_equal(job.slow, job.moved > 0);
    const struct merge_action *actions;
    merge_end(job.merge, &actions);
    merge_destroy(job.merge);
    return job.moved;
}

static void test_slow(void **state)
{
    (void)state;
    const uint32_t least = PACE_DEVIATIONS * PACE_DEVIATIONS;
    assert_in_range(play(N, .001, false), least, least + 1);
}

/* This node would not be faster, the job does not stand still, it lacks something that is to be prepared here, or what
 * another node was asked for. */
static void test_not_slow(void **state)
{
    (void)state;
    assert_int_equal(play(N, 1.1 / N, false), 0);
    assert_int_equal(play(N, 0, false), 0); /* what it takes here is not known */
    assert_int_equal(play(0, .001, false), 0);
    assert_int_equal(play(N + 1, .001, false), 0);
    assert_int_equal(play(N, .001, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slow), cmocka_unit_test(test_not_slow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
