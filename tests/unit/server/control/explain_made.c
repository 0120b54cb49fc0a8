#include "tests/unit/server/control/explain_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static json_t *queues_of(const struct made *made)
{
    json_t *queues = json_array();
    for (int rank = 0; rank < made->ranks; rank++)
        json_array_append_new(queues, json_pack("{s:i,s:b,s:b,s:{s:f,s:f,s:f}}", "rank", rank, "attached",
                                                rank < made->ranks_there, "done", rank < made->ranks_there, "governor",
                                                "load_ms", made->load_ms, "prepare_ms", made->prepare_ms, "train_ms",
                                                made->train_ms));
    return queues;
}

json_t *status_at(const struct made *made, int after)
{
    double times = after * made->ranks_there;
    json_t *job = json_pack("{s:s,s:i,s:i,s:b,s:i,s:i,s:i,s:i,s:i,s:{s:f,s:f,s:f,s:f},s:o}", "name", "a", "job", 0,
                            "batch_size", 100, "started", 1, "prefetch", made->prefetch, "prefetch_asked", 8,
                            "view_samples", 1000000, "epoch", 0, "epochs", 2, "stall_s", "load", times * made->load_s,
                            "prepare", times * made->prepare_s, "room", times * made->room_s, "rank",
                            times * made->rank_s, "queues", queues_of(made));
    assert_non_null(job);
    json_object_set_new(job, "loaders", json_integer(made->dealt));
    json_object_set_new(job, "delivered", json_integer(after * made->delivered));
    if (made->packed)
        json_object_set_new(job, "store", json_object());
    json_t *status = json_pack(
        "{s:{s:i,s:f,s:f,s:{s:i,s:i,s:i}},s:{s:i,s:I},s:{s:{s:I,s:I},s:{s:I}},s:{s:i,s:i},s:[o]}", "daemon", "pid",
        4711, "time_s", 100.0 + after, "cpu_s", after * made->cpu_s, "threads", "load", 0, "prepare", 4, "idle", 0,
        "samples", "loaded", 1000, "loaded_bytes", (json_int_t)(made->fits ? 10000000 : 1000000000), "memory", "arena",
        "budget_bytes", (json_int_t)1 << 30, "pinned_bytes", (json_int_t)1 << 30, "encoded", "budget_bytes",
        (json_int_t)1 << 30, "governor", "preparers", made->preparers_now ? made->preparers_now : 4, "loaders",
        made->loaders_now ? made->loaders_now : 8, "jobs", job);
    assert_non_null(status);
    if (made->workers)
        json_object_set_new(json_object_get(status, "daemon"), "settings",
                            json_pack("{s:i,s:i,s:f}", "threads.workers", made->workers, "threads.loaders",
                                      made->loaders, "jobs.quota", made->quota));
    if (made->moves)
        json_object_set_new(json_object_get(status, "memory"), "samples",
                            json_pack("{s:I,s:b}", "budget_bytes", (json_int_t)2 << 30, "moves", 1));
    if (made->forms)
        json_object_update_new(json_object_get(json_object_get(status, "memory"), "encoded"),
                               json_pack("{s:i,s:i}", "decoded_samples", made->forms, "decoded_bytes",
                                         made->forms * 8000));
    if (made->classed)
        json_object_set_new(status, "storage", json_pack("{s:[{}]}", "classes"));
    return status;
}
