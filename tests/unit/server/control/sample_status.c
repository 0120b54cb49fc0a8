#include "tests/unit/server/control/sample_status.h"

#include <string.h>

#include "common/check.h"

static void fill_job(struct status_job *job, uint32_t i)
{
    static const struct engine_delivery delivery = {.samples = 1400,
                                                    .batches = 22,
                                                    .epoch_samples = 400,
                                                    .held_slots = 256,
                                                    .ready_batches = 3,
                                                    .leased_batches = 1,
                                                    .credits = 2,
                                                    .wait_s = 1.5,
                                                    .stall_s = {0.5, 0.25, 0.125, 0.0625},
                                                    .lease_s = 0.75};
    job->loaders = 4 + i;
    job->id = i ? 0 : 17;
    job->ahead = i ? 0 : 3;
    job->engine = (struct engine_job_status){.job = i,
                                             .weight = i ? 0.5 : 1,
                                             .batch_size = 64,
                                             .epochs = i ? 0 : 90,
                                             .ahead = {.asked = 8, .allowed = 4, .needed = 3},
                                             .progress = {.started = true, .epoch = 1, .remaining = 600},
                                             .view_samples = 1000,
                                             .epoch_samples = 1000,
                                             .held_max = 4,
                                             .quota_bytes = UINT64_C(1) << 30,
                                             .delivery = delivery,
                                             .samples_shared = 700,
                                             .instances_prepared = i ? 0 : 560};
    if (i == 0)
        job->store = (struct status_store){.packed = true,
                                           .restart_rows = true,
                                           .planes = true,
                                           .max_side = 256,
                                           .quality = 90,
                                           .samples_shrunk = 470,
                                           .samples_undecoded = 3,
                                           .samples_restart_rows = 17,
                                           .samples_planes = 480};
    histogram_add(&job->waits, 0.3);
    job->n_queues = 1;
    job->queues = xcalloc(1, sizeof *job->queues);
    job->queues[0] = (struct engine_queue_status){.attached = true, .delivery = delivery};
    if (i) {
        job->engine.progress.lost = 3;
        job->engine.source.waits = true;
        job->engine.source.wait_s = 2.5;
    }
    strcpy(job->engine.name, i ? "quote\"back\\slash" : "train-a");
    job->dataset = xstrdup("/data/imagenet/train");
    job->mix = i ? .25 : -1;
}

/* What the governor says of a job: its one queue. */
static void fill_governed(struct status_job *job)
{
    job->governed = xcalloc(1, sizeof *job->governed);
    job->governed[0] = (struct status_queue){.line = 2,
                                             .loaders = 4,
                                             .reading = 3,
                                             .pending_reads = 5,
                                             .pending_samples = 320,
                                             .load_s = 0.0005,
                                             .train_s = 0.25,
                                             .late_s = -0.125};
}

static void fill_storage(struct status_storage *storage)
{
    static const char *const states[] = {"filling", "full", NULL};
    storage->states = states;
    storage->source = (struct status_read){500, 50000000};
    storage->n_classes = 1;
    storage->classes[0] = (struct status_class){.path = "/nvme/larder",
                                                .state = states[1],
                                                .size_bytes = UINT64_C(4) << 30,
                                                .used_bytes = UINT64_C(4) << 30,
                                                .samples = 40000,
                                                .in_planes = true,
                                                .planes = 30000,
                                                .planes_left = 6000,
                                                .segments = 64,
                                                .read = {1000, 150000000},
                                                .written = {40000, UINT64_C(4) << 30},
                                                .waiting_bytes = 8,
                                                .skipped = 9,
                                                .corrupt = 1,
                                                .given_up = 2,
                                                .bytes_per_s = 1.5e9};
}

static const struct status_place places[] = {{"memory.arena", "in /etc/l.yaml:3"}};

