/* test_history.c: proves that a token says exactly what each rank's first n batches and the base are, whatever was
 * delivered, released, taken back, presented and asked for before, and that going on from a token with any number of
 * ranks says it as well. LARDER_SEED sets the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "server/history/history.h"

enum { SAMPLES_MAX = 150, RANKS = 5, BATCHES = 60, CASES = 400, STEPS = 200 };

struct batch {
    uint64_t number;
    uint32_t through;
    uint32_t turns[SAMPLES_MAX], n_turns;
    bool released;
};

/* What the history should know, in the plainest form. */
struct model {
    uint32_t world_size, samples, epoch, base_batches;
    bool ordered;
    uint32_t known;                     /* a rank has lost one after so many batches, and kept a later one */
    bool over[SAMPLES_MAX];             /* the base: indices, or positions of the whole order */
    uint32_t rest[SAMPLES_MAX], n_rest; /* positions that the ranks share, those that they began behind included */
    uint32_t through[RANKS];            /* that they began with */
    struct batch batches[RANKS][BATCHES];
    uint32_t n_batches[RANKS];
    uint64_t numbers;
};

static struct rng rng;
static struct model model;
static struct history *history;

static uint32_t below(uint32_t bound)
{
    return (uint32_t)random_below(&rng, bound);
}

static uint32_t min_has(void)
{
    uint32_t least = BATCHES;
    for (uint32_t i = 0; i < model.world_size; i++)
        least = model.n_batches[i] < least ? model.n_batches[i] : least;
    return least;
}

static uint32_t through_of(uint32_t rank, uint32_t batches)
{
    return batches ? model.batches[rank][batches - 1].through : model.through[rank];
}

/* What is over after so many batches of each rank. */
static void expect_over(uint32_t batches, bool *over)
{
    memcpy(over, model.over, sizeof model.over);
    for (uint32_t rank = 0; rank < model.world_size; rank++) {
        for (uint32_t i = 0; !model.ordered && i < batches; i++) {
            for (uint32_t k = 0; k < model.batches[rank][i].n_turns; k++)
                over[model.batches[rank][i].turns[k]] = true;
        }
        for (uint32_t i = rank; model.ordered && i < model.n_rest; i += model.world_size) {
            if (i / model.world_size < through_of(rank, batches))
                over[model.rest[i]] = true;
        }
    }
}

/* What a record's base says, and the sequences before and behind its last segment. */
static void read_base(const struct record *record, bool *over, uint32_t *before, uint32_t *n_before, uint32_t *after,
                      uint32_t *n_after)
{
    for (uint32_t i = 0; i < record->samples; i++) {
        over[i] = model.ordered ? false : record_turn_over(record, i);
        after[i] = i;
    }
    *n_before = *n_after = record->samples;
    for (uint32_t k = 0; k < record->n_segments; k++) {
        const struct record_segment *segment = &record->segments[k];
        *n_before = *n_after;
        *n_after = 0;
        memcpy(before, after, *n_before * sizeof *before);
        for (uint32_t i = 0; i < *n_before; i++) {
            if (i / segment->world_size < record_through(segment, i % segment->world_size))
                over[before[i]] = true;
            else
                after[(*n_after)++] = before[i];
        }
    }
}

/* ── deeds ── */

static void begin(uint32_t epoch, const struct record *base)
{
    assert_int_equal(history_epoch_begin(history, epoch, base), 0);
    uint32_t before[SAMPLES_MAX], n_before;
    struct record none = {.samples = model.samples};
    model.epoch = epoch;
    model.known = UINT32_MAX;
    model.base_batches = base ? base->batches : 0;
    memset(model.n_batches, 0, sizeof model.n_batches);
    memset(model.through, 0, sizeof model.through);
    read_base(base ? base : &none, model.over, before, &n_before, model.rest, &model.n_rest);
    uint32_t n = base ? base->n_segments : 0;
    if (n == 0 || base->segments[n - 1].world_size != model.world_size)
        return;
    memcpy(model.rest, before, n_before * sizeof *before);
    model.n_rest = n_before;
    for (uint32_t i = 0; i < n_before; i++) /* what the last segment took is taken by the ranks themselves */
        model.over[before[i]] = false;
    for (uint32_t i = 0; i < model.world_size; i++)
        model.through[i] = record_through(&base->segments[n - 1], i);
}

static void make(uint32_t world_size, const struct record *job)
{
    history_destroy(history);
    model.world_size = world_size;
    assert_int_equal(history_create(world_size, job, &history), 0);
}

