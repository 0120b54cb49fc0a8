/* faults.h: pread and preadv with faults, for tests linked with --wrap=pread --wrap=preadv. One thread. */
#ifndef LARDER_TESTS_UNIT_CACHE_CATALOG_FAULTS_H
#define LARDER_TESTS_UNIT_CACHE_CATALOG_FAULTS_H

#include <stdint.h>
#include <sys/types.h>

extern struct faults {
    unsigned calls;           /* out: so many reads were made */
    size_t most_bytes;        /* a call gives at most so many; 0: no limit */
    unsigned interrupt_every; /* every so many'th call gives EINTR; 0: none */
    ino_t fail_inode;         /* of this file ... */
    uint64_t fail_offset;     /* ... a read of this byte ... */
    int fail_errno;           /* ... fails so; 0: the file ends there */
    uint64_t fail_len;        /* ... and of so many bytes; 0: all that follow */
} faults;

/* fault_inode returns a file's inode. */
ino_t fault_inode(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
