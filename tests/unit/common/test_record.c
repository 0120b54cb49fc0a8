/* test_record.c: records of every kind go through the codec unchanged and have the layout that is written down; what is
 * cut, altered or beyond a bound is refused with its reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/record.h"

#define CAP 65536

static uint8_t history[4 * RECORD_BATCH_BYTES], turns[8 * RECORD_TURN_BYTES], through[3 * 4];

static const struct record plain = {
    .dataset = {0x0102030405060708u, 2}, .view = {3, 4}, .seed = 5, .epoch = 6, .batches = 7, .samples = 20};

/* A dependent job's record: indices 0, 9 and 19 are over, and rank 1 of 2 has had two batches. */
static struct record of_set(void)
{
    static uint8_t set[3];
    static const uint32_t indices[] = {1, 2, 18};
    struct record rec = plain;
    memset(set, 0, sizeof set);
    record_set_add(set, 0);
    record_set_add(set, 9);
    record_set_add(set, 19);
    record_batch_put(history, 0, &(struct record_batch){.delivered = 2, .n_turns = 2});
    record_batch_put(history, 1, &(struct record_batch){.delivered = 2, .n_turns = 1});
    for (uint32_t i = 0; i < 3; i++)
        put_u32(turns + i * RECORD_TURN_BYTES, indices[i]);
    rec.over = set;
    rec.over_bytes = record_set_bytes(rec.samples);
    rec.world_size = 2;
    rec.rank = 1;
    rec.n_batches = 2;
    rec.n_turns = 3;
    rec.history = history;
    rec.turns = turns;
    return rec;
}

/* The dependent job's, of a dataset whose version is known. */
static struct record of_version(void)
{
    struct record rec = of_set();
    rec.version = (struct dataset_version){.times = {8, 9}, .content = {10, 0}};
    return rec;
}

/* Of copies that go to different ranks: indices 0 and 9 have had one, 19 two, and rank 2 of 3 had both of these. */
static struct record of_copies(void)
{
    static uint8_t sets[6], copies[3 * RECORD_COPY_BYTES];
    static const struct record_copy had[] = {{9, 1}, {19, 2}, {19, 2}};
    struct record rec = of_set();
    memcpy(sets, "\x01\x02\0\0\0\x08", sizeof sets);
    for (uint32_t i = 0; i < 3; i++)
        record_copy_put(copies, i, &had[i]);
    rec.over = sets;
    rec.over_bytes = sizeof sets;
    rec.copy_ranks = 3;
    rec.n_copies = 3;
    rec.copies = copies;
    return rec;
}

/* A dependent job's, of what the ranks 1 and 2 of 3 took. */
static struct record of_part(void)
{
    struct record rec = of_set();
    rec.world_size = rec.rank = rec.n_batches = 0;
    rec.n_turns = 0;
    rec.part = (struct record_part){1, 2, 3};
    return rec;
}

/* A strict job's: first two ranks that were through 4 numbers each, then three through 1, 2 and 0. */
static struct record of_order(void)
{
    static uint8_t alike[4];
    struct record rec = plain;
    rec.shuffle = SHUFFLE_STRICT;
    put_u32(alike, 4);
    put_u32(put_u32(put_u32(through, 1), 2), 0);
    assert_int_equal(record_add_segment(&rec, 2, 1, alike), 0);
    assert_int_equal(record_add_segment(&rec, 3, 3, through), 0);
    record_batch_put(history, 0, &(struct record_batch){.delivered = 2, .through = 3});
    rec.world_size = 3;
    rec.n_batches = 1;
    rec.history = history;
    return rec;
}

static size_t encode(const struct record *rec, uint8_t *buf)
{
    size_t len = 0;
    assert_int_equal(record_encode(rec, buf, CAP, &len), 0);
    assert_int_equal(len, record_bytes(rec));
    return len;
}

static void assert_decodes(const struct record *rec, struct record *out, uint8_t *buf)
{
    struct error err;
    size_t len = encode(rec, buf);
    if (record_decode(buf, len, out, &err))
        fail_msg("%s", err.text);
    assert_memory_equal(out->dataset, rec->dataset, sizeof rec->dataset);
    assert_memory_equal(out->view, rec->view, sizeof rec->view);
    assert_int_equal(out->seed, rec->seed);
    assert_int_equal(out->shuffle, rec->shuffle);
    assert_int_equal(out->epoch, rec->epoch);
    assert_int_equal(out->batches, rec->batches);
    assert_int_equal(out->samples, rec->samples);
    assert_int_equal(out->over_bytes, rec->over_bytes);
    assert_int_equal(out->n_segments, rec->n_segments);
    assert_memory_equal(&out->part, &rec->part, sizeof rec->part);
    assert_int_equal(out->world_size, rec->world_size);
    assert_int_equal(out->rank, rec->rank);
    assert_int_equal(out->n_batches, rec->n_batches);
    assert_int_equal(out->n_turns, rec->n_turns);
}

