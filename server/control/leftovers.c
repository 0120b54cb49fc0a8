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

void leftovers_note(struct leftovers *leftovers, const char *address, uint64_t now_ns)
{
    DIR *folder = opendir("/proc/self/fd");
    leftovers->count = 0;
    leftovers->noted_ns = now_ns;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat st;
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || !is_at(fd, address) || fstat(fd, &st) != 0)
            continue;
        leftovers->all = xgrow(leftovers->all, sizeof *leftovers->all, &leftovers->cap, leftovers->count + 1);
        leftovers->all[leftovers->count++] = (struct leftover){.fd = fd, .inode = st.st_ino};
    }
    if (folder)
        closedir(folder);
}

size_t leftovers_close(struct leftovers *leftovers, uint64_t now_ns)
{
    size_t closed = 0;
    if (leftovers->count == 0 || now_ns < leftovers->noted_ns + WAIT_NS)
        return 0;
    for (size_t i = 0; i < leftovers->count; i++) {
        struct stat st;
        int fd = leftovers->all[i].fd;
        if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == leftovers->all[i].inode)
            closed += close(fd) == 0;
    }
    leftovers->count = 0;
    return closed;
}

void leftovers_free(struct leftovers *leftovers)
{
    free(leftovers->all);
    *leftovers = (struct leftovers){0};
}