static bool has_turn(uint32_t index)
{
    for (uint32_t rank = 0; rank < model.world_size; rank++) {
        for (uint32_t i = 0; i < model.n_batches[rank]; i++) {
            for (uint32_t k = 0; k < model.batches[rank][i].n_turns; k++)
                if (model.batches[rank][i].turns[k] == index)
                    return true;
        }
    }
    return model.over[index];
}

static struct batch *draw_batch(uint32_t rank)
{
    struct batch *batch = &model.batches[rank][model.n_batches[rank]];
    batch->number = model.numbers++;
    batch->released = false;
    batch->n_turns = 0;
    uint32_t through = through_of(rank, model.n_batches[rank]) + below(4);
    batch->through = !model.ordered ? 0 : through < model.samples ? through : model.samples;
    for (uint32_t i = below(6); !model.ordered && i > 0; i--) {
        uint32_t index = below(model.samples);
        bool twice = has_turn(index);
        for (uint32_t k = 0; k < batch->n_turns; k++)
            twice = twice || batch->turns[k] == index;
        if (!twice)
            batch->turns[batch->n_turns++] = index;
    }
    model.n_batches[rank]++;
    return batch;
}

static void deliver(uint32_t rank)
{
    if (model.n_batches[rank] == BATCHES)
        return;
    const struct batch *batch = draw_batch(rank);
    struct history_batch told = {
        .number = batch->number, .through = batch->through, .turns = batch->turns, .n_turns = batch->n_turns};
    assert_int_equal(history_delivered(history, rank, &told), 0);
}

/* The oldest, or any. */
static void release(uint32_t rank)
{
    uint32_t n = model.n_batches[rank], at = 0;
    while (at < n && model.batches[rank][at].released)
        at++;
    if (n > 0 && below(10) == 0)
        at = below(n);
    if (at < n) {
        model.batches[rank][at].released = true;
        history_released(history, rank, model.batches[rank][at].number);
    }
    history_released(history, rank, UINT64_MAX - below(100));
}

static void through(uint32_t rank)
{
    history_rank_through(history, rank);
    for (uint32_t i = 0; i < model.n_batches[rank]; i++)
        model.batches[rank][i].released = true;
}

static void go(uint32_t rank)
{
    uint32_t kept = 0, lost = UINT32_MAX;
    history_rank_gone(history, rank);
    for (uint32_t i = 0; i < model.n_batches[rank]; i++) {
        if (!model.batches[rank][i].released) {
            lost = lost < i ? lost : i;
            continue;
        }
        model.batches[rank][kept++] = model.batches[rank][i];
        model.known = lost < model.known ? lost : model.known;
    }
    model.n_batches[rank] = kept;
}

/* The rank says what it has had: what it had, or something new. */
static void present(uint32_t rank)
{
    uint8_t batches[BATCHES * RECORD_BATCH_BYTES], turns[BATCHES * SAMPLES_MAX];
    struct record record = {.world_size = model.world_size, .rank = rank, .history = batches, .turns = turns};
    if (below(2) == 0) {
        model.n_batches[rank] = 0;
        for (uint32_t i = below(BATCHES / 4); i > 0; i--)
            draw_batch(rank);
    }
    record.n_batches = model.n_batches[rank];
    for (uint32_t i = 0; i < record.n_batches; i++) {
        struct batch *batch = &model.batches[rank][i];
        struct record_batch told = {.through = batch->through, .n_turns = batch->n_turns};
        record_batch_put(batches, i, &told);
        batch->released = true;
        batch->number = UINT64_MAX;
        for (uint32_t k = 0; k < batch->n_turns; k++)
            put_u32(&turns[RECORD_TURN_BYTES * record.n_turns++], batch->turns[k]);
    }
    assert_int_equal(history_presented(history, &record), 0);
}

/* ── checks ── */

