/* make.c: one instance of a clip: decodes its piece by libsndfile, mixes it into planes, and resamples these by
 * libsoxr.
 *
 * Planes are arrays of float32, one a channel of the result, one behind the other. */
#include "preprocess/sound/make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/sound/libraries.h"

/* What the libraries take from malloc beside what grows with the piece. */
#define OUTSIDE_BYTES ((uint64_t)4 << 20)
#define OUTSIDE_PER_NUMBER 16 /* what libsoxr holds for each number that goes in or comes out */
#define FRAMES_MAX ((sf_count_t)1 << 40)

struct clip {
    const uint8_t *bytes;
    sf_count_t len, at;
    SNDFILE *file;
    SF_INFO info;
};

/* ── a file in memory, as libsndfile wants it ────────────────────────────────────────────────────────────────────── */

static sf_count_t clip_length(void *opaque)
{
    return ((const struct clip *)opaque)->len;
}

static sf_count_t clip_seek(sf_count_t offset, int whence, void *opaque)
{
    struct clip *clip = opaque;
    sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? clip->at : clip->len;
    if (offset < -from || offset > clip->len - from)
        return -1;
    clip->at = from + offset;
    return clip->at;
}

static sf_count_t clip_read(void *to, sf_count_t count, void *opaque)
{
    struct clip *clip = opaque;
    sf_count_t left = clip->len - clip->at, bytes = count < 0 ? 0 : count < left ? count : left;
    memcpy(to, clip->bytes + clip->at, (size_t)bytes);
    clip->at += bytes;
    return bytes;
}

static sf_count_t clip_write(const void *from, sf_count_t count, void *opaque)
{
    (void)from;
    (void)count;
    (void)opaque;
    return 0;
}

static sf_count_t clip_tell(void *opaque)
{
    return ((const struct clip *)opaque)->at;
}

static bool is_known(int format)
{
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
    case SF_FORMAT_PCM_U8:
    case SF_FORMAT_PCM_16:
    case SF_FORMAT_PCM_24:
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT:
    case SF_FORMAT_DOUBLE:
    case SF_FORMAT_ULAW:
    case SF_FORMAT_ALAW:
    case SF_FORMAT_VORBIS:
    case SF_FORMAT_OPUS:
    case SF_FORMAT_MPEG_LAYER_III: return true;
    default: return false;
    }
}

/* Opens the clip. clip_close is called either way. */
static int clip_open(struct clip *clip, struct decode_fault *fault)
{
    static SF_VIRTUAL_IO memory = {clip_length, clip_seek, clip_read, clip_write, clip_tell};
    clip->file = libsndfile.open_virtual(&memory, SFM_READ, &clip->info, clip);
    if (!clip->file)
        return decode_fail(fault, BAD_CORRUPT, "libsndfile: %s", libsndfile.strerror(NULL));
    const SF_INFO *info = &clip->info;
    if (!is_known(info->format))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "a sound in an encoding that is not supported (supported are PCM, float, A-law, µ-law, "
                           "FLAC, Vorbis, Opus and MP3)");
    if (info->frames <= 0 || info->frames > FRAMES_MAX)
        return decode_fail(fault, BAD_CORRUPT, "a sound whose header does not say how long it is");
    if (info->samplerate < SOUND_RATE_MIN || info->samplerate > SOUND_RATE_MAX)
        return decode_fail(fault, BAD_TOO_LARGE, "a rate of %d Hz, and it may be %d to %d", info->samplerate,
                           SOUND_RATE_MIN, SOUND_RATE_MAX);
    if (info->channels < 1 || info->channels > SOUND_CHANNELS_MAX)
        return decode_fail(fault, BAD_TOO_LARGE, "%d channels, and it may have 1 to %d", info->channels,
                           SOUND_CHANNELS_MAX);
    return 0;
}

static void clip_close(struct clip *clip)
{
    if (clip->file)
        libsndfile.close(clip->file);
}

