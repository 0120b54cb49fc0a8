/* command_bench.c: larder bench prepare. It measures Larder's decoder, on the images as they are and as a store has
 * them, and the reference. They alternate every few images, so that a disturbance of the machine hits all of them
 * alike. A pass goes over all images once, and medians are over passes. They do not alternate image by image, because a
 * processor that has just decoded an image predicts its branches. */
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/option.h"
#include "preprocess/command_files.h"
#include "preprocess/commands.h"
#include "preprocess/decode/decode.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/prepare.h"
#include "preprocess/reference.h"
#include "preprocess/resample.h"
#include "preprocess/simd.h"

#define IMAGES_MAX_BYTES ((uint64_t)4 << 30)
#define PASSES_MAX 10000
#define THREADS_MAX 64
#define IMAGES_A_TURN 64
#define AGAIN_BUDGET_BYTES ((uint64_t)4 << 30)

static const struct prepare_limits limits = {.pixels_max = 200000000, .scans_max = 100};

/* The images as they are; and where asked for, by a decoder that has had them before, with restart markers, and in bit
 * planes. */
enum side { PLAIN, AGAIN, MARKED, PLANES, SIDES };

struct bench {
    struct command_files files, others[SIDES]; /* others[PLAIN] and others[AGAIN] are empty */
    bool asked[SIDES];
    struct pipeline *pipeline;
    struct rect *sizes; /* each image's size; width 0: does not decode */
    double seconds;
    int threads;
    uint32_t interval; /* MCUs from one marker to the next, for MARKED */
};

struct pass {
    uint64_t ours_ns[SIDES], reference_ns;
};

/* The time of all passes, by kind of work. */
struct spent {
    struct prepare_times times;
    uint64_t resample_ns, copy_ns; /* parts of transform_ns: images that are resized, and the others */
    struct reference_parts parts;  /* the same number of decodes by the reference */
};

struct result {
    struct pass *passes;
    size_t n_passes;
    uint64_t images, reference_images;
    struct spent spent[SIDES];
};

/* get_sizes reads the images' sizes. A pipeline that leaves them as they are is for images of the first one's size. */
static int get_sizes(struct bench *bench, struct error *err)
{
    struct decoder *decoder;
    struct scratch scratch;
    CHECK(decoder_create(&limits, &decoder) == 0);
    scratch_init(&scratch, (size_t)1 << 30, NULL);
    bench->sizes = xcalloc(bench->files.count, sizeof *bench->sizes);
    for (size_t i = 0; i < bench->files.count; i++) {
        struct decode_fault fault;
        const struct command_file *file = &bench->files.items[i];
        if (decode_open(decoder, file->data, file->len_bytes, &scratch, &bench->sizes[i], &fault))
            fprintf(stderr, "%s: %s: left out\n", file->path, fault.error.text);
        decode_close(decoder);
        scratch_reset(&scratch);
    }
    scratch_free(&scratch);
    decoder_destroy(decoder);
    size_t first = 0;
    while (first < bench->files.count && bench->sizes[first].width == 0)
        first++;
    if (first == bench->files.count)
        return error_set(err, LARDER_EFORMAT, "none of the images can be prepared");
    struct image_size size = {.width = bench->sizes[first].width, .height = bench->sizes[first].height};
    return pipeline_is_open(bench->pipeline) ? pipeline_close(&bench->pipeline, size, err) : 0;
}

/* Finds the rectangle that an instance of an image is made from, and whether it is resized. */
static bool source_rect(const struct bench *bench, size_t image, const uint64_t key[3], struct rect *out, bool *resized)
{
    struct op_plan plans[PIPELINE_OPS_MAX];
    struct geometry geometry;
    struct rect size = bench->sizes[image];
    if (pipeline_plan(bench->pipeline, key, size.width, size.height, plans, NULL, NULL))
        return false;
    geometry_start(&geometry, size.width, size.height);
    pipeline_gather(bench->pipeline, plans, 0, bench->pipeline->n_ops, &geometry);
    *out = resample_needs(&geometry);
    *resized = geometry.resized;
    return true;
}

struct turn {
    struct prepare_scratch *scratch, *again; /* again: remembers what it decoded */
    uint8_t *dst, *buffer;
    size_t capacity;
};

static const struct command_file *file_of(const struct bench *bench, enum side side, size_t image)
{
    return side == PLAIN || side == AGAIN ? &bench->files.items[image] : &bench->others[side].items[image];
}

static struct prepare_scratch *scratch_of(const struct turn *turn, enum side side)
{
    return side == AGAIN ? turn->again : turn->scratch;
}

