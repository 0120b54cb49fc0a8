/* command_prepare.c: larder prepare: shows what a job would get. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "common/check.h"
#include "common/option.h"
#include "preprocess/command_files.h"
#include "preprocess/commands.h"
#include "preprocess/prepare.h"

#define GRID_MAX 1024

static const struct prepare_limits limits = {.pixels_max = 200000000, .scans_max = 100};

struct sheet {
    const char *file, *spec, *out;
    uint64_t seed;
    int draws;
};

static int usage(void)
{
    fputs("usage: larder prepare FILE [--pipeline SPEC] --out PNG [--seed N] [--grid N]\n", stderr);
    return 2;
}

static int save(const struct sheet *sheet, uint8_t *pixels, uint32_t width, uint32_t height, struct error *err)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB};
    if (png_image_write_to_file(&image, sheet->out, 0, pixels, 0, NULL))
        return 0;
    return error_set(err, LARDER_EIO, "%s cannot be written: %s", sheet->out, image.message);
}

/* Makes the draws and lays them out in rows, as many as there are columns or one fewer. */
static int draw(const struct sheet *sheet, const struct pipeline *pipeline, const struct command_file *file,
                struct prepare_scratch *scratch, struct error *err)
{
    struct image_shape shape = {0}; /* make has checked that there is one */
    sample_layout_image(pipeline_layout(pipeline), &shape);
    uint32_t columns = 1;
    while (columns * columns < (uint32_t)sheet->draws)
        columns++;
    uint32_t rows = ((uint32_t)sheet->draws + columns - 1) / columns;
    size_t row_bytes = (size_t)shape.width * 3, sheet_row = row_bytes * columns;
    uint8_t *one = malloc(pipeline_layout(pipeline)->bytes), *all = calloc((size_t)rows * shape.height, sheet_row);
    int rc = one && all ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < (uint32_t)sheet->draws; i++) {
        struct prepare_output output = {.pipeline = pipeline, .key = {sheet->seed, 0, i}, .dst = one};
        enum bad_reason reason;
        rc = prepare_sample(scratch, file->data, file->len_bytes, &output, 1, &reason, err);
        if (rc)
            rc = error_prefix(err, rc, "%s: %s", sheet->file, bad_reason_name(reason));
        for (uint32_t y = 0; rc == 0 && y < shape.height; y++)
            memcpy(all + (i / columns * shape.height + y) * sheet_row + i % columns * row_bytes, one + y * row_bytes,
                   row_bytes);
    }
    if (rc == 0)
        rc = save(sheet, all, shape.width * columns, shape.height * rows, err);
    free(one);
    free(all);
    return rc;
}

/* A pipeline that leaves images the size they have is for images of this one's. */
static int close_pipeline(struct pipeline **pipeline, const struct command_file *file, struct prepare_scratch *scratch,
                          struct error *err)
{
    struct image_size size;
    if (!pipeline_is_open(*pipeline))
        return 0;
    int rc = prepare_size(scratch, file->data, file->len_bytes, &size, err);
    return rc ? error_prefix(err, rc, "%s", file->path) : pipeline_close(pipeline, size, err);
}

static int make(const struct sheet *sheet, struct error *err)
{
    struct pipeline *pipeline = NULL;
    struct command_file file = {0};
    struct prepare_scratch *scratch = NULL;
    prepare_init();
    int rc = pipeline_parse_open(sheet->spec, strlen(sheet->spec), &pipeline, err);
    if (rc == 0)
        rc = command_file_read(sheet->file, &file, err);
    if (rc == 0 && prepare_scratch_create(&limits, &scratch))
        rc = error_set(err, LARDER_ENOMEM, "out of memory");
    if (rc == 0)
        rc = close_pipeline(&pipeline, &file, scratch, err);
    if (rc)
        goto out;
    struct image_shape shape;
    if (!sample_layout_image(pipeline_layout(pipeline), &shape) || shape.dtype != PIXEL_UINT8 ||
        shape.layout != LAYOUT_HWC || shape.channels != 3) {
        rc = error_set(err, LARDER_EINVAL,
                       "only a list that makes uint8 RGB pixels can be looked at: leave out to_dtype, normalize, "
                       "layout and grayscale's single channel, and of several views give one's list");
        goto out;
    }
    rc = draw(sheet, pipeline, &file, scratch, err);
out:
    prepare_scratch_destroy(scratch);
    free(file.path);
    free(file.data);
    pipeline_unref(&pipeline);
    return rc;
}

int prepare_main(int argc, char **argv)
{
    static const struct option options[] = {{"pipeline", required_argument, NULL, 'p'},
                                            {"out", required_argument, NULL, 'o'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"grid", required_argument, NULL, 'g'},
                                            {0}};
    struct sheet sheet = {.spec = DEFAULT_PIPELINE, .draws = 1};
    optind = 1;
    for (int option; (option = option_next(argc, argv, options, NULL)) != -1;) {
        if (option == 'p')
            sheet.spec = optarg;
        else if (option == 'o')
            sheet.out = optarg;
        else if (option == 's')
            sheet.seed = strtoull(optarg, NULL, 0);
        else if (option == 'g')
            sheet.draws = atoi(optarg);
        else
            return usage();
    }
    if (optind != argc - 1 || !sheet.out || sheet.draws < 1 || sheet.draws > GRID_MAX)
        return usage();
    sheet.file = argv[optind];
    struct error err = {0};
    int rc = make(&sheet, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    return rc ? 1 : 0;
}
