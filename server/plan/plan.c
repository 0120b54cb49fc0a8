/* plan.c: `larder plan`: what there is to plan for, and the runs. */
#include "server/plan/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/check.h"
#include "common/log.h"
#include "common/random.h"
#include "preprocess/commands.h"
#include "preprocess/prepare.h"
#include "server/config/config.h"
#include "server/plan/commands_priv.h"
#include "server/registration/one_size.h"
#include "server/storage/measure.h"

enum { PLAYED_MIN = 4000, RUNS_MAX = 32, PIPELINE_MAX = 1 << 16, KEY_CHUNKS = 1 };

#define WORK_MAX 200000u         /* samples that are delivered for one setting in virtual time */
#define MEMORY_SHARE 0.8         /* share of the machine's memory that larderd may have besides its scratch memory */
#define ASSUMED_CLASS_RATE 500e6 /* bytes a second of a class that nobody has measured */
#define CLASS_SECONDS 0.4        /* length of each round of measuring a class */
#define CLASS_FILE_BYTES (UINT64_C(128) << 20)

/* The dataset and jobs to plan for. */
struct subject {
    struct config *config;
    struct catalog *catalog;
    struct dataset *dataset;
    struct pipeline *pipeline;
    uint64_t *sizes;
    struct plan_case plan;
    struct plan_machine machine;
    struct plan_measured measured;
};

/* ── what there is to plan for ── */

/* read_pipeline reads a file; a text that begins as a list or an object is the pipeline itself. */
static int read_pipeline(const char *spec, struct pipeline **out, struct error *err)
{
    char text[PIPELINE_MAX];
    const char begin = spec[strspn(spec, " \t\n")];
    if (begin == '[' || begin == '{')
        return pipeline_parse_open(spec, strlen(spec), out, err);
    FILE *file = fopen(spec, "re");
    if (!file)
        return error_set(err, LARDER_ENOENT, "%s: %s: write a JSON list of operators, or a file's name", spec,
                         strerror(errno));
    size_t len = fread(text, 1, sizeof text, file);
    bool whole = len < sizeof text && !ferror(file);
    fclose(file);
    return whole ? pipeline_parse_open(text, len, out, err)
                 : error_set(err, LARDER_EINVAL, "%s: cannot be read, or is longer than 64 KiB", spec);
}

static struct prepare_limits limits_of(const struct config *config)
{
    return (struct prepare_limits){.pixels_max = config->pixels_max, .scans_max = (uint32_t)config->scans_max};
}

static int open_subject(const struct plan_arguments *arguments, struct subject *subject, struct error *err)
{
    const char *path = arguments->path, *spec = arguments->pipeline;
    int code = config_load(arguments->config, &subject->config, err);
    if (code)
        return code;
    const struct config_dataset *named = config_dataset_find(subject->config, path);
    path = named ? named->path : path;
    spec = spec ? spec : named && named->pipeline ? named->pipeline : DEFAULT_PIPELINE;
    prepare_init();
    code = read_pipeline(spec, &subject->pipeline, err);
    if (!code)
        code = catalog_create(NULL, &subject->catalog, err);
    if (!code)
        code = catalog_open(subject->catalog, path, &subject->dataset, err);
    struct one_size_wish wish = {.dataset = subject->dataset, .limits = limits_of(subject->config)};
    if (!code) {
        wish.count = dataset_count(subject->dataset);
        code = one_size_close(&subject->pipeline, &wish, err);
    }
    return code;
}

