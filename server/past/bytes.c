/* bytes.c: the past as bytes: a head, all parts in order, and a checksum. layout names the fields of both directions.
 * Bytes are foreign: each count is bounded, and what has no sense is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/codec.h"
#include "server/past/past_priv.h"

#define MAGIC UINT32_C(0x5453504c)
#define VERSION 1
#define HEAD_BYTES 8
#define SUM_BYTES 8

static void f32(struct codec *codec, float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    codec_u32(codec, &bits);
    memcpy(value, &bits, sizeof bits);
    codec->failed |= !isfinite(*value) || *value < 0;
}

static void f64(struct codec *codec, double *value)
{
    codec_f64(codec, value);
    codec->failed |= !isfinite(*value) || *value < 0;
}

static void u8(struct codec *codec, uint8_t *value, unsigned most)
{
    *value = (uint8_t)codec_number(codec, *value, 1);
    codec->failed |= *value > most;
}

/* below reads or writes a number that is at most `most`. */
static void below(struct codec *codec, uint32_t *value, uint32_t most)
{
    codec_u32(codec, value);
    codec->failed |= *value > most;
}

/* text writes all bytes of a text, and takes them only with an end. */
static void text(struct codec *codec, char *bytes, size_t size)
{
    const uint8_t *from = codec_bytes(codec, bytes, size);
    if (!codec->out && from)
        memcpy(bytes, from, size);
    codec->failed |= !from || !memchr(bytes, 0, size);
}

static void figures(struct codec *codec, struct past_figures *of)
{
    codec_u64(codec, &of->delivered);
    codec_u64(codec, &of->shared);
    codec_u64(codec, &of->prepared);
    codec_u64(codec, &of->bad);
    for (size_t cause = 0; cause < PAST_CAUSES; cause++)
        f64(codec, &of->waits_s[cause]);
    f64(codec, &of->epochs_done);
    codec_u32(codec, &of->epochs);
    codec_u32(codec, &of->ranks);
}

static void job(struct codec *codec, struct past_job *of)
{
    codec_u32(codec, &of->id);
    text(codec, of->name, sizeof of->name);
    u8(codec, &of->state, PAST_STATES - 1);
    f64(codec, &of->begun_s);
    f64(codec, &of->ended_s);
    figures(codec, &of->figures);
}

static void event(struct codec *codec, struct past_event *of)
{
    f64(codec, &of->time_s);
    u8(codec, &of->kind, PAST_KINDS - 1);
    codec_u32(codec, &of->id);
    text(codec, of->text, sizeof of->text);
}

static void gift(struct codec *codec, struct past_gift *of)
{
    codec_u32(codec, &of->time_s);
    codec_u16(codec, &of->from);
    codec_u16(codec, &of->to);
    codec_u32(codec, &of->samples);
    codec->failed |= of->to >= PAST_JOBS || (of->from >= PAST_JOBS && of->from != PAST_NONE);
}

static void point(struct codec *codec, struct point *of)
{
    f32(codec, &of->per_s);
    f32(codec, &of->shared_per_s);
    codec_u16(codec, &of->slot);
    for (size_t cause = 0; cause < PAST_CAUSES; cause++)
        u8(codec, &of->waits[cause], (unsigned)PART);
    codec->failed |= of->slot >= PAST_JOBS;
}

/* track_layout has the frames, each with its points. Decoding, the track is empty before. */
static void track_layout(struct codec *codec, struct track *track, struct point *points)
{
    uint32_t count = (uint32_t)(track->end - track->begin);
    uint64_t from = track->begin;
    below(codec, &count, track->cap);
    for (uint32_t i = 0; i < count && !codec->failed; i++) {
        struct frame frame = codec->out ? *track_frame(track, from + i) : (struct frame){0};
        f64(codec, &frame.time_s);
        f32(codec, &frame.span_s);
        for (size_t value = 0; value < PAST_VALUES; value++)
            f32(codec, &frame.values[value]);
        below(codec, &frame.n_points, PAST_JOBS);
        for (uint32_t k = 0; k < frame.n_points && !codec->failed; k++) {
            if (codec->out)
                points[k] = *track_point(track, frame.first + k);
            point(codec, &points[k]);
        }
        if (!codec->out && !codec->failed)
            track_add(track, &frame, points, frame.n_points);
    }
}

