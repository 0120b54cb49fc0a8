/* history.c: one bitmap holds the samples of the base and of each rank's first `at` batches. Moving `at` forward adds
 * samples of batches, and moving it back removes them, so that at 0 it is the base again. For an epoch that is over as
 * a whole it holds the view, and does not move. */
#include "server/history/history.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/history/history_priv.h"

#define GROW_FIRST 64

int history_create(uint32_t world_size, const struct record *job, struct history **out)
{
    CHECK(world_size >= 1 && world_size <= RECORD_RANKS_MAX && (!job->part.of || job->part.ranks == world_size));
    bool ordered = job->shuffle != SHUFFLE_DEPENDENT;
    struct history *history = calloc(1, sizeof *history + world_size * sizeof *history->ranks);
    uint8_t *over = ordered ? NULL : calloc((size_t)record_set_bytes(job->samples) + 1, 1);
    if (history == NULL || (over == NULL && !ordered)) {
        free(history);
        free(over);
        return LARDER_ENOMEM;
    }
    history->world_size = world_size;
    history->ordered = ordered;
    history->over = over;
    memcpy(history->base.dataset, job->dataset, sizeof job->dataset);
    memcpy(history->base.view, job->view, sizeof job->view);
    history->base.seed = job->seed;
    history->base.shuffle = job->shuffle;
    history->base.samples = job->samples;
    history->base.part = job->part;
    *out = history;
    return 0;
}

int history_count_turns(struct history *history, uint32_t copies)
{
    CHECK(!history->began && !history->ordered);
    history->copies = copies;
    history->counts = calloc((size_t)history->base.samples + 1, sizeof *history->counts);
    history->over_cap = (size_t)record_set_bytes(history->base.samples) + 1;
    return history->counts ? 0 : LARDER_ENOMEM;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    for (uint32_t i = 0; i < history->world_size; i++) {
        free(history->ranks[i].items);
        free(history->ranks[i].turns);
    }
    free(history->over);
    free(history->counts);
    free(history->base_copies);
    free(history->copies_out);
    free(history->throughs);
    free(history);
}

static struct rank *rank_of(struct history *history, uint32_t rank)
{
    CHECK(rank < history->world_size && history->began);
    return &history->ranks[rank];
}

/* ── the bitmap ── */

static void turn(struct history *history, const struct rank *rank, size_t number, bool over)
{
    const struct item *item = &rank->items[number];
    for (uint32_t i = 0; i < item->n_turns; i++) {
        uint32_t index = rank->turns[item->first_turn + i];
        if (history->counts)
            history->counts[index] += over ? 1 : UINT32_MAX;
        else if (over)
            record_set_add(history->over, index);
        else
            history->over[index / 8] &= (uint8_t) ~(1u << index % 8);
    }
}

/* Moves the bitmap to `at` batches. Going forward, every rank must have them. */
static void move_to(struct history *history, size_t at)
{
    for (; history->at < at; history->at++) {
        for (uint32_t i = 0; i < history->world_size; i++)
            turn(history, &history->ranks[i], history->at, true);
    }
    for (; history->at > at; history->at--) {
        for (uint32_t i = 0; i < history->world_size; i++)
            turn(history, &history->ranks[i], history->at - 1, false);
    }
}

/* ── an epoch ── */

/* ranks_of returns how many ranks the job has, of which some may be at other nodes. */
static uint32_t ranks_of(const struct history *history)
{
    return history->base.part.of ? history->base.part.of : history->world_size;
}

/* went_on returns the last segment of a base, if the job's ranks go on in it; else NULL. */
static const struct record_segment *went_on(const struct history *history, const struct record *base)
{
    uint32_t n = base->n_segments;
    return n && base->segments[n - 1].world_size == ranks_of(history) ? &base->segments[n - 1] : NULL;
}

static int keep_segments(struct history *history, const struct record *base)
{
    size_t bytes = 0;
    uint32_t n = base->n_segments;
    for (uint32_t i = 0; i < n; i++)
        bytes += (size_t)base->segments[i].n * sizeof(uint32_t);
    uint8_t *to = malloc(bytes + 1);
    if (to == NULL)
        return LARDER_ENOMEM;
    history->throughs = to;
    for (uint32_t i = 0; i < n; i++) {
        history->base.segments[i] = base->segments[i];
        history->base.segments[i].through = to;
        memcpy(to, base->segments[i].through, (size_t)base->segments[i].n * sizeof(uint32_t));
        to += (size_t)base->segments[i].n * sizeof(uint32_t);
    }
    history->base.n_segments = n;
    const struct record_segment *last = went_on(history, base);
    for (uint32_t i = 0; last && i < history->world_size; i++)
        history->ranks[i].through = record_through(last, history->base.part.first + i);
    return 0;
}

