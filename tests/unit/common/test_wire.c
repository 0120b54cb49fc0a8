/* test_wire.c: the codec at every bound: what fits goes through unchanged, what does not is refused on both sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/little_endian.h"
#include "common/wire.h"
#include "tests/unit/common/wire_fixture.h"

#define MESSAGES_MAX 64

static char long_text[WIRE_SPEC_MAX + 2]; /* all 'x' */
static uint8_t entries[(WIRE_BATCH_MAX + 1) * WIRE_ENTRY_BYTES];
static uint8_t turns[WIRE_BATCH_MAX * WIRE_TURN_BYTES];
static char class_names[WIRE_REPLY_MAX];
static uint32_t class_names_len, class_names_count;

static struct wire_message messages[MESSAGES_MAX];
static size_t n_messages;

static struct wire_text text_of(uint32_t len_bytes)
{
    return (struct wire_text){.data = long_text, .len_bytes = len_bytes};
}

static void add(struct wire_message msg)
{
    assert_true(n_messages < MESSAGES_MAX);
    msg.seq = (uint32_t)n_messages * 0x01010101u;
    messages[n_messages++] = msg;
}

/* most_fields is a layout with as many fields as there may be, no two alike. */
static struct sample_layout most_fields(void)
{
    struct sample_layout layout = {.n = SAMPLE_FIELDS_MAX};
    for (uint32_t i = 0; i < SAMPLE_FIELDS_MAX; i++) {
        struct sample_field *field = &layout.fields[i];
        *field = (struct sample_field){.kind = i % 2 ? FIELD_IMAGE_CHW : FIELD_IMAGE_HWC,
                                       .dtype = (enum pixel_dtype)(i % 3),
                                       .rank = 3,
                                       .dims = {1 + i, 2 + i, 3 + i},
                                       .offset = 64 * ((uint32_t)layout.bytes / 64 + 1)};
        memset(field->name, 'a' + (int)i, SAMPLE_NAME_BYTES - 1);
        layout.bytes = field->offset + (uint64_t)(1 + i) * (2 + i) * (3 + i) * pixel_dtype_bytes(field->dtype);
    }
    return layout;
}

static void add_registers(void)
{
    add((struct wire_message){.type = WIRE_REGISTER,
                              .reg = {.batch_size = 1, .prefetch = 1, .world_size = 1, .weight = 1}});
    add((struct wire_message){.type = WIRE_REGISTER,
                              .reg = {.batch_size = WIRE_BATCH_MAX,
                                      .prefetch = WIRE_CREDITS_MAX,
                                      .world_size = UINT32_MAX,
                                      .rank = UINT32_MAX - 1,
                                      .epochs = UINT32_MAX,
                                      .shuffle = SHUFFLE_NONE,
                                      .bad_policy = BAD_ERROR,
                                      .flags = WIRE_REGISTER_FLAGS_ALL,
                                      .seed = UINT64_MAX,
                                      .weight = JOB_WEIGHT_MAX,
                                      .sampler = WIRE_WEIGHTS,
                                      .draws = WIRE_DRAWS_MAX,
                                      .name = text_of(WIRE_NAME_MAX),
                                      .dataset = text_of(WIRE_PATH_MAX),
                                      .pipeline = text_of(WIRE_SPEC_MAX),
                                      .subset = text_of(WIRE_SPEC_MAX)}});
    add((struct wire_message){.type = WIRE_REGISTER,
                              .reg = {.batch_size = 64,
                                      .prefetch = 2,
                                      .world_size = 2,
                                      .rank = 1,
                                      .weight = JOB_WEIGHT_MIN,
                                      .local_world_size = 1,
                                      .local_first = 1,
                                      .deal = WIRE_DEAL_HOME,
                                      .mix = WIRE_MIX_ALL,
                                      .name = text_of(3),
                                      .dataset = text_of(9),
                                      .pipeline = text_of(20),
                                      .subset = text_of(1)}});
    add((struct wire_message){.type = WIRE_REGISTER,
                              .reg = {.batch_size = 1,
                                      .prefetch = 1,
                                      .world_size = 1,
                                      .weight = 1,
                                      .sampler = WIRE_REPEAT,
                                      .copies = WIRE_COPIES_MAX}});
    add((struct wire_message){.type = WIRE_REGISTER,
                              .version = 8,
                              .reg = {.batch_size = 1,
                                      .prefetch = 1,
                                      .world_size = 1,
                                      .flags = WIRE_REGISTER_FLAGS_ALL_8,
                                      .weight = 1,
                                      .name = text_of(3)}});
    add((struct wire_message){.type = WIRE_REGISTER,
                              .version = 4,
                              .reg = {.batch_size = 1,
                                      .prefetch = 1,
                                      .world_size = 1,
                                      .flags = WIRE_REGISTER_FLAGS_ALL_4,
                                      .weight = 1,
                                      .name = text_of(3)}});
}

