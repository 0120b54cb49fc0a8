/* test_peering.c: daemons on loopback find each other, ask and answer, with certificates and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#include <cmocka.h>

#include "common/check.h"
#include "common/net/blocks.h"
#include "common/net/identity.h"
#include "sides.h"

#define N_PAYLOADS 3
#define LARGE_BYTES (3u << 20)
#define HELD 8

static struct side *one, *two;
static char folder[] = "/tmp/larder-peering-XXXXXX";

static struct peer_blob blob(const char *text)
{
    return (struct peer_blob){(const uint8_t *)text, (uint32_t)strlen(text)};
}

static void assert_blob(const struct peer_blob *blob, const char *text)
{
    assert_int_equal(blob->len_bytes, strlen(text));
    assert_memory_equal(blob->data, text, blob->len_bytes);
}

/* ── messages ── */

static struct peer_message request_of(enum peer_type type)
{
    struct peer_message message = {.type = type};
    switch (type) {
    case PEER_ATTACH:
        message.attach = (struct peer_attach){.anchor_boot = 5,
                                              .job = 6,
                                              .epoch = 7,
                                              .term = 8,
                                              .path = blob("/data"),
                                              .pipeline = blob("[]"),
                                              .members = 2,
                                              .weight = 1.5,
                                              .view = blob("a view")};
        break;
    case PEER_NEXT:
        message.next = (struct peer_next){.guest = 9, .term = 8, .seq = 3, .acked = 2, .n = 32, .wait_ms = 100};
        break;
    case PEER_WITHDRAW: message.guest.ids = blob("a set"); __attribute__((fallthrough));
    case PEER_DETACH:
        message.guest.guest = 9;
        message.guest.term = 8;
        break;
    case PEER_STATE_GET:
        message.state_get.job = blob("a job");
        message.state_get.batch = 12;
        break;
    default: break;
    }
    return message;
}

static void assert_request(const struct peer_message *message)
{
    switch (message->type) {
    case PEER_ATTACH:
        assert_blob(&message->attach.path, "/data");
        assert_blob(&message->attach.view, "a view");
        assert_true(message->attach.weight == 1.5 && message->attach.epoch == 7);
        break;
    case PEER_NEXT: assert_true(message->next.seq == 3 && message->next.acked == 2 && message->next.n == 32); break;
    case PEER_WITHDRAW: assert_blob(&message->guest.ids, "a set"); __attribute__((fallthrough));
    case PEER_DETACH: assert_true(message->guest.guest == 9 && message->guest.term == 8); break;
    case PEER_STATE_GET:
        assert_blob(&message->state_get.job, "a job");
        assert_int_equal(message->state_get.batch, 12);
        break;
    default: fail();
    }
}

static struct peer_message answer_of(enum peer_type type)
{
    struct peer_message message = {.type = type};
    if (type == PEER_ATTACHED) {
        message.attached.guest = 13;
        message.attached.count = 14;
    } else if (type == PEER_REFUSED) {
        message.refused.code = LARDER_ELIMIT;
        message.refused.text = blob("full");
    } else if (type == PEER_WITHDRAWN || type == PEER_STATE) {
        message.ids = blob("a set");
    }
    return message;
}

static void assert_answer(const struct peer_message *message)
{
    if (message->type == PEER_ATTACHED) {
        assert_true(message->attached.guest == 13 && message->attached.count == 14);
    } else if (message->type == PEER_REFUSED) {
        assert_int_equal(message->refused.code, LARDER_ELIMIT);
        assert_blob(&message->refused.text, "full");
    } else if (message->type == PEER_WITHDRAWN || message->type == PEER_STATE) {
        assert_blob(&message->ids, "a set");
    }
}

/* ── talks ── */

static void talk(struct side *from, struct side *to, enum peer_type asks, enum peer_type answers)
{
    struct peer_message request = request_of(asks), answer = answer_of(answers);
    uint64_t number = (uint64_t)asks << 32 | answers, ticket = 0;
    struct peering_event *event = side_ask(from, to, &request, number, &ticket);
    assert_true(ticket != 0 && event->message.cluster == XXH3_64bits(SIDES_CLUSTER, strlen(SIDES_CLUSTER)));
    assert_request(&event->message);
    peering_answer(to->peering, event->number, &answer, NULL, 0);
    peering_event_free(event);
    event = side_take(from->answered);
    assert_true(event->type == PEERING_ANSWERED && event->number == number && event->code == 0);
    assert_true(event->message.type == answers && event->message.boot == to->boot && event->payload_bytes == 0);
    assert_answer(&event->message);
    peering_event_free(event);
}

