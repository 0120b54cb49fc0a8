/* wire_check.c: what a message's fields may hold, the same for what is sent and for what arrives. */
#include "common/wire_priv.h"

#include <stdbool.h>
#include <string.h>

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

/* The ranks at a node are some of the job's, and the client's rank is one of them. */
static int check_local(const struct wire_register *m, struct error *err)
{
    if (m->local_world_size == 0 && m->local_first == 0)
        return 0;
    if (m->local_world_size == 0 || m->local_first >= m->world_size ||
        m->local_world_size > m->world_size - m->local_first)
        return error_set(err, LARDER_EINVAL, "the ranks at this node are %u from %u on, and the job has %u",
                         m->local_world_size, m->local_first, m->world_size);
    if (m->rank < m->local_first || m->rank - m->local_first >= m->local_world_size)
        return error_set(err, LARDER_EINVAL, "rank %u is none of the %u ranks from %u on that are at this node",
                         m->rank, m->local_world_size, m->local_first);
    return 0;
}

/* check_sampler checks what the message says of an epoch's draws. */
static int check_sampler(const struct wire_register *m, uint16_t version, struct error *err)
{
    bool repeats = m->sampler == WIRE_REPEAT, draws = m->sampler == WIRE_WEIGHTS || m->sampler == WIRE_BALANCED;
    int rc = 0;
    if ((rc = check_number(err, "sampler", m->sampler, 0, version > 8 ? WIRE_BALANCED : WIRE_ONCE)) ||
        (rc = check_number(err, "copies", m->copies, repeats ? 2 : 0, repeats ? WIRE_COPIES_MAX : 0)) ||
        (rc = check_number(err, "draws", m->draws, 0, draws ? WIRE_DRAWS_MAX : 0)))
        return rc;
    if ((m->sampler == WIRE_WEIGHTS) != ((m->flags & WIRE_WITH_WEIGHTS) != 0))
        return error_set(err, LARDER_EINVAL, "sampler is %u, and the flags are %u: weights come with sampler %d alone",
                         m->sampler, m->flags, WIRE_WEIGHTS);
    return 0;
}

/* check_deal checks how an epoch is dealt. */
static int check_deal(const struct wire_register *m, uint16_t version, struct error *err)
{
    bool may = version > 12 && m->shuffle == SHUFFLE_DEPENDENT;
    int rc = check_number(err, "deal", m->deal, 0, may ? WIRE_DEAL_HOME : WIRE_DEAL_EPOCH);
    return rc ? rc : check_number(err, "mix", m->mix, 0, m->deal == WIRE_DEAL_HOME ? WIRE_MIX_ALL : 0);
}

static uint32_t register_flags(uint16_t version)
{
    return version > 8 ? WIRE_REGISTER_FLAGS_ALL : version > 4 ? WIRE_REGISTER_FLAGS_ALL_8 : WIRE_REGISTER_FLAGS_ALL_4;
}

static int check_register(const struct wire_register *m, uint16_t version, struct error *err)
{
    int rc = 0;
    if ((rc = check_number(err, "batch_size", m->batch_size, 1, WIRE_BATCH_MAX)) ||
        (rc = check_number(err, "prefetch", m->prefetch, 1, WIRE_CREDITS_MAX)) ||
        (rc = check_number(err, "world_size", m->world_size, 1, UINT32_MAX)) ||
        (rc = check_number(err, "rank", m->rank, 0, m->world_size - 1)) || (rc = check_local(m, err)) ||
        (rc = check_number(err, "shuffle", m->shuffle, 0, SHUFFLE_NONE)) ||
        (rc = check_number(err, "bad_policy", m->bad_policy, 0, BAD_ERROR)) ||
        (rc = check_number(err, "flags", m->flags, 0, register_flags(version))) ||
        (rc = check_sampler(m, version, err)) || (rc = check_deal(m, version, err)) ||
        (rc = check_weight(err, m->weight)) || (rc = check_text(err, "name", &m->name, WIRE_NAME_MAX)) ||
        (rc = check_text(err, "dataset", &m->dataset, WIRE_PATH_MAX)) ||
        (rc = check_text(err, "pipeline", &m->pipeline, WIRE_SPEC_MAX)))
        return rc;
    return check_text(err, "subset", &m->subset, WIRE_SPEC_MAX);
}