/* Records of both kinds, with and without base and history, decode to what was encoded. */
static void goes_through_unchanged(void **state)
{
    (void)state;
    static uint8_t buf[CAP];
    struct record set = of_set(), out;
    struct record part = of_part();
    assert_decodes(&part, &out, buf);
    assert_decodes(&set, &out, buf);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(record_turn_over(&out, i), i == 0 || i == 9 || i == 19);
    assert_int_equal(record_batch_get(&out, 1).delivered, 2);
    assert_int_equal(record_batch_get(&out, 1).n_turns, 1);
    assert_int_equal(record_turn(&out, 0), 1);
    assert_int_equal(record_turn(&out, 2), 18);

    struct record version = of_version();
    assert_decodes(&version, &out, buf);
    assert_memory_equal(&out.version, &version.version, sizeof out.version);
    memset(buf + 8, 0, 32); /* a version that is not known is not written */
    assert_int_equal(record_decode(buf, record_bytes(&version), &out, NULL), LARDER_EFORMAT);

    struct record copies = of_copies();
    assert_decodes(&copies, &out, buf);
    assert_int_equal(out.copy_ranks, 3);
    assert_int_equal(out.n_copies, 3);
    assert_memory_equal(out.copies, copies.copies, (size_t)out.n_copies * RECORD_COPY_BYTES);
    assert_int_equal(record_turns_over(&out, 19), 2);

    struct record order = of_order();
    assert_decodes(&order, &out, buf);
    assert_int_equal(out.segments[0].world_size, 2);
    assert_int_equal(record_through(&out.segments[0], 0), 4);
    assert_int_equal(record_through(&out.segments[0], 1), 4);
    assert_int_equal(out.segments[1].world_size, 3);
    assert_int_equal(record_through(&out.segments[1], 1), 2);
    assert_int_equal(record_through(&out.segments[1], 2), 0);
    assert_int_equal(record_batch_get(&out, 0).through, 3);

    assert_decodes(&plain, &out, buf);
    assert_false(record_turn_over(&out, 19));
    order = plain;
    order.shuffle = SHUFFLE_NONE;
    assert_decodes(&order, &out, buf);
    order.epoch = RECORD_EPOCHS_MAX;
    order.batches = 0;
    assert_decodes(&order, &out, buf);
}

static void assert_not_encoded(const struct record *rec, int line)
{
    static uint8_t buf[CAP];
    size_t len = 77;
    if (record_encode(rec, buf, sizeof buf, &len) != LARDER_EINVAL || len != 77)
        fail_msg("line %d", line);
}

/* Histories of ranks that are done come one after the other, and what is none of another rank of the job is refused. */
static void has_ranks_that_are_done(void **state)
{
    (void)state;
    static uint8_t buf[CAP], done[CAP];
    struct record set = of_set(), out, one, of;
    set.world_size = 5;
    of = set;
    const size_t head = record_bytes(&set) - RECORD_HISTORY_BYTES - set.n_batches * RECORD_BATCH_BYTES -
                        set.n_turns * RECORD_TURN_BYTES;
    uint32_t ranks[] = {(set.rank + 1) % set.world_size, (set.rank + 2) % set.world_size};
    size_t at = 0, one_bytes;
    for (int i = 0; i < 2; i++) {
        of.rank = ranks[i];
        one_bytes = encode(&of, buf) - head;
        memcpy(done + set.done_bytes, buf + head, one_bytes);
        set.done = done;
        set.done_bytes += one_bytes;
    }
    assert_decodes(&set, &out, buf);
    assert_int_equal(out.done_bytes, set.done_bytes);
    for (int i = 0; i < 2; i++) {
        assert_true(record_done_next(&out, &at, &one));
        assert_int_equal(one.rank, ranks[i]);
        assert_int_equal(one.n_turns, set.n_turns);
        assert_int_equal(record_turn(&one, 2), record_turn(&set, 2));
        assert_int_equal(one.done_bytes, 0);
    }
    assert_false(record_done_next(&out, &at, &one));
    put_u32(done + 4, set.rank); /* its own */
    assert_not_encoded(&set, __LINE__);
    put_u32(done + 4, ranks[0]);
    put_u32(done, set.world_size + 1);
    assert_not_encoded(&set, __LINE__);
    put_u32(done, set.world_size);
    set.done_bytes--;
    assert_not_encoded(&set, __LINE__);
}