/* The token in bytes that stay, as a client would get it. */
static bool ask(uint32_t batches, uint8_t *bytes, size_t cap, struct record *out)
{
    bool over[SAMPLES_MAX], said[SAMPLES_MAX];
    uint32_t before[SAMPLES_MAX], after[SAMPLES_MAX], n_before, n_after;
    size_t len_bytes;
    struct record token;
    struct error err;
    int code = history_token(history, batches, &token, &err);
    assert_int_equal(code, batches > model.known ? LARDER_EGONE : 0);
    if (code)
        return false;
    assert_int_equal(record_encode(&token, bytes, cap, &len_bytes), 0);
    assert_int_equal(record_decode(bytes, len_bytes, out, &err), 0);
    assert_int_equal(out->epoch, model.epoch);
    assert_int_equal(out->batches, model.base_batches + batches);
    assert_int_equal(out->samples, model.samples);
    assert_int_equal(out->world_size, 0);
    assert_true(out->dataset[0] == 1 && out->dataset[1] == 2 && out->view[0] == 3 && out->view[1] == 4);
    assert_true(out->seed == 5);
    expect_over(batches, over);
    read_base(out, said, before, &n_before, after, &n_after);
    assert_memory_equal(over, said, model.samples * sizeof *over);
    return true;
}

static uint32_t kept_of(uint32_t rank)
{
    uint32_t kept = 0;
    while (kept < model.n_batches[rank] && model.batches[rank][kept].released)
        kept++;
    return kept;
}

static void check_has(void)
{
    uint32_t epoch;
    assert_true(history_epoch(history, &epoch));
    assert_int_equal(epoch, model.epoch);
    for (uint32_t i = 0; i < model.world_size; i++) {
        assert_int_equal(history_has(history, i), model.n_batches[i]);
        assert_int_equal(history_kept(history, i), kept_of(i));
    }
}

static void one_case(bool ordered)
{
    static uint8_t bytes[1 << 16];
    model.ordered = ordered;
    model.samples = 1 + below(SAMPLES_MAX);
    struct record token, job = {.dataset = {1, 2},
                                .view = {3, 4},
                                .seed = 5,
                                .shuffle = ordered ? SHUFFLE_STRICT : SHUFFLE_DEPENDENT,
                                .samples = model.samples};
    uint32_t epoch;
    make(1 + below(RANKS), &job);
    assert_false(history_epoch(history, &epoch));
    begin(below(3), NULL);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t rank = below(model.world_size), kind = below(1000);
        if (kind < 500) {
            deliver(rank);
        } else if (kind < 800) {
            release(rank);
        } else if (kind < 815) {
            go(rank);
        } else if (kind < 830) {
            through(rank);
        } else if (kind < 840) {
            present(rank);
        } else if (kind < 845) {
            begin(model.epoch + 1, NULL);
        } else if (ask(below(min_has() + 1), bytes, sizeof bytes, &token) && kind < 860) {
            if (below(2))
                make(1 + below(RANKS), &job);
            begin(model.epoch, &token);
        }
        check_has();
    }
}

static void test_random(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CASES; i++)
        one_case(i % 2);
}

/* ── limits ── */

static struct record ordered_job = {.shuffle = SHUFFLE_NONE, .samples = 100000};

static void test_too_many_deals(void **state)
{
    (void)state;
    static uint8_t bytes[1 << 16];
    struct record token;
    struct error err;
    size_t len_bytes;
    for (uint32_t deal = 0; deal <= RECORD_SEGMENTS_MAX; deal++) {
        uint32_t world_size = 1 + deal % 2;
        history_destroy(history);
        assert_int_equal(history_create(world_size, &ordered_job, &history), 0);
        assert_int_equal(history_epoch_begin(history, 7, deal ? &token : NULL), 0);
        for (uint32_t rank = 0; rank < world_size; rank++)
            assert_int_equal(history_delivered(history, rank, &(struct history_batch){.through = 3 + rank}), 0);
        int code = history_token(history, 1, &token, &err);
        assert_int_equal(code, deal < RECORD_SEGMENTS_MAX ? 0 : LARDER_ELIMIT);
        if (code) {
            assert_non_null(strstr(err.text, "epoch 7"));
            return;
        }
        assert_int_equal(record_encode(&token, bytes, sizeof bytes, &len_bytes), 0);
        assert_int_equal(record_decode(bytes, len_bytes, &token, &err), 0);
        assert_int_equal(token.n_segments, deal + 1);
    }
}

