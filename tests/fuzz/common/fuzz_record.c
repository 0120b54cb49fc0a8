/* fuzz_record.c: proves that no bytes make record_decode read outside them or accept a number out of its bounds, and
 * that a decoded record encodes to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/record.h"
#include "tests/fuzz/fuzz.h"

#define SAMPLES 100

struct parts {
    uint8_t set[2 * (SAMPLES / 8 + 1)], copies[3 * RECORD_COPY_BYTES];
    uint8_t history[3 * RECORD_BATCH_BYTES], turns[9 * RECORD_TURN_BYTES], through[4 * 4];
};

static void add_base(struct record *rec, struct parts *parts)
{
    if (rec->shuffle == SHUFFLE_DEPENDENT) {
        for (uint32_t i = 0; i < SAMPLES; i += 3)
            record_set_add(parts->set, i);
        rec->over = parts->set;
        rec->over_bytes = record_set_bytes(SAMPLES);
        return;
    }
    for (uint32_t i = 0; i < 4; i++)
        put_u32(parts->through + i * 4, 3 + i);
    CHECK(record_add_segment(rec, 2, 1, parts->through) == 0 && record_add_segment(rec, 4, 4, parts->through) == 0);
}

static void add_history(struct record *rec, struct parts *parts)
{
    bool set = rec->shuffle == SHUFFLE_DEPENDENT;
    for (uint32_t i = 0; i < 3; i++)
        record_batch_put(parts->history, i,
                         &(struct record_batch){.delivered = 4, .through = set ? 0 : 4 + i, .n_turns = set ? 3 : 0});
    for (uint32_t i = 0; i < 9; i++)
        put_u32(parts->turns + i * RECORD_TURN_BYTES, 1 + 3 * i);
    rec->world_size = 4;
    rec->rank = 1;
    rec->n_batches = 3;
    rec->n_turns = set ? 9 : 0;
    rec->history = parts->history;
    rec->turns = parts->turns;
}

/* Samples had twice, and who had copies of two of them. */
static void add_copies(struct record *rec, struct parts *parts)
{
    static const struct record_copy copies[] = {{3, 0}, {9, 1}, {9, 2}};
    for (uint32_t i = 0; i < 3; i++)
        record_copy_put(parts->copies, i, &copies[i]);
    record_set_add(parts->set + record_set_bytes(SAMPLES), 9);
    rec->over_bytes = 2 * record_set_bytes(SAMPLES);
    rec->copy_ranks = 4;
    rec->n_copies = 3;
    rec->copies = parts->copies;
}

/* Each kind of shuffle, each with and without a base and a history; with copies; and parts, of each shuffle. */
size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    bool copies = index == 12 || index == 13, part = index >= 14;
    if (index >= 17)
        return 0;
    struct parts parts = {0};
    struct record rec = {.dataset = {1, 2},
                         .view = {3, 4},
                         .seed = 7,
                         .shuffle = copies ? SHUFFLE_DEPENDENT : index % 3,
                         .epoch = 2,
                         .batches = 9,
                         .samples = SAMPLES};
    if (copies || part || (index / 3 & 1))
        add_base(&rec, &parts);
    if (copies)
        add_copies(&rec, &parts);
    if (part)
        rec.part = (struct record_part){1, 2, 4};
    else if (copies ? index & 1 : index / 3 & 2)
        add_history(&rec, &parts);
    size_t len;
    CHECK(record_encode(&rec, buf, cap, &len) == 0);
    return len;
}

/* Everything borrowed from the bytes is read, so that a sanitizer sees what reaches outside. */
static void read_all(const struct record *rec)
{
    uint64_t n_turns = 0;
    uint32_t over = 0;
    if (rec->over_bytes) {
        for (uint32_t i = 0; i < rec->samples; i++)
            over += record_turn_over(rec, i);
    }
    CHECK(over <= rec->samples);
    for (uint32_t i = 0; i < rec->n_copies; i++) {
        struct record_copy copy = record_copy_get(rec, i);
        CHECK(copy.rank < rec->copy_ranks && record_turns_over(rec, copy.index) > 0);
    }
    for (uint32_t i = 0; i < rec->n_segments; i++) {
        for (uint32_t rank = 0; rank < rec->segments[i].world_size; rank++)
            CHECK(record_through(&rec->segments[i], rank) <= rec->samples);
    }
    for (uint32_t i = 0; i < rec->n_batches; i++)
        n_turns += record_batch_get(rec, i).n_turns;
    CHECK(rec->part.of == 0 || (rec->world_size == 0 && rec->n_copies == 0 && rec->part.ranks >= 1 &&
                                rec->part.ranks < rec->part.of && rec->part.first <= rec->part.of - rec->part.ranks));
    CHECK(n_turns == rec->n_turns && rec->rank < (rec->world_size ? rec->world_size : 1));
    for (uint64_t i = 0; i < n_turns; i++)
        CHECK(record_turn(rec, i) < rec->samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record rec;
    struct error err = {0};
    int rc = record_decode(data, size, &rec, &err);
    if (rc) {
        CHECK((rc == LARDER_EFORMAT || rc == LARDER_EVERSION) && err.code == rc && err.text[0]);
        return 0;
    }
    read_all(&rec);
    uint8_t *again = xmalloc(size);
    size_t len = 0;
    CHECK(record_bytes(&rec) == size && record_encode(&rec, again, size, &len) == 0);
    CHECK(len == size && memcmp(again, data, size) == 0);
    free(again);
    return 0;
}
