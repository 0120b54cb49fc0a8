#include "images.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jpeglib.h>
#include <vips/vips.h>

#include "common/check.h"
#include "common/random.h"

void encoded_free(struct encoded *encoded)
{
    free(encoded->data);
    *encoded = (struct encoded){0};
}

uint8_t *picture(uint32_t width, uint32_t height, unsigned bands, uint64_t seed)
{
    struct rng rng;
    random_seed(&rng, seed);
    uint8_t *pixels = xmalloc((size_t)width * height * bands);
    double fx = 0.02 + 0.05 * random_unit(&rng), fy = 0.02 + 0.05 * random_unit(&rng);
    uint8_t *to = pixels;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            bool busy = ((x / 16) ^ (y / 24)) & 1;
            for (unsigned b = 0; b < bands; b++) {
                double wave = 127.5 + 100 * sin(fx * x + b) * cos(fy * y + 0.7 * b);
                int noise = busy ? (int)random_below(&rng, 120) - 60 : (int)random_below(&rng, 5) - 2;
                int value = (int)wave + noise;
                *to++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
        }
    }
    return pixels;
}

/* A minimal EXIF segment: big-endian TIFF with the one tag. */
static void write_orientation(j_compress_ptr cinfo, uint8_t orientation)
{
    uint8_t exif[] = {'E',  'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42,          0, 0, 0, 8, 0, 1,
                      0x01, 0x12, 0,   3,   0, 0, 0,   1,   0, orientation, 0, 0, 0, 0, 0, 0};
    jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof exif);
}

struct encoded encode_jpeg(const uint8_t *pixels, uint32_t width, uint32_t height, const struct jpeg_form *form)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long len = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &memory, &len);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = form->components;
    cinfo.in_color_space = form->components == 1 ? JCS_GRAYSCALE : form->components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&cinfo);
    jpeg_set_quality(&cinfo, form->quality, TRUE);
    cinfo.comp_info[0].h_samp_factor = form->h_samp;
    cinfo.comp_info[0].v_samp_factor = form->v_samp;
    if (form->restart_rows < 0)
        cinfo.restart_interval = (unsigned)-form->restart_rows;
    else
        cinfo.restart_in_rows = form->restart_rows;
    if (form->progressive)
        jpeg_simple_progression(&cinfo);
    jpeg_start_compress(&cinfo, TRUE);
    if (form->orientation)
        write_orientation(&cinfo, form->orientation);
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)y * width * (size_t)form->components);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct encoded){memory, len};
}

struct encoded mark_jpeg(const struct encoded *jpeg, unsigned interval)
{
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long len = 0;
    from.err = to.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&from);
    jpeg_create_compress(&to);
    jpeg_mem_src(&from, jpeg->data, jpeg->len_bytes);
    jpeg_mem_dest(&to, &memory, &len);
    jpeg_read_header(&from, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&from);
    jpeg_copy_critical_parameters(&from, &to);
    to.restart_interval = interval;
    to.optimize_coding = TRUE;
    jpeg_write_coefficients(&to, coefficients);
    jpeg_finish_compress(&to);
    jpeg_destroy_compress(&to);
    jpeg_destroy_decompress(&from);
    return (struct encoded){memory, len};
}

/* Without a cache and threads of its own. */
static void start_vips(void)
{
    static bool started;
    if (started)
        return;
    CHECK(VIPS_INIT("images") == 0);
    vips_cache_set_max(0);
    vips_concurrency_set(1);
    started = true;
}

struct encoded encode_vips(const void *pixels, uint32_t width, uint32_t height, unsigned bands, int bits,
                           const char *suffix)
{
    size_t bytes = (size_t)width * height * bands * (size_t)(bits / 8);
    start_vips();
    VipsImage *image = vips_image_new_from_memory(pixels, bytes, (int)width, (int)height, (int)bands,
                                                  bits == 16 ? VIPS_FORMAT_USHORT : VIPS_FORMAT_UCHAR);
    CHECK(image);
    bool grey = bands < 3;
    image->Type = bits == 16 ? (grey ? VIPS_INTERPRETATION_GREY16 : VIPS_INTERPRETATION_RGB16)
                             : (grey ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB);
    void *data = NULL;
    size_t len = 0;
    if (vips_image_write_to_buffer(image, suffix, &data, &len, NULL)) {
        fprintf(stderr, "%s: %s\n", suffix, vips_error_buffer());
        abort();
    }
    g_object_unref(image);
    struct encoded encoded = {xmalloc(len), len};
    memcpy(encoded.data, data, len);
    g_free(data);
    return encoded;
}

static _Noreturn void write_all(int end, const struct encoded *encoded)
{
    for (size_t done = 0; done < encoded->len_bytes;) {
        ssize_t n = write(end, encoded->data + done, encoded->len_bytes - done);
        CHECK(n > 0);
        done += (size_t)n;
    }
    _exit(0);
}

struct encoded encode_vips_apart(const void *pixels, uint32_t width, uint32_t height, unsigned bands, int bits,
                                 const char *suffix)
{
    int ends[2], status;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct encoded made = encode_vips(pixels, width, height, bands, bits, suffix);
        write_all(ends[1], &made);
    }
    close(ends[1]);
    size_t room = (size_t)width * height * bands * (size_t)(bits / 8) * 2 + 65536;
    struct encoded encoded = {xmalloc(room), 0};
    for (ssize_t n; (n = read(ends[0], encoded.data + encoded.len_bytes, room - encoded.len_bytes)) > 0;)
        encoded.len_bytes += (size_t)n;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return encoded;
}

uint8_t *decode_plain(const struct encoded *jpeg, uint32_t *width, uint32_t *height)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, jpeg->data, jpeg->len_bytes);
    jpeg_read_header(&cinfo, TRUE);
    cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo);
    *width = cinfo.output_width;
    *height = cinfo.output_height;
    uint8_t *pixels = xmalloc((size_t)*width * *height * 3);
    while (cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = pixels + (size_t)cinfo.output_scanline * *width * 3;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    return pixels;
}
