/* sound.c: the operators that work on sounds. Each says what it wants of the result (sound/recipe.h). */
#include "preprocess/ops/op.h"

static int twice(struct error *err, const char *what)
{
    return error_set(err, LARDER_EINVAL, "%s stands in the list twice: leave one out", what);
}

/* ── which piece of a clip ───────────────────────────────────────────────────────────────────────────────────────── */

struct segment {
    double seconds;
    int32_t frames, place;
    bool pad;
};

static const char *const places[] = {"start", "center", NULL};

_Static_assert(SOUND_START == 0 && SOUND_CENTER == 1, "choices are in enum sound_place's order");

#define SECONDS                                                                                                       \
    {                                                                                                                 \
        .name = "seconds", .type = ARG_NUMBER, .offset = offsetof(struct segment, seconds), .initial = "0", .min = 0, \
        .max = SOUND_SECONDS_MAX                                                                                      \
    }
#define FRAMES                                                                                                       \
    {                                                                                                                \
        .name = "frames", .type = ARG_INTEGER, .offset = offsetof(struct segment, frames), .initial = "0", .min = 0, \
        .max = SOUND_NUMBERS_MAX                                                                                     \
    }
#define PAD                                                                                         \
    {                                                                                               \
        .name = "pad", .type = ARG_BOOL, .offset = offsetof(struct segment, pad), .initial = "true" \
    }

static const struct arg random_segment_args[] = {SECONDS, FRAMES, PAD, {0}};

static const struct arg segment_args[] = {SECONDS,
                                          FRAMES,
                                          {.name = "place",
                                           .type = ARG_CHOICE,
                                           .offset = offsetof(struct segment, place),
                                           .initial = "\"start\"",
                                           .choices = places},
                                          PAD,
                                          {0}};

static int segment_check(void *values, struct error *err)
{
    const struct segment *v = values;
    if ((v->seconds > 0) == (v->frames > 0))
        return error_set(err, LARDER_EINVAL, "give either seconds or frames, above 0");
    return 0;
}

static int segment_set(const struct segment *v, enum sound_place place, struct op_shape *shape, struct error *err)
{
    if (shape->sound.has_segment)
        return twice(err, "a segment");
    shape->sound.has_segment = true;
    shape->sound.place = place;
    shape->sound.seconds = v->seconds;
    shape->sound.frames = (uint32_t)v->frames;
    shape->sound.pad = v->pad;
    shape->sound.segment_stream = shape->place;
    return 0;
}

static int segment_shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct segment *v = values;
    return segment_set(v, (enum sound_place)v->place, shape, err);
}

static int random_segment_shape(const void *values, struct op_shape *shape, struct error *err)
{
    return segment_set(values, SOUND_ANYWHERE, shape, err);
}

const struct op_kind op_random_segment = {
    .name = "random_segment",
    .python = "RandomSegment",
    .text =
        "Takes a piece of a sound at a random place, and decodes nothing else. Its length is in seconds, or in frames "
        "of the result. A clip that is shorter gets zeros at its end; without `pad` it is a bad sample.",
    .flags = OP_SOUND | OP_RANDOM,
    .args = random_segment_args,
    .values_bytes = sizeof(struct segment),
    .check = segment_check,
    .shape = random_segment_shape,
};

const struct op_kind op_segment = {
    .name = "segment",
    .python = "Segment",
    .text = "Takes the piece of a sound at its start, or in its middle, as `random_segment` does.",
    .flags = OP_SOUND,
    .args = segment_args,
    .values_bytes = sizeof(struct segment),
    .check = segment_check,
    .shape = segment_shape,
};

