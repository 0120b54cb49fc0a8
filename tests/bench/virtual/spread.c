#include "tests/bench/virtual/spread.h"

#include <math.h>
#include <stdlib.h>

#include "common/check.h"

void spread_create(struct spread *spread, uint32_t n_chunks)
{
    *spread = (struct spread){.sum = xcalloc(n_chunks, sizeof *spread->sum),
                              .square = xcalloc(n_chunks, sizeof *spread->square),
                              .in_chunk = xcalloc(n_chunks, sizeof *spread->in_chunk)};
}

void spread_free(struct spread *spread)
{
    free(spread->sum);
    free(spread->square);
    free(spread->in_chunk);
}

void spread_takes(struct spread *spread, uint32_t chunk, double position)
{
    spread->sum[chunk] += position;
    spread->square[chunk] += position * position;
}

void spread_epoch_done(struct spread *spread, uint32_t n_chunks, double n)
{
    double uniform = (n * n - 1) / 12;
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        double k = spread->in_chunk[chunk];
        if (k >= 2) {
            double variance = (spread->square[chunk] - spread->sum[chunk] * spread->sum[chunk] / k) / (k - 1);
            spread->total += uniform > 0 ? sqrt(variance / uniform) : 1;
            spread->counted++;
        }
        spread->sum[chunk] = spread->square[chunk] = 0;
    }
}

double spread_mean(const struct spread *spread)
{
    return spread->counted > 0 ? spread->total / spread->counted : 0;
}
