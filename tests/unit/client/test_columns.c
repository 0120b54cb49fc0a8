/* test_columns.c: proves that larder_column_open believes nothing of a column before it has looked at it, and waits no
 * longer than it is told to. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

#define SEALED (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* What the fake daemon answers. */
static struct {
    struct wire_column said;
    uint64_t words[4];
    size_t bytes; /* of the memfd */
    int seals;    /* -1: no memfd comes */
    bool silent;
} column;

static void serve(struct fake_daemon *daemon)
{
    struct wire_message got, answer = {.type = WIRE_COLUMN, .column = column.said};
    while (fake_receive(daemon, &got)) {
        if (got.type != WIRE_COLUMN_GET || column.silent)
            continue;
        int fd = memfd_create("column", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_true(fd >= 0 && write(fd, column.words, column.bytes) == (ssize_t)column.bytes);
        assert_true(column.seals < 0 || fcntl(fd, F_ADD_SEALS, column.seals) == 0);
        answer.seq = got.seq;
        fake_send(daemon, &answer, column.seals < 0 ? -1 : fd);
        close(fd);
    }
}

static int open_column(struct larder_column **out)
{
    struct larder_options options = fake_options();
    fake_init(&fake);
    fake_start(&fake, serve);
    options.socket = fake.path;
    assert_code(larder_open(&options, &loader), 0);
    return larder_column_open(loader, "number", column.silent ? 50 : -1, out);
}

static void reads_what_is_sound(void **unused)
{
    (void)unused;
    struct larder_column *got = NULL;
    column.words[0] = 7;
    column.words[1] = UINT64_MAX;
    column.bytes = 16;
    column.seals = SEALED;
    column.said = (struct wire_column){WIRE_COLUMN_INT64, 2, 1, 16};
    assert_int_equal(open_column(&got), 0);
    assert_int_equal(got->count, 1);
    assert_int_equal(got->width, 2);
    assert_int_equal(got->int64[0], 7);
    assert_int_equal(got->int64[1], -1);
    assert_null(got->float64);
    close_both();
    larder_column_free(&got);
    column.words[0] = 0;
    column.words[1] = 2;
    memcpy(&column.words[2], "ab", 2);
    column.bytes = 18;
    column.said = (struct wire_column){WIRE_COLUMN_TEXT, 1, 1, 18};
    assert_int_equal(open_column(&got), 0);
    assert_memory_equal(got->text + got->offsets[0], "ab", 2);
    larder_column_free(&got);
    close_both();
}

/* Memory that can become shorter or another, that is not as long as it is said to be, or none; and texts that reach
 * outside. */
static void refuses_what_is_not(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t kind;
        uint64_t n_bytes, first, second;
        size_t bytes;
        int seals;
    } rows[] = {
        {WIRE_COLUMN_INT64, 16, 0, 0, 16, 0},
        {WIRE_COLUMN_INT64, 16, 0, 0, 16, SEALED & ~F_SEAL_SHRINK},
        {WIRE_COLUMN_INT64, 16, 0, 0, 16, SEALED & ~F_SEAL_WRITE},
        {WIRE_COLUMN_INT64, 16, 0, 0, 15, SEALED},
        {WIRE_COLUMN_INT64, 16, 0, 0, 17, SEALED},
        {WIRE_COLUMN_INT64, 16, 0, 0, 16, -1},
        {WIRE_COLUMN_TEXT, 24, 0, 9, 24, SEALED},
        {WIRE_COLUMN_TEXT, 24, 1, 8, 24, SEALED},
        {WIRE_COLUMN_TEXT, 24, 0, UINT64_MAX, 24, SEALED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct larder_column *got = NULL;
        bool text = rows[i].kind == WIRE_COLUMN_TEXT;
        column.words[0] = rows[i].first;
        column.words[1] = rows[i].second;
        column.bytes = rows[i].bytes;
        column.seals = rows[i].seals;
        column.said = (struct wire_column){rows[i].kind, 1, text ? 1 : 2, rows[i].n_bytes};
        assert_int_equal(open_column(&got), LARDER_EFORMAT);
        assert_null(got);
        assert_non_null(strstr(larder_last_error(loader), "not what it says"));
        close_both();
    }
}

static void does_not_wait_for_ever(void **unused)
{
    (void)unused;
    struct larder_column *got = NULL;
    column.silent = true;
    assert_int_equal(open_column(&got), LARDER_ETIMEOUT);
    close_both();
    column.silent = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reads_what_is_sound), cmocka_unit_test(refuses_what_is_not),
                                       cmocka_unit_test(does_not_wait_for_ever)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
