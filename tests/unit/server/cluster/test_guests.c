/* A home's guests: what each request is answered, and a random anchor over a network that loses and repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "common/random.h"
#include "server/cluster/guests.h"

enum { LEASE_S = 30, PART_MAX = 200, SEEDS = 400, SEQS = 4096, PREP = 77 };
#define SECOND UINT64_C(1000000000)

/* The guests, and an engine that gives the samples of a part in ascending order, in batches. */
struct home {
    struct guests *guests;
    uint64_t now_ns;
    struct guests_action actions[64]; /* of the last step */
    size_t n_actions;
    struct guests_sample samples[1024]; /* that its ANSWERs point to */
    uint64_t guest, resolving;
    uint32_t first, end, credits, batch, out; /* first … end - 1 are still to be given; out: batches not released */
    bool told_last, gone;
    uint32_t predecessor;
    uint64_t bytes; /* of each sample */
};

static void step(struct home *home, struct guests_event event)
{
    const struct guests_action *actions;
    size_t held = 0;
    event.now_ns = home->now_ns;
    home->n_actions = guests_step(home->guests, &event, &actions);
    assert_true(home->n_actions <= 64);
    for (size_t i = 0; i < home->n_actions; i++) {
        struct guests_action *action = &home->actions[i];
        *action = actions[i];
        switch (action->type) {
        case GUESTS_RESOLVE:
            home->resolving = action->guest;
            home->predecessor = action->resolve.predecessor;
            break;
        case GUESTS_ASK: home->credits += action->credits; break;
        case GUESTS_RELEASE:
            assert_true(home->out > 0);
            home->out--;
            break;
        case GUESTS_GONE: home->gone = true; break;
        case GUESTS_ANSWER:
            if (action->answer.kind != GUESTS_BATCH_IS)
                break;
            assert_true(held + action->answer.n_samples <= 1024);
            if (action->answer.n_samples)
                memcpy(home->samples + held, action->answer.samples, action->answer.n_samples * sizeof *home->samples);
            action->answer.samples = home->samples + held;
            held += action->answer.n_samples;
            break;
        }
    }
}

static void begin(struct home *home, uint32_t guests)
{
    struct guests_config config = {.guests = guests, .lease_ns = LEASE_S * SECOND, .prep_id = PREP};
    *home = (struct home){.now_ns = 1, .bytes = 64};
    assert_int_equal(guests_create(&config, &home->guests), 0);
}

static void attach(struct home *home, uint64_t request, uint64_t boot, uint32_t job, uint64_t term, uint32_t count)
{
    step(home, (struct guests_event){.type = GUESTS_ATTACH,
                                     .request = request,
                                     .attach = {.key = {.anchor = {1}, .boot = boot, .job = job},
                                                .term = term,
                                                .prep_id = PREP,
                                                .predecessor = home->guest,
                                                .count = count}});
}

static void added(struct home *home)
{
    step(home, (struct guests_event){.type = GUESTS_ADDED, .guest = home->resolving, .added = {5, GUESTS_HOLD}});
    home->guest = home->resolving;
}

static void next(struct home *home, uint64_t request, uint64_t term, uint64_t seq, uint64_t acked, uint32_t n)
{
    step(home, (struct guests_event){.type = GUESTS_NEXT,
                                     .request = request,
                                     .guest = home->guest,
                                     .next = {.term = term, .seq = seq, .acked = acked, .n = n, .wait_ms = 1000}});
}

static void deliver(struct home *home)
{
    struct guests_sample samples[GUESTS_BATCH];
    uint32_t count = 0;
    home->credits--;
    for (; count < GUESTS_BATCH && home->first < home->end; count++, home->first++)
        samples[count] = (struct guests_sample){.id = home->first, .offset = home->first * 64, .bytes = home->bytes};
    home->told_last = home->first == home->end;
    home->out++;
    step(home, (struct guests_event){
                   .type = GUESTS_DELIVERED,
                   .guest = home->guest,
                   .delivered = {.batch = ++home->batch, .count = count, .samples = samples, .last = home->told_last}});
}

/* The one answer of the last step, to this request. */
static const struct guests_action *answer_to(const struct home *home, uint64_t request, enum guests_answer kind)
{
    const struct guests_action *found = NULL;
    for (size_t i = 0; i < home->n_actions; i++) {
        if (home->actions[i].type == GUESTS_ANSWER && home->actions[i].request == request) {
            assert_null(found);
            found = &home->actions[i];
        }
    }
    assert_non_null(found);
    assert_int_equal(found->answer.kind, kind);
    return found;
}