static void layout(struct codec *codec, struct past *past, struct point *points)
{
    uint32_t n_events = (uint32_t)past_n_events(past), first = (uint32_t)(past->events_end - n_events);
    uint32_t n_gifts = past->gifts_end < PAST_GIFTS ? (uint32_t)past->gifts_end : PAST_GIFTS;
    uint64_t first_gift = past->gifts_end - n_gifts;
    codec_u32(codec, &past->last_id);
    below(codec, &past->next_slot, PAST_JOBS - 1);
    f64(codec, &past->last_s);
    for (uint32_t slot = 0; slot < PAST_JOBS; slot++)
        job(codec, &past->jobs[slot]);
    below(codec, &n_events, PAST_EVENTS);
    for (uint32_t i = 0; i < n_events && !codec->failed; i++)
        event(codec, &past->events[(first + i) % PAST_EVENTS]);
    below(codec, &n_gifts, PAST_GIFTS);
    for (uint32_t i = 0; i < n_gifts && !codec->failed; i++)
        gift(codec, &past->gifts[(first_gift + i) % PAST_GIFTS]);
    if (!codec->out) {
        past->events_end = n_events;
        past->gifts_end = n_gifts;
    }
    track_layout(codec, &past->seconds, points);
    track_layout(codec, &past->minutes, points);
}

int past_encode(const struct past *past, uint8_t **bytes, size_t *len_bytes)
{
    size_t cap = HEAD_BYTES + past_bytes(past) + SUM_BYTES; /* nothing is longer than in memory */
    struct codec codec = {.out = malloc(cap), .cap = cap};
    struct point *points = calloc(PAST_JOBS, sizeof *points);
    if (codec.out && points) {
        codec_number(&codec, MAGIC, 4);
        codec_number(&codec, VERSION, 4);
        layout(&codec, (struct past *)past, points); /* encoding changes nothing */
        codec_number(&codec, XXH3_64bits(codec.out, codec.pos), 8);
    }
    free(points);
    if (!codec.out || !points || codec.failed) {
        free(codec.out);
        return LARDER_ENOMEM;
    }
    *bytes = codec.out;
    *len_bytes = codec.pos;
    return 0;
}

/* makes_sense tells whether times ascend up to now. */
static bool makes_sense(const struct past *past, double now_s)
{
    const struct track *tracks[] = {&past->seconds, &past->minutes};
    double before_s = 0;
    for (size_t i = 0; i < past_n_events(past); i++) {
        if (past_event(past, i)->time_s < before_s || past_event(past, i)->time_s > now_s)
            return false;
        before_s = past_event(past, i)->time_s;
    }
    for (size_t t = 0; t < 2; t++) {
        before_s = 0;
        for (uint64_t i = tracks[t]->begin; i < tracks[t]->end; i++) {
            double time_s = track_frame(tracks[t], i)->time_s;
            if (time_s < before_s || time_s > now_s || track_frame(tracks[t], i)->span_s <= 0)
                return false;
            before_s = time_s;
        }
    }
    return true;
}

int past_decode(const uint8_t *bytes, size_t len_bytes, double now_s, struct past **out, struct error *err)
{
    struct codec codec = {.in = bytes, .cap = len_bytes};
    struct past *past;
    uint32_t magic = (uint32_t)codec_number(&codec, 0, 4), version = (uint32_t)codec_number(&codec, 0, 4);
    if (!codec.failed && magic == MAGIC && version != VERSION)
        return error_set(err, LARDER_EVERSION, "another version of larderd wrote it");
    if (len_bytes < HEAD_BYTES + SUM_BYTES || magic != MAGIC)
        return error_set(err, LARDER_EFORMAT, "it is damaged");
    codec.cap = len_bytes - SUM_BYTES;
    struct codec sum = {.in = bytes, .pos = codec.cap, .cap = len_bytes};
    if (codec_number(&sum, 0, 8) != XXH3_64bits(bytes, codec.cap))
        return error_set(err, LARDER_EFORMAT, "it is damaged: its checksum is another");
    if (past_create(&past))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    layout(&codec, past, past->points);
    if (codec.failed || codec.pos != codec.cap || !makes_sense(past, now_s)) {
        past_destroy(past);
        return error_set(err, LARDER_EFORMAT, "it is damaged, or the clock was set back since: a row has no sense");
    }
    *out = past;
    return 0;
}