/* The bytes are those of the layout in the header, number by number. */
static void has_the_written_layout(void **state)
{
    (void)state;
    static uint8_t buf[CAP];
    struct record rec = of_set();
    size_t len = encode(&rec, buf);
    assert_int_equal(len, 68 + 3 + 12 + 2 * 12 + 3 * 4);
    assert_memory_equal(buf, "LDRS\x01\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\0\0\0\0\x03", 25);
    assert_int_equal(get_u64(buf + 32), 4);
    assert_int_equal(get_u64(buf + 40), 5);
    assert_int_equal(get_u32(buf + 48), SHUFFLE_DEPENDENT);
    assert_int_equal(get_u32(buf + 52), 6);
    assert_int_equal(get_u32(buf + 56), 7);
    assert_int_equal(get_u32(buf + 60), 20);
    assert_memory_equal(buf + 64, "\x03\0\0\0\x01\x02\x08\x02\0\0\0\x01\0\0\0\x02\0\0\0", 19);
    assert_int_equal(get_u32(buf + len - 4), 18);

    uint8_t unversioned[CAP];
    memcpy(unversioned, buf, len);
    rec = of_version(); /* the same behind its dataset's version */
    assert_int_equal(encode(&rec, buf), len + 32);
    assert_memory_equal(buf, "LDRS\x02\0\0\0\x08\0\0\0\0\0\0\0\x09", 17);
    assert_int_equal(get_u64(buf + 24), 10);
    assert_int_equal(get_u64(buf + 32), 0);
    assert_memory_equal(buf + 40, unversioned + 8, len - 8);

    rec = of_copies();
    assert_int_equal(encode(&rec, buf), len + 32 + 3 + 8 + 3 * 8);
    assert_memory_equal(buf, "LDRS\x03\0\0\0", 8);
    assert_memory_equal(buf + 106, "\x03\0\0\0\x03\0\0\0\x09\0\0\0\x01\0\0\0\x13\0\0\0\x02\0\0\0", 24);

    rec = of_order();
    len = encode(&rec, buf);
    assert_int_equal(get_u16(buf + 6), 1);
    assert_memory_equal(buf + 64, "\x02\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x03\0\0\0\x03\0\0\0\x01\0\0\0\x02\0\0\0",
                        32);
    assert_int_equal(len, 68 + 12 + 20 + 12 + 12);
}

/* A segment of the last one's world size takes its place; another is put behind it, as long as there is room. */
static void adds_segments(void **state)
{
    (void)state;
    struct record rec = of_order();
    uint8_t more[4];
    put_u32(more, 5);
    assert_int_equal(record_add_segment(&rec, 3, 1, more), 0);
    assert_int_equal(rec.n_segments, 2);
    assert_int_equal(record_through(&rec.segments[1], 2), 5);
    while (rec.n_segments < RECORD_SEGMENTS_MAX)
        assert_int_equal(record_add_segment(&rec, 1 + rec.n_segments % 2, 1, more), 0);
    uint32_t last = rec.segments[RECORD_SEGMENTS_MAX - 1].world_size;
    assert_int_equal(record_add_segment(&rec, last + 1, 1, more), LARDER_ELIMIT);
    assert_int_equal(record_add_segment(&rec, last, 1, more), 0);
    assert_int_equal(rec.n_segments, RECORD_SEGMENTS_MAX);
}