static void end(struct home *home)
{
    guests_destroy(home->guests);
}

static void test_attach(void **state)
{
    (void)state;
    struct home home;
    begin(&home, 2);
    attach(&home, 1, 9, 0, 3, 20);
    attach(&home, 2, 9, 0, 3, 20); /* again, while the first waits */
    answer_to(&home, 1, GUESTS_EMPTY);
    added(&home);
    assert_int_equal(answer_to(&home, 2, GUESTS_ATTACHED)->answer.count, 20);
    attach(&home, 3, 9, 0, 3, 20); /* and once more: the same guest */
    assert_true(answer_to(&home, 3, GUESTS_ATTACHED)->guest == home.guest);
    attach(&home, 4, 9, 0, 2, 20);
    answer_to(&home, 4, GUESTS_STALE);
    attach(&home, 5, 9, 0, 4, 20); /* a higher term ends what was there */
    assert_false(home.gone);       /* its job stays until the next one has what it had */
    assert_int_equal(home.predecessor, 5);
    next(&home, 6, 3, 1, 0, 8);
    answer_to(&home, 6, GUESTS_IS_GONE);
    added(&home);
    assert_true(home.gone);
    next(&home, 7, 3, 1, 0, 8);
    answer_to(&home, 7, GUESTS_STALE);
    attach(&home, 8, 9, 1, 5, 20);
    attach(&home, 9, 9, 2, 6, 20); /* of two guests there are two */
    assert_int_equal(answer_to(&home, 9, GUESTS_IS_REFUSED)->answer.code, LARDER_ELIMIT);
    attach(&home, 10, 10, 0, 1, 20); /* the anchor has started anew: all of before ends */
    answer_to(&home, 8, GUESTS_STALE);
    assert_int_equal(guests_count(home.guests), 1);
    step(&home, (struct guests_event){.type = GUESTS_REFUSED, .guest = home.resolving, .refused.code = LARDER_ENOENT});
    assert_int_equal(answer_to(&home, 10, GUESTS_IS_REFUSED)->answer.code, LARDER_ENOENT);
    step(&home, (struct guests_event){.type = GUESTS_LEAVE});
    attach(&home, 11, 10, 0, 2, 20);
    assert_int_equal(answer_to(&home, 11, GUESTS_IS_REFUSED)->answer.code, LARDER_EGONE);
    end(&home);
}

/* On a node that leaves, the guest that is there goes on, and ends when the time for that is over. */
static void test_leave(void **state)
{
    (void)state;
    struct home home;
    begin(&home, 2);
    home.end = 20;
    attach(&home, 1, 9, 0, 1, 20);
    added(&home);
    step(&home, (struct guests_event){.type = GUESTS_LEAVE});
    home.now_ns += GUESTS_LEAVE_NS / 2;
    step(&home, (struct guests_event){.type = GUESTS_LEAVE}); /* the first one counts */
    attach(&home, 2, 9, 1, 1, 20);
    answer_to(&home, 2, GUESTS_IS_REFUSED);
    next(&home, 3, 1, 1, 0, 8);
    deliver(&home);
    assert_int_equal(answer_to(&home, 3, GUESTS_BATCH_IS)->answer.n_samples, 8);
    next(&home, 4, 1, 2, 1, 8);
    assert_int_equal(guests_alarm(home.guests), home.now_ns + SECOND); /* that the request waits */
    home.now_ns += GUESTS_LEAVE_NS / 2;
    step(&home, (struct guests_event){.type = GUESTS_TICK});
    answer_to(&home, 4, GUESTS_IS_GONE);
    assert_true(home.gone);
    assert_int_equal(guests_count(home.guests), 0);
    assert_int_equal(guests_cut(home.guests), 1);
    end(&home);
}

static bool is_wanted(const struct home *home)
{
    int cursor = 0;
    const struct guests_key *key = guests_wanted(home->guests, &cursor);
    if (key) {
        assert_int_equal(key->boot, 9);
        assert_null(guests_wanted(home->guests, &cursor));
    }
    return key;
}