static void add_requests(void)
{
    add((struct wire_message){.type = WIRE_HELLO});
    add((struct wire_message){.type = WIRE_HELLO, .hello = {.pid = UINT32_MAX, .client = text_of(WIRE_CLIENT_MAX)}});
    add_registers();
    add((struct wire_message){.type = WIRE_CLASSES_GET, .classes_get = {.first = UINT32_MAX}});
    add((struct wire_message){.type = WIRE_NEXT, .next = {.epoch = 0, .credits = 1}});
    add((struct wire_message){.type = WIRE_NEXT, .version = 5, .next = {.epoch = 7, .credits = 2}});
    add((struct wire_message){.type = WIRE_NEXT, .next = {.epoch = 0, .credits = 1, .awaited = WIRE_AHEAD}});
    add((struct wire_message){.type = WIRE_NEXT, .next = {.epoch = 3, .credits = 0, .awaited = WIRE_CREDITS_MAX}});
    add((struct wire_message){.type = WIRE_NEXT, .next = {.epoch = 3, .credits = 5, .awaited = 5}});
    add((struct wire_message){.type = WIRE_NEXT, .next = {.epoch = UINT32_MAX, .credits = WIRE_CREDITS_MAX}});
    add((struct wire_message){.type = WIRE_RELEASE, .release = {.batch = UINT64_MAX}});
    add((struct wire_message){.type = WIRE_STATE_GET});
    add((struct wire_message){.type = WIRE_STATE_GET,
                              .state_get = {.epoch = UINT32_MAX, .batches = 7, .timeout_ms = UINT32_MAX}});
    add((struct wire_message){.type = WIRE_COLUMN_GET, .column_get = {.name = text_of(1)}});
    add((struct wire_message){.type = WIRE_COLUMN_GET, .column_get = {.name = text_of(WIRE_COLUMN_MAX)}});
    add((struct wire_message){.type = WIRE_COLUMN, .column = {WIRE_COLUMN_INT64, 1, 0, 0}});
    add((struct wire_message){.type = WIRE_COLUMN, .column = {WIRE_COLUMN_FLOAT64, WIRE_WIDTH_MAX, 3, 1572864}});
    add((struct wire_message){.type = WIRE_COLUMN, .column = {WIRE_COLUMN_TEXT, 1, UINT32_MAX, INT64_MAX}});
    add((struct wire_message){.type = WIRE_BYE});
    add((struct wire_message){.type = WIRE_BYE, .version = 4});
}

