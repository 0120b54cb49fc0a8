/* test_decode_no_memory: proves that no allocation that fails while an image is prepared gives other pixels. Each one
 * fails in turn, in a process of its own: those of 1 KiB and more, with --all the small ones too. The pixels are right
 * then, or the image is bad; or the process ends, since GLib and what is small (common/check.h) cannot do without
 * memory. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "prepare_fixture.h"
#include "preprocess/decode/jpeg_rewrite.h"

enum { WIDTH = 150, HEIGHT = 110 };
enum { FINE, REFUSED, WRONG, NOT_REACHED, ENDED, OUTCOMES };

static size_t least_bytes = 1024; /* of the allocations of so many bytes and more */
static int left = -1;             /* the one after so many fails; below 0: none does */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL 0
#elif defined(__has_feature)
#define CAN_FAIL !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define CAN_FAIL 1
#endif

#if CAN_FAIL
#define EXPORTED __attribute__((visibility("default"))) /* so that the shared libraries call these too */

static bool fails(size_t bytes)
{
    return left >= 0 && bytes >= least_bytes && left-- == 0;
}

/* glibc's own names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *ptr, size_t size);
void *__libc_memalign(size_t align, size_t size);

EXPORTED void *malloc(size_t size)
{
    return fails(size) ? NULL : __libc_malloc(size);
}

EXPORTED void *calloc(size_t count, size_t size)
{
    return fails(count * size) ? NULL : __libc_calloc(count, size);
}

EXPORTED void *realloc(void *ptr, size_t size)
{
    return fails(size) ? NULL : __libc_realloc(ptr, size);
}

EXPORTED void *aligned_alloc(size_t align, size_t size)
{
    return fails(size) ? NULL : __libc_memalign(align, size);
}
#endif

enum { N_OUTPUTS = 2 };

static const char *const pipelines[N_OUTPUTS] = {
    "[{\"resize\": {\"size\": [40, 50]}}]",
    "[{\"center_crop\": {\"size\": [30, 60]}}]",
};

struct pictures {
    struct prepare_output outputs[N_OUTPUTS];
    uint8_t pixels[N_OUTPUTS][3 * 40 * 60];
};

/* make prepares the image by both pipelines at once. */
static int make(struct prepare_scratch *by, const struct encoded *image, struct pictures *out)
{
    enum bad_reason reason;
    memset(out->pixels, 0, sizeof out->pixels);
    for (size_t i = 0; i < N_OUTPUTS; i++)
        out->outputs[i].dst = out->pixels[i];
    return prepare_sample(by, image->data, image->len_bytes, out->outputs, N_OUTPUTS, &reason, NULL);
}

/* differ tells whether a picture that counts as made is another than the right one. */
static bool differ(const struct pictures *made, const struct pictures *right)
{
    for (size_t i = 0; i < N_OUTPUTS; i++) {
        if (!made->outputs[i].reason && memcmp(made->pixels[i], right->pixels[i], sizeof right->pixels[i]) != 0)
            return true;
    }
    return false;
}

/* fail_one is all that a child does: it prepares with allocation number `which` failing, and then once more. */
static _Noreturn void fail_one(struct pictures *pictures, const struct encoded *image, const struct pictures *right,
                               int which)
{
    struct prepare_scratch *fresh; /* as a worker's is before its first image */
    CHECK(prepare_scratch_create(&limits, &fresh) == 0);
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS}; /* which cmocka would catch */
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        signal(deaths[i], SIG_DFL);
    prctl(PR_SET_DUMPABLE, 0);
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* what GLib says before it ends the process */
    left = which;
    int rc = make(fresh, image, pictures);
    bool reached = left < 0;
    left = -1;
    bool wrong = differ(pictures, right) || make(fresh, image, pictures) != 0 || differ(pictures, right);
    _exit(wrong ? WRONG : !reached ? NOT_REACHED : rc ? REFUSED : FINE);
}

static int in_a_child(struct pictures *pictures, const struct encoded *image, const struct pictures *right, int which)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        fail_one(pictures, image, right, which);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : ENDED;
}

