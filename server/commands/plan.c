/* plan.c: `larder plan`: its options, what there is to plan for, and the runs. */
#include "server/commands/plan.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/check.h"
#include "common/log.h"
#include "common/random.h"
#include "preprocess/commands.h"
#include "preprocess/prepare.h"
#include "server/commands/plan_priv.h"
#include "server/commands/storage.h"
#include "server/config/config_priv.h"

enum { SIZES_MAX = PLAN_ROWS_MAX / 2, PLAYED_MIN = 4000, PIPELINE_MAX = 1 << 16, KEY_CHUNKS = 1 };

#define WORK_MAX 200000u         /* samples that are delivered in one run in virtual time */
#define MEMORY_SHARE 0.8         /* of the machine's memory, that larderd may have besides its scratch memory */
#define ASSUMED_CLASS_RATE 500e6 /* bytes a second of a class that nobody has measured */
#define CLASS_SECONDS 0.4        /* of each round of measuring a class */
#define CLASS_FILE_BYTES (UINT64_C(128) << 20)

struct arguments {
    const char *path, *config, *pipeline, *storage;
    uint64_t jobs, epochs, batch, prefetch;
    double step_ms, apart;
    enum shuffle_mode shuffle;
    uint64_t sizes[SIZES_MAX];
    uint32_t n_sizes;
    int json, warm;
};

/* What is there to plan for; plan_free frees it. */
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

static const char plan_usage[] =
    "usage: larder plan PATH [options]\n"
    "\n"
    "Measures some of the files of the dataset PATH for a few seconds, and says what memory and an SSD would save.\n"
    "\n"
    "  --jobs N          that train at once on all of it; default 1\n"
    "  --epochs N        of each job, from 2; default 3\n"
    "  --batch N         default 64\n"
    "  --prefetch N      batches that a job asks for ahead; default 2\n"
    "  --step-ms MS      that a job trains on a batch; without it jobs take batches as fast as they come\n"
    "  --apart PART      each job begins so much of an epoch after the one before; default 0\n"
    "  --shuffle ORDER   dependent, strict or none; default dependent\n"
    "  --pipeline SPEC   a JSON list of operators, or a file with one; default: a random resized crop to 224 pixels,\n"
    "                    flipped or not\n"
    "  --memory SIZE     of encoded memory to try, as 8GiB; several times; default: what suits the dataset\n"
    "  --storage FOLDER  of the disk where a storage class would lie: it is measured; default: 500 MB/s are assumed\n"
    "  --config FILE     larderd's configuration; default: what larderd takes without one\n"
    "  --warm            leave the files in the page cache where they are there: they will be in training too\n"
    "  --json            instead of a text\n";

/* ── options ── */

static bool wrong(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "larder plan: --%s %s: write %s\n", option, text, wanted);
    return false;
}

static bool parse_real(const char *option, const char *text, double most, double *out)
{
    char *end, wanted[64];
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && *out <= most)
        return true;
    snprintf(wanted, sizeof wanted, "a number from 0 to %g", most);
    return wrong(option, text, wanted);
}

static bool parse_count(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    char *end, wanted[64];
    unsigned long long value = strtoull(text, &end, 10);
    *out = value;
    if (*text >= '0' && *text <= '9' && !*end && strlen(text) < 10 && value >= least && value <= most)
        return true;
    snprintf(wanted, sizeof wanted, "a number from %llu to %llu", (unsigned long long)least, (unsigned long long)most);
    return wrong(option, text, wanted);
}

static bool parse_size(const char *text, struct arguments *arguments)
{
    struct config_machine machine;
    struct error err;
    config_machine_read("", &machine);
    if (arguments->n_sizes == SIZES_MAX)
        return wrong("memory", text, "fewer sizes");
    if (config_value_read(&arguments->sizes[arguments->n_sizes], &config_rows[SETTING_encoded_bytes],
                          (struct config_text){.text = text}, &machine, &err))
        return wrong("memory", text, "a size as 8GiB, from 1MiB");
    arguments->n_sizes++;
    return true;
}

