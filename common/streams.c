#include "common/streams.h"

#include <fcntl.h>
#include <unistd.h>

void streams_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        /* The lowest free number is this one. Without /dev, what can be neither read nor written serves as well. */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0 && open("/", O_PATH) < 0)
            return;
    }
}
