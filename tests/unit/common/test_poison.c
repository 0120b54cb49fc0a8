/* test_poison.c: what follows for samples from how daemons died, death by death; and that damaged files are refused. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/poison.h"

enum { THREADS = 4 };

/* A daemon after the other: what is known, and the file that the present one writes to. */
struct lives {
    struct poison_notes notes;
    struct poison_record *file;
    struct poison_death death;
};

static size_t file_bytes(const struct lives *lives)
{
    return POISON_FILE_BYTES(lives->notes.count + THREADS);
}

static void begin(struct lives *lives)
{
    free(lives->file);
    lives->file = aligned_alloc(64, (file_bytes(lives) + 63) / 64 * 64);
    assert_non_null(lives->file);
    poison_encode(&lives->notes, THREADS, lives->file);
}

/* A thread of the present daemon has a sample, named by a letter. */
static void work(struct lives *lives, unsigned thread, enum poison_state state, char sample)
{
    struct poison_record *record = (struct poison_record *)((char *)lives->file +
                                                            POISON_FILE_BYTES(lives->notes.count + thread));
    record->id[0] = (uint64_t)sample;
    record->id[1] = 99;
    record->signal = state == POISON_CRASHED ? SIGSEGV : 0;
    snprintf(record->name, sizeof record->name, "/data/%c.jpg", sample);
    atomic_store(&record->state, state);
}

/* The present daemon dies, and the next one begins. */
static void die(struct lives *lives)
{
    struct poison_notes notes = {0};
    struct error err;
    assert_int_equal(poison_learn(lives->file, file_bytes(lives), &notes, &lives->death, &err), 0);
    poison_notes_free(&lives->notes);
    lives->notes = notes;
    begin(lives);
}

/* One thread has the sample when the daemon dies. */
static void die_over(struct lives *lives, enum poison_state state, char sample)
{
    work(lives, 0, state, sample);
    die(lives);
}

/* The present daemon has prepared a suspect. */
static void clear(struct lives *lives, size_t number)
{
    struct poison_record *record = (struct poison_record *)((char *)lives->file + POISON_FILE_BYTES(number));
    assert_int_equal(atomic_exchange(&record->state, POISON_FREE), POISON_NOTED);
}

static const char *verdict(const struct lives *lives, char sample)
{
    for (size_t i = 0; i < lives->notes.count; i++) {
        if (lives->notes.all[i].id[0] == (uint64_t)sample)
            return poison_verdict(&lives->notes.all[i]);
    }
    return "not noted";
}

static int set_up(void **state)
{
    struct lives *lives = calloc(1, sizeof *lives);
    *state = lives;
    begin(lives);
    return 0;
}

static int tear_down(void **state)
{
    struct lives *lives = *state;
    poison_notes_free(&lives->notes);
    free(lives->file);
    free(lives);
    return 0;
}

/* A sample that a thread crashes over twice is poisonous, whatever else was under work, and stays so. */
static void test_crashes(void **state)
{
    struct lives *lives = *state;
    work(lives, 1, POISON_WORK, 'b');
    die_over(lives, POISON_CRASHED, 'a');
    assert_string_equal(verdict(lives, 'a'), "crashed");
    assert_string_equal(verdict(lives, 'b'), "not noted");
    assert_int_equal(lives->death.crashed, 1);
    assert_int_equal(lives->notes.all[0].signal, SIGSEGV);
    work(lives, 2, POISON_ALONE, 'b');
    die_over(lives, POISON_CRASHED, 'a');
    assert_string_equal(verdict(lives, 'a'), "poisonous");
    assert_string_equal(verdict(lives, 'b'), "not noted");
    assert_true(lives->notes.all[0].latest);
    die(lives);
    assert_false(lives->notes.all[0].latest);
    die_over(lives, POISON_WORK, 'c');
    assert_string_equal(verdict(lives, 'a'), "poisonous");
    assert_string_equal(poison_signal(lives->notes.all[0].signal), "SIGSEGV");
}

/* Two threads that crash over one sample in one death count once. */
static void test_one_death_counts_once(void **state)
{
    struct lives *lives = *state;
    work(lives, 1, POISON_CRASHED, 'a');
    die_over(lives, POISON_CRASHED, 'a');
    assert_string_equal(verdict(lives, 'a'), "crashed");
    assert_int_equal(lives->notes.all[0].crashes, 1);
}