int history_epoch_begin(struct history *history, uint32_t epoch, const struct record *base)
{
    history->began = true;
    history->lost = history->whole = false;
    history->known = UINT32_MAX;
    record_begin_epoch(&history->base, epoch);
    history->base.batches = base ? base->batches : 0;
    history->at = 0;
    for (uint32_t i = 0; i < history->world_size; i++) {
        struct rank *rank = &history->ranks[i];
        rank->n_items = rank->n_turns = rank->n_released = 0;
        rank->through = 0;
        rank->last = rank->told = false;
    }
    free(history->throughs);
    free(history->base_copies);
    history->throughs = history->base_copies = NULL;
    if (history->ordered) {
        history->lost = base && keep_segments(history, base);
        return history->lost ? LARDER_ENOMEM : 0;
    }
    history->any = base && base->over_bytes > 0;
    for (uint32_t i = 0; history->counts && i < history->base.samples; i++)
        history->counts[i] = history->any ? (uint32_t)record_turns_over(base, i) : 0;
    history->lost = copies_keep(history, base) != 0;
    if (history->counts)
        return history->lost ? LARDER_ENOMEM : 0;
    CHECK(!history->any || base->over_bytes == record_set_bytes(history->base.samples));
    if (history->any)
        memcpy(history->over, base->over, base->over_bytes);
    else
        memset(history->over, 0, record_set_bytes(history->base.samples));
    return 0;
}

bool history_epoch(const struct history *history, uint32_t *epoch)
{
    if (history->began)
        *epoch = history->base.epoch;
    return history->began;
}

/* part_of returns the length of a rank's part of n samples. */
static uint32_t part_of(uint32_t n, uint32_t world_size, uint32_t rank)
{
    return n > rank ? (n - rank - 1) / world_size + 1 : 0;
}

/* left_of returns how many samples the base leaves to parts. A last segment of the job's world size is part of
 * these. */
static uint32_t left_of(const struct history *history, uint32_t samples)
{
    const struct record *base = &history->base;
    for (uint32_t i = 0; i < base->n_segments; i++) {
        const struct record_segment *segment = &base->segments[i];
        uint32_t taken = 0;
        if (segment == went_on(history, base))
            break;
        for (uint32_t rank = 0; rank < segment->world_size; rank++) {
            uint32_t through = record_through(segment, rank), part = part_of(samples, segment->world_size, rank);
            taken += through < part ? through : part;
        }
        samples -= taken;
    }
    return samples;
}

void history_epoch_over(struct history *history, const uint32_t *view, uint32_t n_view)
{
    CHECK(history->began);
    move_to(history, 0);
    history->whole = true;
    history->any = true;
    history->left = left_of(history, n_view);
    for (uint32_t i = 0; i < n_view && !history->ordered && !history->counts; i++)
        record_set_add(history->over, view[i]);
}

/* ── batches ── */

/* Gives the array with room for `need` elements, or NULL; then it stays as it is. */
static void *grow(void *array, size_t size, size_t *cap, size_t need)
{
    size_t more = *cap ? *cap : GROW_FIRST;
    if (need <= *cap)
        return array;
    while (more < need)
        more *= 2;
    void *grown = realloc(array, more * size);
    if (grown)
        *cap = more;
    return grown;
}

static bool make_room(struct rank *rank, size_t n_items, size_t n_turns)
{
    struct item *items = grow(rank->items, sizeof *items, &rank->cap_items, rank->n_items + n_items + 1);
    rank->items = items ? items : rank->items;
    uint32_t *turns = grow(rank->turns, sizeof *turns, &rank->cap_turns, rank->n_turns + n_turns + 1);
    rank->turns = turns ? turns : rank->turns;
    return items && turns;
}

static void add_turn(const struct history *history, struct rank *rank, uint32_t index)
{
    CHECK(index < history->base.samples);
    rank->turns[rank->n_turns++] = index;
}

int history_delivered(struct history *history, uint32_t number, const struct history_batch *batch)
{
    struct rank *rank = rank_of(history, number);
    uint32_t n_turns = history->ordered ? 0 : batch->n_turns;
    if (!make_room(rank, 1, n_turns)) {
        history->lost = true;
        return LARDER_ENOMEM;
    }
    rank->items[rank->n_items++] = (struct item){.number = batch->number,
                                                 .delivered = batch->delivered,
                                                 .through = batch->through,
                                                 .first_turn = rank->n_turns,
                                                 .n_turns = n_turns};
    for (uint32_t i = 0; i < n_turns; i++)
        add_turn(history, rank, batch->turns[i]);
    return 0;
}