static bool ours(const struct bench *bench, enum side side, size_t image, struct turn *turn, uint64_t instance,
                 uint64_t *ns)
{
    struct prepare_output output = {.pipeline = bench->pipeline, .key = {1, image, instance}, .dst = turn->dst};
    enum bad_reason reason;
    const struct command_file *file = file_of(bench, side, image);
    uint64_t from = clock_thread_ns();
    int rc = prepare_sample(scratch_of(turn, side), file->data, file->len_bytes, &output, 1, &reason, NULL);
    *ns += clock_thread_ns() - from;
    return rc == 0;
}

static bool reference(const struct bench *bench, size_t image, struct turn *turn, uint64_t instance, uint64_t *ns)
{
    const struct command_file *file = &bench->files.items[image];
    struct rect rect;
    bool resized;
    if (!source_rect(bench, image, (uint64_t[3]){1, image, instance}, &rect, &resized))
        return false;
    uint64_t from = clock_thread_ns();
    bool ok = reference_decode(file->data, file->len_bytes, rect, &turn->buffer, &turn->capacity);
    *ns += clock_thread_ns() - from;
    return ok;
}

/* Measures the parts of our time, and of libjpeg's. libjpeg cannot read planes. For them it gets the original image,
 * which has the same coefficients. */
static void look_into(const struct bench *bench, enum side side, size_t image, struct turn *turn, uint64_t instance,
                      struct spent *spent)
{
    const struct command_file *file = file_of(bench, side == PLANES ? PLAIN : side, image);
    uint64_t before = spent->times.transform_ns, ns = 0;
    struct rect rect;
    bool resized = true;
    prepare_scratch_time(scratch_of(turn, side), &spent->times);
    ours(bench, side, image, turn, instance, &ns);
    prepare_scratch_time(scratch_of(turn, side), NULL);
    if (source_rect(bench, image, (uint64_t[3]){1, image, instance}, &rect, &resized))
        reference_time(file->data, file->len_bytes, rect, &turn->buffer, &turn->capacity, &spent->parts);
    *(resized ? &spent->resample_ns : &spent->copy_ns) += spent->times.transform_ns - before;
}

/* The tasks that alternate. */
enum task { REFERENCE, OURS, LOOK = OURS + SIDES, TASKS = LOOK + SIDES }; /* OURS and LOOK: for the first side */

static enum side side_of(enum task task)
{
    return task == REFERENCE ? PLAIN : (enum side)((task - OURS) % SIDES);
}

static void one_task(const struct bench *bench, enum task task, size_t image, struct turn *turn, struct result *result)
{
    struct pass *pass = &result->passes[result->n_passes];
    uint64_t instance = result->n_passes;
    enum side side = side_of(task);
    if (task == REFERENCE) {
        result->reference_images += reference(bench, image, turn, instance, &pass->reference_ns);
    } else if (task < LOOK) {
        bool good = ours(bench, side, image, turn, instance, &pass->ours_ns[side]);
        result->images += good && side == PLAIN;
    } else {
        look_into(bench, side, image, turn, instance, &result->spent[side]);
    }
}

static void one_pass(const struct bench *bench, struct turn *turn, struct result *result)
{
    result->passes[result->n_passes] = (struct pass){0};
    result->images = result->reference_images = 0;
    for (size_t from = 0; from < bench->files.count; from += IMAGES_A_TURN) {
        size_t end = bench->files.count - from < IMAGES_A_TURN ? bench->files.count : from + IMAGES_A_TURN;
        size_t begin = from / IMAGES_A_TURN + result->n_passes; /* each comes first now and then */
        for (size_t i = 0; i < TASKS; i++) {
            enum task task = (enum task)((begin + i) % TASKS);
            if (!bench->asked[side_of(task)])
                continue;
            for (size_t image = from; image < end; image++) {
                if (bench->sizes[image].width > 0)
                    one_task(bench, task, image, turn, result);
            }
        }
    }
    result->n_passes++;
}

static size_t dst_bytes(const struct bench *bench)
{
    size_t most = pipeline_layout(bench->pipeline)->bytes;
    for (size_t i = 0; i < bench->files.count; i++)
        most = bench->files.items[i].len_bytes > most ? bench->files.items[i].len_bytes : most;
    return most;
}

static void run_alone(const struct bench *bench, struct result *result)
{
    struct turn turn = {.dst = xmalloc(dst_bytes(bench))};
    struct prepare_limits again = limits;
    CHECK(prepare_scratch_create(&limits, &turn.scratch) == 0);
    CHECK(scratch_budget_create(AGAIN_BUDGET_BYTES, 1, &again.budget) == 0);
    CHECK(prepare_scratch_create(&again, &turn.again) == 0);
    result->passes = xcalloc(PASSES_MAX, sizeof *result->passes);
    one_pass(bench, &turn, result); /* warms up */
    result->n_passes = 0;
    memset(result->spent, 0, sizeof result->spent);
    uint64_t until = clock_now_ns() + (uint64_t)(bench->seconds * 1e9);
    do
        one_pass(bench, &turn, result);
    while (clock_now_ns() < until && result->n_passes < PASSES_MAX);
    prepare_scratch_destroy(turn.scratch);
    prepare_scratch_destroy(turn.again);
    scratch_budget_destroy(again.budget);
    free(turn.dst);
    free(turn.buffer);
}