static void probe(struct side *from, struct side *to)
{
    struct peer_message request = {.type = PEER_PROBE};
    assert_int_equal(peering_ask(from->peering, to->id, &request, 5, true, 60000, NULL), 0);
    struct peering_event *event = side_take(from->answered);
    assert_true(event->number == 5 && event->code == 0 && event->message.type == PEER_ALIVE);
    assert_true(event->message.boot == to->boot && event->message.alive.prep_id == 77);
    assert_memory_equal(event->message.alive.node, to->id, sizeof to->id);
    peering_event_free(event);
}

/* Each asks and answers each kind of message, and what one fills in the other has. */
static void test_kinds(void **state)
{
    static const enum peer_type pairs[][2] = {
        {PEER_ATTACH, PEER_ATTACHED},    {PEER_ATTACH, PEER_REFUSED}, {PEER_ATTACH, PEER_STALE},
        {PEER_NEXT, PEER_EMPTY},         {PEER_NEXT, PEER_GONE},      {PEER_NEXT, PEER_STALE},
        {PEER_WITHDRAW, PEER_WITHDRAWN}, {PEER_DETACH, PEER_DONE},    {PEER_STATE_GET, PEER_STATE}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        talk(one, two, pairs[i][0], pairs[i][1]);
        talk(two, one, pairs[i][0], pairs[i][1]);
    }
    probe(one, two);
    probe(two, one);
}

/* ── batches ── */

struct batch {
    struct peer_message message;
    uint8_t entries[N_PAYLOADS * PEER_ENTRY_BYTES], bads[PEER_BAD_BYTES];
    uint8_t *payload;
    size_t payload_bytes;
};

/* Three payloads, the middle one empty, and a bad sample. */
static void make_batch(struct batch *batch)
{
    static const uint32_t lens[N_PAYLOADS] = {1000, 0, LARGE_BYTES};
    *batch = (struct batch){.message.type = PEER_BATCH, .payload_bytes = 1000 + LARGE_BYTES};
    batch->payload = net_block(batch->payload_bytes);
    for (size_t i = 0; i < batch->payload_bytes; i++)
        batch->payload[i] = (uint8_t)(i * 7 + (i >> 8));
    const uint8_t *at = batch->payload;
    for (uint32_t i = 0; i < N_PAYLOADS; i++) {
        peer_entry_put(batch->entries, i, &(struct peer_entry){40 + i, lens[i], XXH3_64bits(at, lens[i])});
        at += lens[i];
    }
    peer_bad_put(batch->bads, 0, &(struct peer_bad){50, 1});
    batch->message.batch = (struct peer_batch){.guest = 9,
                                               .seq = 3,
                                               .flags = PEER_LAST,
                                               .count = N_PAYLOADS,
                                               .bad = 1,
                                               .entries = {batch->entries, sizeof batch->entries},
                                               .bads = {batch->bads, sizeof batch->bads}};
}

/* Asks for a batch, and has it answered with this one, whose payload is given away. */
static void send_batch(struct side *from, struct side *to, struct batch *batch)
{
    struct peer_message request = request_of(PEER_NEXT);
    struct peering_event *event = side_ask(from, to, &request, 1, NULL);
    peering_answer(to->peering, event->number, &batch->message, batch->payload, batch->payload_bytes);
    peering_event_free(event);
}

static void assert_batch(struct side *from, struct side *to)
{
    struct batch batch, same;
    make_batch(&batch);
    make_batch(&same);
    send_batch(from, to, &batch);
    struct peering_event *event = side_take(from->answered);
    const struct peer_batch *came = &event->message.batch;
    assert_true(event->code == 0 && event->message.type == PEER_BATCH && event->message.boot == to->boot);
    assert_true(came->guest == 9 && came->seq == 3 && came->flags == PEER_LAST && came->count == N_PAYLOADS);
    assert_true(came->bad == 1 && peer_bad_get(came, 0).index == 50 && peer_entry_get(came, 2).index == 42);
    assert_int_equal(event->payload_bytes, same.payload_bytes);
    assert_memory_equal(event->payload, same.payload, same.payload_bytes);
    peering_event_free(event);
    net_block_free(same.payload);
}