/* An epoch of a fixed order that is over: each part is, of what segments of other world sizes leave. */
static void test_an_order_that_is_over(void **state)
{
    (void)state;
    uint8_t three[4], two[8];
    struct record token, base = {.shuffle = SHUFFLE_NONE, .samples = 100, .batches = 6, .n_segments = 2};
    struct error err;
    put_u32(three, 7);
    put_u32(put_u32(two, 4), 4);
    base.segments[0] = (struct record_segment){.world_size = 3, .n = 1, .through = three};
    base.segments[1] = (struct record_segment){.world_size = 2, .n = 2, .through = two};
    const struct {
        uint32_t world_size, n_view, n_segments, first, last;
    } cases[] = {{2, 90, 2, 35, 34}, {2, 61, 2, 20, 20}, {3, 93, 3, 22, 21}, {4, 29, 2, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        history_destroy(history);
        assert_int_equal(history_create(cases[i].world_size, &base, &history), 0);
        assert_int_equal(history_epoch_begin(history, 2, &base), 0);
        assert_int_equal(history_delivered(history, 1, &(struct history_batch){.through = 9}), 0);
        history_epoch_over(history, NULL, cases[i].n_view);
        assert_int_equal(history_has(history, 0), 1);
        assert_int_equal(history_token(history, 1, &token, &err), 0);
        assert_int_equal(token.batches, 7);
        assert_int_equal(token.n_segments, cases[i].n_segments);
        const struct record_segment *last = &token.segments[token.n_segments - 1];
        assert_int_equal(record_through(last, 0), cases[i].first);
        assert_int_equal(record_through(last, last->world_size - 1), cases[i].last);
    }
    history_destroy(history);
    history = NULL;
}

/* The n-th allocation from now fails; 0: none. */
static uint32_t failing;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

static bool fails(void)
{
    return failing > 0 && --failing == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return fails() ? NULL : __real_realloc(ptr, size);
}

/* One of each call; the first code that is not 0. */
static int all_calls(const struct record *job, const struct record *base, struct history **made)
{
    uint32_t turns[3] = {1, 2, 3};
    uint8_t batches[RECORD_BATCH_BYTES], one_turn[RECORD_TURN_BYTES];
    struct record presented = {
        .world_size = 2, .rank = 1, .n_batches = 1, .n_turns = 1, .history = batches, .turns = one_turn};
    record_batch_put(batches, 0, &(struct record_batch){.delivered = 1, .through = 1, .n_turns = 1});
    put_u32(one_turn, 9);
    int code = history_create(2, job, made);
    if (code)
        return code;
    int begun = history_epoch_begin(*made, 4, base);
    int got = history_presented(*made, &presented);
    int had = history_delivered(*made, 0, &(struct history_batch){.through = 3, .turns = turns, .n_turns = 3});
    return begun ? begun : got ? got : had;
}

/* A rank is done when it has released its last batch and all others; what it had is the history of a record. */
static void test_done(void **state)
{
    (void)state;
    const uint32_t turns[] = {4, 9, 2};
    struct record job = {.shuffle = SHUFFLE_DEPENDENT, .samples = 10}, out, holder = job;
    struct history_batch first = {.number = 7, .delivered = 2, .turns = turns, .n_turns = 2},
                         second = {.number = 8, .delivered = 2, .turns = turns + 2, .n_turns = 1};
    uint8_t *bytes;
    size_t at = 0;
    assert_int_equal(history_create(2, &job, &history), 0);
    history_epoch_begin(history, 3, NULL);
    history_delivered(history, 1, &first);
    history_delivered(history, 1, &second);
    history_last(history, 1);
    assert_false(history_is_done(history, 1));
    history_rank_gone(history, 1);
    history_delivered(history, 1, &first);
    history_rank_through(history, 1);
    assert_false(history_is_done(history, 1)); /* what it lost has not come again */
    history_delivered(history, 1, &second);
    history_last(history, 1);
    history_released(history, 1, 8);
    assert_true(history_is_done(history, 1));
    assert_false(history_is_done(history, 0));
    assert_false(history_told(history, 1));
    assert_true(history_told(history, 1));
    assert_int_equal(history_write(history, 1, 5, 8, &bytes, &holder.done_bytes), 0);
    holder.done = bytes;
    assert_true(record_done_next(&holder, &at, &out));
    assert_int_equal(at, holder.done_bytes);
    assert_int_equal(out.rank, 5);
    assert_int_equal(out.world_size, 8);
    assert_int_equal(out.n_batches, 2);
    assert_int_equal(record_batch_get(&out, 1).delivered, 2);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(record_turn(&out, i), turns[i]);
    free(bytes);
    history_epoch_begin(history, 4, NULL);
    assert_false(history_is_done(history, 1));
    history_destroy(history);
    history = NULL;
}

static void test_no_memory(void **state)
{
    (void)state;
    uint8_t set[2] = {16, 0}, through[4] = {1, 0, 0, 0};
    struct record jobs[2] = {{.shuffle = SHUFFLE_DEPENDENT, .samples = 16}, {.shuffle = SHUFFLE_STRICT, .samples = 16}};
    struct record bases[2] = {jobs[0], jobs[1]}, token;
    bases[0].over = set;
    bases[0].over_bytes = sizeof set;
    bases[1].n_segments = 1;
    bases[1].segments[0] = (struct record_segment){.world_size = 3, .n = 1, .through = through};
    for (uint32_t kind = 0; kind < 2; kind++) {
        uint32_t nth = 1;
        for (int code = LARDER_ENOMEM; code; nth++) {
            struct history *made = NULL;
            struct error err;
            failing = nth;
            code = all_calls(&jobs[kind], &bases[kind], &made);
            bool failed = failing == 0;
            failing = 0;
            assert_int_equal(code, failed ? LARDER_ENOMEM : 0);
            if (made && failed) {
                assert_int_equal(history_token(made, 0, &token, &err), LARDER_ENOMEM);
                assert_int_equal(history_epoch_begin(made, 5, NULL), 0); /* this one is known again */
            }
            if (made)
                assert_int_equal(history_token(made, 0, &token, &err), 0);
            history_destroy(made);
        }
        assert_true(nth > 5);
    }
}

/* give gives a rank a batch of these indices. */
static void give(struct history *of, uint32_t rank, const uint32_t *turns, uint32_t n_turns)
{
    const struct history_batch batch = {.delivered = n_turns, .turns = turns, .n_turns = n_turns};
    assert_int_equal(history_delivered(of, rank, &batch), 0);
}

/* assert_copies compares the token's copies with pairs of an index and a rank. */
static void assert_copies(struct history *of, uint32_t batches, const uint32_t *pairs, uint32_t n)
{
    struct record token;
    struct error err;
    assert_int_equal(history_token(of, batches, &token, &err), 0);
    assert_int_equal(token.n_copies, n);
    assert_int_equal(token.copy_ranks, n ? 3 : 0);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(record_copy_get(&token, i).index, pairs[2 * i]);
        assert_int_equal(record_copy_get(&token, i).rank, pairs[2 * i + 1]);
    }
}

