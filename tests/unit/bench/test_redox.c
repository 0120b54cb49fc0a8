/* The papers' rule, as simulated, is theirs: a home fills its virtual chunks and sends ahead as the algorithms say; it
 * reproduces the four rows of Redox's table 6; and a rule that differs in any one thing misses a row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "tests/bench/virtual/redox_priv.h"

enum { ORDERS = 8 };

static struct redox_result play(const struct redox_settings *settings)
{
    struct redox_result result;
    assert_true(redox_play(settings, &result));
    return result;
}

/* ── by hand ── */

/* Two nodes, chunks of four, two chunks a virtual one; node 0 asks node 1 for slots 4 to 7, called a to d. */
enum { A = 4, B, C, D, SLOTS, AHEAD_MOST = 3, WINDOW = 5 };

struct table {
    struct redox redox;
    uint64_t valid[2], left[4];
    uint32_t lies[SLOTS], ahead[SLOTS], in_windows[SLOTS], window[WINDOW], wants[8];
    struct redox_pair *pair;
};

static void lay(struct table *table)
{
    static const uint32_t wants[] = {A, B, C, C, D, C};
    *table = (struct table){.valid = {0, 0xc}, .left = {0, 0, 0x1, 0x6}, .lies = {[C] = 2, [D] = 2}};
    struct redox *redox = &table->redox;
    redox->settings = (struct redox_settings){
        .nodes = 2, .samples = 16, .chunk = 4, .chunks_a_virtual = 2, .window = WINDOW, .room = AHEAD_MOST};
    random_seed(&redox->rng, 1);
    redox->n_virtual = 2;
    redox->n_slots = SLOTS;
    redox->held = 2;
    redox->valid = table->valid;
    redox->left = table->left;
    redox->lies = table->lies;
    redox->nodes[0].ahead = table->ahead;
    redox->nodes[0].in_windows = table->in_windows;
    table->pair = &redox->nodes[0].pairs[1];
    table->pair->wants = table->wants;
    table->pair->window = table->window;
    table->pair->count = sizeof wants / sizeof *wants;
    for (uint32_t i = 0; i < SLOTS; i++)
        table->ahead[i] = REDOX_NONE;
    for (uint32_t i = 0; i < WINDOW; i++)
        table->window[i] = REDOX_NONE;
    for (uint32_t i = 0; i < table->pair->count; i++)
        table->wants[i] = wants[i];
}

static void assert_window(const struct table *table, const uint32_t expected[WINDOW])
{
    for (int k = 0; k < WINDOW; k++)
        assert_int_equal(table->window[k], expected[k]);
}

/* The paper's example: [(a) b c c' d]: with a come c and d. c' conflicts with c; b is not in memory, and is not read
 * for that. Then [(b) c c' d c'']: both c and d are sent already, and c' and c'' conflict, though b's chunk brought
 * another sample for c. */
static void test_window(void **state)
{
    (void)state;
    struct table table;
    lay(&table);
    assert_int_equal(redox_read_remote(&table.redox, 0, 1), 2);
    assert_window(&table, (uint32_t[]){A, REDOX_NONE, C, REDOX_NONE, D});
    assert_int_equal(table.redox.loads, 1);
    assert_int_equal(table.redox.nodes[0].n_ahead, 2);
    assert_int_equal(table.valid[1], 0);

    assert_int_equal(redox_read_remote(&table.redox, 0, 1), 3);
    assert_window(&table, (uint32_t[]){B, C, REDOX_NONE, D, REDOX_NONE});
    assert_int_equal(table.redox.loads, 2);
    assert_int_equal(table.redox.nodes[0].n_ahead, 2);
    assert_int_equal(table.valid[1], 0x4);

    assert_int_equal(redox_read_remote(&table.redox, 0, 1), 2); /* c, from ahead */
    assert_int_equal(table.redox.requests, 2);
    assert_int_equal(redox_read_remote(&table.redox, 0, 1), 3); /* c', asked for */
    assert_int_equal(table.redox.requests, 3);
    assert_int_equal(redox_read_remote(&table.redox, 0, 1), 2); /* d, from ahead */
    assert_int_equal(table.redox.requests, 3);
    assert_int_equal(table.redox.remote, 5);
    assert_int_equal(table.redox.held, 0);
}

/* A home sends no more than the node has room for. */
static void test_room(void **state)
{
    (void)state;
    struct table table;
    lay(&table);
    table.redox.settings.room = 1;
    redox_read_remote(&table.redox, 0, 1);
    assert_window(&table, (uint32_t[]){A, REDOX_NONE, C, REDOX_NONE, REDOX_NONE});
    assert_int_equal(table.redox.nodes[0].n_ahead, 1);
    assert_int_equal(table.valid[1], 0x8);
}

