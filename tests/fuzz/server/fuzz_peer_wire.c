/* fuzz_peer_wire.c: proves that no bytes make peer_decode read outside them or accept a field out of its bounds, and
 * that what decodes encodes to the same bytes. Each type of message is a seed, so this is also the round trip. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/cluster/peer_wire.h"
#include "tests/fuzz/fuzz.h"

static struct peer_blob text(const char *value)
{
    return (struct peer_blob){(const uint8_t *)value, (uint32_t)strlen(value)};
}

static void fill(struct peer_message *message, uint8_t *entries, uint8_t *bads)
{
    if (message->type == PEER_ATTACH) {
        message->attach = (struct peer_attach){.job = 3, .term = 7, .slot_bytes = 150528, .shuffle = 1, .weight = 1};
        message->attach.path = text("/data/set");
        message->attach.pipeline = text("[\"hflip\"]");
        message->attach.view = text("a set");
    } else if (message->type == PEER_NEXT) {
        message->next = (struct peer_next){12, 7, 3, 1, 2, 32, 8, 5000, 250};
    } else if (message->type == PEER_WITHDRAW) {
        message->guest.guest = 12;
        message->guest.ids = text("a set");
    } else if (message->type == PEER_STATE_GET) {
        message->state_get.job = text("job");
        message->state_get.batch = 9;
    } else if (message->type == PEER_ALIVE) {
        message->alive = (struct peer_alive){.version = text("0.1"), .leaving = 1, .guests = 4};
    } else if (message->type == PEER_REFUSED) {
        message->refused.code = LARDER_EPERM;
        message->refused.text = text("outside the roots");
    } else if (message->type == PEER_BATCH) {
        for (uint32_t i = 0; i < 3; i++)
            peer_entry_put(entries, i, &(struct peer_entry){i, 150528, 99 + i});
        peer_bad_put(bads, 0, &(struct peer_bad){8, BAD_CORRUPT});
        message->batch = (struct peer_batch){12, 3, PEER_LAST, 3, 1, {entries, 0}, {bads, 0}};
    } else if (message->type == PEER_STATE || message->type == PEER_WITHDRAWN) {
        message->ids = text("a set");
    }
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    uint8_t entries[3 * PEER_ENTRY_BYTES], bads[PEER_BAD_BYTES];
    size_t len = 0;
    if (index >= PEER_STATE)
        return 0;
    struct peer_message message = {.type = (enum peer_type)(PEER_PROBE + index), .boot = 5};
    fill(&message, entries, bads);
    CHECK(peer_encode(&message, buf, cap, &len) == 0);
    return len;
}

/* All that is borrowed is read, so that a sanitizer sees what reaches outside. */
static uint64_t read_blob(const struct peer_blob *blob)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < blob->len_bytes; i++)
        sum += blob->data[i];
    return sum;
}

static uint64_t read_all(const struct peer_message *message)
{
    if (message->type == PEER_ATTACH)
        return read_blob(&message->attach.path) + read_blob(&message->attach.pipeline) +
               read_blob(&message->attach.view);
    if (message->type == PEER_NEXT)
        CHECK(message->next.n + message->next.extra <= PEER_SAMPLES_MAX && message->next.wait_ms <= PEER_WAIT_MAX_MS);
    if (message->type == PEER_BATCH) {
        for (uint32_t i = 0; i < message->batch.bad; i++)
            CHECK(peer_bad_get(&message->batch, i).reason < BAD_REASONS);
        return read_blob(&message->batch.entries);
    }
    return message->type == PEER_STATE ? read_blob(&message->ids) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer_message message;
    struct error err = {0};
    int rc = peer_decode(data, size, &message, &err);
    if (rc) {
        CHECK((rc == LARDER_EFORMAT || rc == LARDER_EVERSION) && err.code == rc && err.text[0]);
        return 0;
    }
    volatile uint64_t sum = read_all(&message);
    (void)sum;
    uint8_t *again = xmalloc(size);
    size_t len = 0;
    CHECK(peer_encode(&message, again, size, &len) == 0);
    CHECK(len == size && memcmp(again, data, size) == 0);
    free(again);
    return 0;
}
