/* Where cells of several sizes can lie: random arenas, against counting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/memory/layout.h"
#include "common/random.h"

enum { UNITS = 300, ZONES_MAX = 4, ROUNDS = 20000 };

static uint64_t seed = 20260131;

struct drawn {
    struct layout layout;
    struct layout_block blocks[UNITS];
    struct layout_zone zones[ZONES_MAX];
};

/* Blocks of random lengths, in the zone of their length if there is one; some stay. */
static void draw(struct drawn *drawn, struct rng *rng)
{
    memset(drawn, 0, sizeof *drawn);
    struct layout *layout = &drawn->layout;
    layout->bytes = UNITS;
    layout->blocks = drawn->blocks;
    layout->zones = drawn->zones;
    layout->n_zones = 1 + (uint32_t)random_below(rng, ZONES_MAX);
    for (uint32_t i = 0; i < layout->n_zones; i++)
        drawn->zones[i] = (struct layout_zone){.bytes = (uint64_t)(ZONES_MAX - i) * 3 - random_below(rng, 3),
                                               .cells = random_below(rng, 40)};
    for (uint64_t at = random_below(rng, 4); at < UNITS;) {
        uint64_t bytes = 1 + random_below(rng, 9);
        if (random_below(rng, 2))
            bytes = drawn->zones[random_below(rng, layout->n_zones)].bytes;
        if (at + bytes > UNITS)
            break;
        struct layout_block *block = &drawn->blocks[layout->n_blocks++];
        *block = (struct layout_block){.offset = at, .bytes = bytes, .zone = LAYOUT_NONE};
        block->fixed = random_below(rng, 3) == 0;
        for (uint32_t i = 0; i < layout->n_zones; i++)
            if (drawn->zones[i].bytes == bytes && random_below(rng, 8) > 0)
                block->zone = i;
        at += bytes + (random_below(rng, 2) ? 0 : random_below(rng, 6));
    }
}

/* Cells for one zone that there can be at the most, in its blocks that stay and between all that do. */
static uint64_t count_most(const struct drawn *drawn, uint32_t zone)
{
    uint64_t most = 0, end = 0;
    for (size_t i = 0; i <= drawn->layout.n_blocks; i++) {
        bool last = i == drawn->layout.n_blocks;
        if (!last && !drawn->blocks[i].fixed)
            continue;
        most += ((last ? UNITS : drawn->blocks[i].offset) - end) / drawn->zones[zone].bytes;
        most += !last && drawn->blocks[i].zone == zone;
        end = last ? UNITS : drawn->blocks[i].offset + drawn->blocks[i].bytes;
    }
    return most;
}

/* Every zone has its cells, none overlaps another or what stays, and exactly what is in the way must go. */
static void check_found(const struct drawn *drawn)
{
    const struct layout *layout = &drawn->layout;
    uint64_t cells[ZONES_MAX] = {0};
    char taken[UNITS] = {0}; /* 'c': by a cell to be made, 'b': by a block that is one or stays */
    for (size_t i = 0; i < layout->n_places; i++) {
        const struct layout_place *place = &layout->places[i];
        cells[place->zone]++;
        for (uint64_t u = place->offset; u < place->offset + drawn->zones[place->zone].bytes; u++) {
            assert_true(u < UNITS && !taken[u]);
            taken[u] = 'c';
        }
    }
    for (size_t i = 0; i < layout->n_blocks; i++) {
        const struct layout_block *block = &layout->blocks[i];
        bool covered = false;
        for (uint64_t u = block->offset; u < block->offset + block->bytes; u++)
            covered = covered || taken[u] == 'c';
        assert_int_equal(covered, block->must_go);
        assert_false(covered && (block->fixed || block->is_cell));
        if (block->is_cell)
            cells[block->zone]++;
    }
    for (uint32_t i = 0; i < layout->n_zones; i++)
        assert_int_equal(cells[i], drawn->zones[i].cells);
}

static void test_cells_are_found_where_there_is_room(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed);
    int found = 0, alone = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static struct drawn drawn;
        draw(&drawn, &rng);
        bool fits = layout_find(&drawn.layout);
        for (uint32_t i = 0; i < drawn.layout.n_zones; i++)
            assert_true(!fits || drawn.zones[i].cells <= count_most(&drawn, i));
        if (drawn.layout.n_zones == 1) {
            alone++;
            assert_int_equal(fits, drawn.zones[0].cells <= count_most(&drawn, 0));
        }
        if (fits)
            check_found(&drawn);
        found += fits;
        free(drawn.layout.places);
    }
    assert_true(found > ROUNDS / 20 && found < ROUNDS * 19 / 20 && alone > ROUNDS / 10);
}

/* In an arena full of blocks of the zone's own size nothing has to go. */
static void test_blocks_of_the_size_become_cells(void **state)
{
    (void)state;
    static struct drawn drawn;
    struct rng rng;
    random_seed(&rng, seed);
    memset(&drawn, 0, sizeof drawn);
    drawn.layout = (struct layout){.bytes = UNITS, .blocks = drawn.blocks, .n_blocks = UNITS / 5};
    drawn.layout.zones = drawn.zones;
    drawn.layout.n_zones = 1;
    drawn.zones[0] = (struct layout_zone){.bytes = 5, .cells = 40};
    for (size_t i = 0; i < UNITS / 5; i++)
        drawn.blocks[i] = (struct layout_block){.offset = 5 * i, .bytes = 5, .fixed = random_below(&rng, 4) == 0};
    assert_true(layout_find(&drawn.layout));
    assert_int_equal(drawn.layout.n_places, 0);
    check_found(&drawn);
    free(drawn.layout.places);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_are_found_where_there_is_room),
        cmocka_unit_test(test_blocks_of_the_size_become_cells),
    };
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