static bool parse_shuffle(const char *text, enum shuffle_mode *out)
{
    static const char *const modes[] = {
        [SHUFFLE_DEPENDENT] = "dependent", [SHUFFLE_STRICT] = "strict", [SHUFFLE_NONE] = "none"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(text, modes[i]) == 0) {
            *out = (enum shuffle_mode)i;
            return true;
        }
    }
    return wrong("shuffle", text, "dependent, strict or none");
}

static bool parse_option(int option, const char *text, struct arguments *arguments)
{
    switch (option) {
    case 0: return true;
    case 'j': return parse_count("jobs", text, 1, PLAN_JOBS_MAX, &arguments->jobs);
    case 'e': return parse_count("epochs", text, 2, PLAN_EPOCHS_MAX, &arguments->epochs);
    case 'b': return parse_count("batch", text, 1, PLAN_BATCH_MAX, &arguments->batch);
    case 'f': return parse_count("prefetch", text, 1, PLAN_PREFETCH_MAX, &arguments->prefetch);
    case 's': return parse_real("step-ms", text, 1e6, &arguments->step_ms);
    case 'a': return parse_real("apart", text, PLAN_EPOCHS_MAX, &arguments->apart);
    case 'o': return parse_shuffle(text, &arguments->shuffle);
    case 'm': return parse_size(text, arguments);
    case 'p': arguments->pipeline = text; return true;
    case 't': arguments->storage = text; return true;
    case 'c': arguments->config = text; return true;
    default: return false;
    }
}

/* This gives the exit status, or -1 to go on. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
    const struct option known[] = {{"jobs", required_argument, NULL, 'j'},
                                   {"epochs", required_argument, NULL, 'e'},
                                   {"batch", required_argument, NULL, 'b'},
                                   {"prefetch", required_argument, NULL, 'f'},
                                   {"step-ms", required_argument, NULL, 's'},
                                   {"apart", required_argument, NULL, 'a'},
                                   {"shuffle", required_argument, NULL, 'o'},
                                   {"memory", required_argument, NULL, 'm'},
                                   {"pipeline", required_argument, NULL, 'p'},
                                   {"storage", required_argument, NULL, 't'},
                                   {"config", required_argument, NULL, 'c'},
                                   {"warm", no_argument, &arguments->warm, 1},
                                   {"json", no_argument, &arguments->json, 1},
                                   {"help", no_argument, NULL, 'h'},
                                   {NULL, 0, NULL, 0}};
    static char name[] = "larder plan"; /* getopt_long's messages begin with it */
    argv[0] = name;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (option == 'h') {
            fputs(plan_usage, stdout);
            return 0;
        }
        if (!parse_option(option, optarg, arguments))
            return 2;
    }
    if (argc - optind != 1) {
        fputs(plan_usage, stderr);
        return 2;
    }
    arguments->path = argv[optind];
    return -1;
}

/* ── what there is to plan for ── */

/* read_pipeline reads a file; a text that begins as a list is the pipeline itself. */
static int read_pipeline(const char *spec, struct pipeline **out, struct error *err)
{
    char text[PIPELINE_MAX];
    if (spec[strspn(spec, " \t\n")] == '[')
        return pipeline_parse(spec, strlen(spec), out, err);
    FILE *file = fopen(spec, "re");
    if (!file)
        return error_set(err, LARDER_ENOENT, "%s: %s: write a JSON list of operators, or a file's name", spec,
                         strerror(errno));
    size_t len = fread(text, 1, sizeof text, file);
    bool whole = len < sizeof text && !ferror(file);
    fclose(file);
    return whole ? pipeline_parse(text, len, out, err)
                 : error_set(err, LARDER_EINVAL, "%s: cannot be read, or is longer than 64 KiB", spec);
}