int history_presented(struct history *history, const struct record *record)
{
    struct rank *rank = rank_of(history, record->rank);
    move_to(history, 0);
    rank->n_items = rank->n_turns = rank->n_released = 0;
    if (!make_room(rank, record->n_batches, history->ordered ? 0 : record->n_turns)) {
        history->lost = true;
        return LARDER_ENOMEM;
    }
    for (uint32_t i = 0; i < record->n_batches; i++) {
        struct record_batch batch = record_batch_get(record, i);
        rank->items[i] = (struct item){.delivered = batch.delivered,
                                       .through = batch.through,
                                       .first_turn = rank->n_turns,
                                       .n_turns = history->ordered ? 0 : batch.n_turns,
                                       .released = true};
        for (uint32_t k = 0; k < rank->items[i].n_turns; k++)
            add_turn(history, rank, record_turn(record, rank->n_turns));
    }
    rank->n_items = rank->n_released = record->n_batches;
    return 0;
}

void history_forget(struct history *history, uint32_t number)
{
    struct rank *rank = rank_of(history, number);
    move_to(history, 0);
    rank->n_items = rank->n_turns = rank->n_released = 0;
    rank->last = false;
}

void history_released(struct history *history, uint32_t number, uint64_t batch)
{
    struct rank *rank = rank_of(history, number);
    for (size_t i = rank->n_released; i < rank->n_items; i++) {
        if (!rank->items[i].released && rank->items[i].number == batch) {
            rank->items[i].released = true;
            break;
        }
    }
    while (rank->n_released < rank->n_items && rank->items[rank->n_released].released)
        rank->n_released++;
}

void history_rank_through(struct history *history, uint32_t number)
{
    struct rank *rank = rank_of(history, number);
    for (; rank->n_released < rank->n_items; rank->n_released++)
        rank->items[rank->n_released].released = true;
}

void history_rank_gone(struct history *history, uint32_t number)
{
    struct rank *rank = rank_of(history, number);
    size_t kept = rank->n_released;
    if (kept == rank->n_items)
        return;
    rank->last = false; /* its unreleased batches come again */
    if (history->at > kept)
        move_to(history, kept);
    size_t n_turns = rank->items[kept].first_turn, gap = kept;
    for (size_t i = kept; i < rank->n_items; i++) {
        struct item item = rank->items[i];
        if (!item.released)
            continue;
        memmove(&rank->turns[n_turns], &rank->turns[item.first_turn], item.n_turns * sizeof *rank->turns);
        item.first_turn = n_turns;
        n_turns += item.n_turns;
        rank->items[kept++] = item;
        /* The rank counts its batches differently, and `through` says that earlier positions are over too. */
        history->known = gap < history->known ? (uint32_t)gap : history->known;
    }
    rank->n_items = rank->n_released = kept;
    rank->n_turns = n_turns;
}

uint32_t history_has(const struct history *history, uint32_t rank)
{
    CHECK(rank < history->world_size);
    size_t has = history->ranks[rank].n_items;
    for (uint32_t i = 0; history->whole && history->ranks[rank].n_items == 0 && i < history->world_size; i++)
        has = history->ranks[i].n_items > has ? history->ranks[i].n_items : has;
    return (uint32_t)has;
}

uint32_t history_kept(const struct history *history, uint32_t rank)
{
    CHECK(rank < history->world_size);
    return (uint32_t)history->ranks[rank].n_released;
}

/* ── ranks that are done ── */

void history_last(struct history *history, uint32_t rank)
{
    rank_of(history, rank)->last = true;
}

bool history_is_done(const struct history *history, uint32_t number)
{
    CHECK(number < history->world_size);
    const struct rank *rank = &history->ranks[number];
    bool in_order = !history->ordered || history->known == UINT32_MAX; /* otherwise no record can say it */
    return history->began && !history->lost && !history->whole && in_order && rank->last &&
           rank->n_released == rank->n_items;
}

bool history_told(struct history *history, uint32_t rank)
{
    bool before = rank_of(history, rank)->told;
    history->ranks[rank].told = true;
    return before;
}

int history_write(const struct history *history, uint32_t number, uint32_t as, uint32_t ranks, uint8_t **bytes,
                  size_t *len_bytes)
{
    CHECK(number < history->world_size);
    const struct rank *rank = &history->ranks[number];
    size_t len = RECORD_HISTORY_BYTES + rank->n_items * RECORD_BATCH_BYTES + rank->n_turns * RECORD_TURN_BYTES;
    uint8_t *to = malloc(len);
    if (to == NULL)
        return LARDER_ENOMEM;
    *bytes = to;
    *len_bytes = len;
    to = put_u32(put_u32(put_u32(to, ranks), as), (uint32_t)rank->n_items);
    for (size_t i = 0; i < rank->n_items; i++) {
        const struct item *item = &rank->items[i];
        record_batch_put(to, (uint32_t)i, &(struct record_batch){item->delivered, item->through, item->n_turns});
    }
    to += rank->n_items * RECORD_BATCH_BYTES;
    for (size_t i = 0; i < rank->n_turns; i++)
        to = put_u32(to, rank->turns[i]);
    return 0;
}