/* The payloads of a batch come whole; one that is not what its check says spoils the answer. */
static void test_batch(void **state)
{
    (void)state;
    assert_batch(one, two);
    for (uint32_t i = 0; i < N_PAYLOADS; i++) {
        struct batch batch;
        make_batch(&batch);
        struct peer_entry entry = peer_entry_get(&batch.message.batch, i);
        entry.check ^= 1;
        peer_entry_put(batch.entries, i, &entry);
        send_batch(one, two, &batch);
        assert_int_equal(side_code(one, 1), LARDER_EFORMAT);
    }
    struct batch batch;
    make_batch(&batch);
    batch.payload[batch.payload_bytes - 1] ^= 1;
    send_batch(one, two, &batch);
    assert_int_equal(side_code(one, 1), LARDER_EFORMAT);
    assert_batch(two, one);
}

/* An answer that is none to what was asked is not told as one. */
static void test_wrong_answer(void **state)
{
    (void)state;
    struct peer_message request = request_of(PEER_NEXT), answer = answer_of(PEER_DONE);
    struct peering_event *event = side_ask(one, two, &request, 1, NULL);
    peering_answer(two->peering, event->number, &answer, NULL, 0);
    peering_event_free(event);
    assert_int_equal(side_code(one, 1), LARDER_EFORMAT);
}

/* ── without an answer ── */

/* A request ends with its time or when it is cancelled; an answer after that is dropped. */
static void test_no_answer(void **state)
{
    (void)state;
    struct peer_message request = request_of(PEER_NEXT);
    struct batch batch;
    uint64_t ticket = 0;
    assert_int_equal(peering_ask(one->peering, two->id, &request, 1, false, 50, NULL), 0);
    assert_int_equal(side_code(one, 1), LARDER_ETIMEOUT);
    struct peering_event *event = side_take(two->asked);
    make_batch(&batch);
    peering_answer(two->peering, event->number, &batch.message, batch.payload, batch.payload_bytes);
    peering_answer(two->peering, event->number, &(struct peer_message){.type = PEER_GONE}, NULL, 0);
    peering_event_free(event);
    event = side_ask(one, two, &request, 2, &ticket);
    peering_cancel(one->peering, ticket);
    assert_int_equal(side_code(one, 2), LARDER_EEND);
    peering_cancel(one->peering, ticket);
    peering_answer(two->peering, event->number, &(struct peer_message){.type = PEER_GONE}, NULL, 0);
    peering_event_free(event);
    talk(one, two, PEER_NEXT, PEER_GONE);
}

/* Whoever is not known or was forgotten cannot be asked, and where nobody listens any more it is told as such. */
static void test_nobody(void **state)
{
    (void)state;
    struct side *first = side_begin(3), *second = side_begin(4);
    struct peering_config config = side_config(first);
    struct peer_message request = request_of(PEER_NEXT);
    side_start(first, &config);
    config = side_config(second);
    config.nodes = &(const char *){first->address};
    config.n_nodes = 1;
    side_start(second, &config);
    side_wait_listed(second, first);
    assert_int_equal(peering_ask(first->peering, second->id, &request, 1, false, 1000, NULL), LARDER_EGONE);
    peering_stop(first->peering);
    peering_stop(first->peering);
    assert_int_equal(peering_ask(second->peering, first->id, &request, 2, true, 60000, NULL), 0);
    assert_int_equal(side_code(second, 2), LARDER_EGONE);
    peering_forget(second->peering, first->id);
    peering_forget(second->peering, first->id);
    assert_int_equal(peering_ask(second->peering, first->id, &request, 3, false, 1000, NULL), LARDER_EGONE);
    side_end(first);
    side_end(second);
}

/* ── ends ── */