/* Of two chunks with a sample for the slot, the one that fills more slots is read, if that is the rule. */
static void test_fills_most(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 32; seed++) {
        struct table table;
        lay(&table);
        random_seed(&table.redox.rng, seed);
        table.redox.settings.fills_most = true;
        table.left[2] = 0x9; /* a, d; but d's slot is taken */
        table.left[3] = 0x3; /* a, b */
        assert_int_equal(redox_read_local(&table.redox, A), 3);
        assert_int_equal(table.left[2], 0x9);
        assert_int_equal(table.left[3], 0);
    }
}

/* ── whole epochs ── */

/* A group of one chunk is its own virtual chunk: each is read once. A node alone asks nobody. */
static void test_groups_of_one(void **state)
{
    (void)state;
    struct redox_settings settings = {.nodes = 1, .samples = 6400, .chunk = 64, .chunks_a_virtual = 1, .seed = 1};
    struct redox_result alone = play(&settings);
    assert_true(alone.loads == 1 && alone.remote == 0 && alone.requests == 0);
    settings.nodes = 4;
    struct redox_result four = play(&settings);
    assert_true(four.loads == 1 && four.requests == 1);
    assert_true(fabs(four.remote - .75) < .02);
    settings.window = 1600;
    settings.room = 6400;
    struct redox_result ahead = play(&settings);
    assert_true(ahead.loads == 1 && ahead.requests < .5);
}

/* The same seed gives the same run, another seed another one. A window without room is none. */
static void test_seeds(void **state)
{
    (void)state;
    struct redox_settings settings = {
        .nodes = 3, .samples = 19200, .chunk = 32, .chunks_a_virtual = 5, .window = 100, .room = 200, .seed = 7};
    struct redox_result first = play(&settings), again = play(&settings);
    assert_true(first.loads == again.loads && first.requests == again.requests && first.spread == again.spread);
    settings.seed = 8;
    assert_true(play(&settings).loads != first.loads);
    settings.room = 0;
    assert_true(play(&settings).requests == 1);
}

static void test_bounds(void **state)
{
    (void)state;
    const struct redox_settings good = {.nodes = 2, .samples = 1280, .chunk = 64, .chunks_a_virtual = 2, .seed = 1};
    struct redox_settings bad[] = {good, good, good, good, good, good, good};
    struct redox_result result;
    assert_true(redox_play(&good, &result));
    bad[0].nodes = 0;
    bad[1].nodes = REDOX_NODES_MAX + 1;
    bad[2].chunk = REDOX_CHUNK_MAX + 1;
    bad[3].chunks_a_virtual = 0;
    bad[4].samples = 1281;
    bad[5].samples = 0;
    bad[6].window = REDOX_WINDOW_MAX + 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(redox_play(&bad[i], &result));
}

/* ── the paper's table ── */

/* Whether a figure is within 3 % of what is printed with two decimals, and so may be half a step more or less. */
static bool is_near(double figure, double shown, double printed)
{
    double step = .005 / printed; /* as a part */
    return figure >= .97 * shown * (1 - step) && figure <= 1.03 * shown * (1 + step);
}

static bool reproduces(const struct redox_row *row, const struct redox_settings *settings)
{
    struct redox_result got;
    assert_true(redox_mean(settings, ORDERS, &got));
    double loads = redox_row_loads(row), requests = redox_row_requests(row);
    print_message("%s: %.3f loads (%.3f), %.4f requests (%.4f)\n", row->name, got.loads, loads, got.requests, requests);
    return is_near(got.loads, loads, row->misses) && is_near(got.requests, requests, row->requests) &&
           fabs(redox_off(got.loads, loads)) < .03;
}

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < REDOX_ROWS; i++) {
        struct redox_settings settings = redox_row_settings(&redox_table[i], 1);
        assert_true(reproduces(&redox_table[i], &settings));
    }
}

/* Each differs from the rule in one thing, and misses the row. */
static void test_others_miss(void **state)
{
    (void)state;
    const struct redox_row *last = &redox_table[3];
    struct redox_settings settings = redox_row_settings(last, 1);
    settings.window = 0;
    assert_false(reproduces(last, &settings));
    settings.window = 64;
    assert_false(reproduces(last, &settings));
    settings = redox_row_settings(last, 1);
    settings.room /= 3;
    assert_false(reproduces(last, &settings));
    for (int i = 0; i < REDOX_ROWS; i++) {
        settings = redox_row_settings(&redox_table[i], 1);
        settings.fills_most = !settings.fills_most;
        assert_false(reproduces(&redox_table[i], &settings));
        settings = redox_row_settings(&redox_table[i], 1);
        settings.chunks_a_virtual = 5;
        assert_false(reproduces(&redox_table[i], &settings));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),        cmocka_unit_test(test_room),        cmocka_unit_test(test_fills_most),
        cmocka_unit_test(test_groups_of_one), cmocka_unit_test(test_seeds),       cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_table),         cmocka_unit_test(test_others_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
