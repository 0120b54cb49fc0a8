/* history_priv.h: the history of a job, which the files of this folder share. */
#ifndef LARDER_SERVER_HISTORY_HISTORY_PRIV_H
#define LARDER_SERVER_HISTORY_HISTORY_PRIV_H

#include <stddef.h>

#include "server/history/history.h"

struct item {
    uint64_t number;
    uint32_t delivered, through, n_turns;
    bool released;
    size_t first_turn;
};

struct rank {
    struct item *items;
    uint32_t *turns; /* turns of all items, in their order */
    size_t n_items, cap_items, n_turns, cap_turns;
    size_t n_released; /* number of items, from the first on, that are released */
    uint32_t through;  /* before the first item */
    bool last, told;   /* its last batch is among them; others were told that it is done */
};

struct history {
    uint32_t world_size;
    bool ordered;
    bool began, lost; /* lost: what this epoch's tokens need is not known */
    bool whole;       /* all of the epoch is over; then `at` stays 0, and the bitmap has the view */
    uint32_t left;    /* fixed orders, with `whole`: samples left after the base */
    uint32_t known;   /* batches of each rank that `left` counts */
    /* The job, and the base of the running epoch: without its bitmap, and with segments that point to `throughs`. */
    struct record base;
    uint8_t *throughs;
    /* the bitmap of a dependent job */
    uint8_t *over;
    uint32_t *counts; /* in its place, where turns are counted: how many of each index are over */
    size_t over_cap;  /* then `over` has so many bytes, and what the last token had */
    /* How many copies each index has, which go to different ranks; 0: it is not so. The base's copies are in
     * `base_copies`, those of the token that was made last in `copies_out`. */
    uint32_t copies;
    uint8_t *base_copies, *copies_out;
    bool any; /* the base has some index */
    uint32_t at;
    uint8_t here[RECORD_RANKS_MAX * sizeof(uint32_t)]; /* the last segment of the token that was made last */
    struct rank ranks[];
};

/* copies_keep keeps the base's copies, if they are of as many ranks as there are. LARDER_ENOMEM. */
int copies_keep(struct history *history, const struct record *base);
/* copies_write has the token of so many batches say which ranks had the copies of samples of which not all have come.
 * What it points to is the history's, until the next call. LARDER_ENOMEM. */
int copies_write(struct history *history, uint32_t batches, struct record *out, struct error *err);

#endif
