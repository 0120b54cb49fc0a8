/* curl.h: libcurl's functions, loaded when a client is started first. */
#ifndef LARDER_COMMON_NET_CURL_H
#define LARDER_COMMON_NET_CURL_H

#include <curl/curl.h>

#include "common/error.h"
#include "common/library.h"

#define NET_CURL_FUNCTIONS(X)     \
    X(curl_, global_init)         \
    X(curl_, multi_init)          \
    X(curl_, multi_setopt)        \
    X(curl_, multi_add_handle)    \
    X(curl_, multi_remove_handle) \
    X(curl_, multi_info_read)     \
    X(curl_, multi_perform)       \
    X(curl_, multi_poll)          \
    X(curl_, multi_wakeup)        \
    X(curl_, multi_cleanup)       \
    X(curl_, easy_init)           \
    X(curl_, easy_setopt)         \
    X(curl_, easy_getinfo)        \
    X(curl_, easy_strerror)       \
    X(curl_, easy_cleanup)        \
    X(curl_, slist_append)        \
    X(curl_, slist_free_all)

/* curl.multi_init is curl_multi_init, and so on. Options are not checked as by libcurl's macros: mind their types. */
struct net_curl {
    NET_CURL_FUNCTIONS(LIBRARY_POINTER)
};
extern struct net_curl curl; /* set once net_curl_load returned 0 */

/* net_curl_load loads libcurl and initialises it, once for a process. Any thread. It fails as library_load does. */
int net_curl_load(struct error *err);

#endif