/* ── tokens ── */

/* stands_at returns how much is over of the part of one of the job's ranks after so many batches. Those at other nodes
 * are where the base has them. */
static uint32_t stands_at(const struct history *history, uint32_t of_all, uint32_t batches)
{
    const struct record_segment *last = went_on(history, &history->base);
    uint32_t i = of_all - history->base.part.first;
    if (i >= history->world_size)
        return last ? record_through(last, of_all) : 0;
    if (history->whole)
        return part_of(history->left, history->world_size, i);
    return batches ? history->ranks[i].items[batches - 1].through : history->ranks[i].through;
}

/* Adds where each rank stands. A segment that takes nothing is left out. */
static int add_segment(struct history *history, uint32_t batches, struct record *out, struct error *err)
{
    bool alike = true;
    uint32_t first = 0, most = 0, ranks = ranks_of(history);
    if (ranks > RECORD_RANKS_MAX)
        return error_set(err, LARDER_ELIMIT,
                         "the job has %u ranks, and in a fixed order a state says of %d at the most where they are in "
                         "an epoch: save it between two epochs",
                         ranks, RECORD_RANKS_MAX);
    for (uint32_t i = 0; i < ranks; i++) {
        uint32_t through = stands_at(history, i, batches);
        put_u32(&history->here[i * sizeof(uint32_t)], through);
        first = i == 0 ? through : first;
        alike = alike && through == first;
        most = through > most ? through : most;
    }
    if (most > 0 && record_add_segment(out, ranks, alike ? 1 : ranks, history->here) != 0)
        return error_set(err, LARDER_ELIMIT,
                         "epoch %u was restored with another number of ranks %d times, which is the most: take the "
                         "state after its end",
                         out->epoch, RECORD_SEGMENTS_MAX);
    return 0;
}

/* write_counts makes sets of the counts: the lowest bits of all, then the next. */
static int write_counts(struct history *history, struct record *out, struct error *err)
{
    uint32_t most = 1, n_sets = 0, bytes = record_set_bytes(out->samples);
    for (uint32_t i = 0; i < out->samples; i++)
        most |= history->counts[i];
    while (n_sets < RECORD_SETS_MAX && most >> n_sets)
        n_sets++;
    size_t all = (size_t)n_sets * bytes;
    uint8_t *over = all > history->over_cap ? realloc(history->over, all) : history->over;
    if (!over)
        return error_set(err, LARDER_ENOMEM, "no memory for a state of epoch %u: free memory", out->epoch);
    history->over_cap = all > history->over_cap ? all : history->over_cap;
    history->over = over;
    memset(over, 0, all);
    for (uint32_t i = 0; i < out->samples; i++) {
        for (uint32_t left = history->counts[i], set = 0; left; left >>= 1, set++)
            if (left & 1)
                record_set_add(over + (size_t)set * bytes, i);
    }
    out->over = over;
    out->over_bytes = (uint32_t)all;
    return 0;
}

int history_token(struct history *history, uint32_t batches, struct record *out, struct error *err)
{
    CHECK(history->began);
    if (history->lost)
        return error_set(err, LARDER_ENOMEM, "no memory for what was delivered of epoch %u: take the state after it",
                         history->base.epoch);
    if (batches > history->known)
        return error_set(err, LARDER_EGONE,
                         "a rank left in epoch %u when it had released a batch and not the one before: start all ranks "
                         "from the last checkpoint, or take the state after the epoch",
                         history->base.epoch);
    for (uint32_t i = 0; i < history->world_size; i++)
        CHECK(history_has(history, i) >= batches);
    *out = history->base;
    out->batches += batches;
    if (history->ordered && !(history->whole && history->base.part.of))
        return add_segment(history, batches, out, err);
    if (history->whole && (history->counts || history->base.part.of))
        return error_set(err, LARDER_EGONE,
                         "what was delivered of epoch %u is known no more: it ended in a daemon before this one; take "
                         "the state after it",
                         history->base.epoch);
    if (!history->whole)
        move_to(history, batches);
    if (history->counts && (batches > 0 || history->any)) {
        int rc = write_counts(history, out, err);
        return rc || !history->copies ? rc : copies_write(history, batches, out, err);
    }
    if (history->counts)
        return 0;
    if (batches > 0 || history->any) {
        out->over = history->over;
        out->over_bytes = record_set_bytes(out->samples);
    }
    return 0;
}
