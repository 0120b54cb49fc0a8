/* wire.c: the session protocol's codec. Pure: no state, no allocation, any thread.
 *
 * Layout: a header of 16 bytes, u32 magic, u16 version, u16 type, u32 seq, u32 length of the whole message; then the
 * numbers of the message's struct in the order of wire.h; then its texts in that order, each u32 length and its bytes
 * (a batch has its entries there instead, and TURNS its turns, without a length: count says it). REGISTERED has the
 * fields of its layout before its text. Everything little-endian, nothing padded. Each layout is written down once, in
 * an each_… function that serves both directions (codec.h). */
#include "common/wire.h"

#include <stdbool.h>
#include <string.h>

#include "common/codec.h"
#include "common/little_endian.h"
#include "common/wire_priv.h"

static void text(struct codec *codec, struct wire_text *value)
{
    codec_u32(codec, &value->len_bytes);
    value->data = (const char *)codec_bytes(codec, value->data, value->len_bytes);
}

/* ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void each_hello(struct codec *codec, struct wire_hello *m)
{
    codec_u32(codec, &m->pid);
    text(codec, &m->client);
}

static void each_welcome(struct codec *codec, struct wire_welcome *m)
{
    codec_u64(codec, &m->arena_bytes);
    codec_u32(codec, &m->daemon_pid);
    codec_u32(codec, &m->batch_max);
}

static void each_register(struct codec *codec, struct wire_register *m, uint16_t version)
{
    codec_u32(codec, &m->batch_size);
    codec_u32(codec, &m->prefetch);
    codec_u32(codec, &m->world_size);
    codec_u32(codec, &m->rank);
    codec_u32(codec, &m->epochs);
    codec_u32(codec, &m->shuffle);
    codec_u32(codec, &m->bad_policy);
    codec_u32(codec, &m->flags);
    codec_u64(codec, &m->seed);
    codec_f64(codec, &m->weight);
    if (version > 4) {
        codec_u32(codec, &m->local_world_size);
        codec_u32(codec, &m->local_first);
    }
    if (version > 8) {
        codec_u32(codec, &m->sampler);
        codec_u32(codec, &m->copies);
        codec_u64(codec, &m->draws);
    }
    if (version > 12) {
        codec_u32(codec, &m->deal);
        codec_u32(codec, &m->mix);
    }
    text(codec, &m->name);
    text(codec, &m->dataset);
    text(codec, &m->pipeline);
    text(codec, &m->subset);
}

/* Before version 8 the layout is the five numbers of an image, or 0 five times. wire_check refuses to send another. */
static void each_image(struct codec *codec, struct sample_layout *layout)
{
    struct image_shape image = {0};
    sample_layout_image(layout, &image);
    uint32_t dtype = image.dtype, order = image.layout;
    codec_u32(codec, &image.height);
    codec_u32(codec, &image.width);
    codec_u32(codec, &image.channels);
    codec_u32(codec, &dtype);
    codec_u32(codec, &order);
    if (codec->out)
        return;
    image.dtype = (enum pixel_dtype)dtype;
    image.layout = (enum pixel_layout)order;
    codec->failed |= order > LAYOUT_CHW;
    if (image.height)
        *layout = sample_layout_of_image(&image);
    else
        codec->failed |= image.width || image.channels || dtype || order;
}

static void each_field(struct codec *codec, struct sample_field *field)
{
    uint32_t kind = field->kind, dtype = field->dtype;
    const uint8_t *name = codec_bytes(codec, field->name, sizeof field->name);
    if (name && !codec->out)
        memcpy(field->name, name, sizeof field->name);
    codec_u32(codec, &kind);
    codec_u32(codec, &dtype);
    codec_u32(codec, &field->rank);
    for (uint32_t i = 0; i < SAMPLE_DIMS_MAX; i++)
        codec_u32(codec, &field->dims[i]);
    codec_u32(codec, &field->offset);
    field->kind = (enum field_kind)kind;
    field->dtype = (enum pixel_dtype)dtype;
}

static void each_layout(struct codec *codec, struct sample_layout *layout, uint64_t sample_bytes)
{
    codec->failed |= layout->n > SAMPLE_FIELDS_MAX;
    for (uint32_t i = 0; !codec->failed && i < layout->n; i++)
        each_field(codec, &layout->fields[i]);
    layout->bytes = layout->n ? sample_bytes : 0;
}

/* Behind the numbers that version 4 has come those of version 5, how many fields there are (0 before version 8), those
 * of version 7, and the fields. */
