#include "common/socket_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

_Static_assert(SOCKET_PATH_MAX == sizeof(((struct sockaddr_un *)0)->sun_path), "SOCKET_PATH_MAX is sun_path's size");

int socket_path_check(const char *path, struct error *err)
{
    size_t len = strlen(path);
    if (len == 0)
        return error_set(err, LARDER_EINVAL, "the socket's path is empty");
    if (len >= SOCKET_PATH_MAX)
        return error_set(err, LARDER_ELIMIT,
                         "the socket's path '%s' has %zu bytes, and the system allows %d: choose a shorter one, with "
                         "LARDER_SOCKET for example",
                         path, len, SOCKET_PATH_MAX - 1);
    return 0;
}

static int put(char *buf, size_t size, struct error *err, const char *head, const char *tail)
{
    char path[4096];
    int len = snprintf(path, sizeof path, "%s%s", head, tail);
    if (len < 0 || len >= (int)sizeof path)
        return error_set(err, LARDER_ELIMIT, "the socket's path '%.100s…' is far too long", head);
    int rc = socket_path_check(path, err);
    if (rc)
        return rc;
    if ((size_t)len >= size)
        return error_set(err, LARDER_ELIMIT, "the socket's path '%s' does not fit in %zu bytes", path, size);
    memcpy(buf, path, (size_t)len + 1);
    return 0;
}

int socket_path_default(char *buf, size_t size, struct error *err)
{
    const char *given = getenv("LARDER_SOCKET");
    if (given && *given)
        return put(buf, size, err, given, "");
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && *runtime == '/')
        return put(buf, size, err, runtime, "/larder/larder.sock");
    return put(buf, size, err, "/run/larder/larder.sock", "");
}

int socket_path_control(const char *session_path, char *buf, size_t size, struct error *err)
{
    return put(buf, size, err, session_path, ".control");
}
