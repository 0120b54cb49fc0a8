#include "tests/unit/server/engine/resume_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

const enum shuffle_mode orders[ORDERS] = {SHUFFLE_DEPENDENT, SHUFFLE_STRICT, SHUFFLE_NONE};

struct run *new_run(enum shuffle_mode shuffle)
{
    return run_new(shuffle, SAMPLES, WORLD, BATCH);
}

struct run *played(enum shuffle_mode shuffle, uint32_t batches)
{
    struct run *run = new_run(shuffle);
    for (uint32_t rank = 0; rank < WORLD; rank++)
        run_come_without(run, rank);
    run_all(run, 0, batches);
    return run;
}

void assert_each_once(const uint32_t times[RUN_IDS_MAX])
{
    for (sample_id id = 0; id < SAMPLES; id++)
        assert_int_equal(times[id], 1);
}

void count_rank(const struct run *run, uint32_t rank, uint32_t batches, uint32_t times[RUN_IDS_MAX])
{
    for (uint32_t at = 0; at < batches; at++) {
        const struct run_batch *batch = run_find(run, rank, 0, at);
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->turns[i] != SAMPLE_NONE)
                times[batch->turns[i]]++;
    }
}

void refused(const struct run *run, int code, const char *text)
{
    assert_int_equal(run->play.refused, code);
    assert_non_null(strstr(run->play.text, text));
}
