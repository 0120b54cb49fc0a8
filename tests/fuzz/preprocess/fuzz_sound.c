/* fuzz_sound.c: proves that no clip makes preparing crash, hang, or say that it was made where it was not. A random
 * piece of each clip is resampled, and another one is made as it is. What sound_is refuses never reaches the library.
 */
#include <math.h>
#include <sndfile.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline.h"
#include "preprocess/prepare.h"
#include "preprocess/sound/sound.h"
#include "tests/fuzz/fuzz.h"

#define FRAMES 3000

struct memory {
    uint8_t *bytes;
    size_t cap, len, at;
};

static sf_count_t length(void *opaque)
{
    return (sf_count_t)((struct memory *)opaque)->len;
}

static sf_count_t seek(sf_count_t offset, int whence, void *opaque)
{
    struct memory *memory = opaque;
    size_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? memory->at : memory->len;
    memory->at = (size_t)((sf_count_t)from + offset);
    return (sf_count_t)memory->at;
}

static sf_count_t read_back(void *to, sf_count_t count, void *opaque)
{
    struct memory *memory = opaque;
    size_t left = memory->at < memory->len ? memory->len - memory->at : 0;
    size_t bytes = (size_t)count < left ? (size_t)count : left;
    memcpy(to, memory->bytes + memory->at, bytes);
    memory->at += bytes;
    return (sf_count_t)bytes;
}

static sf_count_t append(const void *from, sf_count_t count, void *opaque)
{
    struct memory *memory = opaque;
    CHECK(memory->at + (size_t)count <= memory->cap);
    memcpy(memory->bytes + memory->at, from, (size_t)count);
    memory->at += (size_t)count;
    memory->len = memory->at > memory->len ? memory->at : memory->len;
    return count;
}

static sf_count_t tell(void *opaque)
{
    return (sf_count_t)((struct memory *)opaque)->at;
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const int formats[] = {
        SF_FORMAT_WAV | SF_FORMAT_PCM_16,  SF_FORMAT_WAV | SF_FORMAT_FLOAT,   SF_FORMAT_WAV | SF_FORMAT_ULAW,
        SF_FORMAT_AIFF | SF_FORMAT_PCM_24, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_VORBIS,
        SF_FORMAT_OGG | SF_FORMAT_OPUS,    SF_FORMAT_RF64 | SF_FORMAT_PCM_16, SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III,
    };
    static SF_VIRTUAL_IO io = {length, seek, read_back, append, tell};
    float frames[FRAMES][2];
    if (index >= sizeof formats / sizeof *formats)
        return 0;
    for (int i = 0; i < FRAMES; i++) {
        frames[i][0] = 0.4f * sinf((float)i * 0.05f);
        frames[i][1] = 0.3f * sinf((float)i * 0.031f);
    }
    struct memory memory = {.bytes = buf, .cap = cap};
    SF_INFO info = {.samplerate = 16000, .channels = 2, .format = formats[index]};
    SNDFILE *file = sf_open_virtual(&io, SFM_WRITE, &info, &memory);
    CHECK(file && sf_writef_float(file, frames[0], FRAMES) == FRAMES);
    sf_close(file);
    CHECK(sound_is(buf, memory.len));
    return memory.len;
}

static struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    CHECK(pipeline_parse(json, strlen(json), &pipeline, NULL) == 0);
    return pipeline;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct prepare_limits limits = {.pixels_max = 1 << 20, .scans_max = 8, .memory_max = 64u << 20};
    static struct prepare_scratch *scratch;
    static struct pipeline *pipelines[2];
    static float resampled[800];
    static int16_t whole[2][1500];
    static const char resample[] = "[{\"random_segment\": {\"seconds\": 0.1}}, \"to_mono\", {\"resample\": {\"rate\": "
                                   "8000}}]";
    static const char keep[] =
        "[{\"random_segment\": {\"frames\": 1500, \"pad\": false}}, \"to_stereo\", \"to_int16\"]";
    if (!scratch) {
        prepare_init();
        CHECK(prepare_scratch_create(&limits, &scratch) == 0);
        pipelines[0] = parse(resample);
        pipelines[1] = parse(keep);
    }
    uint64_t key = size > 40 ? data[40] : 0;
    struct prepare_output outputs[] = {{.pipeline = pipelines[0], .key = {1, 2, key}, .dst = resampled},
                                       {.pipeline = pipelines[1], .key = {1, 2, key}, .dst = whole}};
    enum bad_reason reason = BAD_NONE;
    struct error err = {0};
    int rc = prepare_sample(scratch, data, size, outputs, 2, &reason, &err);
    for (int i = 0; i < 2; i++) {
        CHECK(!outputs[i].reason || outputs[i].err.text[0]);
        CHECK(sound_is(data, size) || outputs[i].reason == BAD_NOT_AN_IMAGE);
        CHECK(rc || !outputs[i].reason);
    }
    return 0;
}
