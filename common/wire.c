/* wire.c: the session protocol's codec. Pure: no state, no allocation, any thread.
 *
 * Layout: a header of 16 bytes, u32 magic, u16 version, u16 type, u32 seq, u32 length of the whole message; then the
 * numbers of the message's struct in the order of wire.h; then its texts in that order, each u32 length and its bytes
 * (a batch has its entries there instead, without a length: count says it). Everything little-endian, nothing padded.
 *
 * Each layout is written down once, in an each_… function that serves both directions, so that what is encoded and what
 * is decoded cannot drift apart. A codec that ran out of bytes is marked failed and every later field does nothing. */
#include "common/wire.h"

#include <stdbool.h>
#include <string.h>

struct codec {
    uint8_t *out;      /* encoding; NULL when decoding */
    const uint8_t *in; /* decoding */
    size_t pos, cap;
    bool failed;
};

static uint64_t load_le(const uint8_t *bytes, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void store_le(uint8_t *bytes, unsigned count, uint64_t value)
{
    for (unsigned i = 0; i < count; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t number(struct codec *codec, uint64_t value, unsigned count)
{
    if (codec->failed || codec->cap - codec->pos < count) {
        codec->failed = true;
        return value;
    }
    if (codec->out)
        store_le(codec->out + codec->pos, count, value);
    else
        value = load_le(codec->in + codec->pos, count);
    codec->pos += count;
    return value;
}

static void u16(struct codec *codec, uint16_t *value)
{
    *value = (uint16_t)number(codec, *value, 2);
}

static void u32(struct codec *codec, uint32_t *value)
{
    *value = (uint32_t)number(codec, *value, 4);
}

static void u64(struct codec *codec, uint64_t *value)
{
    *value = number(codec, *value, 8);
}

static void f64(struct codec *codec, double *value)
{
    uint64_t bits;
    memcpy(&bits, value, sizeof bits);
    u64(codec, &bits);
    memcpy(value, &bits, sizeof bits);
}

static const uint8_t *bytes(struct codec *codec, const void *data, size_t len_bytes)
{
    if (codec->failed || codec->cap - codec->pos < len_bytes) {
        codec->failed = true;
        return NULL;
    }
    const uint8_t *at = codec->out ? data : codec->in + codec->pos;
    if (codec->out && len_bytes)
        memcpy(codec->out + codec->pos, data, len_bytes);
    codec->pos += len_bytes;
    return at;
}

static void text(struct codec *codec, struct wire_text *value)
{
    u32(codec, &value->len_bytes);
    value->data = (const char *)bytes(codec, value->data, value->len_bytes);
}

/* ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void each_hello(struct codec *codec, struct wire_hello *m)
{
    u32(codec, &m->pid);
    text(codec, &m->client);
}

static void each_welcome(struct codec *codec, struct wire_welcome *m)
{
    u64(codec, &m->arena_bytes);
    u32(codec, &m->daemon_pid);
    u32(codec, &m->batch_max);
}

static void each_register(struct codec *codec, struct wire_register *m)
{
    u32(codec, &m->batch_size);
    u32(codec, &m->prefetch);
    u32(codec, &m->world_size);
    u32(codec, &m->rank);
    u32(codec, &m->epochs);
    u32(codec, &m->shuffle);
    u32(codec, &m->bad_policy);
    u32(codec, &m->flags);
    u64(codec, &m->seed);
    f64(codec, &m->weight);
    text(codec, &m->name);
    text(codec, &m->dataset);
    text(codec, &m->pipeline);
    text(codec, &m->subset);
}

static void each_registered(struct codec *codec, struct wire_registered *m)
{
    u32(codec, &m->job);
    u32(codec, &m->n_samples);
    u32(codec, &m->n_batches);
    u32(codec, &m->n_classes);
    u32(codec, &m->height);
    u32(codec, &m->width);
    u32(codec, &m->channels);
    u32(codec, &m->dtype);
    u32(codec, &m->layout);
    u32(codec, &m->held_max);
    u32(codec, &m->epoch);
    u32(codec, &m->batch);
    u64(codec, &m->sample_bytes);
    u64(codec, &m->fingerprint[0]);
    u64(codec, &m->fingerprint[1]);
    text(codec, &m->name);
}

static void each_classes(struct codec *codec, struct wire_classes *m)
{
    u32(codec, &m->first);
    u32(codec, &m->count);
    u32(codec, &m->total);
    text(codec, &m->names);
}

static void each_next(struct codec *codec, struct wire_next *m)
{
    u32(codec, &m->epoch);
    u32(codec, &m->credits);
}

static void each_batch(struct codec *codec, struct wire_batch *m)
{
    u64(codec, &m->batch);
    u32(codec, &m->epoch);
    u32(codec, &m->index);
    u32(codec, &m->flags);
    u32(codec, &m->count);
    u32(codec, &m->lost);
    f64(codec, &m->weight);
    m->entries = bytes(codec, m->entries, (size_t)m->count * WIRE_ENTRY_BYTES);
}

static void each_error(struct codec *codec, struct wire_error *m)
{
    uint32_t code = (uint32_t)m->code;
    u32(codec, &code);
    m->code = (int32_t)code;
    u32(codec, &m->fatal);
    text(codec, &m->text);
}

static void each_field(struct codec *codec, struct wire_message *msg)
{
    switch (msg->type) {
    case WIRE_HELLO: each_hello(codec, &msg->hello); break;
    case WIRE_WELCOME: each_welcome(codec, &msg->welcome); break;
    case WIRE_REGISTER: each_register(codec, &msg->reg); break;
    case WIRE_REGISTERED: each_registered(codec, &msg->registered); break;
    case WIRE_CLASSES_GET: u32(codec, &msg->classes_get.first); break;
    case WIRE_CLASSES: each_classes(codec, &msg->classes); break;
    case WIRE_NEXT: each_next(codec, &msg->next); break;
    case WIRE_BATCH: each_batch(codec, &msg->batch); break;
    case WIRE_RELEASE: u64(codec, &msg->release.batch); break;
    case WIRE_ERROR: each_error(codec, &msg->error); break;
    case WIRE_BYE: break;
    }
}

/* ── ranges, the same for what is sent and what arrives ──────────────────────────────────────────────────────────── */

static int check_number(struct error *err, const char *field, uint64_t value, uint64_t min, uint64_t max)
{
    if (value >= min && value <= max)
        return 0;
    return error_set(err, LARDER_EINVAL, "%s is %llu, not %llu to %llu", field, (unsigned long long)value,
                     (unsigned long long)min, (unsigned long long)max);
}

static int check_weight(struct error *err, double weight)
{
    if (weight >= JOB_WEIGHT_MIN && weight <= JOB_WEIGHT_MAX) /* false for what is no number */
        return 0;
    return error_set(err, LARDER_EINVAL, "weight is %g, not %g to %g", weight, JOB_WEIGHT_MIN, JOB_WEIGHT_MAX);
}

static int check_text(struct error *err, const char *field, const struct wire_text *value, uint32_t max)
{
    if (value->len_bytes > max)
        return error_set(err, LARDER_ELIMIT, "%s has %u bytes, more than the %u allowed", field, value->len_bytes, max);
    if (value->len_bytes && (!value->data || memchr(value->data, 0, value->len_bytes)))
        return error_set(err, LARDER_EINVAL, "%s holds a NUL byte", field);
    return 0;
}

static int check_register(const struct wire_register *m, struct error *err)
{
    int rc = 0;
    if ((rc = check_number(err, "batch_size", m->batch_size, 1, WIRE_BATCH_MAX)) ||
        (rc = check_number(err, "prefetch", m->prefetch, 1, WIRE_CREDITS_MAX)) ||
        (rc = check_number(err, "world_size", m->world_size, 1, UINT32_MAX)) ||
        (rc = check_number(err, "rank", m->rank, 0, m->world_size - 1)) ||
        (rc = check_number(err, "shuffle", m->shuffle, 0, SHUFFLE_NONE)) ||
        (rc = check_number(err, "bad_policy", m->bad_policy, 0, BAD_ERROR)) ||
        (rc = check_number(err, "flags", m->flags, 0, WIRE_REGISTER_FLAGS_ALL)) ||
        (rc = check_weight(err, m->weight)) || (rc = check_text(err, "name", &m->name, WIRE_NAME_MAX)) ||
        (rc = check_text(err, "dataset", &m->dataset, WIRE_PATH_MAX)) ||
        (rc = check_text(err, "pipeline", &m->pipeline, WIRE_SPEC_MAX)))
        return rc;
    return check_text(err, "subset", &m->subset, WIRE_SPEC_MAX);
}

static int check_classes(const struct wire_classes *m, struct error *err)
{
    if (m->count > m->total || m->first > m->total - m->count)
        return error_set(err, LARDER_EINVAL, "classes %u + %u exceed the total of %u", m->first, m->count, m->total);
    if (m->names.len_bytes > WIRE_REPLY_MAX)
        return error_set(err, LARDER_ELIMIT, "names has %u bytes, more than a message holds", m->names.len_bytes);
    uint32_t cursor = 0, count = 0;
    struct wire_text name;
    int rc;
    while ((rc = wire_class_next(&m->names, &cursor, &name)) == 0)
        count++;
    if (rc != LARDER_EEND || count != m->count)
        return error_set(err, LARDER_EINVAL, "names do not hold %u whole class names", m->count);
    return 0;
}

static int check_registered(const struct wire_registered *m, struct error *err)
{
    int rc = check_number(err, "dtype", m->dtype, 0, PIXEL_FLOAT32);
    if (!rc)
        rc = check_number(err, "layout", m->layout, 0, LAYOUT_CHW);
    return rc ? rc : check_text(err, "name", &m->name, WIRE_NAME_MAX);
}

static int check_batch(const struct wire_batch *m, struct error *err)
{
    if (m->count > WIRE_BATCH_MAX)
        return error_set(err, LARDER_ELIMIT, "count is %u, more than the %u allowed", m->count, WIRE_BATCH_MAX);
    int rc = check_number(err, "flags", m->flags, 0, WIRE_BATCH_LAST);
    return rc || m->weight == 0 ? rc : check_weight(err, m->weight);
}

static int check_error(const struct wire_error *m, struct error *err)
{
    if (m->code > LARDER_EINVAL || m->code < LARDER_ECHANGED)
        return error_set(err, LARDER_EINVAL, "code %d is no error code", m->code);
    int rc = check_number(err, "fatal", m->fatal, 0, 1);
    return rc ? rc : check_text(err, "text", &m->text, ERROR_TEXT_MAX);
}

static int check_fields(const struct wire_message *msg, struct error *err)
{
    switch (msg->type) {
    case WIRE_HELLO: return check_text(err, "client", &msg->hello.client, WIRE_CLIENT_MAX);
    case WIRE_WELCOME: return check_number(err, "batch_max", msg->welcome.batch_max, 1, WIRE_BATCH_MAX);
    case WIRE_REGISTER: return check_register(&msg->reg, err);
    case WIRE_REGISTERED: return check_registered(&msg->registered, err);
    case WIRE_CLASSES: return check_classes(&msg->classes, err);
    case WIRE_NEXT: return check_number(err, "credits", msg->next.credits, 1, WIRE_CREDITS_MAX);
    case WIRE_BATCH: return check_batch(&msg->batch, err);
    case WIRE_ERROR: return check_error(&msg->error, err);
    case WIRE_CLASSES_GET:
    case WIRE_RELEASE:
    case WIRE_BYE: return 0;
    }
    return error_set(err, LARDER_EINVAL, "type %d is unknown", (int)msg->type);
}

static const char *const type_names[] = {"?",       "HELLO", "WELCOME", "REGISTER", "REGISTERED", "CLASSES_GET",
                                         "CLASSES", "NEXT",  "BATCH",   "RELEASE",  "ERROR",      "BYE"};

static size_t message_max(enum wire_type type)
{
    bool request = type == WIRE_HELLO || type == WIRE_REGISTER || type == WIRE_CLASSES_GET || type == WIRE_NEXT ||
                   type == WIRE_RELEASE || type == WIRE_BYE;
    return request ? WIRE_REQUEST_MAX : WIRE_REPLY_MAX;
}

/* ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t each_header(struct codec *codec, uint32_t magic, uint16_t *version, struct wire_message *msg)
{
    uint32_t length = 0; /* encoding writes it at the end, when it is known */
    uint16_t type = (uint16_t)msg->type;
    u32(codec, &magic);
    u16(codec, version);
    u16(codec, &type);
    u32(codec, &msg->seq);
    u32(codec, &length);
    msg->type = (enum wire_type)type;
    return length;
}

int wire_encode(const struct wire_message *msg, void *buf, size_t cap, size_t *len_bytes)
{
    int rc = check_fields(msg, NULL);
    if (rc)
        return rc;
    struct wire_message copy = *msg; /* the layouts take fields they could also fill */
    size_t max = message_max(msg->type);
    struct codec codec = {.out = buf, .cap = cap < max ? cap : max};
    uint16_t version = WIRE_VERSION;
    if (!buf)
        return LARDER_ELIMIT;
    each_header(&codec, WIRE_MAGIC, &version, &copy);
    each_field(&codec, &copy);
    if (codec.failed)
        return LARDER_ELIMIT;
    store_le((uint8_t *)buf + 12, 4, codec.pos);
    *len_bytes = codec.pos;
    return 0;
}

int wire_decode(const void *buf, size_t len_bytes, struct wire_message *out, struct error *err)
{
    if (len_bytes < WIRE_HEADER_BYTES || len_bytes > WIRE_REPLY_MAX)
        return error_set(err, LARDER_EFORMAT, "a message of %zu bytes, not %d to %d", len_bytes, WIRE_HEADER_BYTES,
                         WIRE_REPLY_MAX);
    if (load_le(buf, 4) != WIRE_MAGIC)
        return error_set(err, LARDER_EFORMAT, "a message that does not begin with Larder's magic number");
    struct codec codec = {.in = buf, .cap = len_bytes};
    struct wire_message msg;
    memset(&msg, 0, sizeof msg);
    uint16_t version = 0;
    uint32_t length = each_header(&codec, 0, &version, &msg);
    if (version != WIRE_VERSION)
        return error_set(err, LARDER_EVERSION, "the peer speaks protocol version %u, this side version %d: install the "
                         "same release of Larder on both sides", version, WIRE_VERSION);
    if (msg.type < WIRE_HELLO || msg.type > WIRE_BYE)
        return error_set(err, LARDER_EFORMAT, "a message of unknown type %d", (int)msg.type);
    const char *name = type_names[msg.type];
    if (length != len_bytes || len_bytes > message_max(msg.type))
        return error_set(err, LARDER_EFORMAT, "%s: %zu bytes arrived where the header says %u", name, len_bytes,
                         length);
    each_field(&codec, &msg);
    if (codec.failed || codec.pos != len_bytes)
        return error_set(err, LARDER_EFORMAT, "%s: %zu bytes do not fit its fields", name, len_bytes);
    struct error why;
    if (check_fields(&msg, &why))
        return error_set(err, LARDER_EFORMAT, "%s: %.*s", name, ERROR_TEXT_MAX - 32, why.text);
    *out = msg;
    return 0;
}

/* ── parts of messages ───────────────────────────────────────────────────────────────────────────────────────────── */

void wire_entry_put(uint8_t *entries, uint32_t index, const struct wire_entry *entry)
{
    uint8_t *at = entries + (size_t)index * WIRE_ENTRY_BYTES;
    store_le(at, 8, entry->offset);
    store_le(at + 8, 4, entry->len_bytes);
    store_le(at + 12, 4, entry->id);
    store_le(at + 16, 4, entry->index);
    store_le(at + 20, 4, (uint32_t)entry->label);
}

struct wire_entry wire_entry_get(const uint8_t *entries, uint32_t index)
{
    const uint8_t *at = entries + (size_t)index * WIRE_ENTRY_BYTES;
    return (struct wire_entry){
        .offset = load_le(at, 8),
        .len_bytes = (uint32_t)load_le(at + 8, 4),
        .id = (uint32_t)load_le(at + 12, 4),
        .index = (uint32_t)load_le(at + 16, 4),
        .label = (int32_t)(uint32_t)load_le(at + 20, 4),
    };
}

int wire_class_next(const struct wire_text *names, uint32_t *cursor, struct wire_text *out)
{
    uint32_t at = *cursor;
    if (at >= names->len_bytes)
        return at == names->len_bytes ? LARDER_EEND : LARDER_EFORMAT;
    uint32_t left = names->len_bytes - at;
    const uint8_t *data = (const uint8_t *)names->data + at;
    uint32_t len = left < 2 ? UINT32_MAX : (uint32_t)load_le(data, 2);
    if (left < 2 || len > left - 2 || memchr(data + 2, 0, len))
        return LARDER_EFORMAT;
    *out = (struct wire_text){.data = (const char *)data + 2, .len_bytes = len};
    *cursor = at + 2 + len;
    return 0;
}

int wire_class_put(char *names, uint32_t cap, uint32_t *used, const char *name, size_t len_bytes)
{
    if (len_bytes > UINT16_MAX || *used > cap || len_bytes + 2 > cap - *used)
        return LARDER_ELIMIT;
    if (len_bytes && memchr(name, 0, len_bytes))
        return LARDER_EINVAL;
    store_le((uint8_t *)names + *used, 2, len_bytes);
    if (len_bytes)
        memcpy(names + *used + 2, name, len_bytes);
    *used += 2 + (uint32_t)len_bytes;
    return 0;
}
