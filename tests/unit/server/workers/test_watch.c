/* test_watch.c: proves that a daemon's file says which sample a thread has crashed over, or was killed over, and that
 * the next one acts on it. Daemons are child processes here, so that they can die. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/poison_file.h"
#include "server/workers/watch.h"
#include "tests/unit/cache/catalog/tree_maker.h"

enum { FILES = 64, THREADS = 4 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
#define SIGNALS (sizeof signals / sizeof *signals)

static char root[TREE_NAME_MAX], folder[TREE_NAME_MAX], path[POISON_PATH_BYTES];
static struct catalog *catalog;
static struct dataset *dataset;

static sample_id nth(uint32_t index)
{
    return dataset_id(dataset, index);
}

static const char *socket_path(void)
{
    static char text[TREE_NAME_MAX + 4];
    snprintf(text, sizeof text, "%s/s", folder);
    return text;
}

/* Reads the file as the next daemon would. */
static void look(struct poison_notes *notes, struct poison_death *death)
{
    void *bytes = NULL;
    size_t len_bytes = 0;
    struct error err;
    assert_int_equal(poison_file_load(path, &bytes, &len_bytes, &err), 0);
    assert_int_equal(poison_learn(bytes, len_bytes, notes, death, &err), 0);
    free(bytes);
}

