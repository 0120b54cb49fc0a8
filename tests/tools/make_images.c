/* make_images.c: a class-per-folder tree of photo-like JPEGs, for the demo and the system tests.
 *
 * A photograph's cost to a decoder is in its size and detail, and a classifier needs something to learn: so each image
 * is a mix of smooth shapes, texture and fine grain of several scales in colours that lie around its class's own. The
 * same arguments give the same pixels. One thread a core; each image's random numbers depend on its number alone. */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include "common/random.h"

#define FIELD_SIDE 1024 /* of the noise fields that images are cut from; a power of two */
#define FIELDS 4
#define THREADS_MAX 16
#define PI 3.14159265358979323846

struct plan {
    const char *folder;
    unsigned count, classes, width, height;
    uint64_t seed;
};

static float smooth(unsigned at, unsigned cell)
{
    float part = (float)(at % cell) / (float)cell;
    return part * part * (3 - 2 * part);
}

/* row_fill stretches a row of a grid over the field's width: from each grid point to the next, smoothly. */
static void row_fill(float row[FIELD_SIDE], const float *grid, unsigned cell, const float parts[FIELD_SIDE])
{
    unsigned side = FIELD_SIDE / cell;
    for (unsigned i = 0; i < side; i++) {
        float left = grid[i], right = grid[(i + 1) % side];
        for (unsigned x = i * cell; x < (i + 1) * cell; x++)
            row[x] = left * (1 - parts[x]) + right * parts[x];
    }
}

/* Noise that repeats seamlessly: octaves of random grids, smoothly interpolated, each half as strong as the last. */
static void field_fill(float *field, struct rng *rng)
{
    static float grid[FIELD_SIDE * FIELD_SIDE];
    memset(field, 0, sizeof(float) * FIELD_SIDE * FIELD_SIDE);
    float strength = 0.5f, parts[FIELD_SIDE], above[FIELD_SIDE], below[FIELD_SIDE];
    for (unsigned cell = 256; cell >= 2; cell /= 2, strength *= 0.55f) {
        unsigned side = FIELD_SIDE / cell;
        for (unsigned i = 0; i < side * side; i++)
            grid[i] = (float)random_unit(rng) * 2 - 1;
        for (unsigned x = 0; x < FIELD_SIDE; x++)
            parts[x] = smooth(x, cell);
        row_fill(below, grid, cell, parts);
        for (unsigned y = 0; y < FIELD_SIDE; y++) {
            if (y % cell == 0) {
                memcpy(above, below, sizeof above);
                row_fill(below, grid + (size_t)((y / cell + 1) % side) * side, cell, parts);
            }
            float part = parts[y];
            for (unsigned x = 0; x < FIELD_SIDE; x++)
                field[y * FIELD_SIDE + x] += strength * (above[x] * (1 - part) + below[x] * part);
        }
    }
}

static float field_at(const float *field, unsigned x, unsigned y)
{
    return field[(y % FIELD_SIDE) * FIELD_SIDE + x % FIELD_SIDE];
}

static uint8_t to_level(float value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Base colour, stripes and roughness belong to the class; cut, light, contrast and an ellipse to the image. */
static void image_fill(uint8_t *pixels, const struct plan *plan, const float *fields, unsigned label, struct rng *rng)
{
    float hue = (float)(2 * PI * label / plan->classes) + ((float)random_unit(rng) - 0.5f) * 0.5f;
    float base[3], light = 95 + 60 * (float)random_unit(rng), contrast = 70 + 60 * (float)random_unit(rng);
    for (unsigned band = 0; band < 3; band++)
        base[band] = 55 * cosf(hue - (float)(2 * PI / 3) * (float)band);
    float angle = (float)PI * (float)label / (float)plan->classes, pitch = 0.05f + 0.03f * (float)(label % 4);
    float step_x = cosf(angle) * pitch, step_y = sinf(angle) * pitch;
    unsigned cut[FIELDS][2];
    for (unsigned i = 0; i < FIELDS; i++)
        cut[i][0] = (unsigned)random_below(rng, FIELD_SIDE), cut[i][1] = (unsigned)random_below(rng, FIELD_SIDE);
    float centre_x = (float)plan->width * (0.3f + 0.4f * (float)random_unit(rng));
    float centre_y = (float)plan->height * (0.3f + 0.4f * (float)random_unit(rng));
    float radius = (float)(plan->width + plan->height) * (0.08f + 0.12f * (float)random_unit(rng));
    for (unsigned y = 0; y < plan->height; y++) {
        for (unsigned x = 0; x < plan->width; x++) {
            float noise[FIELDS];
            for (unsigned i = 0; i < FIELDS; i++)
                noise[i] = field_at(fields + (size_t)i * FIELD_SIDE * FIELD_SIDE, x + cut[i][0], y + cut[i][1]);
            float far_x = ((float)x - centre_x) / radius, far_y = ((float)y - centre_y) / radius;
            float inside = far_x * far_x + far_y * far_y < 1 + 0.6f * noise[3] ? -1.0f : 1.0f;
            float stripes = 18 * sinf((float)x * step_x + (float)y * step_y + 3 * noise[1]);
            float grain = (float)(random_u64(rng) >> 56) * (1 / 8.0f) - 16;
            float value = light + contrast * noise[0] + 25 * inside * noise[2] + stripes + grain;
            for (unsigned band = 0; band < 3; band++)
                *pixels++ = to_level(value + base[band] * (1 + 0.4f * inside) + 30 * noise[band + 1]);
        }
    }
}

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return 0;
    fprintf(stderr, "larder_make_images: %s: %s\n", path, strerror(errno));
    return -1;
}