static int check_next(const struct wire_next *m, uint16_t version, struct error *err)
{
    bool stands = version > 5 && m->awaited && m->awaited != WIRE_AHEAD;
    int rc = check_number(err, "credits", m->credits, stands ? 0 : 1, WIRE_CREDITS_MAX);
    return rc || !stands ? rc : check_number(err, "awaited", m->awaited, m->credits, WIRE_CREDITS_MAX);
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

static int check_registered(const struct wire_registered *m, uint16_t version, struct error *err)
{
    struct image_shape image;
    int rc = sample_layout_check(&m->layout, err);
    if (rc)
        return rc;
    if (m->layout.n && m->sample_bytes != m->layout.bytes)
        return error_set(err, LARDER_EINVAL, "sample_bytes is %llu, and the fields of a sample take %llu bytes",
                         (unsigned long long)m->sample_bytes, (unsigned long long)m->layout.bytes);
    if (version < 8 && m->layout.n && !sample_layout_image(&m->layout, &image))
        return error_set(err, LARDER_EINVAL, "version %u knows samples of one image alone, and these have %u fields",
                         version, m->layout.n);
    if (version < 12 && sample_layout_is_ragged(&m->layout))
        return error_set(err, LARDER_EINVAL, "version %u knows samples of one size alone", version);
    for (uint32_t i = 0; version < 11 && i < m->layout.n; i++) {
        if (!field_is_image(&m->layout.fields[i]))
            return error_set(err, LARDER_EINVAL, "version %u knows images alone: field %s", version,
                             m->layout.fields[i].name);
    }
    return check_text(err, "name", &m->name, WIRE_NAME_MAX);
}

static int check_batch(const struct wire_batch *m, struct error *err)
{
    if (m->count > WIRE_BATCH_MAX)
        return error_set(err, LARDER_ELIMIT, "count is %u, more than the %u allowed", m->count, WIRE_BATCH_MAX);
    int rc = check_number(err, "flags", m->flags, 0, WIRE_BATCH_LAST);
    return rc || m->weight == 0 ? rc : check_weight(err, m->weight);
}

static int check_turns(const struct wire_turns *m, struct error *err)
{
    int rc = check_number(err, "count", m->count, 1, WIRE_BATCH_MAX);
    for (uint32_t i = 0; !rc && i < m->count; i++) {
        uint32_t min = i ? wire_turn_get(m->turns, i - 1).position + 1 : 0;
        rc = check_number(err, "position", wire_turn_get(m->turns, i).position, min, WIRE_BATCH_MAX - 1);
    }
    return rc;
}

static int check_column_get(const struct wire_column_get *m, struct error *err)
{
    int rc = check_number(err, "the length of name", m->name.len_bytes, 1, WIRE_COLUMN_MAX);
    return rc ? rc : check_text(err, "name", &m->name, WIRE_COLUMN_MAX);
}

static int check_column(const struct wire_column *m, struct error *err)
{
    bool is_text = m->kind == WIRE_COLUMN_TEXT;
    uint64_t words = is_text ? m->count + 1 : m->count * m->width;
    int rc = 0;
    if ((rc = check_number(err, "kind", m->kind, 0, WIRE_COLUMN_TEXT)) ||
        (rc = check_number(err, "width", m->width, 1, is_text ? 1 : WIRE_WIDTH_MAX)) ||
        (rc = check_number(err, "count", m->count, 0, UINT32_MAX)))
        return rc;
    return check_number(err, "n_bytes", m->n_bytes, words * 8, is_text ? INT64_MAX : words * 8);
}

static int check_error(const struct wire_error *m, struct error *err)
{
    if (m->code > LARDER_EINVAL || m->code < LARDER_ECHANGED)
        return error_set(err, LARDER_EINVAL, "code %d is no error code", m->code);
    int rc = check_number(err, "fatal", m->fatal, 0, 1);
    return rc ? rc : check_text(err, "text", &m->text, ERROR_TEXT_MAX);
}

int wire_check(const struct wire_message *msg, struct error *err)
{
    if (msg->version < WIRE_VERSION_OLDEST || msg->version > WIRE_VERSION || msg->type > wire_type_last(msg->version))
        return error_set(err, LARDER_EINVAL, "version %u has no type %d", msg->version, (int)msg->type);
    switch (msg->type) {
    case WIRE_HELLO: return check_text(err, "client", &msg->hello.client, WIRE_CLIENT_MAX);
    case WIRE_WELCOME: return check_number(err, "batch_max", msg->welcome.batch_max, 1, WIRE_BATCH_MAX);
    case WIRE_REGISTER: return check_register(&msg->reg, msg->version, err);
    case WIRE_REGISTERED: return check_registered(&msg->registered, msg->version, err);
    case WIRE_CLASSES: return check_classes(&msg->classes, err);
    case WIRE_NEXT: return check_next(&msg->next, msg->version, err);
    case WIRE_BATCH: return check_batch(&msg->batch, err);
    case WIRE_ERROR: return check_error(&msg->error, err);
    case WIRE_TURNS: return check_turns(&msg->turns, err);
    case WIRE_COLUMN_GET: return check_column_get(&msg->column_get, err);
    case WIRE_COLUMN: return check_column(&msg->column, err);
    case WIRE_CLASSES_GET:
    case WIRE_STATE_GET:
    case WIRE_STATE:
    case WIRE_DONE:
    case WIRE_RELEASE:
    case WIRE_BYE: return 0;
    }
    return error_set(err, LARDER_EINVAL, "type %d is unknown", (int)msg->type);
}