int sound_read_head(const uint8_t *bytes, size_t len_bytes, struct sound_facts *out, struct decode_fault *fault)
{
    struct clip clip = {.bytes = bytes, .len = (sf_count_t)len_bytes};
    int code = clip_open(&clip, fault);
    if (!code) {
        SF_FORMAT_INFO format = {.format = clip.info.format & SF_FORMAT_TYPEMASK};
        bool named = libsndfile.command(NULL, SFC_GET_FORMAT_INFO, &format, sizeof format) == 0 && format.name;
        *out = (struct sound_facts){.rate_hz = (unsigned)clip.info.samplerate,
                                    .channels = (unsigned)clip.info.channels,
                                    .seconds = (double)clip.info.frames / clip.info.samplerate};
        snprintf(out->format, sizeof out->format, "%.*s", named ? (int)strcspn(format.name, " ") : 0,
                 named ? format.name : "");
    }
    clip_close(&clip);
    return code;
}

/* ── from numbers to planes ──────────────────────────────────────────────────────────────────────────────────────── */

/* clip_read_piece decodes the frames of the piece that are there, channels beside each other. */
static int clip_read_piece(struct clip *clip, const struct sound_plan *plan, float *out, struct decode_fault *fault)
{
    sf_count_t first = (sf_count_t)plan->first, present = (sf_count_t)plan->present;
    if (first && libsndfile.seek(clip->file, first, SF_SEEK_SET) != first)
        return decode_fail(fault, BAD_CORRUPT, "its frame %lld cannot be reached", (long long)first);
    sf_count_t got = libsndfile.readf_float(clip->file, out, present);
    if (got != present)
        return decode_fail(fault, BAD_CORRUPT, "its frame %lld cannot be decoded: the file is damaged or cut short",
                           (long long)(first + (got < 0 ? 0 : got)));
    return 0;
}

/* mix makes planes of frames with `from` channels. A mean is taken in double, so that it does not depend on the order
 * of channels. */
static void mix(const float *frames, uint64_t count, uint32_t from, float *planes, uint64_t stride, uint32_t to)
{
    for (uint64_t i = 0; i < count; i++) {
        const float *frame = frames + i * from;
        double sum = 0;
        for (uint32_t c = 0; to == 1 && c < from; c++)
            sum += (double)frame[c];
        if (to == 1)
            planes[i] = (float)(sum / from);
        else
            for (uint32_t c = 0; c < to; c++)
                planes[c * stride + i] = frame[from == 1 ? 0 : c];
    }
}

/* read_planes decodes the piece into planes of plan->count numbers; those that the clip does not have are 0. */
static int read_planes(struct scratch *memory, struct clip *clip, const struct sound_plan *plan, float *planes,
                       uint32_t to, struct decode_fault *fault)
{
    uint32_t from = (uint32_t)clip->info.channels;
    bool direct = from == 1 && to == 1;
    float *frames = direct ? planes : scratch_take(memory, plan->present * from * sizeof *frames);
    if (!frames)
        return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
    int rc = clip_read_piece(clip, plan, frames, fault);
    if (rc)
        return rc;
    if (!direct)
        mix(frames, plan->present, from, planes, plan->count, to);
    for (uint32_t c = 0; c < to; c++) {
        float *plane = planes + c * plan->count;
        memset(plane + plan->present, 0, (plan->count - plan->present) * sizeof *plane);
        for (uint64_t i = 0; plan->gain != 1 && i < plan->present; i++)
            plane[i] *= plan->gain;
    }
    return 0;
}