static void add_replies(void)
{
    add((struct wire_message){.type = WIRE_WELCOME, .welcome = {.batch_max = 1}});
    add((struct wire_message){
        .type = WIRE_WELCOME,
        .welcome = {.arena_bytes = UINT64_MAX, .daemon_pid = UINT32_MAX, .batch_max = WIRE_BATCH_MAX}});
    add((struct wire_message){.type = WIRE_REGISTERED});
    add((struct wire_message){.type = WIRE_REGISTERED,
                              .registered = {.job = 1,
                                             .n_samples = 2,
                                             .n_batches = 3,
                                             .n_classes = 4,
                                             .held_max = 8,
                                             .epoch = 9,
                                             .batch = 10,
                                             .sample_bytes = UINT64_MAX,
                                             .fingerprint = {UINT64_MAX, 1},
                                             .view = {2, UINT64_MAX},
                                             .dataset_samples = 11,
                                             .version = {{12, UINT64_MAX}, {13, 14}},
                                             .name = text_of(WIRE_NAME_MAX)}});
    add(registered(WIRE_VERSION, sample_layout_of_image(&photo)));
    add(registered(WIRE_VERSION, most_fields()));
    add((struct wire_message){.type = WIRE_CLASSES});
    add((struct wire_message){.type = WIRE_CLASSES, .classes = {.first = 5, .total = 5}});
    add((struct wire_message){.type = WIRE_CLASSES,
                              .classes = {.first = 7,
                                          .count = class_names_count,
                                          .total = 7 + class_names_count,
                                          .names = {.data = class_names, .len_bytes = class_names_len}}});
    add((struct wire_message){.type = WIRE_BATCH, .batch = {.flags = WIRE_BATCH_LAST}});
    add((struct wire_message){.type = WIRE_BATCH,
                              .batch = {.batch = 5, .count = 2, .through = 6, .weight = 0.01, .entries = entries}});
    add((struct wire_message){.type = WIRE_BATCH,
                              .batch = {.batch = UINT64_MAX,
                                        .epoch = UINT32_MAX,
                                        .index = UINT32_MAX,
                                        .through = UINT32_MAX,
                                        .count = WIRE_BATCH_MAX,
                                        .entries = entries}});
    add((struct wire_message){.type = WIRE_ERROR, .error = {.code = LARDER_EINVAL}});
    add((struct wire_message){.type = WIRE_ERROR,
                              .error = {.code = LARDER_EEND, .fatal = 1, .text = text_of(ERROR_TEXT_MAX)}});
    add((struct wire_message){.type = WIRE_TURNS, .turns = {.batch = 1, .count = 1, .turns = turns}});
    add((struct wire_message){.type = WIRE_TURNS,
                              .turns = {.batch = UINT64_MAX, .count = WIRE_BATCH_MAX, .turns = turns}});
    add((struct wire_message){.type = WIRE_STATE});
    add((struct wire_message){.type = WIRE_STATE, .state = {.n_bytes = UINT32_MAX}});
}

static void add_replies_of_older_versions(void)
{
    for (uint16_t version = WIRE_VERSION_OLDEST; version < WIRE_VERSION; version++) {
        struct wire_message msg = registered(version, sample_layout_of_image(&photo));
        if (version < 7)
            msg.registered.version = (struct dataset_version){{0}, {0}};
        if (version < 5)
            msg.registered.view[0] = msg.registered.view[1] = msg.registered.dataset_samples = 0;
        add(msg);
    }
    add((struct wire_message){.type = WIRE_REGISTERED, .version = 4, .registered = {.job = 1, .name = text_of(5)}});
    add((struct wire_message){.type = WIRE_BATCH,
                              .version = 4,
                              .batch = {.batch = 5, .count = 2, .lost = 3, .weight = 2, .entries = entries}});
    add((struct wire_message){.type = WIRE_ERROR, .version = 4, .error = {.code = LARDER_EIO, .text = text_of(2)}});
}

static int set_up(void **state)
{
    (void)state;
    memset(long_text, 'x', sizeof long_text);
    for (uint32_t i = 0; i < WIRE_BATCH_MAX; i++)
        wire_entry_put(entries, i,
                       &(struct wire_entry){
                           .offset = UINT64_MAX - i, .len_bytes = i, .id = ~i, .index = 3 * i, .label = -(int32_t)i});
    for (uint32_t i = 0; i < WIRE_BATCH_MAX; i++)
        wire_turn_put(turns, i, &(struct wire_turn){.position = i, .index = i % 3 ? 7 * i : WIRE_TURN_NONE});
    while (wire_class_put(class_names, sizeof class_names - 64, &class_names_len, long_text, class_names_count % 300) ==
           0)
        class_names_count++;
    add_requests();
    add_replies();
    add_replies_of_older_versions();
    return 0;
}

static bool same_text(const struct wire_text *a, const struct wire_text *b)
{
    return a->len_bytes == b->len_bytes && (a->len_bytes == 0 || memcmp(a->data, b->data, a->len_bytes) == 0);
}

#define SAME(member) (memcmp(&a->member, &b->member, sizeof a->member) == 0)

