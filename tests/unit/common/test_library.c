/* test_library.c: libraries that are loaded when they are first needed. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/library.h"

#define THREADS 8

static const char *const names[] = {"TIFFGetVersion"};
static struct {
    const char *(*version)(void);
} tiff;
static const char *refused; /* the library that cannot be loaded */
static atomic_int asked;    /* how often dlopen was called for libtiff */
static pthread_barrier_t barrier;

/* Stands before the C library's. */
void *dlopen(const char *name, int flags);
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    if (name && strstr(name, "libtiff"))
        atomic_fetch_add(&asked, 1);
    return real(refused && name && strstr(name, refused) ? "/no/such/library.so" : name, flags);
}

static int load(struct error *err)
{
    return library_load(LIBRARY_TIFF, names, 1, &tiff, err);
}

/* Proves: without the library, and with one that lacks a function, loading fails, and the error says for what it is
 * needed, what to install and why. Neither stands in the way of a later call. */
static void test_missing(void **state)
{
    static const char *const others[] = {"TIFFGetVersion", "TIFFNotYetThought"};
    struct error err = {0};
    void *pointers[2];
    (void)state;
    if (!library_file(LIBRARY_TIFF))
        skip();
    refused = "libtiff";
    assert_int_equal(load(&err), LARDER_ENOENT);
    assert_non_null(strstr(err.text, "reading TIFF needs the library libtiff, which cannot be loaded: install it"));
    assert_non_null(strstr(err.text, "/no/such/library.so"));
    assert_int_equal(library_try(LIBRARY_TIFF, &err), LARDER_ENOENT);
    refused = NULL;
    assert_int_equal(library_load(LIBRARY_TIFF, others, 2, pointers, &err), LARDER_ENOENT);
    assert_non_null(strstr(err.text, "TIFFNotYetThought"));
    assert_int_equal(library_try(LIBRARY_TIFF, &err), 0);
    assert_null(tiff.version);
}

static void *first_use(void *wrong)
{
    struct error err;
    pthread_barrier_wait(&barrier);
    if (load(&err) || !strstr(tiff.version(), "LIBTIFF"))
        *(int *)wrong = 1;
    return NULL;
}

/* Proves: threads that need a library first at the same time all have it, and it is loaded once. */
static void test_threads(void **state)
{
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    (void)state;
    if (!library_file(LIBRARY_TIFF))
        skip();
    atomic_store(&asked, 0);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, first_use, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(wrong[i], 0);
    }
    pthread_barrier_destroy(&barrier);
    assert_int_equal(atomic_load(&asked), 1);
}

/* Proves: the lines for people name each library that is loaded when needed, and why one is not there. */
static void test_tell(void **state)
{
    char *text = NULL;
    size_t len = 0;
    (void)state;
    if (!library_file(LIBRARY_SOXR) || !library_file(LIBRARY_CURL))
        skip();
    refused = "libsoxr";
    FILE *to = open_memstream(&text, &len);
    library_tell(to);
    fclose(to);
    refused = NULL;
    assert_int_equal(strncmp(text, "loads when needed libcurl", 25), 0);
    assert_non_null(strstr(text, library_file(LIBRARY_SOXR)));
    assert_non_null(strstr(text, "\nmissing: making sounds needs the library libsoxr, which cannot be loaded"));
    assert_null(strstr(text, "the library libcurl"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_missing), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_tell)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