/* The bytes of the pixels' JPEG, which the caller frees. libjpeg ends the program if there is no memory. */
static unsigned char *encode(const struct plan *plan, uint8_t *pixels, unsigned long *bytes)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *encoded = NULL;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &encoded, bytes);
    cinfo.image_width = plan->width;
    cinfo.image_height = plan->height;
    cinfo.input_components = 3;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, 90, TRUE);
    cinfo.comp_info[0].h_samp_factor = cinfo.comp_info[0].v_samp_factor = 1; /* colours in full, as at this quality */
    jpeg_start_compress(&cinfo, TRUE);
    while (cinfo.next_scanline < cinfo.image_height) {
        JSAMPROW row = pixels + (size_t)cinfo.next_scanline * plan->width * 3;
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return encoded;
}

static int file_write(const struct plan *plan, const char *path, uint8_t *pixels)
{
    unsigned long bytes = 0;
    unsigned char *encoded = encode(plan, pixels, &bytes);
    FILE *file = fopen(path, "wb");
    int failed = !file || fwrite(encoded, 1, bytes, file) != bytes;
    if (file)
        failed |= fclose(file) != 0;
    if (failed)
        fprintf(stderr, "larder_make_images: %s: %s\n", path, strerror(errno));
    free(encoded);
    return failed ? -1 : 0;
}

static int image_write(const struct plan *plan, const float *fields, unsigned number, uint8_t *pixels)
{
    unsigned label = number % plan->classes;
    char path[4096];
    int len = snprintf(path, sizeof path, "%s/class_%02u/%05u.jpg", plan->folder, label, number);
    if (len < 0 || len >= (int)sizeof path) {
        fprintf(stderr, "larder_make_images: the folder's path is too long\n");
        return -1;
    }
    struct rng rng;
    random_seed_keys(&rng, plan->seed, number, 0, 0);
    image_fill(pixels, plan, fields, label, &rng);
    return file_write(plan, path, pixels);
}

/* Every step-th image, by a thread of its own with its own pixels. */
struct share {
    const struct plan *plan;
    const float *fields; /* shared, read only */
    unsigned first, step;
    int failed;
    pthread_t thread;
};

static void *share_make(void *arg)
{
    struct share *share = arg;
    const struct plan *plan = share->plan;
    uint8_t *pixels = malloc((size_t)plan->width * plan->height * 3);
    share->failed = !pixels;
    if (!pixels)
        fprintf(stderr, "larder_make_images: no memory\n");
    for (unsigned number = share->first; !share->failed && number < plan->count; number += share->step)
        share->failed = image_write(plan, share->fields, number, pixels);
    free(pixels);
    return NULL;
}

static int make_images(const struct plan *plan, const float *fields)
{
    struct share shares[THREADS_MAX];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned count = cores < 1 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (unsigned)cores, started = 0;
    int failed = 0;
    for (; started < count && !failed; started++) {
        shares[started] = (struct share){.plan = plan, .fields = fields, .first = started, .step = count};
        failed = pthread_create(&shares[started].thread, NULL, share_make, &shares[started]);
        if (failed) {
            fprintf(stderr, "larder_make_images: starting a thread: %s\n", strerror(failed));
            break;
        }
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(shares[i].thread, NULL);
        failed |= shares[i].failed;
    }
    return failed ? -1 : 0;
}

static int make_all(const struct plan *plan)
{
    size_t field_floats = (size_t)FIELD_SIDE * FIELD_SIDE;
    float *fields = malloc(FIELDS * field_floats * sizeof(float));
    int failed = !fields || make_folder(plan->folder);
    if (!fields)
        fprintf(stderr, "larder_make_images: no memory\n");
    for (unsigned label = 0; !failed && label < plan->classes; label++) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/class_%02u", plan->folder, label);
        failed = len < 0 || len >= (int)sizeof path || make_folder(path);
    }
    if (!failed) {
        struct rng rng;
        random_seed(&rng, plan->seed);
        for (unsigned i = 0; i < FIELDS; i++)
            field_fill(fields + i * field_floats, &rng);
    }
    if (!failed)
        failed = make_images(plan, fields);
    free(fields);
    return failed ? -1 : 0;
}

static int number_argument(char **argv, int argc, int at, unsigned fallback, unsigned max, unsigned *out)
{
    char *end = NULL;
    unsigned long value = at < argc ? strtoul(argv[at], &end, 10) : fallback;
    if ((at < argc && (*end || end == argv[at])) || value < 1 || value > max) {
        fprintf(stderr, "larder_make_images: argument %d is '%s', not 1 to %u\n", at, argv[at], max);
        return -1;
    }
    *out = (unsigned)value;
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {.folder = argc > 1 ? argv[1] : ""};
    unsigned seed = 1;
    if (argc < 2 || argc > 7 || *argv[1] == '-') {
        fprintf(stderr, "usage: larder_make_images FOLDER [COUNT [CLASSES [WIDTH [HEIGHT [SEED]]]]]\n"
                        "Makes COUNT (600) JPEGs of WIDTH (500) x HEIGHT (375) in CLASSES (10) folders.\n");
        return 2;
    }
    if (number_argument(argv, argc, 2, 600, 10000000, &plan.count) ||
        number_argument(argv, argc, 3, 10, 100, &plan.classes) ||
        number_argument(argv, argc, 4, 500, 20000, &plan.width) ||
        number_argument(argv, argc, 5, 375, 20000, &plan.height) ||
        number_argument(argv, argc, 6, 1, UINT32_MAX, &seed))
        return 2;
    plan.seed = seed;
    return make_all(&plan) ? 1 : 0;
}