static void each_registered(struct codec *codec, struct wire_registered *m, uint16_t version)
{
    codec_u32(codec, &m->job);
    codec_u32(codec, &m->n_samples);
    codec_u32(codec, &m->n_batches);
    codec_u32(codec, &m->n_classes);
    if (version < 8)
        each_image(codec, &m->layout);
    codec_u32(codec, &m->held_max);
    codec_u32(codec, &m->epoch);
    codec_u32(codec, &m->batch);
    codec_u64(codec, &m->sample_bytes);
    codec_u64(codec, &m->fingerprint[0]);
    codec_u64(codec, &m->fingerprint[1]);
    if (version > 4) {
        uint32_t fields = version > 7 ? m->layout.n : 0;
        codec_u64(codec, &m->view[0]);
        codec_u64(codec, &m->view[1]);
        codec_u32(codec, &m->dataset_samples);
        codec_u32(codec, &fields);
        if (version > 7)
            m->layout.n = fields;
        else
            codec->failed |= fields != 0;
    }
    for (int i = 0; version > 6 && i < 2; i++)
        codec_u64(codec, &m->version.times[i]);
    for (int i = 0; version > 6 && i < 2; i++)
        codec_u64(codec, &m->version.content[i]);
    if (version > 7)
        each_layout(codec, &m->layout, m->sample_bytes);
    text(codec, &m->name);
}

static void each_classes(struct codec *codec, struct wire_classes *m)
{
    codec_u32(codec, &m->first);
    codec_u32(codec, &m->count);
    codec_u32(codec, &m->total);
    text(codec, &m->names);
}

static void each_next(struct codec *codec, struct wire_next *m, uint16_t version)
{
    codec_u32(codec, &m->epoch);
    codec_u32(codec, &m->credits);
    if (version > 5)
        codec_u32(codec, &m->awaited);
}

static void each_batch(struct codec *codec, struct wire_batch *m, uint16_t version)
{
    codec_u64(codec, &m->batch);
    codec_u32(codec, &m->epoch);
    codec_u32(codec, &m->index);
    codec_u32(codec, &m->flags);
    codec_u32(codec, &m->count);
    codec_u32(codec, &m->lost);
    if (version > 4)
        codec_u32(codec, &m->through);
    codec_f64(codec, &m->weight);
    m->entries = codec_bytes(codec, m->entries, (size_t)m->count * WIRE_ENTRY_BYTES);
}

static void each_error(struct codec *codec, struct wire_error *m)
{
    uint32_t code = (uint32_t)m->code;
    codec_u32(codec, &code);
    m->code = (int32_t)code;
    codec_u32(codec, &m->fatal);
    text(codec, &m->text);
}

static void each_turns(struct codec *codec, struct wire_turns *m)
{
    codec_u64(codec, &m->batch);
    codec_u32(codec, &m->count);
    m->turns = codec_bytes(codec, m->turns, (size_t)m->count * WIRE_TURN_BYTES);
}

static void each_state_get(struct codec *codec, struct wire_state_get *m)
{
    codec_u32(codec, &m->epoch);
    codec_u32(codec, &m->batches);
    codec_u32(codec, &m->timeout_ms);
}

static void each_done(struct codec *codec, struct wire_done *m)
{
    codec_u32(codec, &m->epoch);
    codec_u32(codec, &m->rank);
    codec_u32(codec, &m->n_bytes);
}

static void each_column(struct codec *codec, struct wire_column *m)
{
    codec_u32(codec, &m->kind);
    codec_u32(codec, &m->width);
    codec_u64(codec, &m->count);
    codec_u64(codec, &m->n_bytes);
}

static void each_body(struct codec *codec, struct wire_message *msg)
{
    switch (msg->type) {
    case WIRE_HELLO: each_hello(codec, &msg->hello); break;
    case WIRE_WELCOME: each_welcome(codec, &msg->welcome); break;
    case WIRE_REGISTER: each_register(codec, &msg->reg, msg->version); break;
    case WIRE_REGISTERED: each_registered(codec, &msg->registered, msg->version); break;
    case WIRE_CLASSES_GET: codec_u32(codec, &msg->classes_get.first); break;
    case WIRE_CLASSES: each_classes(codec, &msg->classes); break;
    case WIRE_NEXT: each_next(codec, &msg->next, msg->version); break;
    case WIRE_BATCH: each_batch(codec, &msg->batch, msg->version); break;
    case WIRE_RELEASE: codec_u64(codec, &msg->release.batch); break;
    case WIRE_ERROR: each_error(codec, &msg->error); break;
    case WIRE_BYE: break;
    case WIRE_TURNS: each_turns(codec, &msg->turns); break;
    case WIRE_STATE_GET: each_state_get(codec, &msg->state_get); break;
    case WIRE_STATE: codec_u32(codec, &msg->state.n_bytes); break;
    case WIRE_DONE: each_done(codec, &msg->done); break;
    case WIRE_COLUMN_GET: text(codec, &msg->column_get.name); break;
    case WIRE_COLUMN: each_column(codec, &msg->column); break;
    }
}