void sample_status_fill(struct daemon_status *status)
{
    *status = (struct daemon_status){
        .version = "9.8.7",
        .decoders = "libpng 1.6.39",
        .socket = "/run/larder/larder.sock",
        .page = "http://127.0.0.1:9450/",
        .process = {.pid = 4711,
                    .start_time_s = 1700000000,
                    .time_s = 5000.5,
                    .uptime_s = 3725,
                    .rss_bytes = UINT64_C(3) << 30,
                    .cpu_s = 100.25,
                    .open_fds = 42,
                    .max_fds = 0,
                    .roles = {{.name = "load", .count = 8}, {.name = "prepare", .count = 4}},
                    .n_roles = 2},
        .sessions = 3,
        .datasets = 1,
        .arena_budget_bytes = UINT64_C(4) << 30,
        .samples_budget_bytes = UINT64_C(5) << 30,
        .room_moves = true,
        .scratch = {.budget_bytes = UINT64_C(1) << 29, .used_bytes = UINT64_C(1) << 27, .waiting = 1, .waits = 12},
        .totals = {.counts = {.samples_loaded = 1500,
                              .loaded_bytes = 150000000,
                              .reads = 30,
                              .redirected_prepared = 11,
                              .redirected_encoded = 13,
                              .samples_decoded = 1300,
                              .samples_from_forms = 77,
                              .instances_prepared = 1400,
                              .samples_delivered = 2800,
                              .delivered_from = {1400, 900, 500},
                              .bad_samples = {0, 2, 0, 1},
                              .ahead_shortened = 6,
                              .evicted_prepared = 7,
                              .evicted_encoded = 9,
                              .source_retries = 17},
                   .arena = {.reserved_bytes = UINT64_C(3) << 30,
                             .used_bytes = UINT64_C(1) << 30,
                             .pinned_bytes = UINT64_C(1) << 29,
                             .quota_bytes = UINT64_C(2) << 30},
                   .encoded = {.used_bytes = UINT64_C(1) << 28,
                               .budget_bytes = UINT64_C(1) << 30,
                               .ahead_bytes = UINT64_C(1) << 29,
                               .form_bytes = 3000,
                               .forms = 2},
                   .jobs = 2,
                   .loads_inflight = 5,
                   .prepares_inflight = 4,
                   .source_waits = 1},
        .settings = {.workers = 4, .loaders = 8, .job_quota = 0.5, .classes = 1},
        .places = places,
        .n_places = 1,
        .governor = {.preparers = 3, .loaders = 9, .prepare_rate = 1500.5, .load_rate = 0, .moves = 12},
        .history_bytes = 5000000,
        .columns_bytes = 6000000,
        .catalogs = {.budget_bytes = 9000000, .samples_bytes = 7000000, .paths_bytes = 8000000, .identities_bytes = 0},
        .steps = {.counts = {[3] = 3, [4] = 1}, .sum_s = 0.005, .longest_s = 0.002},
        .bad_reasons = {NULL, "unreadable", "not_an_image", "corrupt"},
        .n_jobs = 2,
    };
    fill_storage(&status->storage);
    status->jobs = xcalloc(2, sizeof *status->jobs);
    for (uint32_t i = 0; i < 2; i++)
        fill_job(&status->jobs[i], i);
    fill_governed(&status->jobs[0]);
    status->jobs[0].pid = 815;
    status->jobs[0].client = xstrdup("python/0.1");
    status->jobs[0].pipeline = xstrdup("[{\"random_resized_crop\":{\"size\":224}}]");
}

void sample_status_join(struct daemon_status *status)
{
    struct status_cluster *cluster = xcalloc(1, sizeof *cluster);
    *cluster = (struct status_cluster){.name = xstrdup("lab"),
                                       .guests = 3,
                                       .requests = 900,
                                       .probes = 70,
                                       .given = 12000,
                                       .samples = {.received = 34000, .refused = 5, .moved = 60, .back = 7},
                                       .nodes = xcalloc(4, sizeof *cluster->nodes),
                                       .n_nodes = 4,
                                       .jobs = xcalloc(1, sizeof *cluster->jobs),
                                       .n_jobs = 1};
    for (uint32_t i = 0; i < 4; i++) {
        cluster->nodes[i] = (struct status_node){
            .state = status_node_states[i < 3 ? STATUS_NODE_UP : STATUS_NODE_LOST], .self = i == 0, .asked = i == 1};
        memset(cluster->nodes[i].id, (int)(0xa0 + i), STATUS_NODE_ID_BYTES);
    }
    cluster->nodes[0].name = xstrdup("node-1");
    cluster->nodes[0].url = xstrdup("http://node-1:9451");
    cluster->nodes[1].name = xstrdup("node-2");
    cluster->nodes[1].url = xstrdup("http://node-2:9451");
    cluster->nodes[2].name = xstrdup("node-3");
    struct status_share *share = &cluster->jobs[0];
    *share = (struct status_share){.name = "train-a",
                                   .samples = {.received = 30000, .refused = 4, .moved = 50, .back = 6},
                                   .homes = true,
                                   .trainings = 2,
                                   .spread = "auto",
                                   .parts = xcalloc(1, sizeof *share->parts),
                                   .n_parts = 1};
    share->parts[0] = (struct status_part){.left = 1200, .asked = 64, .waiting = 8, .open = true};
    memcpy(share->parts[0].node, cluster->nodes[1].id, STATUS_NODE_ID_BYTES);
    status->cluster = cluster;
}
