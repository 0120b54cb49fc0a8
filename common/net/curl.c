#include "common/net/curl.h"

#include <pthread.h>

#include "common/check.h"

#ifdef LARDER_LOADS_CURL
struct net_curl curl;
#else
struct net_curl curl = {NET_CURL_FUNCTIONS(LIBRARY_LINKED)};
#endif

static void start(void)
{
    CHECK(curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

int net_curl_load(struct error *err)
{
    static const char *const names[] = {NET_CURL_FUNCTIONS(LIBRARY_NAME)};
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = library_load(LIBRARY_CURL, names, sizeof names / sizeof *names, &curl, err);
    if (rc == 0)
        pthread_once(&once, start);
    return rc;
}
