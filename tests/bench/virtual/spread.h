/* spread.h: how an epoch's samples of one chunk are spread over the order in which they are given. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SPREAD_H
#define LARDER_TESTS_BENCH_VIRTUAL_SPREAD_H

#include <stdint.h>

struct spread {
    double *sum, *square;  /* of positions, by chunk, this epoch */
    uint32_t *in_chunk;    /* samples that a chunk gives in an epoch; the user sets them before the first one ends */
    double total, counted; /* spreads summed over chunks and epochs; and how many were summed */
};

void spread_create(struct spread *spread, uint32_t n_chunks);
void spread_free(struct spread *spread);
/* spread_takes says that a sample of the chunk is given at this position of the epoch, from 0. */
void spread_takes(struct spread *spread, uint32_t chunk, double position);
/* spread_epoch_done ends an epoch of n samples. The spread of a chunk is the deviation of its positions over that of a
 * full shuffle, which has 1. Chunks with one sample are left out. */
void spread_epoch_done(struct spread *spread, uint32_t n_chunks, double n);
/* spread_mean returns the mean over chunks and epochs; 0: there was none to measure. */
double spread_mean(const struct spread *spread);

#endif