static int resample_planes(const struct sound_recipe *recipe, const struct clip *clip, uint64_t count,
                           const float *planes, float *out, struct decode_fault *fault)
{
    soxr_error_t failed = NULL;
    soxr_io_spec_t io = libsoxr.io_spec(SOXR_FLOAT32_S, SOXR_FLOAT32_S);
    soxr_quality_spec_t quality = libsoxr.quality_spec(SOXR_HQ, 0);
    soxr_runtime_spec_t runtime = libsoxr.runtime_spec(1);
    const void *from[2] = {planes, planes + count};
    void *to[2] = {out, out + recipe->frames};
    size_t taken, made = 0, more = 1;
    soxr_t soxr = libsoxr.create(clip->info.samplerate, recipe->rate, recipe->channels, &failed, &io, &quality,
                                 &runtime);
    if (soxr && !failed)
        failed = libsoxr.process(soxr, from, (size_t)count, &taken, to, recipe->frames, &made);
    while (soxr && !failed && more && made < recipe->frames) {
        void *rest[2] = {out + made, out + recipe->frames + made};
        failed = libsoxr.process(soxr, NULL, 0, &taken, rest, recipe->frames - made, &more);
        made += more;
    }
    libsoxr.delete(soxr);
    if (!soxr || failed)
        return decode_fail(fault, BAD_NO_MEMORY, "libsoxr: %s", failed ? failed : "out of memory");
    for (uint32_t c = 0; c < recipe->channels; c++) /* rounding may leave it one short */
        memset(out + (size_t)c * recipe->frames + made, 0, (recipe->frames - made) * sizeof *out);
    return 0;
}

/* Rounds to nearest, as libsndfile's own conversion does, and clips. What is no number becomes 0. */
static void to_int16(const float *numbers, size_t count, int16_t *out)
{
    for (size_t i = 0; i < count; i++) {
        float scaled = numbers[i] * 32768.0f;
        scaled = scaled > 32767.0f ? 32767.0f : scaled < -32768.0f ? -32768.0f : scaled;
        out[i] = scaled == scaled ? (int16_t)lrintf(scaled) : 0;
    }
}

static int make(struct scratch *memory, const struct sound_wish *wish, struct clip *clip, struct decode_fault *fault)
{
    const struct sound_recipe *recipe = wish->recipe;
    const struct sound_form form = {(uint64_t)clip->info.frames, (uint32_t)clip->info.samplerate,
                                    (uint32_t)clip->info.channels};
    struct sound_plan plan;
    int rc = sound_recipe_plan(recipe, &form, wish->key, wish->stream, &plan, &fault->error);
    if (rc) {
        fault->reason = rc == LARDER_EFORMAT ? BAD_OTHER_SIZE : BAD_TOO_SMALL;
        return rc;
    }
    bool resampled = recipe->rate && recipe->rate != form.rate;
    size_t made = (size_t)recipe->frames * recipe->channels, read = (size_t)plan.count * recipe->channels;
    CHECK(resampled || plan.count == recipe->frames);
    if (scratch_outside(memory, OUTSIDE_BYTES + (resampled ? OUTSIDE_PER_NUMBER * (made + read) : 0)))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than is allowed for one sound");
    float *result = recipe->whole ? scratch_take(memory, made * sizeof *result) : wish->dst;
    float *planes = resampled ? scratch_take(memory, read * sizeof *planes) : result;
    if (!result || !planes)
        return decode_fail(fault, BAD_NO_MEMORY, "out of memory");
    rc = read_planes(memory, clip, &plan, planes, recipe->channels, fault);
    if (rc == 0 && resampled)
        rc = resample_planes(recipe, clip, plan.count, planes, result, fault);
    if (rc == 0 && recipe->whole)
        to_int16(result, made, wish->dst);
    return rc;
}

int sound_decode(struct scratch *memory, const struct sound_wish *wish, struct decode_fault *fault)
{
    struct clip clip = {.bytes = wish->bytes, .len = (sf_count_t)wish->len_bytes};
    int rc = clip_open(&clip, fault);
    if (rc == 0)
        rc = make(memory, wish, &clip, fault);
    clip_close(&clip);
    return rc;
}