static int open_subject(const struct arguments *arguments, struct subject *subject, struct error *err)
{
    const char *path = arguments->path, *spec = arguments->pipeline;
    int code = config_load(arguments->config, &subject->config, err);
    if (code)
        return code;
    const struct config_dataset *named = config_dataset_find(subject->config, path);
    path = named ? named->path : path;
    spec = spec ? spec : named && named->pipeline ? named->pipeline : DEFAULT_PIPELINE;
    code = prepare_init(err);
    if (!code)
        code = read_pipeline(spec, &subject->pipeline, err);
    if (!code)
        code = catalog_create(NULL, &subject->catalog, err);
    if (!code)
        code = catalog_open(subject->catalog, path, &subject->dataset, err);
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

static void describe(const struct arguments *arguments, struct subject *subject)
{
    const struct config *config = subject->config;
    uint64_t work = arguments->jobs * arguments->epochs, most = WORK_MAX / work;
    most = most < PLAYED_MIN ? PLAYED_MIN : most < PLAN_PLAYED_MAX ? most : PLAN_PLAYED_MAX;
    subject->plan = (struct plan_case){.samples = dataset_count(subject->dataset),
                                       .chunk = dataset_chunk_size(subject->dataset),
                                       .slot_bytes = pipeline_shape(subject->pipeline).bytes,
                                       .repeatable = !pipeline_is_random(subject->pipeline),
                                       .source = subject->measured.source,
                                       .preparing = subject->measured.preparing,
                                       .workers = (uint32_t)config->workers,
                                       .loaders = (uint32_t)config->loaders,
                                       .redirect_width = config->redirect_width == CONFIG_WIDTH_HALF
                                                             ? PLAN_WIDTH_HALF
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
    struct config_machine machine;
    config_machine_read("", &machine);
    double room = MEMORY_SHARE * (double)machine.memory_bytes - (double)config->scratch_bytes;
    subject->machine = (struct plan_machine){.now = {.encoded_bytes = config->encoded_bytes,
                                                     .arena_bytes = config->arena_bytes},
                                             .room_bytes = room > 0 ? (uint64_t)room : 0};
    for (uint32_t i = 0; i < config->n_storage; i++)
        subject->machine.now.class_bytes += config->storage[i].size_bytes;
}

static int measure(const struct arguments *arguments, struct subject *subject, struct error *err)
{
    const struct config *config = subject->config;
    struct plan_probe probe = {.dataset = subject->dataset,
                               .pipeline = subject->pipeline,
                               .limits = {.pixels_max = config->pixels_max, .scans_max = (uint32_t)config->scans_max},
                               .workers = (uint32_t)config->workers,
                               .loaders = (uint32_t)config->loaders,
                               .seed = 1,
                               .warm = arguments->warm};
    return plan_measure(&probe, &subject->measured, err);
}

/* measure_class finds what a class's disk brings. Where nobody says which disk that is, a plain SSD is assumed. */
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

/* class_folder gives the folder that the class would have: one of its own on the disk that was measured. The caller
 * frees it. NULL: nobody has named a disk. */
static char *class_folder(const struct arguments *arguments, const struct config *config)
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

static int run(const struct arguments *arguments, const struct subject *subject, struct error *err)
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
    char *folder = class_folder(arguments, subject->config);
    struct plan_told told = {.plan = &subject->plan,
                             .measured = &subject->measured,
                             .machine = &subject->machine,
                             .rows = rows,
                             .count = count,
                             .path = dataset_path(subject->dataset),
                             .pipeline = pipeline_canonical(subject->pipeline),
                             .storage = folder,
                             .refused = refused.code ? refused.text : NULL};
    if (arguments->json)
        plan_tell_json(&told);
    else
        plan_tell(&told);
    free(folder);
    return 0;
}

int plan_main(int argc, char **argv)
{
    struct arguments arguments = {.jobs = 1, .epochs = 3, .batch = 64, .prefetch = 2};
    struct subject subject = {0};
    struct error err = {.code = 0};
    int status = parse(argc, argv, &arguments);
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
