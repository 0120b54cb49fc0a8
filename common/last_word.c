#include "common/last_word.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/socket_file.h"
#include "common/socket_path.h"

enum { PATH_BYTES = SOCKET_PATH_MAX + 16, FILE_BYTES = LAST_WORD_BYTES + 32 };

static void path_of(const char *socket_path, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%.*s.left", SOCKET_PATH_MAX - 1, socket_path);
}

int last_word_leave(const char *socket_path, time_t now, const char *text, struct error *err)
{
    char path[PATH_BYTES], line[FILE_BYTES];
    path_of(socket_path, path);
    int len = snprintf(line, sizeof line, "%lld %.*s\n", (long long)now, LAST_WORD_BYTES - 1, text);
    unlink(path); /* a link or another user's file is not written to */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return socket_file_error(err, "opening", path);
    int code = write(fd, line, (size_t)len) == len ? 0 : socket_file_error(err, "writing to", path);
    close(fd);
    return code;
}

int last_word_clear(const char *socket_path, struct error *err)
{
    char path[PATH_BYTES];
    path_of(socket_path, path);
    return unlink(path) == 0 || errno == ENOENT ? 0 : socket_file_error(err, "removing", path);
}

bool last_word_read(const char *socket_path, time_t *when, char text[LAST_WORD_BYTES])
{
    char path[PATH_BYTES], line[FILE_BYTES], *end;
    path_of(socket_path, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    ssize_t len = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return false;
    line[len] = '\0';
    line[strcspn(line, "\n")] = '\0';
    long long seconds = strtoll(line, &end, 10);
    if (end == line || *end != ' ' || seconds <= 0)
        return false;
    snprintf(text, LAST_WORD_BYTES, "%s", end + 1);
    for (char *byte = text; *byte; byte++)
        *byte = *byte < ' ' || *byte == 0x7f ? '?' : *byte;
    *when = (time_t)seconds;
    return true;
}
