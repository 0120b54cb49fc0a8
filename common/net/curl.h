/* curl.h: libcurl's functions. With what it needs itself libcurl takes 3 MB, and most daemons ask no other machine. So
 * where it is a library of its own it is loaded when a client is started first. */
#ifndef LARDER_COMMON_NET_CURL_H
#define LARDER_COMMON_NET_CURL_H

#include <curl/curl.h>

#include "common/error.h"

#define NET_CURL_FUNCTIONS(X) \
    X(global_init)            \
    X(multi_init)             \
    X(multi_setopt)           \
    X(multi_add_handle)       \
    X(multi_remove_handle)    \
    X(multi_info_read)        \
    X(multi_perform)          \
    X(multi_poll)             \
    X(multi_wakeup)           \
    X(multi_cleanup)          \
    X(easy_init)              \
    X(easy_setopt)            \
    X(easy_getinfo)           \
    X(easy_strerror)          \
    X(easy_cleanup)           \
    X(slist_append)           \
    X(slist_free_all)

/* curl.multi_init is curl_multi_init, and so on. Options are not checked as by libcurl's macros: mind their types. */
struct net_curl {
#define X(name) __typeof__(curl_##name) *name;
    NET_CURL_FUNCTIONS(X)
#undef X
};
extern struct net_curl curl; /* set once net_curl_load returned 0 */

/* net_curl_load loads libcurl and initialises it, once for a process. It stays: other libraries of the process may use
 * it. Any thread. LARDER_ENOENT: it is not there, and was not at the first call. */
int net_curl_load(struct error *err);

#endif