/* pick_sizes takes the sizes of all samples, or of whole chunks drawn at random where they are many. */
static void pick_sizes(struct subject *subject, uint32_t most)
{
    struct plan_case *plan = &subject->plan;
    const struct dataset *dataset = subject->dataset;
    uint32_t chunks = dataset_chunk_count(dataset), wanted = most / plan->chunk;
    wanted = plan->samples <= most || wanted > chunks ? chunks : wanted ? wanted : 1;
    uint64_t *sizes = xcalloc((size_t)wanted * plan->chunk, sizeof *sizes);
    struct rng rng;
    random_seed_keys(&rng, plan->seed, KEY_CHUNKS, 0, 0);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t count;
        const uint32_t *members = dataset_chunk_members(dataset, chunk, &count);
        bool taken = random_below(&rng, chunks - chunk) < wanted;
        wanted -= taken;
        for (uint32_t i = 0; i < count; i++) {
            uint64_t bytes = dataset_size(dataset, members[i]);
            plan->dataset_bytes += bytes;
            if (taken)
                sizes[plan->played++] = bytes;
        }
    }
    plan->sizes = subject->sizes = sizes;
}

static void describe(const struct plan_arguments *arguments, struct subject *subject)
{
    const struct config *config = subject->config;
    uint64_t work = arguments->jobs * arguments->epochs, most = WORK_MAX / work;
    most = most < PLAYED_MIN ? PLAYED_MIN : most < PLAN_PLAYED_MAX ? most : PLAN_PLAYED_MAX;
    subject->plan = (struct plan_case){
        .samples = dataset_count(subject->dataset),
        .chunk = dataset_chunk_size(subject->dataset),
        .slot_bytes = pipeline_layout(subject->pipeline)->bytes,
        .repeatable = !pipeline_is_random(subject->pipeline),
        .source = subject->measured.source,
        .preparing = subject->measured.preparing,
        .forms = config->decoded == CONFIG_DECODED_AUTO ? subject->measured.forms : (struct plan_forms){0},
        .workers = (uint32_t)config->workers,
        .loaders = (uint32_t)config->loaders,
        .redirect_width = config->redirect_width == CONFIG_WIDTH_HALF ? PLAN_WIDTH_HALF
                                                                      : (uint32_t)config->redirect_width,
        .quota_share = config->job_quota_share,
        .jobs = (uint32_t)arguments->jobs,
        .epochs = (uint32_t)arguments->epochs,
        .batch = (uint32_t)arguments->batch,
        .prefetch = (uint32_t)arguments->prefetch,
        .step_s = arguments->step_ms / 1e3,
        .apart = arguments->apart,
        .shuffle = arguments->shuffle,
        .seed = 1};
    pick_sizes(subject, (uint32_t)most);
    uint64_t runs = WORK_MAX / (work * subject->plan.played);
    subject->plan.runs = runs < 1 ? 1 : runs < RUNS_MAX ? (uint32_t)runs : RUNS_MAX;
    struct config_machine machine;
    config_machine_read("", &machine);
    double room = MEMORY_SHARE * (double)machine.memory_bytes - (double)config->scratch_bytes;
    subject->machine = (struct plan_machine){.now = {.encoded_bytes = config_sure_bytes(config),
                                                     .arena_bytes = config->arena_bytes,
                                                     .moves = config_lent_bytes(config) > 0},
                                             .room_bytes = room > 0 ? (uint64_t)room : 0};
    for (uint32_t i = 0; i < config->n_storage; i++)
        subject->machine.now.class_bytes += config->storage[i].size_bytes;
}

static int measure(const struct plan_arguments *arguments, struct subject *subject, struct error *err)
{
    const struct config *config = subject->config;
    struct config_machine machine;
    config_machine_read("", &machine);
    struct plan_probe probe = {.dataset = subject->dataset,
                               .pipeline = subject->pipeline,
                               .limits = limits_of(config),
                               .workers = (uint32_t)config->workers,
                               .loaders = (uint32_t)config->loaders,
                               .cores = machine.cores,
                               .seed = 1,
                               .warm = arguments->warm};
    return plan_measure(&probe, &subject->measured, err);
}

