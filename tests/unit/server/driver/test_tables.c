/* test_tables.c: proves that a client is found as what it is, whoever else comes, sits down, leaves, or loses its job.
 * LARDER_SEED sets the seed. */
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
#include "server/driver/tables.h"

enum { CLIENTS = 20000, PLACES = 40, RANKS = 8, STEPS = 200000 };

/* What a client should be. */
enum { NOBODY, COMING, LEFT, SEATED };

static struct tables tables;
static struct {
    int is;
    uint32_t job, rank;
} should[CLIENTS];
static uint64_t seats[PLACES][RANKS]; /* by job and rank: its client and one; 0: nobody */
static bool running[PLACES];
static size_t coming, jobs;

static void check(uint64_t client)
{
    const struct driver_client *row = tables_client(&tables, client);
    assert_true(!row == (should[client].is == NOBODY));
    if (!row)
        return;
    assert_true(row->client == client);
    assert_int_equal(row->phase == CLIENT_SEATED, should[client].is == SEATED);
    assert_int_equal(row->phase == CLIENT_LEFT, should[client].is == LEFT);
    assert_true(row->phase != CLIENT_SEATED || (row->job == should[client].job && row->rank == should[client].rank));
}

static struct registration *make_registration(uint64_t client, uint32_t job, uint32_t rank)
{
    char name[16];
    struct registration *reg = xcalloc(1, sizeof *reg);
    snprintf(name, sizeof name, "job %u", job);
    *reg = (struct registration){.client = client,
                                 .name = xstrdup(name),
                                 .client_name = xstrdup("a client"),
                                 .asked = {.rank = rank, .world_size = RANKS, .weight = 1, .file_fd = -1}};
    return reg;
}

static void sit_down(uint64_t client, uint32_t job, uint32_t rank)
{
    struct registration *reg = make_registration(client, job, rank);
    bool first = !running[job];
    if (first)
        tables_job_begin(&tables, job, reg, 0);
    tables_seat(&tables, job, reg);
    if (!first)
        registration_destroy(reg);
    jobs += first;
    running[job] = true;
    seats[job][rank] = client + 1;
    should[client].is = SEATED;
    should[client].job = job;
    should[client].rank = rank;
}

static void end_job(uint32_t job)
{
    tables_job_end(&tables, job);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (seats[job][rank])
            should[seats[job][rank] - 1].is = NOBODY;
        seats[job][rank] = 0;
    }
    running[job] = false;
    jobs--;
}

/* What the registrar has to say of a client that came: it sits down if there is a seat, and is refused otherwise. */
static void registered(uint64_t client, struct rng *rng)
{
    uint32_t job = (uint32_t)random_below(rng, PLACES), rank = (uint32_t)random_below(rng, RANKS);
    bool left = tables_client_came(&tables, client);
    assert_int_equal(left, should[client].is == LEFT);
    should[client].is = NOBODY;
    coming--;
    if (!left && !seats[job][rank])
        sit_down(client, job, rank);
}

static void leave(uint64_t client)
{
    struct driver_client *row = tables_client(&tables, client);
    if (should[client].is == COMING) {
        row->phase = CLIENT_LEFT;
        should[client].is = LEFT;
        return;
    }
    seats[row->job][row->rank] = 0;
    tables_unseat(&tables, row, true);
    should[client].is = NOBODY;
}

static void check_job(uint32_t job)
{
    char name[16];
    uint32_t attached = 0;
    snprintf(name, sizeof name, "job %u", job);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        attached += seats[job][rank] != 0;
    assert_int_equal(tables_find_job(&tables, name), running[job] ? job : JOBS_MAX);
    assert_int_equal(tables.jobs[job].attached, attached);
}

static void test_clients(void **state)
{
    (void)state;
    const char *text = getenv("LARDER_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) : 7;
    struct rng rng;
    print_message("LARDER_SEED=%llu\n", (unsigned long long)seed);
    random_seed(&rng, seed);
    for (int step = 0; step < STEPS; step++) {
        uint64_t client = random_below(&rng, CLIENTS);
        uint32_t job = (uint32_t)random_below(&rng, PLACES);
        int is = should[client].is;
        if (is == NOBODY) {
            tables_client_comes(&tables, client);
            should[client].is = COMING;
            coming++;
        } else if (is == SEATED || (is == COMING && random_below(&rng, 4) == 0)) {
            leave(client);
        } else {
            registered(client, &rng);
        }
        if (running[job] && random_below(&rng, 50) == 0)
            end_job(job);
        check(client);
        check(random_below(&rng, CLIENTS));
        check_job(job);
        assert_int_equal(tables.n_coming, coming);
        assert_int_equal(tables_count_jobs(&tables, false), jobs);
        assert_int_equal(tables.pipelines[0].jobs, jobs);
    }
    tables_clear(&tables);
    assert_null(tables_client(&tables, 1));
}

/* A cancelled job has its name until it ends, and counts no more as one that lives. */
static void test_cancelled(void **state)
{
    (void)state;
    tables_job_begin(&tables, 3, make_registration(1, 3, 0), 0);
    tables.jobs[3].cancelled = true;
    assert_int_equal(tables_find_job(&tables, "job 3"), 3);
    assert_int_equal(tables_count_jobs(&tables, false), 1);
    assert_int_equal(tables_count_jobs(&tables, true), 0);
    tables_job_end(&tables, 3);
    assert_int_equal(tables_find_job(&tables, "job 3"), JOBS_MAX);
    tables_clear(&tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clients),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
