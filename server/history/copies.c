/* copies.c: which rank had which copy of a sample, where the copies of a sample go to different ranks. Tokens list only
 * the copies of samples of which some have come, and not all. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/history/history_priv.h"

int copies_keep(struct history *history, const struct record *base)
{
    if (!base || !base->n_copies || !history->copies || base->copy_ranks != history->world_size)
        return 0;
    size_t bytes = (size_t)base->n_copies * RECORD_COPY_BYTES;
    history->base_copies = malloc(bytes);
    if (!history->base_copies)
        return LARDER_ENOMEM;
    memcpy(history->base_copies, base->copies, bytes);
    history->base.copies = history->base_copies;
    history->base.copy_ranks = base->copy_ranks;
    history->base.n_copies = base->n_copies;
    return 0;
}

/* A copy that a rank had, as a number by which copies are in order. */
static uint64_t numbered(uint32_t index, uint32_t rank)
{
    return (uint64_t)index << 32 | rank;
}

static int in_order(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

/* is_parted tells whether some copies of the index are over, and not all. */
static bool is_parted(const struct history *history, uint32_t index)
{
    return history->counts[index] > 0 && history->counts[index] < history->copies;
}

/* list_copies lists the copies of parted indices: those of the base, and those of the first `batches` batches, the last
 * first, until all are found. A base of other ranks leaves some unknown. It returns how many are listed. */
static size_t list_copies(const struct history *history, uint32_t batches, uint64_t *list, size_t most)
{
    size_t n = 0;
    for (uint32_t i = 0; i < history->base.n_copies; i++) {
        struct record_copy copy = record_copy_get(&history->base, i);
        if (is_parted(history, copy.index))
            list[n++] = numbered(copy.index, copy.rank);
    }
    for (uint32_t at = batches; at > 0 && n < most; at--) {
        for (uint32_t number = 0; number < history->world_size; number++) {
            const struct rank *rank = &history->ranks[number];
            const struct item *item = &rank->items[at - 1];
            for (size_t i = item->first_turn; i < item->first_turn + item->n_turns; i++)
                if (is_parted(history, rank->turns[i]))
                    list[n++] = numbered(rank->turns[i], number);
        }
    }
    CHECK(n <= most); /* each is one of those that were counted */
    return n;
}

int copies_write(struct history *history, uint32_t batches, struct record *out, struct error *err)
{
    size_t most = 0;
    for (uint32_t i = 0; i < out->samples; i++)
        most += is_parted(history, i) ? history->counts[i] : 0;
    uint64_t *list = malloc((most + 1) * sizeof *list);
    uint8_t *copies = malloc((most + 1) * RECORD_COPY_BYTES);
    free(history->copies_out);
    history->copies_out = copies;
    if (!list || !copies) {
        free(list);
        return error_set(err, LARDER_ENOMEM, "no memory for a state of epoch %u: free memory", out->epoch);
    }
    out->n_copies = (uint32_t)list_copies(history, batches, list, most);
    out->copy_ranks = out->n_copies ? history->world_size : 0;
    out->copies = copies;
    qsort(list, out->n_copies, sizeof *list, in_order);
    for (uint32_t i = 0; i < out->n_copies; i++)
        record_copy_put(copies, i, &(struct record_copy){(uint32_t)(list[i] >> 32), (uint32_t)list[i]});
    free(list);
    return 0;
}