/* measure_class measures the disk of a class. If no disk is named, it assumes a plain SSD. */
static int measure_class(const char *path, struct subject *subject, struct error *err)
{
    struct plan_case *plan = &subject->plan;
    struct storage_measured measured;
    const char *what;
    if (!path && subject->config->n_storage)
        path = subject->config->storage[0].path;
    if (!path) {
        plan_curve_add(&plan->class, 1, ASSUMED_CLASS_RATE);
        plan->class_writes_per_s = ASSUMED_CLASS_RATE;
        return 0;
    }
    struct storage_wish wish = {.path = path,
                                .sample_bytes = plan->dataset_bytes / plan->samples + 1,
                                .file_bytes = CLASS_FILE_BYTES,
                                .seconds = CLASS_SECONDS};
    int number = storage_measure(&wish, &measured, &what);
    if (number)
        return error_set(err, LARDER_EIO, "--storage %s: cannot %s: %s", path, what, strerror(number));
    plan->class_writes_per_s = measured.write_mb_per_s * 1e6;
    for (int i = 0; i < STORAGE_ROUNDS && measured.rounds[i].threads <= CONFIG_STORAGE_THREADS; i++)
        plan_curve_add(&plan->class, measured.rounds[i].threads, measured.rounds[i].mb_per_s * 1e6);
    return 0;
}

/* class_folder returns the folder that the class would have: one of its own on the disk that was measured. The caller
 * frees it. NULL: nobody has named a disk. */
static char *class_folder(const struct plan_arguments *arguments, const struct config *config)
{
    char *disk, *folder = NULL;
    if (!arguments->storage)
        return config->n_storage ? xstrdup(config->storage[0].path) : NULL;
    disk = realpath(arguments->storage, NULL);
    if (asprintf(&folder, "%s/larder", disk ? disk : arguments->storage) < 0)
        folder = NULL;
    free(disk);
    return folder;
}

/* ── the runs ── */

static int run(const struct plan_arguments *arguments, const struct subject *subject, struct error *err)
{
    struct plan_setting settings[PLAN_ROWS_MAX];
    struct plan_row rows[PLAN_ROWS_MAX];
    struct error refused = {.code = 0};
    uint32_t count = 0,
             n = plan_settings(&subject->plan, &subject->machine, arguments->sizes, arguments->n_sizes, settings);
    for (uint32_t i = 0; i < n; i++) {
        int code = plan_play(&subject->plan, &settings[i], &rows[count], err);
        count += code == 0;
        if (i == 0)
            refused = *err;
        if (i == 0 && code == 0)
            refused.code = 0;
    }
    if (count == 0)
        return err->code;
    char *folder = class_folder(arguments, subject->config), *pipeline = pipeline_shown(subject->pipeline);
    struct plan_told told = {.plan = &subject->plan,
                             .measured = &subject->measured,
                             .machine = &subject->machine,
                             .rows = rows,
                             .count = count,
                             .path = dataset_path(subject->dataset),
                             .pipeline = pipeline,
                             .storage = folder,
                             .refused = refused.code ? refused.text : NULL};
    if (arguments->json)
        plan_tell_json(&told);
    else
        plan_tell(&told);
    free(folder);
    free(pipeline);
    return 0;
}

int plan_main(int argc, char **argv)
{
    struct plan_arguments arguments = {.jobs = 1, .epochs = 3, .batch = 64, .prefetch = 2};
    struct subject subject = {0};
    struct error err = {.code = 0};
    int status = plan_parse(argc, argv, &arguments);
    if (status >= 0)
        return status;
    log_set_level(LOG_WARN);
    int code = open_subject(&arguments, &subject, &err);
    if (!code)
        code = measure(&arguments, &subject, &err);
    if (!code) {
        describe(&arguments, &subject);
        code = measure_class(arguments.storage, &subject, &err);
    }
    if (!code)
        code = run(&arguments, &subject, &err);
    if (code)
        fprintf(stderr, "larder plan: %s\n", err.text);
    dataset_unref(&subject.dataset);
    catalog_destroy(subject.catalog);
    pipeline_unref(&subject.pipeline);
    config_destroy(subject.config);
    free(subject.sizes);
    return code || fflush(stdout) ? 1 : 0;
}
