#include "common/net/curl.h"

#include <dlfcn.h>
#include <pthread.h>

#include "common/check.h"

static struct error fault; /* of loading */

#ifdef LARDER_CURL_LIBRARY
struct net_curl curl;

static void load(void)
{
    static const struct {
        const char *name;
        void *function; /* the address of a pointer */
    } functions[] = {
#define X(name) {"curl_" #name, &curl.name},
        NET_CURL_FUNCTIONS(X)
#undef X
    };
    void *library = dlopen(LARDER_CURL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(library, functions[i].name);
        if (!found)
            library = NULL;
        *(void **)functions[i].function = found;
    }
    if (!library)
        error_set(&fault, LARDER_ENOENT,
                  "asking other machines needs the library libcurl, which cannot be loaded: install it (%s)",
                  dlerror());
}
#else
struct net_curl curl = {
#define X(name) .name = curl_##name,
    NET_CURL_FUNCTIONS(X)
#undef X
};

static void load(void)
{
}
#endif

static void load_once(void)
{
    load();
    CHECK(fault.code || curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

int net_curl_load(struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    return fault.code ? error_set(err, fault.code, "%s", fault.text) : 0;
}