static void fail_each(const struct encoded *image, const char *name)
{
    static struct pictures right, other;
    struct pipeline *parsed[N_OUTPUTS];
    int counts[OUTCOMES] = {0};
    for (size_t i = 0; i < N_OUTPUTS; i++)
        right.outputs[i].pipeline = other.outputs[i].pipeline = parsed[i] = parse(pipelines[i]);
    assert_int_equal(make(scratch, image, &right), 0);
    for (int which = 0; !counts[NOT_REACHED]; which++) {
        int outcome = in_a_child(&other, image, &right, which);
        if (outcome == WRONG)
            fail_msg("%s: other pixels when allocation %d fails", name, which);
        counts[outcome]++;
    }
    print_message("%s: of its allocations %d were done without, %d made it bad, %d ended the process\n", name,
                  counts[FINE], counts[REFUSED], counts[ENDED]);
    for (size_t i = 0; i < N_OUTPUTS; i++)
        pipeline_unref(&parsed[i]);
}

/* JPEG, one scan and several. */
static void test_jpeg(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {{3, 2, 2, false, 80, 0, 6}, {3, 2, 2, true, 70, 0, 0}};
    for (size_t i = 0; i < 2; i++) {
        uint8_t *pixels = picture(WIDTH, HEIGHT, 3, i);
        struct encoded image = encode_jpeg(pixels, WIDTH, HEIGHT, &forms[i]);
        fail_each(&image, forms[i].progressive ? "progressive JPEG" : "JPEG");
        encoded_free(&image);
        free(pixels);
    }
}

/* Planes that are made while one allocation fails, if they are made, give the JPEG back. So does the way back. */
static void test_planes(void **state)
{
    (void)state;
    uint8_t *pixels = picture(WIDTH, HEIGHT, 3, 5);
    struct encoded plain = encode_jpeg(pixels, WIDTH, HEIGHT, &(struct jpeg_form){3, 2, 2, false, 80, -4, 0}), whole;
    whole.data = jpeg_rewrite_in_planes(plain.data, plain.len_bytes, &whole.len_bytes);
    assert_non_null(whole.data);
    int counts[OUTCOMES] = {0};
    for (int which = 0; !counts[NOT_REACHED]; which++) {
        struct encoded planes = {0}, back = {0}, again = {0};
        left = which;
        planes.data = jpeg_rewrite_in_planes(plain.data, plain.len_bytes, &planes.len_bytes);
        back.data = jpeg_rewrite(whole.data, whole.len_bytes, 4, &back.len_bytes);
        bool reached = left < 0;
        left = -1;
        again.data = jpeg_rewrite(whole.data, whole.len_bytes, 4, &again.len_bytes);
        if (planes.data)
            assert_true(planes.len_bytes == whole.len_bytes && memcmp(planes.data, whole.data, whole.len_bytes) == 0);
        if (back.data)
            assert_true(back.len_bytes == again.len_bytes && memcmp(back.data, again.data, back.len_bytes) == 0);
        counts[!reached ? NOT_REACHED : planes.data && back.data ? FINE : REFUSED]++;
        encoded_free(&planes);
        encoded_free(&back);
        encoded_free(&again);
    }
    print_message("planes: of the allocations %d were done without, %d made it impossible\n", counts[FINE],
                  counts[REFUSED]);
    assert_true(counts[REFUSED] > 0);
    encoded_free(&whole);
    encoded_free(&plain);
    free(pixels);
}

/* The formats of the other libraries. */
static void test_others(void **state)
{
    (void)state;
    static const struct {
        const char *suffix;
        unsigned bands;
    } forms[] = {{".png", 3},
                 {".png[interlace]", 4},
                 {".png[palette]", 3},
                 {".webp", 3},
                 {".webp[lossless]", 4},
                 {".tif[compression=lzw]", 3},
                 {".tif[tile,tile-width=32,tile-height=32]", 1},
                 {".gif", 3},
                 {".ppm", 3}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        uint8_t *pixels = picture(WIDTH, HEIGHT, forms[i].bands, i);
        struct encoded image = encode_vips_apart(pixels, WIDTH, HEIGHT, forms[i].bands, 8, forms[i].suffix);
        fail_each(&image, forms[i].suffix);
        encoded_free(&image);
        free(pixels);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_jpeg), cmocka_unit_test(test_planes),
                                       cmocka_unit_test(test_others)};
    if (!CAN_FAIL) {
        puts("skipped: a sanitizer allocates in its own way");
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "--all") == 0)
        least_bytes = 0;
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