/* Of three ranks that get two copies of each sample, tokens say which rank had those of which the other is to come,
 * also of a base of three ranks, and nothing of a base of other ranks. */
static void test_copies(void **state)
{
    (void)state;
    const struct record job = {.samples = 9};
    static const uint32_t first[3][2] = {{0, 1}, {0, 2}, {3, 1}}, second[3][2] = {{2, 4}, {4, 3}, {5, 6}};
    struct history *one = NULL, *next = NULL;
    struct record token;
    struct error err;
    for (struct history **made = &one; made; made = made == &one ? &next : NULL) {
        assert_int_equal(history_create(3, &job, made), 0);
        assert_int_equal(history_count_turns(*made, 2), 0);
    }
    assert_int_equal(history_epoch_begin(one, 0, NULL), 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        give(one, rank, first[rank], 2);
        give(one, rank, second[rank], 2);
    }
    assert_copies(one, 1, (const uint32_t[]){2, 1, 3, 2}, 2);
    assert_copies(one, 2, (const uint32_t[]){5, 2, 6, 2}, 2);
    assert_copies(one, 0, NULL, 0);
    assert_int_equal(history_token(one, 1, &token, &err), 0);
    for (uint32_t ranks = 3; ranks <= 4; ranks++) {
        token.copy_ranks = ranks;
        assert_int_equal(history_epoch_begin(next, 0, &token), 0);
        assert_copies(next, 0, (const uint32_t[]){2, 1, 3, 2}, ranks == 3 ? 2 : 0);
        for (uint32_t rank = 0; rank < 3; rank++)
            give(next, rank, (const uint32_t[]){rank == 0 ? 2 : 6 + rank}, 1);
        assert_copies(next, 1, ranks == 3 ? (const uint32_t[]){3, 2, 7, 1, 8, 2} : (const uint32_t[]){7, 1, 8, 2},
                      ranks == 3 ? 3 : 2);
    }
    history_destroy(one);
    history_destroy(next);
}

int main(void)
{
    const char *given = getenv("LARDER_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 13;
    printf("LARDER_SEED=%llu\n", (unsigned long long)seed);
    random_seed(&rng, seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_too_many_deals),
        cmocka_unit_test(test_an_order_that_is_over),
        cmocka_unit_test(test_done),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_no_memory),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    history_destroy(history);
    return failed;
}
