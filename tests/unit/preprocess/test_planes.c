/* test_planes.c: blocks of coefficients, written in bit planes and read back by each version. Takes a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "preprocess/decode/planes.h"

#define BLOCKS 64
#define LARGEST ((1 << PLANES_LENGTH_MAX) - 1)

static uint64_t seed = 1;

typedef int16_t block[PLANES_PLACES];

static int16_t draw_value(struct rng *rng, uint32_t largest)
{
    int32_t value = (int32_t)random_below(rng, largest + 1);
    return (int16_t)(random_below(rng, 2) ? -value : value);
}

/* Blocks of each kind: empty, few small ones, many, all as large as can be. Place by place in natural order. */
static void draw_blocks(struct rng *rng, block *blocks)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t some = 1 + (uint32_t)random_below(rng, 70), largest = 1u << random_below(rng, PLANES_LENGTH_MAX + 1);
        memset(blocks[i], 0, sizeof *blocks);
        if (i % 8 == 0)
            continue;
        for (uint32_t place = 0; place < PLANES_PLACES; place++) {
            if (i % 8 == 1)
                blocks[i][place] = (int16_t)(random_below(rng, 2) ? LARGEST : -LARGEST);
            else if (random_below(rng, 70) < some)
                blocks[i][place] = draw_value(rng, largest - 1);
        }
    }
}

static void draw_table(struct rng *rng, struct planes_table *table)
{
    uint8_t bytes[PLANES_TABLE_BYTES], again[PLANES_TABLE_BYTES];
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        uint8_t *kind = bytes + c * (PLANES_TABLE_BYTES / PLANES_CLASSES);
        *kind++ = (uint8_t)(PLANES_LAST_SHIFT_MIN +
                            random_below(rng, PLANES_LAST_SHIFT_MAX - PLANES_LAST_SHIFT_MIN + 1));
        for (uint32_t i = 0; i < PLANES_PLACES / 2; i++)
            kind[i] = (uint8_t)(random_below(rng, PLANES_SHIFT_MAX + 1) | random_below(rng, PLANES_SHIFT_MAX + 1) << 4);
    }
    assert_true(planes_table_read(table, bytes));
    planes_table_write(table, again);
    assert_memory_equal(bytes, again, sizeof bytes);
}

/* A segment in memory that ends where what may be read ends, so that a sanitizer sees what reads farther. */
struct written {
    uint8_t *memory;
    uint64_t bits;
};

static struct written write_blocks(const struct planes_table *table, block *blocks)
{
    struct planes_writer writer = {.bytes = xcalloc(BLOCKS + 1, PLANES_SLACK_BYTES)};
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint64_t before = writer.at;
        assert_true(planes_write(&writer, table, blocks[i]));
        assert_true(writer.at - before <= (PLANES_SLACK_BYTES - 9) * 8);
    }
    struct written written = {.bits = writer.at};
    size_t bytes = (size_t)(writer.at + 7) / 8;
    written.memory = xcalloc(1, bytes + PLANES_SLACK_BYTES);
    memcpy(written.memory, writer.bytes, bytes);
    free(writer.bytes);
    return written;
}

/* Reads all blocks as MCUs of one. */
static bool read_blocks(const struct planes_table *table, const uint8_t *bytes, uint64_t bits, block *blocks)
{
    int16_t(*rows[1])[PLANES_PLACES] = {blocks};
    const struct planes_mcu mcu = {.n_parts = 1, .parts = {{.table = table, .width = 1, .height = 1, .rows = rows}}};
    struct planes_segment segment = {.bytes = bytes, .end = bits};
    memset(blocks, 0xa5, sizeof *blocks * BLOCKS);
    return planes_read(&segment, &mcu, 0, 0, BLOCKS) && planes_done(&segment);
}

/* Whether the blocks end where the bits do, or before. */
static bool all_there(const struct planes_table *table, const uint8_t *bytes, uint64_t bits, block *blocks)
{
    int16_t(*rows[1])[PLANES_PLACES] = {blocks};
    const struct planes_mcu mcu = {.n_parts = 1, .parts = {{.table = table, .width = 1, .height = 1, .rows = rows}}};
    return planes_read(&(struct planes_segment){.bytes = bytes, .end = bits}, &mcu, 0, 0, BLOCKS);
}

/* What is written says differences; what is read are their sums. */
static void add_up(block *blocks)
{
    int16_t sum = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        blocks[i][0] = sum = (int16_t)(sum + blocks[i][0]);
}

/* Proves: with tables that were fitted and with any others, all versions read what was written. One bit less, or one
 * more that is set, is refused. */
