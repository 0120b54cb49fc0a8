#include "common/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* LARDER_FILES is the build's: [LIBRARY_TIFF] = "libtiff.so.6", and so on. */
static const char *const files[LIBRARIES] = {LARDER_FILES};

static const struct {
    const char *name, *use;
} rows[LIBRARIES] = {
    [LIBRARY_CURL] = {"libcurl", "asking other machines"},
    [LIBRARY_TIFF] = {"libtiff", "reading TIFF"},
    [LIBRARY_SNDFILE] = {"libsndfile", "making sounds"},
    [LIBRARY_SOXR] = {"libsoxr", "making sounds"},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what library_load writes to its caller's pointers */
static atomic_bool there[LIBRARIES];                     /* set when they are written; library_load reads it */

static int missing(enum library library, struct error *err)
{
    const char *why = dlerror();
    return error_set(err, LARDER_ENOENT, "%s needs the library %s, which cannot be loaded: install it (%s)",
                     rows[library].use, rows[library].name, why ? why : files[library]);
}

static int load_locked(enum library library, const char *const *names, size_t n, void *pointers, struct error *err)
{
    void *handle = dlopen(files[library], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return missing(library, err);
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, names[i]);
        if (!found)
            return missing(library, err);
        memcpy((char *)pointers + i * sizeof found, &found, sizeof found);
    }
    atomic_store_explicit(&there[library], true, memory_order_release);
    return 0;
}

int library_load(enum library library, const char *const *names, size_t n, void *pointers, struct error *err)
{
    int rc = 0;
    if (!files[library] || atomic_load_explicit(&there[library], memory_order_acquire))
        return 0;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&there[library], memory_order_relaxed))
        rc = load_locked(library, names, n, pointers, err);
    pthread_mutex_unlock(&lock);
    return rc;
}

const char *library_file(enum library library)
{
    return files[library];
}

int library_try(enum library library, struct error *err)
{
    return files[library] && !dlopen(files[library], RTLD_NOW | RTLD_LOCAL) ? missing(library, err) : 0;
}

void library_tell(FILE *to)
{
    struct error err;
    const char *before = "loads when needed ";
    for (enum library library = 0; library < LIBRARIES; library++) {
        if (files[library]) {
            fprintf(to, "%s%s", before, files[library]);
            before = ", ";
        }
    }
    if (before[0] == ',')
        putc('\n', to);
    for (enum library library = 0; library < LIBRARIES; library++) {
        if (library_try(library, &err))
            fprintf(to, "missing: %s\n", err.text);
    }
}