static const char *const type_names[] = {"?",       "HELLO",     "WELCOME", "REGISTER", "REGISTERED", "CLASSES_GET",
                                         "CLASSES", "NEXT",      "BATCH",   "RELEASE",  "ERROR",      "BYE",
                                         "TURNS",   "STATE_GET", "STATE",   "DONE",     "COLUMN_GET", "COLUMN"};
_Static_assert(sizeof type_names / sizeof *type_names == WIRE_COLUMN + 1, "each type has its name");

static size_t message_max(enum wire_type type)
{
    bool request = type == WIRE_HELLO || type == WIRE_REGISTER || type == WIRE_CLASSES_GET || type == WIRE_NEXT ||
                   type == WIRE_RELEASE || type == WIRE_BYE || type == WIRE_STATE_GET || type == WIRE_COLUMN_GET;
    return request ? WIRE_REQUEST_MAX : WIRE_REPLY_MAX;
}

/* ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t each_header(struct codec *codec, uint32_t magic, struct wire_message *msg)
{
    uint32_t length = 0; /* encoding writes it at the end, when it is known */
    uint16_t type = (uint16_t)msg->type;
    codec_u32(codec, &magic);
    codec_u16(codec, &msg->version);
    codec_u16(codec, &type);
    codec_u32(codec, &msg->seq);
    codec_u32(codec, &length);
    msg->type = (enum wire_type)type;
    return length;
}

int wire_encode(const struct wire_message *msg, void *buf, size_t cap, size_t *len_bytes)
{
    struct wire_message copy = *msg; /* the layouts take fields they could also fill */
    if (copy.version == 0)
        copy.version = WIRE_VERSION;
    int rc = wire_check(&copy, NULL);
    if (rc)
        return rc;
    size_t max = message_max(msg->type);
    struct codec codec = {.out = buf, .cap = cap < max ? cap : max};
    if (!buf)
        return LARDER_ELIMIT;
    each_header(&codec, WIRE_MAGIC, &copy);
    each_body(&codec, &copy);
    if (codec.failed)
        return LARDER_ELIMIT;
    put_u32((uint8_t *)buf + 12, (uint32_t)codec.pos);
    *len_bytes = codec.pos;
    return 0;
}

static int other_version(uint16_t version, struct error *err)
{
    return error_set(err, LARDER_EVERSION,
                     "the peer speaks protocol version %u, this side versions %d to %d: install the same release of "
                     "Larder on both sides",
                     version, WIRE_VERSION_OLDEST, WIRE_VERSION);
}

int wire_decode(const void *buf, size_t len_bytes, struct wire_message *out, struct error *err)
{
    if (len_bytes < WIRE_HEADER_BYTES || len_bytes > WIRE_REPLY_MAX)
        return error_set(err, LARDER_EFORMAT, "a message of %zu bytes, not %d to %d", len_bytes, WIRE_HEADER_BYTES,
                         WIRE_REPLY_MAX);
    if (get_u32(buf) != WIRE_MAGIC)
        return error_set(err, LARDER_EFORMAT, "a message that does not begin with Larder's magic number");
    struct codec codec = {.in = buf, .cap = len_bytes};
    struct wire_message msg;
    memset(&msg, 0, sizeof msg);
    uint32_t length = each_header(&codec, 0, &msg);
    if (msg.version < WIRE_VERSION_OLDEST || msg.version > WIRE_VERSION)
        return other_version(msg.version, err);
    if (msg.type < WIRE_HELLO || msg.type > wire_type_last(msg.version))
        return error_set(err, LARDER_EFORMAT, "a message of unknown type %d", (int)msg.type);
    const char *name = type_names[msg.type];
    if (length != len_bytes || len_bytes > message_max(msg.type))
        return error_set(err, LARDER_EFORMAT, "%s: %zu bytes arrived where the header says %u", name, len_bytes,
                         length);
    each_body(&codec, &msg);
    if (codec.failed || codec.pos != len_bytes)
        return error_set(err, LARDER_EFORMAT, "%s: %zu bytes do not fit its fields", name, len_bytes);
    struct error why;
    if (wire_check(&msg, &why))
        return error_set(err, LARDER_EFORMAT, "%s: %.*s", name, ERROR_TEXT_MAX - 32, why.text);
    *out = msg;
    return 0;
}