/* Whoever stops has an event for each of its requests by then, and those of others end without an answer. */
static void test_stop(void **state)
{
    (void)state;
    struct side *asks, *holds;
    struct peer_message request = request_of(PEER_NEXT);
    struct peering_event *held[HELD], *other;
    sides_pair(&asks, &holds, NULL, NULL);
    for (uint64_t i = 0; i < HELD; i++)
        held[i] = side_ask(asks, holds, &request, i, NULL);
    other = side_ask(holds, asks, &request, 99, NULL);
    peering_stop(asks->peering);
    assert_int_equal(mailbox_length(asks->answered), HELD);
    for (uint64_t i = 0; i < HELD; i++)
        assert_int_equal(side_code(asks, i), LARDER_EEND);
    int code = side_code(holds, 99);
    assert_true(code != 0);
    uint64_t ticket = 7;
    assert_int_equal(peering_ask(asks->peering, holds->id, &request, 1, false, 1000, &ticket), LARDER_EGONE);
    peering_cancel(asks->peering, ticket);
    peering_answer(asks->peering, other->number, &(struct peer_message){.type = PEER_GONE}, NULL, 0);
    peering_event_free(other);
    for (size_t i = 0; i < HELD; i++) {
        struct batch batch;
        make_batch(&batch);
        peering_answer(i % 2 ? holds->peering : asks->peering, held[i]->number, &batch.message, batch.payload,
                       batch.payload_bytes);
        peering_event_free(held[i]);
    }
    side_end(asks);
    side_end(holds);
    peering_destroy(NULL);
    peering_event_free(NULL);
}

/* ── certificates ── */

