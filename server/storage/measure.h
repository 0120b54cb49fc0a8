/* measure.h: measures the speed of a folder's disk, for `larder bench storage` and `larder plan`. */
#ifndef LARDER_SERVER_STORAGE_MEASURE_H
#define LARDER_SERVER_STORAGE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#define STORAGE_ROUNDS 4   /* 1, 2, 4 and 8 threads */
#define STORAGE_ALIGN 4096 /* Places and lengths of reads are multiples of it, as O_DIRECT wants. */

struct storage_wish {
    const char *path; /* a folder that can be written to */
    uint64_t sample_bytes, file_bytes;
    double seconds; /* length of each round */
};

struct storage_round {
    uint32_t threads;
    double mb_per_s, reads_per_s;
};

struct storage_measured {
    double write_mb_per_s;
    struct storage_round rounds[STORAGE_ROUNDS];
    bool direct; /* reads went past the page cache */
};

/* storage_measure writes a file into the folder, reads pieces of it at random, and removes it. It returns 0, or an
 * errno and in *what the step that failed. */
int storage_measure(const struct storage_wish *wish, struct storage_measured *out, const char **what);

#endif