/* A guest is wanted until its anchor wants to attach once more, or has not asked for a lease after it had all. */
static void test_wanted(void **state)
{
    (void)state;
    struct home home;
    begin(&home, 2);
    home.end = 8;
    assert_false(is_wanted(&home));
    attach(&home, 1, 9, 0, 1, 8);
    assert_true(is_wanted(&home)); /* the engine has not even got it */
    added(&home);
    assert_true(is_wanted(&home));
    assert_int_equal(guests_count(home.guests), 1);
    next(&home, 2, 1, 1, 0, 8);
    deliver(&home);
    assert_true(answer_to(&home, 2, GUESTS_BATCH_IS)->answer.last);
    assert_true(is_wanted(&home)); /* the answer may be lost, and come again */
    home.now_ns += LEASE_S * SECOND;
    step(&home, (struct guests_event){.type = GUESTS_TICK});
    assert_int_equal(guests_count(home.guests), 1);
    assert_false(is_wanted(&home));
    attach(&home, 3, 9, 1, 1, 8);
    added(&home);
    step(&home, (struct guests_event){.type = GUESTS_LEAVE});
    attach(&home, 4, 9, 1, 1, 8); /* the attachment that is there, again */
    answer_to(&home, 4, GUESTS_ATTACHED);
    assert_true(is_wanted(&home));
    assert_int_equal(guests_behind(home.guests), 2); /* and the one before, which stays */
    attach(&home, 5, 9, 1, 2, 8);
    assert_int_equal(answer_to(&home, 5, GUESTS_IS_REFUSED)->answer.code, LARDER_EGONE);
    assert_false(is_wanted(&home));
    assert_int_equal(guests_count(home.guests), 2);
    assert_int_equal(guests_behind(home.guests), 1);
    assert_int_equal(guests_cut(home.guests), 0);
    end(&home);
}

/* The engine's answer comes when the guest has ended: the engine's job ends too. */
static void test_added_too_late(void **state)
{
    (void)state;
    struct home home;
    begin(&home, 2);
    attach(&home, 1, 9, 0, 1, 20);
    home.now_ns += LEASE_S * SECOND;
    step(&home, (struct guests_event){.type = GUESTS_TICK});
    answer_to(&home, 1, GUESTS_STALE);
    assert_false(home.gone);
    added(&home);
    assert_true(home.gone);
    end(&home);
}

static void test_next(void **state)
{
    (void)state;
    struct home home;
    begin(&home, 2);
    attach(&home, 1, 9, 0, 1, 20);
    added(&home);
    home.end = 20;
    next(&home, 2, 1, 1, 0, 8);
    assert_true(home.credits >= 1);
    deliver(&home);
    assert_int_equal(answer_to(&home, 2, GUESTS_BATCH_IS)->answer.n_samples, 8);
    next(&home, 3, 1, 1, 0, 8); /* its answer was lost: the same again */
    assert_int_equal(answer_to(&home, 3, GUESTS_BATCH_IS)->answer.samples[7].id, 7);
    next(&home, 4, 1, 2, 1, 8); /* acknowledged: the engine has the batch back */
    assert_int_equal(home.out, 0);
    next(&home, 5, 1, 1, 1, 8); /* what was acknowledged is not kept */
    answer_to(&home, 5, GUESTS_EMPTY);
    next(&home, 6, 1, 2, 1, 8); /* takes the place of the one that waits */
    answer_to(&home, 4, GUESTS_EMPTY);
    home.now_ns += SECOND; /* nothing came in time */
    assert_true(guests_alarm(home.guests) <= home.now_ns);
    step(&home, (struct guests_event){.type = GUESTS_TICK});
    answer_to(&home, 6, GUESTS_EMPTY);
    deliver(&home);
    deliver(&home);
    step(&home, (struct guests_event){.type = GUESTS_BAD, .guest = home.guest, .bad = {77, BAD_CORRUPT}});
    next(&home, 7, 1, 3, 1, 20); /* all that there is, the bad one last */
    const struct guests_action *last = answer_to(&home, 7, GUESTS_BATCH_IS);
    assert_true(last->answer.last && last->answer.n_samples == 13 && last->answer.samples[12].reason == BAD_CORRUPT);
    next(&home, 8, 1, 4, 3, 0);
    answer_to(&home, 8, GUESTS_EMPTY);    /* a request for nothing */
    next(&home, 11, 1, 5, UINT64_MAX, 4); /* nobody can have what was not given */
    assert_true(answer_to(&home, 11, GUESTS_BATCH_IS)->answer.last);
    assert_int_equal(home.out, 0);
    step(&home, (struct guests_event){.type = GUESTS_DETACH, .request = 9, .guest = home.guest, .detach.term = 1});
    answer_to(&home, 9, GUESTS_DONE);
    step(&home, (struct guests_event){.type = GUESTS_DETACH, .request = 10, .guest = home.guest, .detach.term = 1});
    answer_to(&home, 10, GUESTS_DONE);
    assert_true(home.gone && guests_count(home.guests) == 0);
    end(&home);
}