/* A daemon with so many samples under work, each in a thread's record, dies. */
static int die(uint32_t samples, void (*how)(void))
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < SIGNALS; i++)
            signal(signals[i], SIG_DFL); /* cmocka has taken them, to go on with the next test */
        struct watch *watch = watch_open(socket_path(), FILES);
        for (uint32_t i = 0; watch && i < samples; i++) {
            if (!watch_begin(watch_thread_begin(watch), dataset, nth(i)))
                _exit(10);
        }
        how();
        _exit(11);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_died(int status, int number)
{
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static int raised;

static void raise_it(void)
{
    raise(raised);
}

static void touch_nothing(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
}

static void be_killed(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

static void be_sent_segv(void)
{
    kill(getpid(), SIGSEGV); /* as from another process: no thread's own fault */
    pause();
}

static int set_up(void **state)
{
    (void)state;
    struct error err;
    tree_new(root);
    tree_new(folder);
    for (int i = 0; i < FILES; i++)
        tree_file("the bytes of a sample", "%s/class/%02d.jpg", root, i);
    poison_file_path(socket_path(), path);
    assert_int_equal(catalog_create(NULL, &catalog, &err), 0);
    return catalog_open(catalog, root, &dataset, &err);
}

static int tear_down(void **state)
{
    (void)state;
    dataset_unref(&dataset);
    catalog_destroy(catalog);
    tree_remove(root);
    tree_remove(folder);
    return 0;
}

/* By whatever signal of its own a thread dies, its sample and no other is noted with the signal, and the process ends
 * by it as it would have without a watch. */
static void test_crashes(void **state)
{
    (void)state;
    char name[POISON_NAME_BYTES];
    snprintf(name, sizeof name, "%s/class/01.jpg", root);
    for (size_t i = 0; i <= SIGNALS; i++) {
        struct poison_notes notes = {0};
        struct poison_death death;
        raised = i < SIGNALS ? signals[i] : 0; /* 0: not raised, but come by a fault */
        assert_died(die(2, raised ? raise_it : touch_nothing), raised ? raised : SIGSEGV);
        look(&notes, &death);
        assert_int_equal(death.crashed, 1);
        assert_int_equal(notes.count, 1);
        assert_string_equal(notes.all[0].name, name);
        assert_int_equal(notes.all[0].signal, raised ? raised : SIGSEGV);
        poison_notes_free(&notes);
        assert_int_equal(unlink(path), 0);
    }
}

/* A daemon that is killed, or is sent one of the signals by somebody else, leaves suspects; one whose thread crashes
 * with no sample does so too. */
static void test_killed(void **state)
{
    (void)state;
    static void (*const ways[])(void) = {be_killed, be_sent_segv};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct poison_notes notes = {0};
        struct poison_death death;
        assert_died(die(2, ways[i]), i ? SIGSEGV : SIGKILL);
        look(&notes, &death);
        assert_int_equal(death.crashed, 0);
        assert_int_equal(death.suspects, 2);
        assert_string_equal(poison_verdict(&notes.all[0]), "suspect");
        poison_notes_free(&notes);
        assert_int_equal(unlink(path), 0);
    }
    raised = SIGSEGV;
    assert_died(die(0, raise_it), SIGSEGV);
    struct poison_notes notes = {0};
    struct poison_death death;
    look(&notes, &death);
    assert_int_equal(death.crashed + death.suspects, 0);
}

/* The next daemon refuses a sample after the second crash, prepares others, and takes it again when it is cleared. */
static void test_refused(void **state)
{
    (void)state;
    struct error err;
    raised = SIGABRT;
    for (int i = 0; i < 2; i++)
        assert_died(die(1, raise_it), SIGABRT);
    struct watch *watch = watch_open(socket_path(), THREADS);
    struct watch_thread *thread = watch_thread_begin(watch);
    assert_false(watch_begin(thread, dataset, nth(0)));
    assert_true(watch_begin(thread, dataset, nth(1)));
    watch_end(thread);
    struct poison_notes notes = {0};
    assert_int_equal(watch_list(watch, &notes, &err), 0);
    assert_int_equal(notes.count, 1);
    assert_true(poison_is_bad(&notes.all[0]));
    assert_int_equal(watch_clear(watch, "/nothing", &err), LARDER_ENOENT);
    assert_int_equal(watch_clear(watch, notes.all[0].name, &err), 0);
    assert_int_equal(watch_clear(watch, notes.all[0].name, &err), LARDER_ENOENT);
    assert_int_equal(watch_clear(watch, NULL, &err), 0);
    assert_true(watch_begin(thread, dataset, nth(0)));
    watch_end(thread);
    poison_notes_free(&notes);
    watch_thread_end(thread);
    watch_close(watch);
    assert_int_equal(access(path, F_OK), -1);
}

/* The next daemon prepares all samples and ends. */
static void prepare_each(void)
{
    struct watch *watch = watch_open(socket_path(), THREADS);
    struct watch_thread *thread = watch_thread_begin(watch);
    for (uint32_t i = 0; i < FILES; i++) {
        assert_true(watch_begin(thread, dataset, nth(i)));
        watch_end(thread);
    }
    watch_thread_end(thread);
    watch_close(watch);
}

/* A sample that the daemon was killed over is noted no more when it has been prepared, and then no file is left; one
 * that a thread has crashed over stays noted, in a file for its user alone. */
static void test_cleared(void **state)
{
    (void)state;
    struct stat st;
    assert_died(die(3, be_killed), SIGKILL);
    prepare_each();
    assert_int_equal(access(path, F_OK), -1);
    raised = SIGFPE;
    assert_died(die(1, raise_it), SIGFPE);
    prepare_each();
    struct poison_notes notes = {0};
    struct poison_death death;
    look(&notes, &death);
    assert_int_equal(notes.count, 1);
    assert_int_equal(notes.all[0].crashes, 1);
    poison_notes_free(&notes);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static atomic_uint alone;
static atomic_bool together;

static void *prepare_all(void *watch)
{
    struct watch_thread *thread = watch_thread_begin(watch);
    for (uint32_t i = 0; i < FILES; i++) {
        if (!watch_begin(thread, dataset, nth(i)))
            abort();
        if (atomic_fetch_add(&alone, 1) > 0)
            atomic_store(&together, true);
        sched_yield();
        atomic_fetch_sub(&alone, 1);
        watch_end(thread);
    }
    watch_thread_end(thread);
    return NULL;
}

/* However many threads there are, one suspect at a time is prepared; crashed ones, which are not cleared, show it. */
static void test_alone(void **state)
{
    (void)state;
    struct poison_note all[FILES] = {0};
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < FILES; i++) {
        all[i].crashes = 1;
        dataset_lasting_id(dataset, i, all[i].id);
        poison_name(all[i].name, root, dataset_key(dataset, i));
    }
    const size_t bytes = POISON_FILE_BYTES(FILES);
    void *file = aligned_alloc(64, bytes);
    assert_non_null(file);
    poison_encode(&(struct poison_notes){.all = all, .count = FILES}, 0, file);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(write(fd, file, bytes) == (ssize_t)bytes && close(fd) == 0);
    free(file);
    struct watch *watch = watch_open(socket_path(), THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, prepare_all, watch), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(atomic_load(&together));
    watch_close(watch);
}

/* A sample's id is the same in another process as long as its file is the same, and another one when it is not. */
static void test_lasting_ids(void **state)
{
    (void)state;
    uint64_t ids[FILES][2], again[2];
    struct catalog *other;
    struct dataset *reopened;
    struct error err;
    for (uint32_t i = 0; i < FILES; i++) {
        dataset_lasting_id(dataset, i, ids[i]);
        for (uint32_t j = 0; j < i; j++)
            assert_true(ids[j][0] != ids[i][0] || ids[j][1] != ids[i][1]);
    }
    tree_file("another text", "%s/class/05.jpg", root);
    assert_int_equal(catalog_create(NULL, &other, &err), 0);
    assert_int_equal(catalog_open(other, root, &reopened, &err), 0);
    for (uint32_t i = 0; i < FILES; i++) {
        dataset_lasting_id(reopened, i, again);
        assert_int_equal(memcmp(ids[i], again, sizeof again) != 0, i == 5);
    }
    dataset_unref(&reopened);
    catalog_destroy(other);
}

/* Where there can be no file nothing is watched, and all goes on. Afterwards the signals are whose they were. */
static void test_off(void **state)
{
    (void)state;
    struct sigaction before, after;
    struct error err;
    struct poison_notes notes = {0};
    sigaction(SIGFPE, NULL, &before);
    struct watch *watch = watch_open("/nowhere/at/all/s", THREADS);
    assert_null(watch);
    struct watch_thread *thread = watch_thread_begin(watch);
    assert_true(watch_begin(thread, dataset, nth(0)));
    watch_end(thread);
    watch_thread_end(thread);
    assert_int_equal(watch_list(watch, &notes, &err), LARDER_ENOENT);
    assert_int_equal(watch_clear(watch, NULL, &err), LARDER_ENOENT);
    watch_close(watch);
    watch = watch_open(socket_path(), THREADS);
    assert_non_null(watch);
    watch_close(watch);
    sigaction(SIGFPE, NULL, &after);
    assert_true(before.sa_handler == after.sa_handler);
}

#define WATCH_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WATCH_TEST(test_crashes), WATCH_TEST(test_killed),      WATCH_TEST(test_refused), WATCH_TEST(test_cleared),
        WATCH_TEST(test_alone),   WATCH_TEST(test_lasting_ids), WATCH_TEST(test_off),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