struct worker {
    const struct bench *bench;
    pthread_t thread;
    uint64_t until_ns, images;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    const struct bench *bench = worker->bench;
    struct turn turn = {.dst = xmalloc(dst_bytes(bench))};
    CHECK(prepare_scratch_create(&limits, &turn.scratch) == 0);
    uint64_t ns = 0;
    for (uint64_t instance = 0; clock_now_ns() < worker->until_ns; instance++) {
        for (size_t i = 0; i < bench->files.count && clock_now_ns() < worker->until_ns; i++)
            worker->images += bench->sizes[i].width && ours(bench, PLAIN, i, &turn, instance, &ns);
    }
    prepare_scratch_destroy(turn.scratch);
    free(turn.dst);
    return NULL;
}

/* The rate of `threads` threads together, nothing beside them. */
static double run_together(const struct bench *bench, int threads, double seconds)
{
    struct worker workers[THREADS_MAX];
    uint64_t from = clock_now_ns(), until = from + (uint64_t)(seconds * 1e9), images = 0;
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){.bench = bench, .until_ns = until};
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        images += workers[i].images;
    }
    return (double)images / ((double)(clock_now_ns() - from) / 1e9);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ns(const struct result *result, double (*value)(const struct pass *))
{
    double *values = xcalloc(result->n_passes, sizeof *values);
    for (size_t i = 0; i < result->n_passes; i++)
        values[i] = value(&result->passes[i]);
    qsort(values, result->n_passes, sizeof *values, by_value);
    double median = values[result->n_passes / 2];
    free(values);
    return median;
}

static double ours_ns(const struct pass *pass)
{
    return (double)pass->ours_ns[PLAIN];
}

static double again_ns(const struct pass *pass)
{
    return (double)pass->ours_ns[AGAIN];
}

static double marked_ns(const struct pass *pass)
{
    return (double)pass->ours_ns[MARKED];
}

static double planes_ns(const struct pass *pass)
{
    return (double)pass->ours_ns[PLANES];
}

static double reference_ns(const struct pass *pass)
{
    return (double)pass->reference_ns;
}

static double ratio(const struct pass *pass)
{
    return (double)pass->reference_ns / (double)pass->ours_ns[PLAIN];
}

static double again_gain(const struct pass *pass)
{
    return ours_ns(pass) / again_ns(pass);
}

static double marked_gain(const struct pass *pass)
{
    return ours_ns(pass) / marked_ns(pass);
}

static double planes_gain(const struct pass *pass)
{
    return ours_ns(pass) / planes_ns(pass);
}

static json_t *rounded(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", value);
    return json_real(strtod(text, NULL));
}

static json_t *stage(const struct result *result, double ns)
{
    return rounded(ns / 1e3 / ((double)result->images * (double)result->n_passes));
}

/* The parts of the time for an image. Entropy decoding is the rest of opening and decoding. */
static json_t *parts(const struct result *result, const struct spent *spent)
{
    double decode = (double)(spent->times.open_ns + spent->times.decode_ns);
    double after = spent->parts.idct_ns + spent->parts.color_ns;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "entropy", stage(result, decode > after ? decode - after : 0), "idct",
                     stage(result, spent->parts.idct_ns), "upsample_color", stage(result, spent->parts.color_ns),
                     "resample", stage(result, (double)spent->resample_ns), "copy",
                     stage(result, (double)spent->copy_ns));
}

static json_t *report_side(const struct result *result, enum side side)
{
    static double (*const ns[SIDES])(const struct pass *) = {ours_ns, again_ns, marked_ns, planes_ns};
    static double (*const gain[SIDES])(const struct pass *) = {NULL, again_gain, marked_gain, planes_gain};
    return json_pack("{s:o, s:o, s:o}", "prepare_per_s",
                     rounded((double)result->images * 1e9 / median_ns(result, ns[side])), "gain",
                     rounded(median_ns(result, gain[side])), "parts_us", parts(result, &result->spent[side]));
}

static json_t *report_rewritten(const struct bench *bench, const struct result *result, enum side side)
{
    json_t *json = report_side(result, side);
    json_object_set_new(json, "size", rounded((double)bench->others[side].bytes / (double)bench->files.bytes));
    return json;
}