/* A sample that was under work when the daemon was killed is a suspect; three deaths in a row while it is prepared
 * alone make it poisonous, and deaths before it is prepared at all none. */
static void test_suspects(void **state)
{
    struct lives *lives = *state;
    work(lives, 1, POISON_WORK, 'b');
    die_over(lives, POISON_WORK, 'a');
    assert_int_equal(lives->death.suspects, 2);
    die(lives);
    assert_int_equal(lives->death.suspects, 0);
    for (int i = 0; i < POISON_DEATHS_MAX; i++) {
        assert_string_equal(verdict(lives, 'a'), "suspect");
        die_over(lives, POISON_ALONE, 'a');
    }
    assert_string_equal(verdict(lives, 'a'), "poisonous");
    assert_string_equal(verdict(lives, 'b'), "suspect");
}

/* A death while no suspect is prepared breaks the row; one while another suspect is does not, or two poisonous files
 * would save each other. Neither does a death that a crash explains. */
static void test_rows(void **state)
{
    struct lives *lives = *state;
    work(lives, 1, POISON_WORK, 'b');
    die_over(lives, POISON_WORK, 'a');
    die_over(lives, POISON_ALONE, 'a');
    die_over(lives, POISON_ALONE, 'a');
    die_over(lives, POISON_WORK, 'c');
    die_over(lives, POISON_ALONE, 'a');
    assert_string_equal(verdict(lives, 'a'), "suspect");
    die_over(lives, POISON_ALONE, 'b');
    die_over(lives, POISON_CRASHED, 'd');
    die_over(lives, POISON_ALONE, 'a');
    assert_string_equal(verdict(lives, 'a'), "suspect");
    die_over(lives, POISON_ALONE, 'a');
    assert_string_equal(verdict(lives, 'a'), "poisonous");
    assert_string_equal(verdict(lives, 'b'), "suspect");
}

/* A suspect that was prepared is none any more, and begins anew. */
static void test_cleared(void **state)
{
    struct lives *lives = *state;
    for (int i = 0; i < 10; i++) {
        die_over(lives, POISON_WORK, 'a');
        die_over(lives, POISON_ALONE, 'a');
        die_over(lives, POISON_ALONE, 'a');
        assert_string_equal(verdict(lives, 'a'), "suspect");
        clear(lives, 0);
        die(lives);
        assert_string_equal(verdict(lives, 'a'), "not noted");
    }
}

/* A sample that a thread has crashed over is poisonous with the next death that is its own, of whatever kind. */
static void test_crash_and_death(void **state)
{
    struct lives *lives = *state;
    die_over(lives, POISON_CRASHED, 'a');
    die_over(lives, POISON_ALONE, 'a');
    assert_string_equal(verdict(lives, 'a'), "poisonous");
}

/* When there is no room, the oldest suspect makes some; what deaths count against stays. */
static void test_full(void **state)
{
    struct lives *lives = *state;
    lives->notes.all = calloc(POISON_NOTES_MAX, sizeof *lives->notes.all);
    lives->notes.count = lives->notes.cap = POISON_NOTES_MAX;
    for (size_t i = 0; i < POISON_NOTES_MAX; i++) {
        lives->notes.all[i].id[0] = 1000 + i;
        lives->notes.all[i].crashes = i != 7;
        strcpy(lives->notes.all[i].name, "x");
    }
    begin(lives);
    work(lives, 1, POISON_CRASHED, 'b');
    die_over(lives, POISON_CRASHED, 'a');
    assert_int_equal(lives->notes.count, POISON_NOTES_MAX);
    assert_int_equal(lives->death.crashed, 1);
    assert_int_equal(lives->death.forgotten, 1);
    assert_string_equal(verdict(lives, 'a'), "crashed");
    assert_int_equal(lives->notes.all[7].id[0], 1008);
}

