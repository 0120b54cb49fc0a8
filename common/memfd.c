#include "common/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/larder_err.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

static int fill(int fd, const struct iovec *part, off_t at)
{
    for (size_t done = 0; done < part->iov_len;) {
        ssize_t put = pwrite(fd, (const char *)part->iov_base + done, part->iov_len - done, at + (off_t)done);
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static int failed(const char *what, struct error *err)
{
    int why = errno;
    int code = why == ENOMEM || why == ENOSPC   ? LARDER_ENOMEM
               : why == EMFILE || why == ENFILE ? LARDER_ELIMIT
                                                : LARDER_EIO;
    return error_set(err, code,
                     "%s could not be put into a memfd: %s; free memory, or raise the limit on open files (ulimit -n) "
                     "of the daemon",
                     what, strerror(why));
}

int memfd_sealed(const char *name, const char *what, const struct iovec *parts, int n_parts, int *fd, struct error *err)
{
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), rc = made < 0 ? -1 : 0;
    off_t at = 0;
    for (int i = 0; rc == 0 && i < n_parts; at += (off_t)parts[i++].iov_len)
        rc = fill(made, &parts[i], at);
    if (rc == 0 && fcntl(made, F_ADD_SEALS, SEALS) == 0) {
        *fd = made;
        return 0;
    }
    rc = failed(what, err);
    if (made >= 0)
        close(made);
    return rc;
}