static json_t *report(const struct bench *bench, const struct result *result)
{
    char *pipeline = pipeline_shown(bench->pipeline);
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:o}", "pipeline", pipeline, "simd", simd_name(), "images",
                             (json_int_t)result->images, "passes", (json_int_t)result->n_passes, "prepare_per_s",
                             rounded((double)result->images * 1e9 / median_ns(result, ours_ns)));
    free(pipeline);
    if (result->reference_images == result->images) {
        json_object_set_new(json, "regional_decode_per_s",
                            rounded((double)result->images * 1e9 / median_ns(result, reference_ns)));
        json_object_set_new(json, "ratio", rounded(median_ns(result, ratio)));
    }
    const struct prepare_times *times = &result->spent[PLAIN].times;
    json_object_set_new(json, "stages_us",
                        json_pack("{s:o, s:o, s:o, s:o}", "open", stage(result, (double)times->open_ns), "plan",
                                  stage(result, (double)times->plan_ns), "decode",
                                  stage(result, (double)times->decode_ns), "transform",
                                  stage(result, (double)times->transform_ns)));
    if (result->reference_images == result->images)
        json_object_set_new(json, "parts_us", parts(result, &result->spent[PLAIN]));
    if (bench->asked[AGAIN])
        json_object_set_new(json, "again", report_side(result, AGAIN));
    if (bench->asked[MARKED]) {
        json_t *marked = report_rewritten(bench, result, MARKED);
        json_object_set_new(marked, "interval", json_integer((json_int_t)bench->interval));
        json_object_set_new(json, "restart_rows", marked);
    }
    if (bench->asked[PLANES])
        json_object_set_new(json, "planes", report_rewritten(bench, result, PLANES));
    return json;
}

static int run_bench(struct bench *bench)
{
    struct result result = {0};
    if (bench->asked[MARKED])
        bench->others[MARKED] = command_files_mark(&bench->files, bench->interval);
    if (bench->asked[PLANES])
        bench->others[PLANES] = command_files_in_planes(&bench->files);
    run_alone(bench, &result);
    if (result.images == 0) {
        fputs("none of the images can be prepared\n", stderr);
        free(result.passes);
        return 1;
    }
    json_t *json = report(bench, &result);
    if (bench->threads > 1) {
        double one = run_together(bench, 1, bench->seconds / 2),
               all = run_together(bench, bench->threads, bench->seconds / 2);
        json_object_set_new(json, "threads",
                            json_pack("{s:i, s:o, s:o, s:o}", "count", bench->threads, "one_per_s", rounded(one),
                                      "all_per_s", rounded(all), "speedup", rounded(all / one)));
    }
    json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(json);
    free(result.passes);
    return 0;
}

static int usage(void)
{
    fputs("usage: larder bench prepare DIR [--pipeline SPEC] [--seconds S] [--threads N] [--restart-rows MCUS]\n"
          "                                [--planes] [--again]\n",
          stderr);
    return 2;
}

int prepare_bench_main(int argc, char **argv)
{
    static const struct option options[] = {{"pipeline", required_argument, NULL, 'p'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"restart-rows", required_argument, NULL, 'r'},
                                            {"planes", no_argument, NULL, 'b'},
                                            {"again", no_argument, NULL, 'a'},
                                            {0}};
    const char *spec = DEFAULT_PIPELINE;
    struct bench bench = {.seconds = 10, .threads = 1};
    int restart_rows = 0;
    optind = 1;
    for (int option; (option = option_next(argc, argv, options, NULL)) != -1;) {
        if (option == 'p')
            spec = optarg;
        else if (option == 's')
            bench.seconds = atof(optarg);
        else if (option == 't')
            bench.threads = atoi(optarg);
        else if (option == 'r')
            restart_rows = atoi(optarg);
        else if (option == 'b')
            bench.asked[PLANES] = true;
        else if (option == 'a')
            bench.asked[AGAIN] = true;
        else
            return usage();
    }
    if (optind != argc - 1 || !(bench.seconds > 0 && bench.seconds < 86400) || bench.threads < 1 ||
        bench.threads > THREADS_MAX || restart_rows < 0)
        return usage();
    bench.interval = (uint32_t)restart_rows;
    bench.asked[PLAIN] = true;
    bench.asked[MARKED] = restart_rows > 0;
    struct error err = {0};
    prepare_init();
    int rc = pipeline_parse_open(spec, strlen(spec), &bench.pipeline, &err);
    if (rc == 0)
        rc = command_files_read(argv[optind], IMAGES_MAX_BYTES, &bench.files, &err);
    if (rc == 0)
        rc = get_sizes(&bench, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    else
        rc = run_bench(&bench);
    for (size_t i = 0; i < SIDES; i++)
        command_files_free(&bench.others[i]);
    command_files_free(&bench.files);
    pipeline_unref(&bench.pipeline);
    free(bench.sizes);
    return rc ? 1 : 0;
}
