/* fuzz_wire.c: proves that no datagram makes wire_decode read outside it or accept a field out of its bounds, and that
 * a decoded message encodes to a datagram that decodes to the same message. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/wire.h"
#include "tests/fuzz/fuzz.h"

static const char class_names[] = "\x03\0cat\0\0\x05\0horse";

static struct wire_text text(const char *value)
{
    return (struct wire_text){.data = value, .len_bytes = (uint32_t)strlen(value)};
}

static struct sample_layout photo_layout(void)
{
    return sample_layout_of_image(&(struct image_shape){.height = 224, .width = 224, .channels = 3});
}

/* A photograph and a small image behind it. */
static struct sample_layout pair_layout(void)
{
    struct sample_layout pair = photo_layout();
    pair.n = 2;
    pair.fields[1] = (struct sample_field){.name = "small_2", .rank = 3, .dims = {1, 2, 3}, .offset = 150528};
    pair.bytes += 6;
    return pair;
}

/* Each message, and after them those of version 4. */
/* The message of that number, and behind all of them the first ones as a client of version 4 has them. 0: none. */
static size_t encode_seed(const struct wire_message *messages, size_t count, size_t index, uint8_t *buf, size_t cap)
{
    const size_t count_4 = WIRE_BYE;
    size_t len = 0;
    if (index >= count + count_4)
        return 0;
    struct wire_message msg = messages[index < count ? index : index - count];
    if (index >= count)
        msg.version = 4;
    if (msg.version == 4 && msg.type == WIRE_REGISTER) {
        msg.reg.flags &= WIRE_REGISTER_FLAGS_ALL_4;
        msg.reg.sampler = WIRE_ONCE;
        msg.reg.draws = 0;
        msg.reg.deal = WIRE_DEAL_EPOCH;
        msg.reg.mix = 0;
    }
    CHECK(wire_encode(&msg, buf, cap, &len) == 0);
    return len;
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    uint8_t turns[2 * WIRE_TURN_BYTES];
    for (uint32_t i = 0; i < 2; i++)
        wire_turn_put(turns, i, &(struct wire_turn){.position = 1 + i, .index = i ? WIRE_TURN_NONE : 9});
    uint8_t entries[3 * WIRE_ENTRY_BYTES];
    for (uint32_t i = 0; i < 3; i++)
        wire_entry_put(entries, i, &(struct wire_entry){.offset = 4096u * i, .len_bytes = 150528, .id = i, .label = 7});
    const struct sample_layout photos = photo_layout(), pair = pair_layout();
    const struct wire_message messages[] = {
        {.type = WIRE_HELLO, .seq = 1, .hello = {.pid = 77, .client = text("c/0.1")}},
        {.type = WIRE_WELCOME, .seq = 1, .welcome = {.arena_bytes = 1 << 30, .daemon_pid = 5, .batch_max = 8192}},
        {.type = WIRE_REGISTER,
         .seq = 2,
         .reg = {.batch_size = 64,
                 .prefetch = 2,
                 .world_size = 2,
                 .rank = 1,
                 .flags = 5 | WIRE_WITH_FILE,
                 .sampler = WIRE_WEIGHTS,
                 .draws = 700,
                 .deal = WIRE_DEAL_HOME,
                 .mix = 100000,
                 .seed = 9,
                 .weight = 2.5,
                 .name = text("job"),
                 .dataset = text("/data/set"),
                 .pipeline = text("[\"hflip\"]"),
                 .subset = text("{}")}},
        {.type = WIRE_REGISTERED,
         .seq = 2,
         .registered = {.job = 1,
                        .n_samples = 500,
                        .n_batches = 8,
                        .n_classes = 10,
                        .held_max = 4,
                        .sample_bytes = 150528,
                        .fingerprint = {1, 2},
                        .view = {3, 4},
                        .dataset_samples = 600,
                        .layout = photos,
                        .name = text("job")}},
        {.type = WIRE_CLASSES_GET, .seq = 3, .classes_get = {.first = 0}},
        {.type = WIRE_CLASSES,
         .seq = 3,
         .classes = {.count = 3, .total = 3, .names = {.data = class_names, .len_bytes = sizeof class_names - 1}}},
        {.type = WIRE_NEXT, .next = {.epoch = 1, .credits = 2, .awaited = WIRE_AHEAD}},
        {.type = WIRE_BATCH,
         .batch = {.batch = 42, .epoch = 1, .index = 3, .flags = 1, .count = 3, .weight = 2, .entries = entries}},
        {.type = WIRE_RELEASE, .release = {.batch = 42}},
        {.type = WIRE_ERROR, .seq = 2, .error = {.code = LARDER_ENOENT, .fatal = 1, .text = text("no such dataset")}},
        {.type = WIRE_BYE},
        {.type = WIRE_TURNS, .turns = {.batch = 42, .count = 2, .turns = turns}},
        {.type = WIRE_STATE_GET, .seq = 4, .state_get = {.epoch = 1, .batches = 3, .timeout_ms = 10000}},
        {.type = WIRE_STATE, .seq = 4, .state = {.n_bytes = 4096}},
        {.type = WIRE_COLUMN_GET, .seq = 5, .column_get = {.name = text("caption")}},
        {.type = WIRE_COLUMN, .seq = 5, .column = {WIRE_COLUMN_TEXT, 1, 600, 9000}},
        {.type = WIRE_NEXT, .next = {.epoch = 1, .awaited = 2}},
        {.type = WIRE_NEXT, .version = 5, .next = {.epoch = 1, .credits = 2}},
        {.type = WIRE_REGISTERED, .registered = {.layout = pair, .sample_bytes = 150534}},
        {.type = WIRE_REGISTERED, .version = 7, .registered = {.layout = photos, .sample_bytes = 150528}},
    };
    return encode_seed(messages, sizeof messages / sizeof *messages, index, buf, cap);
}

/* The texts and entries borrowed from the datagram are all read, so that a sanitizer sees one that reaches outside. */
static uint64_t read_all(const struct wire_message *msg)
{
    uint64_t sum = 0;
    if (msg->type == WIRE_BATCH) {
        for (uint32_t i = 0; i < msg->batch.count; i++)
            sum += wire_entry_get(msg->batch.entries, i).offset;
    } else if (msg->type == WIRE_TURNS) {
        for (uint32_t i = 0; i < msg->turns.count; i++)
            CHECK(wire_turn_get(msg->turns.turns, i).position < WIRE_BATCH_MAX);
    } else if (msg->type == WIRE_CLASSES) {
        uint32_t cursor = 0, count = 0;
        struct wire_text name;
        while (wire_class_next(&msg->classes.names, &cursor, &name) == 0) {
            CHECK(name.len_bytes == 0 || memchr(name.data, 0, name.len_bytes) == NULL);
            count++;
        }
        CHECK(count == msg->classes.count);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_message msg;
    struct error err = {0};
    int rc = wire_decode(data, size, &msg, &err);
    if (rc) {
        CHECK((rc == LARDER_EFORMAT || rc == LARDER_EVERSION) && err.code == rc && err.text[0]);
        return 0;
    }
    volatile uint64_t sum = read_all(&msg);
    (void)sum;
    uint8_t *again = xmalloc(size);
    size_t len = 0;
    CHECK(wire_encode(&msg, again, size, &len) == 0);
    CHECK(len == size && memcmp(again, data, size) == 0);
    free(again);
    return 0;
}