/* same_fields compares field by field, so that a layout that swaps two fields both ways would not pass. */
static bool same_fields(const struct wire_message *a, const struct wire_message *b)
{
    if (a->type != b->type || a->seq != b->seq || (a->version ? a->version : WIRE_VERSION) != b->version)
        return false;
    switch (a->type) {
    case WIRE_HELLO: return SAME(hello.pid) && same_text(&a->hello.client, &b->hello.client);
    case WIRE_WELCOME: return SAME(welcome.arena_bytes) && SAME(welcome.daemon_pid) && SAME(welcome.batch_max);
    case WIRE_REGISTER:
        return SAME(reg.batch_size) && SAME(reg.prefetch) && SAME(reg.world_size) && SAME(reg.rank) &&
               SAME(reg.epochs) && SAME(reg.shuffle) && SAME(reg.bad_policy) && SAME(reg.flags) && SAME(reg.seed) &&
               SAME(reg.weight) && SAME(reg.local_world_size) && SAME(reg.local_first) && SAME(reg.sampler) &&
               SAME(reg.copies) && SAME(reg.draws) && SAME(reg.deal) && SAME(reg.mix) &&
               same_text(&a->reg.name, &b->reg.name) && same_text(&a->reg.dataset, &b->reg.dataset) &&
               same_text(&a->reg.pipeline, &b->reg.pipeline) && same_text(&a->reg.subset, &b->reg.subset);
    case WIRE_REGISTERED:
        return SAME(registered.job) && SAME(registered.n_samples) && SAME(registered.n_batches) &&
               SAME(registered.n_classes) && SAME(registered.held_max) && SAME(registered.epoch) &&
               SAME(registered.batch) && SAME(registered.sample_bytes) && SAME(registered.fingerprint) &&
               SAME(registered.view) && SAME(registered.dataset_samples) && SAME(registered.version) &&
               sample_layout_same(&a->registered.layout, &b->registered.layout) &&
               same_text(&a->registered.name, &b->registered.name);
    case WIRE_CLASSES_GET: return SAME(classes_get.first);
    case WIRE_CLASSES:
        return SAME(classes.first) && SAME(classes.count) && SAME(classes.total) &&
               same_text(&a->classes.names, &b->classes.names);
    case WIRE_NEXT: return SAME(next.epoch) && SAME(next.credits) && SAME(next.awaited);
    case WIRE_BATCH:
        return SAME(batch.batch) && SAME(batch.epoch) && SAME(batch.index) && SAME(batch.flags) && SAME(batch.count) &&
               SAME(batch.lost) && SAME(batch.through) && SAME(batch.weight) &&
               (a->batch.count == 0 ||
                memcmp(a->batch.entries, b->batch.entries, (size_t)a->batch.count * WIRE_ENTRY_BYTES) == 0);
    case WIRE_RELEASE: return SAME(release.batch);
    case WIRE_ERROR: return SAME(error.code) && SAME(error.fatal) && same_text(&a->error.text, &b->error.text);
    case WIRE_BYE: return true;
    case WIRE_TURNS:
        return SAME(turns.batch) && SAME(turns.count) &&
               memcmp(a->turns.turns, b->turns.turns, (size_t)a->turns.count * WIRE_TURN_BYTES) == 0;
    case WIRE_STATE_GET: return SAME(state_get.epoch) && SAME(state_get.batches) && SAME(state_get.timeout_ms);
    case WIRE_STATE: return SAME(state.n_bytes);
    case WIRE_DONE: return SAME(done.epoch) && SAME(done.rank) && SAME(done.n_bytes);
    case WIRE_COLUMN_GET: return same_text(&a->column_get.name, &b->column_get.name);
    case WIRE_COLUMN: return SAME(column.kind) && SAME(column.width) && SAME(column.count) && SAME(column.n_bytes);
    }
    return false;
}

/* encoded gives message `index` on the heap in exactly its length, so that a sanitizer sees reading beyond it. */
static uint8_t *encoded(size_t index, size_t *len)
{
    static uint8_t buf[WIRE_REPLY_MAX];
    int rc = wire_encode(&messages[index], buf, sizeof buf, len);
    if (rc)
        fail_msg("message %zu of type %d: %s", index, messages[index].type, larder_err_name(rc));
    return memcpy(malloc(*len), buf, *len);
}

/* Every message, at its smallest and at its largest, comes out of the codec as it went in. */
static void goes_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_messages; i++) {
        size_t len;
        struct wire_message out;
        struct error err;
        uint8_t *bytes = encoded(i, &len);
        if (wire_decode(bytes, len, &out, &err) != 0)
            fail_msg("message %zu: %s", i, err.text);
        if (!same_fields(&messages[i], &out))
            fail_msg("message %zu of type %d changed on the way", i, out.type);
        free(bytes);
    }
}