/* A file that is cut, longer, of another version or not one of ours is refused, and notes nothing. */
static void test_damaged(void **state)
{
    struct lives *lives = *state;
    struct poison_notes notes = {0};
    struct poison_death death;
    struct error err;
    die_over(lives, POISON_CRASHED, 'a');
    size_t len = file_bytes(lives);
    struct poison_header *header = (struct poison_header *)lives->file;
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(poison_learn(lives->file, cut, &notes, &death, &err), LARDER_EFORMAT);
    header->records++;
    assert_int_equal(poison_learn(lives->file, len, &notes, &death, &err), LARDER_EFORMAT);
    header->records = UINT32_MAX;
    assert_int_equal(poison_learn(lives->file, len, &notes, &death, &err), LARDER_EFORMAT);
    header->records = 1 + THREADS;
    header->version++;
    assert_int_equal(poison_learn(lives->file, len, &notes, &death, &err), LARDER_EVERSION);
    header->version--;
    header->magic[0]++;
    assert_int_equal(poison_learn(lives->file, len, &notes, &death, &err), LARDER_EFORMAT);
    header->magic[0]--;
    assert_int_equal(notes.count, 0);
    assert_int_equal(poison_learn(lives->file, len, &notes, &death, &err), 0);
    assert_int_equal(notes.count, 1);
    poison_notes_free(&notes);
}

/* A record whose state is none, or whose name is empty or does not end, means nothing. */
static void test_damaged_records(void **state)
{
    struct lives *lives = *state;
    struct poison_record *records = (struct poison_record *)((char *)lives->file + POISON_FILE_BYTES(0));
    for (unsigned i = 0; i < THREADS; i++)
        work(lives, i, POISON_CRASHED, 'a');
    atomic_store(&records[0].state, POISON_CRASHED + 1);
    atomic_store(&records[1].state, UINT32_MAX);
    records[2].name[0] = '\0';
    memset(records[3].name, 'x', sizeof records[3].name);
    die(lives);
    assert_int_equal(lives->notes.count, 0);
}

/* Names of any length are written with their end, and are shown without what a terminal obeys. */
static void test_names(void **state)
{
    (void)state;
    char long_folder[600], long_key[600], name[POISON_NAME_BYTES], expected[1300];
    for (size_t folder_len = 0; folder_len < sizeof long_folder; folder_len += 7) {
        for (size_t key_len = 1; key_len < sizeof long_key; key_len += 7) {
            memset(long_folder, 'f', sizeof long_folder);
            memset(long_key, 'k', sizeof long_key);
            long_folder[folder_len] = long_key[key_len] = '\0';
            memset(name, '#', sizeof name);
            poison_name(name, long_folder, long_key);
            snprintf(expected, sizeof expected, "%s/%s", long_folder, long_key);
            size_t len = strlen(expected);
            if (len < POISON_NAME_BYTES) {
                assert_string_equal(name, expected);
                continue;
            }
            assert_int_equal(strlen(name), POISON_NAME_BYTES - 1);
            assert_memory_equal(name, "…", strlen("…"));
            assert_string_equal(name + strlen("…"), expected + len - (POISON_NAME_BYTES - 1 - strlen("…")));
        }
    }
    char shown[POISON_NAME_BYTES];
    poison_shown("/d/\033[2J\xff\xc2\x9b-ä\n", shown);
    assert_string_equal(shown, "/d/?[2J?"
                               "?-ä?");
}

/* A person means a sample by its name, by what is shown of it, or by its id. */
static void test_means(void **state)
{
    (void)state;
    const uint64_t id[2] = {0xabc, 0xdef};
    char hex[POISON_HEX_BYTES];
    poison_hex(id, hex);
    assert_string_equal(hex, "0000000000000def0000000000000abc");
    assert_true(poison_means(NULL, id, "/d/\xff"));
    assert_true(poison_means("/d/\xff", id, "/d/\xff"));
    assert_true(poison_means("/d/?", id, "/d/\xff"));
    assert_true(poison_means(hex, id, "/d/\xff"));
    assert_false(poison_means("/d", id, "/d/\xff"));
    assert_false(poison_means("", id, "/d/\xff"));
}

#define LIVES_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIVES_TEST(test_crashes),
        LIVES_TEST(test_one_death_counts_once),
        LIVES_TEST(test_suspects),
        LIVES_TEST(test_rows),
        LIVES_TEST(test_cleared),
        LIVES_TEST(test_crash_and_death),
        LIVES_TEST(test_full),
        LIVES_TEST(test_damaged),
        LIVES_TEST(test_damaged_records),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_means),
    };
    return cmocka_run_group_tests_name("poison", tests, NULL, NULL);
}