/* An anchor that asks at random, and loses answers: what it has of the answers is each sample once, whatever came
 * twice; nothing is held that it has acknowledged; and what is held is bounded. */
static void anchor(uint64_t seed)
{
    struct home home;
    struct rng rng;
    static uint32_t content[SEQS][2]; /* of each answer: how many samples, and a sum of their ids */
    bool had[PART_MAX] = {false}, answered[SEQS] = {false};
    uint64_t acked = 0, seq = 0, request = 10;
    uint32_t n_had = 0;
    random_seed_keys(&rng, seed, 5, 0, 0);
    begin(&home, 4);
    uint32_t count = 1 + (uint32_t)random_below(&rng, PART_MAX);
    attach(&home, 1, 9, 0, 1, count);
    added(&home);
    home.end = count;
    for (uint32_t round = 0; n_had < count; round++) {
        assert_true(round < 100000);
        home.now_ns += random_below(&rng, SECOND / 10);
        uint64_t dice = random_below(&rng, 10);
        if (dice < 4 && home.credits && !home.told_last) {
            deliver(&home);
        } else if (dice < 8 && seq + 1 < SEQS) {
            while (acked < seq && answered[acked + 1])
                acked++;
            uint64_t ahead = seq - acked, again = ahead ? acked + 1 + random_below(&rng, ahead) : 0;
            uint64_t which = ahead >= GUESTS_ASKED_MAX || (again && random_below(&rng, 3) == 0) ? again : ++seq;
            next(&home, request++, 1, which, random_below(&rng, 4) ? acked : 0, 1 + (uint32_t)random_below(&rng, 32));
        } else {
            step(&home, (struct guests_event){.type = GUESTS_TICK});
        }
        for (size_t i = 0; i < home.n_actions; i++) {
            const struct guests_action *action = &home.actions[i];
            if (action->type != GUESTS_ANSWER || action->answer.kind != GUESTS_BATCH_IS)
                continue;
            uint32_t sum = 0, n = action->answer.n_samples;
            for (uint32_t at = 0; at < n; at++)
                sum += action->answer.samples[at].id + 1;
            uint32_t *known = content[action->answer.seq];
            if (answered[action->answer.seq])
                assert_true(known[0] == n && known[1] == sum);
            known[0] = n;
            known[1] = sum;
            if (random_below(&rng, 4) == 0 && !answered[action->answer.seq]) {
                continue; /* lost: it is asked for again */
            }
            for (uint32_t at = 0; at < n && !answered[action->answer.seq]; at++) {
                assert_false(had[action->answer.samples[at].id]);
                had[action->answer.samples[at].id] = true;
                n_had++;
            }
            answered[action->answer.seq] = true;
        }
        assert_true(home.out <=
                    GUESTS_ASKED_MAX * 32 + GUESTS_AHEAD / GUESTS_BATCH + GUESTS_ASKED_MAX * 32 / GUESTS_BATCH);
    }
    end(&home);
}

/* An answer has no more long samples than fit, and waits for no more; one that is longer than all comes alone. */
static void test_long_samples(void **state)
{
    (void)state;
    struct home home;
    for (uint32_t fit = 1; fit <= 3; fit += 2) {
        begin(&home, 1);
        home.bytes = fit == 1 ? GUESTS_ANSWER_BYTES + 1 : GUESTS_ANSWER_BYTES / fit;
        attach(&home, 1, 9, 0, 1, GUESTS_BATCH);
        added(&home);
        home.end = GUESTS_BATCH;
        next(&home, 2, 1, 1, 0, 2 * GUESTS_BATCH);
        deliver(&home);
        for (uint32_t seq = 1, had = 0; had < GUESTS_BATCH; seq++) {
            const struct guests_action *got = answer_to(&home, 1 + seq, GUESTS_BATCH_IS);
            assert_int_equal(got->answer.n_samples, had + fit < GUESTS_BATCH ? fit : GUESTS_BATCH - had);
            had += got->answer.n_samples;
            assert_int_equal(got->answer.last, had == GUESTS_BATCH);
            next(&home, 2 + seq, 1, 1 + seq, seq, 2 * GUESTS_BATCH);
        }
        end(&home);
    }
}

static void test_anchor(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        anchor(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attach),         cmocka_unit_test(test_leave), cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_added_too_late), cmocka_unit_test(test_next),  cmocka_unit_test(test_long_samples),
        cmocka_unit_test(test_anchor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
