#include "common/poison_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/poison.h"
#include "common/socket_file.h"

void poison_file_path(const char *socket_path, char out[POISON_PATH_BYTES])
{
    snprintf(out, POISON_PATH_BYTES, "%.*s.poison", SOCKET_PATH_MAX - 1, socket_path);
}

/* read_all returns the number of bytes read, at most size, or -1. */
static ssize_t read_all(int fd, char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, bytes + done, size - done);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

int poison_file_load(const char *path, void **bytes, size_t *len_bytes, struct error *err)
{
    struct stat st;
    char *buf = NULL;
    int code = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return socket_file_error(err, "opening", path);
    if (fstat(fd, &st) != 0)
        code = socket_file_error(err, "looking at", path);
    else if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size > POISON_FILE_MAX_BYTES)
        code = error_set(err, LARDER_EFORMAT, "%s is no regular file, or too large: remove it", path);
    else if (!(buf = malloc((size_t)st.st_size + 1)))
        code = error_set(err, LARDER_ENOMEM, "no memory for %s", path);
    ssize_t len = code ? 0 : read_all(fd, buf, (size_t)st.st_size);
    if (len < 0)
        code = socket_file_error(err, "reading", path);
    close(fd);
    if (code) {
        free(buf);
        return code;
    }
    *bytes = buf;
    *len_bytes = (size_t)len;
    return 0;
}