/* The bytes themselves are as wire.c says, in each version: other implementations (the Python package, an older
 * release) rely on them. */
static void has_known_bytes(void **state)
{
    (void)state;
    uint8_t hello[] = {'L', 'D',  'R',  '1',  13,   0, 1, 0, 4, 3,   2,   1,   30,  0,   0,
                       0,   0x78, 0x56, 0x34, 0x12, 6, 0, 0, 0, 'c', '/', '0', '.', '1', '!'};
    static const uint8_t batch[] = {
        'L', 'D',  'R', '1',  13, 0, 8, 0, 0, 0, 0, 0,    80, 0, 0,  0, 8, 7,  6,  5, 4, 3, 2,    1,    9,    0,   0,
        0,   10,   0,   0,    0,  1, 0, 0, 0, 1, 0, 0,    0,  7, 0,  0, 0, 13, 0,  0, 0, 0, 0,    0,    0,    0,   0,
        4,   0x40, 0,   0x10, 0,  0, 1, 0, 0, 0, 0, 0x4c, 2,  0, 11, 0, 0, 0,  12, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t batch_4[] = {
        'L', 'D',  'R', '1', 4, 0, 8, 0, 0, 0,    0, 0, 76, 0, 0, 0, 8,  7, 6, 5, 4,    3,    2,    1,   9, 0,
        0,   0,    10,  0,   0, 0, 1, 0, 0, 0,    1, 0, 0,  0, 7, 0, 0,  0, 0, 0, 0,    0,    0,    0,   4, 0x40,
        0,   0x10, 0,   0,   1, 0, 0, 0, 0, 0x4c, 2, 0, 11, 0, 0, 0, 12, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    static const uint8_t turn[] = {'L', 'D', 'R', '1', 13, 0, 12, 0, 0, 0, 0, 0, 36, 0, 0, 0, 9, 0,
                                   0,   0,   0,   0,   0,  0, 1,  0, 0, 0, 4, 0, 0,  0, 8, 0, 0, 0};
    static const uint8_t get[] = {'L', 'D', 'R', '1', 13, 0, 13, 0, 3, 0, 0, 0, 28, 0,
                                  0,   0,   1,   0,   0,  0, 2,  0, 0, 0, 4, 0, 0,  0};
    static const uint8_t next[] = {'L', 'D', 'R', '1', 13, 0, 7, 0, 0, 0, 0, 0, 28, 0,
                                   0,   0,   9,   0,   0,  0, 2, 0, 0, 0, 3, 0, 0,  0};
    static const uint8_t next_5[] = {'L', 'D', 'R', '1', 5, 0, 7, 0, 0, 0, 0, 0, 24, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0};
    static const uint8_t token[] = {'L', 'D', 'R', '1', 13, 0, 14, 0, 3, 0, 0, 0, 20, 0, 0, 0, 5, 0, 0, 0};
    struct wire_message msg = {.type = WIRE_HELLO, .seq = 0x01020304, .hello = {.pid = 0x12345678}};
    msg.hello.client = (struct wire_text){.data = "c/0.1!", .len_bytes = 6};
    assert_bytes(&msg, hello, sizeof hello);
    msg.version = 4;
    hello[4] = 4;
    assert_bytes(&msg, hello, sizeof hello);

    uint8_t entry[WIRE_ENTRY_BYTES];
    wire_entry_put(
        entry, 0, &(struct wire_entry){.offset = 0x100001000, .len_bytes = 150528, .id = 11, .index = 12, .label = -1});
    msg = (struct wire_message){.type = WIRE_BATCH};
    msg.batch = (struct wire_batch){.batch = 0x0102030405060708,
                                    .epoch = 9,
                                    .index = 10,
                                    .flags = 1,
                                    .count = 1,
                                    .lost = 7,
                                    .through = 13,
                                    .weight = 2.5,
                                    .entries = entry};
    assert_bytes(&msg, batch, sizeof batch);
    msg.version = 4;
    assert_bytes(&msg, batch_4, sizeof batch_4);
    struct wire_entry got = wire_entry_get(batch + sizeof batch - WIRE_ENTRY_BYTES, 0);
    assert_true(got.offset == 0x100001000 && got.len_bytes == 150528 && got.id == 11 && got.index == 12 &&
                got.label == -1);

    uint8_t one[WIRE_TURN_BYTES];
    wire_turn_put(one, 0, &(struct wire_turn){.position = 4, .index = 8});
    assert_bytes(&(struct wire_message){.type = WIRE_TURNS, .turns = {.batch = 9, .count = 1, .turns = one}}, turn,
                 sizeof turn);
    msg = (struct wire_message){.type = WIRE_STATE_GET, .seq = 3, .state_get = {1, 2, 4}};
    assert_bytes(&msg, get, sizeof get);
    msg = (struct wire_message){.type = WIRE_STATE, .seq = 3, .state = {5}};
    assert_bytes(&msg, token, sizeof token);
    msg = (struct wire_message){.type = WIRE_NEXT, .next = {9, 2, 3}};
    assert_bytes(&msg, next, sizeof next);
    msg.version = 5;
    assert_bytes(&msg, next_5, sizeof next_5);
}

/* Cut anywhere, or with a byte too many, a message is refused, with a text, and nothing is written to out. */
static void refuses_other_lengths(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_messages; i++) {
        size_t len, step;
        uint8_t *bytes = encoded(i, &len);
        step = len > 4096 ? 61 : 1;
        for (size_t cut = 0; cut < len; cut += step) {
            struct error err = {0};
            struct wire_message out = {.seq = 77};
            uint8_t *part = memcpy(malloc(cut ? cut : 1), bytes, cut);
            assert_int_equal(wire_decode(part, cut, &out, &err), LARDER_EFORMAT);
            if (cut >= WIRE_HEADER_BYTES) { /* also where the header agrees with the cut */
                for (unsigned b = 0; b < 4; b++)
                    part[12 + b] = (uint8_t)(cut >> (8 * b));
                assert_int_equal(wire_decode(part, cut, &out, &err), LARDER_EFORMAT);
            }
            assert_true(err.code == LARDER_EFORMAT && err.text[0]);
            assert_int_equal(out.seq, 77);
            free(part);
        }
        uint8_t *longer = memcpy(malloc(len + 1), bytes, len);
        struct wire_message out;
        longer[len] = 0;
        assert_int_equal(wire_decode(longer, len + 1, &out, NULL), LARDER_EFORMAT);
        for (unsigned b = 0; b < 4; b++)
            longer[12 + b] = (uint8_t)((len + 1) >> (8 * b));
        assert_int_equal(wire_decode(longer, len + 1, &out, NULL), LARDER_EFORMAT);
        free(longer);
        free(bytes);
    }
}

/* With any one byte changed to any value a message is refused, or it is another valid message that encodes to just
 * these bytes. */
static void survives_any_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_messages; i++) {
        size_t len, again_len;
        uint8_t *bytes = encoded(i, &len);
        uint8_t *again = malloc(len);
        for (size_t at = 0; at < len && at < 512; at++) {
            uint8_t was = bytes[at];
            for (unsigned value = 0; value < 256; value += (len > 4096 ? 51 : 1)) {
                struct wire_message out;
                bytes[at] = (uint8_t)value;
                int rc = wire_decode(bytes, len, &out, NULL);
                if (rc == 0) {
                    assert_int_equal(wire_encode(&out, again, len, &again_len), 0);
                    assert_int_equal(again_len, len);
                    assert_memory_equal(again, bytes, len);
                } else {
                    assert_true(rc == LARDER_EFORMAT || rc == LARDER_EVERSION);
                }
            }
            bytes[at] = was;
        }
        free(again);
        free(bytes);
    }
}

/* A buffer that is one byte short is refused, and a byte behind one that just suffices stays untouched. */
static void keeps_to_its_buffer(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_messages; i++) {
        size_t len, got = 0;
        uint8_t *bytes = encoded(i, &len);
        uint8_t *buf = malloc(len + 1);
        buf[len] = 0xa5;
        assert_int_equal(wire_encode(&messages[i], buf, len, &got), 0);
        assert_int_equal(got, len);
        assert_int_equal(buf[len], 0xa5);
        assert_int_equal(wire_encode(&messages[i], buf, len - 1, &got), LARDER_ELIMIT);
        assert_int_equal(wire_encode(&messages[i], NULL, 0, &got), LARDER_ELIMIT);
        free(buf);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_round),
        cmocka_unit_test(has_known_bytes),
        cmocka_unit_test(refuses_other_lengths),
        cmocka_unit_test(survives_any_byte),
        cmocka_unit_test(keeps_to_its_buffer),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