/* ── channels ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static const struct arg no_args[] = {{0}};

static int set_channels(struct op_shape *shape, uint32_t channels, struct error *err)
{
    if (shape->sound.channels)
        return twice(err, "to_mono or to_stereo");
    shape->sound.channels = channels;
    return 0;
}

static int mono_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values;
    return set_channels(shape, 1, err);
}

static int stereo_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values;
    return set_channels(shape, 2, err);
}

const struct op_kind op_to_mono = {
    .name = "to_mono",
    .python = "ToMono",
    .text = "Makes one channel of a sound, the mean of all.",
    .flags = OP_SOUND,
    .args = no_args,
    .shape = mono_shape,
};

const struct op_kind op_to_stereo = {
    .name = "to_stereo",
    .python = "ToStereo",
    .text = "Makes two channels of a sound: a single one twice. A clip with more than two is a bad sample.",
    .flags = OP_SOUND,
    .args = no_args,
    .shape = stereo_shape,
};

/* ── rate, loudness, type ────────────────────────────────────────────────────────────────────────────────────────── */

struct resample_values {
    int32_t rate;
};

static const struct arg resample_args[] = {{.name = "rate",
                                            .type = ARG_INTEGER,
                                            .offset = offsetof(struct resample_values, rate),
                                            .min = SOUND_RATE_MIN,
                                            .max = SOUND_RATE_MAX},
                                           {0}};

static int resample_shape(const void *values, struct op_shape *shape, struct error *err)
{
    if (shape->sound.rate)
        return twice(err, "resample");
    shape->sound.rate = (uint32_t)((const struct resample_values *)values)->rate;
    return 0;
}

const struct op_kind op_resample = {
    .name = "resample",
    .python = "Resample",
    .text =
        "Gives a sound that rate, in frames a second (libsoxr, its high quality). A clip that has it stays as it is.",
    .flags = OP_SOUND,
    .args = resample_args,
    .values_bytes = sizeof(struct resample_values),
    .shape = resample_shape,
};

struct gain {
    double min_db, max_db, p;
};

static const struct arg gain_args[] = {
    {.name = "min_db",
     .type = ARG_NUMBER,
     .offset = offsetof(struct gain, min_db),
     .initial = "-18",
     .min = -120,
     .max = 60},
    {.name = "max_db",
     .type = ARG_NUMBER,
     .offset = offsetof(struct gain, max_db),
     .initial = "6",
     .min = -120,
     .max = 60},
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct gain, p), .initial = "0.5", .min = 0, .max = 1},
    {0},
};

static int gain_check(void *values, struct error *err)
{
    const struct gain *v = values;
    return v->min_db <= v->max_db ? 0 : error_set(err, LARDER_EINVAL, "min_db is above max_db");
}

static bool gain_is_fixed(const void *values)
{
    const struct gain *v = values;
    return v->p == 0 || (v->p == 1 && v->min_db == v->max_db);
}

static int gain_shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct gain *v = values;
    if (shape->sound.has_gain)
        return twice(err, "random_gain");
    shape->sound.has_gain = true;
    shape->sound.gain_db[0] = v->min_db;
    shape->sound.gain_db[1] = v->max_db;
    shape->sound.gain_chance = v->p;
    shape->sound.gain_stream = shape->place;
    return 0;
}

const struct op_kind op_random_gain = {
    .name = "random_gain",
    .python = "RandomGain",
    .text = "With probability `p` makes a sound louder or softer, by decibels drawn uniformly.",
    .flags = OP_SOUND | OP_RANDOM,
    .args = gain_args,
    .values_bytes = sizeof(struct gain),
    .check = gain_check,
    .is_fixed = gain_is_fixed,
    .shape = gain_shape,
};

static int int16_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values;
    if (shape->sound.whole)
        return twice(err, "to_int16");
    shape->sound.whole = true;
    return 0;
}

const struct op_kind op_to_int16 = {
    .name = "to_int16",
    .python = "ToInt16",
    .text = "Gives a sound as `int16`, −32768 … 32767, instead of `float32`, −1 … 1.",
    .flags = OP_SOUND,
    .args = no_args,
    .shape = int16_shape,
};