/* What is beyond a bound is not encoded. */
static void refuses_beyond_bounds(void **state)
{
    (void)state;
    struct record rec;
#define REFUSES(good, change)               \
    do {                                    \
        rec = good;                         \
        change;                             \
        assert_not_encoded(&rec, __LINE__); \
    } while (0)
    static uint8_t beyond[3] = {0, 0, 0x10}, numbers[3 * 4];
    REFUSES(plain, rec.shuffle = SHUFFLE_NONE + 1);
    REFUSES(of_set(), rec.epoch = RECORD_EPOCHS_MAX);
    REFUSES(of_order(), rec.epoch = RECORD_EPOCHS_MAX);
    REFUSES(plain, (rec.epoch = RECORD_EPOCHS_MAX, rec.batches = 1));
    REFUSES(of_set(), rec.over_bytes = 2);
    REFUSES(of_set(), rec.samples = 25);
    REFUSES(of_set(), rec.over = beyond);
    REFUSES(of_copies(), rec.copy_ranks = 2);
    REFUSES(of_copies(), rec.copy_ranks = RECORD_RANKS_MAX + 1);
    REFUSES(of_copies(), rec.n_copies = 0);
    REFUSES(of_copies(), rec.over_bytes = 3); /* which says that nothing was had of 19 */
    REFUSES(of_copies(), (rec.samples = 17, rec.n_turns = 0, rec.n_batches = 0));
    REFUSES(of_copies(), record_copy_put((uint8_t *)(uintptr_t)rec.copies, 0, &(struct record_copy){19, 2}));
    REFUSES(of_copies(), record_copy_put((uint8_t *)(uintptr_t)rec.copies, 2, &(struct record_copy){19, 1}));
    REFUSES(of_copies(), rec.shuffle = SHUFFLE_NONE);
    REFUSES(of_set(), rec.n_segments = 1);
    REFUSES(of_set(), rec.rank = 2);
    REFUSES(of_set(), rec.world_size = RECORD_ALL_RANKS_MAX + 1);
    REFUSES(of_set(), rec.n_turns = 2);
    REFUSES(of_set(), rec.n_batches = 1);
    REFUSES(of_set(), put_u32(turns, 20));
    REFUSES(of_set(), record_batch_put(history, 0, &(struct record_batch){.delivered = 1, .n_turns = 2}));
    REFUSES(of_set(), record_batch_put(history, 0, &(struct record_batch){.delivered = 2, .through = 1, .n_turns = 2}));
    REFUSES(plain, rec.rank = 1);
    REFUSES(plain, (rec.n_batches = 1, rec.history = history));
    REFUSES(of_order(), rec.n_segments = RECORD_SEGMENTS_MAX + 1);
    REFUSES(of_order(), rec.segments[0].world_size = 0);
    REFUSES(of_order(), (rec.segments[0].world_size = RECORD_RANKS_MAX + 1));
    REFUSES(of_order(), (rec.segments[0] = (struct record_segment){3, 2, numbers}));
    REFUSES(of_order(), put_u32(through, 21));
    REFUSES(of_order(), rec.over_bytes = 3);
    REFUSES(of_order(), record_batch_put(history, 0, &(struct record_batch){.delivered = 2, .through = 21}));
    REFUSES(of_order(), record_batch_put(history, 0, &(struct record_batch){.delivered = 2, .n_turns = 1}));
    record_batch_put(history, 0, &(struct record_batch){.delivered = 1, .through = 3});
    record_batch_put(history, 1, &(struct record_batch){.delivered = 1, .through = 2});
    rec = plain;
    rec.shuffle = SHUFFLE_NONE;
    rec.world_size = 1;
    rec.n_batches = 2;
    rec.history = history;
    assert_not_encoded(&rec, __LINE__);

    uint8_t buf[200];
    size_t len = 77;
    rec = of_set();
    assert_int_equal(record_encode(&rec, buf, record_bytes(&rec) - 1, &len), LARDER_ELIMIT);
    assert_int_equal(len, 77);
}

/* nth returns a record of each version, 0 to 4. */
static struct record nth(size_t i)
{
    return i == 0 ? of_set() : i == 1 ? of_order() : i == 2 ? of_version() : i == 3 ? of_copies() : of_part();
}

/* Every cut, every version but the one known and anything behind the record are refused, each with a text. */
static void refuses_what_is_not_whole(void **state)
{
    (void)state;
    static uint8_t buf[CAP];
    static const struct record_part parts[] = {{0, 0, 3}, {0, 3, 3}, {2, 2, 3}, {0, 1, 65537}, {0, 1, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct record rec = of_part();
        size_t len;
        rec.part = parts[i];
        assert_int_equal(record_encode(&rec, buf, CAP, &len), LARDER_EINVAL);
    }
    for (size_t i = 0; i < 5; i++) {
        struct record rec = nth(i), out;
        size_t len = encode(&rec, buf);
        for (size_t cut = 0; cut <= len + 1; cut++) {
            uint8_t *exact = malloc(cut ? cut : 1);
            struct error err = {0};
            buf[len] = 0;
            memcpy(exact, buf, cut);
            int rc = record_decode(exact, cut, &out, &err);
            assert_int_equal(rc, cut == len ? 0 : LARDER_EFORMAT);
            assert_int_equal(err.text[0] == '\0', cut == len);
            free(exact);
        }
        struct error err = {0};
        put_u16(buf + 4, RECORD_VERSION + 1);
        assert_int_equal(record_decode(buf, len, &out, &err), LARDER_EVERSION);
        assert_non_null(strstr(err.text, "format version 5"));
        put_u16(buf + 4, i == 1 ? RECORD_VERSION_COPIES : RECORD_VERSION_OLDEST); /* no order has copies */
        assert_int_equal(record_decode(buf, len, &out, &err), i ? LARDER_EFORMAT : 0);
        put_u16(buf + 4, (uint16_t)(i > 1 ? i : RECORD_VERSION_OLDEST));
        assert_int_equal(record_decode(buf, len, &out, &err), 0);
        put_u16(buf + 6, 2);
        assert_int_equal(record_decode(buf, len, &out, &err), LARDER_EFORMAT);
        assert_int_equal(record_decode("PK", 2, &out, &err), LARDER_EFORMAT);
        assert_non_null(strstr(err.text, "does not begin"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_through_unchanged), cmocka_unit_test(has_ranks_that_are_done),
        cmocka_unit_test(has_the_written_layout), cmocka_unit_test(adds_segments),
        cmocka_unit_test(refuses_beyond_bounds),  cmocka_unit_test(refuses_what_is_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