static void test_round_trip(void **state)
{
    (void)state;
    static block blocks[BLOCKS], read[BLOCKS];
    static struct planes_table table;
    struct rng rng;
    random_seed(&rng, seed);
    for (int round = 0; round < 200; round++) {
        draw_blocks(&rng, blocks);
        if (round % 2)
            draw_table(&rng, &table);
        else
            assert_true(planes_fit(&table, (const block *)blocks, BLOCKS));
        struct written written = write_blocks(&table, blocks);
        add_up(blocks);
        for (int simd = 0; simd < PLANES_SIMDS; simd++) {
            if (!planes_use((enum planes_simd)simd))
                continue;
            assert_true(read_blocks(&table, written.memory, written.bits, read));
            assert_memory_equal(read, blocks, sizeof blocks);
            assert_false(all_there(&table, written.memory, written.bits - 1, read));
            assert_true(all_there(&table, written.memory, written.bits + 8, read));
            assert_false(read_blocks(&table, written.memory, written.bits + 8, read));
            if (written.bits % 8 == 0)
                continue;
            uint8_t last = written.memory[written.bits / 8];
            written.memory[written.bits / 8] |= 0x80;
            assert_false(read_blocks(&table, written.memory, written.bits + 8 - written.bits % 8, read));
            written.memory[written.bits / 8] = last;
            assert_true(read_blocks(&table, written.memory, written.bits + 8 - written.bits % 8, read));
        }
        free(written.memory);
    }
}

/* All versions say the same of these bits. Gives whether they are valid. */
static bool compare_versions(const struct planes_table *table, const uint8_t *memory, uint64_t bits)
{
    static block first[BLOCKS], read[BLOCKS];
    planes_use(PLANES_PORTABLE);
    bool fine = read_blocks(table, memory, bits, first);
    for (int simd = 1; simd < PLANES_SIMDS; simd++) {
        if (!planes_use((enum planes_simd)simd))
            continue;
        assert_int_equal(read_blocks(table, memory, bits, read), fine);
        assert_memory_equal(read, first, fine ? sizeof first : 0);
    }
    return fine;
}

/* Proves: whatever the bits are, all versions say the same of them, and read no farther than is allowed. Some of what
 * is changed at random is valid, and some is not. */
static void test_garbage(void **state)
{
    (void)state;
    static block blocks[BLOCKS];
    static struct planes_table table;
    struct rng rng;
    uint32_t valid = 0;
    random_seed(&rng, seed + 1);
    for (int round = 0; round < 1000; round++) {
        size_t bytes = 1 + (size_t)random_below(&rng, 4000);
        uint8_t *memory = xmalloc(bytes + PLANES_SLACK_BYTES);
        for (size_t i = 0; i < bytes + PLANES_SLACK_BYTES; i++) /* many ones make long fields */
            memory[i] = (uint8_t)(random_below(&rng, 256) | (round % 4 == 1 ? random_below(&rng, 256) : 0));
        if (round % 4 == 2)
            memset(memory, 0xff, bytes + PLANES_SLACK_BYTES);
        draw_table(&rng, &table);
        compare_versions(&table, memory, bytes * 8);
        free(memory);

        draw_blocks(&rng, blocks);
        struct written written = write_blocks(&table, blocks);
        written.memory[random_below(&rng, written.bits / 8)] ^= (uint8_t)(1u << random_below(&rng, 8));
        valid += compare_versions(&table, written.memory, written.bits);
        free(written.memory);
    }
    assert_in_range(valid, 100, 900);
}

/* Proves: a table with a shift that is too large or too small is refused, and so are coefficients that no baseline JPEG
 * has. */
static void test_refused(void **state)
{
    (void)state;
    static struct planes_table table;
    static block blocks[1];
    uint8_t bytes[PLANES_TABLE_BYTES], room[2 * PLANES_SLACK_BYTES] = {0};
    assert_true(planes_fit(&table, (const block *)blocks, 1));
    planes_table_write(&table, bytes);
    assert_true(planes_table_read(&table, bytes));
    static const struct {
        size_t at;
        uint8_t value;
    } lies[] = {{0, PLANES_LAST_SHIFT_MIN - 1},
                {0, PLANES_LAST_SHIFT_MAX + 1},
                {1, PLANES_DC_SHIFT_MAX + 1},
                {1, (PLANES_SHIFT_MAX + 1) << 4},
                {PLANES_TABLE_BYTES - 1, PLANES_SHIFT_MAX + 1},
                {PLANES_TABLE_BYTES - 1, (PLANES_SHIFT_MAX + 1) << 4}};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        uint8_t true_value = bytes[lies[i].at];
        bytes[lies[i].at] = lies[i].value;
        assert_false(planes_table_read(&table, bytes));
        bytes[lies[i].at] = true_value;
    }
    assert_true(planes_table_read(&table, bytes));
    for (int place = 0; place < PLANES_PLACES; place += PLANES_PLACES - 1) {
        memset(blocks, 0, sizeof blocks);
        blocks[0][place] = -(LARGEST + 1);
        assert_false(planes_write(&(struct planes_writer){.bytes = room}, &table, blocks[0]));
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