static char *in_folder(const char *name)
{
    char *path;
    CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static void test_certificates(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    char *authority = in_folder("ca.pem"), *first = in_folder("first.pem"), *second = in_folder("second.pem");
    struct error err;
    struct side *a, *b;
    assert_int_equal(net_identity_found(SIDES_CLUSTER, authority, &err), 0);
    assert_int_equal(net_identity_issue(authority, "first", 10, first, &err), 0);
    assert_int_equal(net_identity_issue(authority, "second", 10, second, &err), 0);
    sides_pair(&a, &b, first, second);
    talk(a, b, PEER_ATTACH, PEER_ATTACHED);
    talk(b, a, PEER_ATTACH, PEER_ATTACHED);
    assert_batch(a, b);
    probe(b, a);
    struct side *other = side_begin(5);
    struct peering_config config = side_config(other);
    config.bundle = first;
    config.cluster = "another";
    assert_int_equal(peering_start(&config, &other->peering, &err), LARDER_EINVAL);
    config.bundle = folder; /* no file */
    assert_true(peering_start(&config, &other->peering, &err) != 0);
    config.bundle = "/nowhere/bundle.pem";
    assert_int_equal(peering_start(&config, &other->peering, &err), LARDER_ENOENT);
    assert_null(other->peering);
    side_end(other);
    side_end(a);
    side_end(b);
    char *const paths[] = {authority, first, second};
    for (size_t i = 0; i < 3; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
    rmdir(folder);
}

/* ── how they find each other ── */

/* A name in DNS stands for the nodes. */
static void test_dns(void **state)
{
    (void)state;
    struct side *side = side_begin(6);
    struct peering_config config = side_config(side);
    config.discovery = PEERING_DNS;
    config.nodes = &(const char *){one->address};
    config.n_nodes = 1;
    side_start(side, &config);
    side_wait_listed(side, one);
    talk(side, one, PEER_DETACH, PEER_DONE);
    side_end(side);
}

/* A peering knows its own name and address, and where a node of the list is, which it calls by that; of others nothing.
 * It has forgotten a node after peering_forget. */
static void test_names(void **state)
{
    (void)state;
    struct peering_named own, other;
    char url[80];
    const uint8_t nobody[PEER_NODE_BYTES] = {99};
    struct side *side = side_begin(6);
    struct peering_config config = side_config(side);
    config.name = "node-six";
    config.nodes = &(const char *){one->address};
    config.n_nodes = 1;
    side_start(side, &config);
    side_wait_listed(side, one);
    assert_string_equal(peering_cluster(side->peering), SIDES_CLUSTER);
    assert_true(peering_name(side->peering, side->id, &own));
    assert_string_equal(own.name, "node-six");
    snprintf(url, sizeof url, "http://%s", side->address);
    assert_string_equal(own.url, url);
    assert_true(peering_name(side->peering, one->id, &other));
    assert_string_equal(other.name, one->address);
    snprintf(url, sizeof url, "http://%s", one->address);
    assert_string_equal(other.url, url);
    assert_false(peering_name(side->peering, nobody, &other));
    peering_forget(side->peering, one->id);
    assert_false(peering_name(side->peering, one->id, &other));
    side_end(side);
}

/* The hosts of a job of Slurm's are the nodes, all at the same port. This one among them is not listed. */
static void test_slurm(void **state)
{
    (void)state;
    struct side *first = side_begin(7), *second = side_begin(8);
    struct peering_config config = side_config(first);
    char listen[64];
    side_start(first, &config);
    config = side_config(second);
    config.discovery = PEERING_SLURM;
    snprintf(listen, sizeof listen, "127.0.0.2:%u", peering_port(first->peering));
    config.listen = listen;
    setenv("SLURM_JOB_NODELIST", "127.0.0.[1-2]", 1);
    side_start(second, &config);
    unsetenv("SLURM_JOB_NODELIST");
    side_wait_listed(second, first);
    talk(second, first, PEER_DETACH, PEER_DONE);
    assert_int_equal(mailbox_length(second->members), 0);
    side_end(first);
    side_end(second);
}

static int refused(const struct peering_config *config, const char *what)
{
    struct error err = {.text = ""};
    struct peering *peering = NULL;
    int rc = peering_start(config, &peering, &err);
    assert_null(peering);
    if (what && !strstr(err.text, what))
        fail_msg("'%s' does not say '%s'", err.text, what);
    return rc;
}

/* What is set wrongly is refused at the start, and nothing of it goes on. */
static void test_refused(void **state)
{
    (void)state;
    struct side *side = side_begin(9);
    const struct peering_config good = side_config(side);
    struct peering_config config = good;
    static const char *const wrong[] = {"", "host", ":1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "::1:1"};
    const char *const many[PEERING_NODES_MAX + 1] = {0};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.listen = wrong[i];
        assert_int_equal(refused(&config, "HOST:PORT"), LARDER_EINVAL);
    }
    config.listen = one->address;
    assert_int_equal(refused(&config, NULL), LARDER_EBUSY);
    config = good;
    config.cluster = "";
    assert_int_equal(refused(&config, "cluster.name"), LARDER_EINVAL);
    config = good;
    config.advertise = "a b:1";
    assert_int_equal(refused(&config, "cluster.advertise"), LARDER_EINVAL);
    config = good;
    config.nodes = many;
    config.n_nodes = PEERING_NODES_MAX + 1;
    assert_int_equal(refused(&config, "cluster.nodes"), LARDER_ELIMIT);
    config.nodes = &(const char *){"nobody"};
    config.n_nodes = 1;
    assert_int_equal(refused(&config, "nobody"), LARDER_EINVAL);
    config.discovery = PEERING_DNS;
    config.n_nodes = 0;
    assert_int_equal(refused(&config, "cluster.nodes"), LARDER_EINVAL);
    config.discovery = PEERING_SLURM;
    assert_int_equal(refused(&config, "SLURM_JOB_NODELIST"), LARDER_EINVAL);
    config.discovery = PEERING_ETCD;
    config.n_nodes = 1;
    config.lease_s = 10;
    config.nodes = &(const char *){"https://127.0.0.1:1"};
    assert_int_equal(refused(&config, "TLS"), LARDER_EINVAL);
    config.listen = "0.0.0.0:0";
    assert_int_equal(refused(&config, "cluster.advertise"), LARDER_EINVAL);
    assert_int_equal(mailbox_length(side->members), 0);
    side_end(side);
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("SLURM_JOB_NODELIST");
    sides_pair(&one, &two, NULL, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    side_end(one);
    side_end(two);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),        cmocka_unit_test(test_batch),  cmocka_unit_test(test_wrong_answer),
        cmocka_unit_test(test_no_answer),    cmocka_unit_test(test_nobody), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_certificates), cmocka_unit_test(test_dns),    cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
