#include "server/control/leftovers.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"

#define WAIT_NS (10 * CLOCK_NS_PER_S) /* nng takes milliseconds to close what it knows */

static bool is_at(int fd, const char *address)
{
    struct sockaddr_un own = {.sun_family = AF_UNSPEC};
    socklen_t bytes = sizeof own - 1; /* so that the path ends */
    return getsockname(fd, (struct sockaddr *)&own, &bytes) == 0 && own.sun_family == AF_UNIX &&
           strcmp(own.sun_path, address) == 0;
}

static bool is_noted(const struct leftovers *leftovers, int fd, ino_t inode)
{
    for (size_t i = 0; i < leftovers->count; i++) {
        if (leftovers->all[i].fd == fd && leftovers->all[i].inode == inode)
            return true;
    }
    return false;
}

void leftovers_note(struct leftovers *leftovers, const char *address, uint64_t now_ns)
{
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat st;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || !is_at(fd, address) || fstat(fd, &st) != 0 || is_noted(leftovers, fd, st.st_ino))
            continue;
        leftovers->all = xgrow(leftovers->all, sizeof *leftovers->all, &leftovers->cap, leftovers->count + 1);
        leftovers->all[leftovers->count++] = (struct leftover){.fd = fd, .inode = st.st_ino, .noted_ns = now_ns};
    }
    if (folder)
        closedir(folder);
}

size_t leftovers_close(struct leftovers *leftovers, uint64_t now_ns)
{
    size_t closed = 0, kept = 0;
    for (size_t i = 0; i < leftovers->count; i++) {
        struct stat st;
        struct leftover *leftover = &leftovers->all[i];
        if (now_ns < leftover->noted_ns + WAIT_NS)
            leftovers->all[kept++] = *leftover;
        else if (fstat(leftover->fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == leftover->inode)
            closed += close(leftover->fd) == 0;
    }
    leftovers->count = kept;
    return closed;
}

void leftovers_free(struct leftovers *leftovers)
{
    free(leftovers->all);
    *leftovers = (struct leftovers){0};
}
