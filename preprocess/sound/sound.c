/* sound.c: whether sounds can be made at all, and of which clips: a clip's format is told by its first bytes, so that
 * of libsndfile's many formats few are ever tried. */
#include "preprocess/sound/sound.h"

#include <string.h>

#include "preprocess/sound/ogg.h"

#ifdef LARDER_SOUND
#include "preprocess/sound/libraries.h"
#include "preprocess/sound/make.h"
#endif

static bool begins(const uint8_t *bytes, size_t len, size_t at, const char *text)
{
    size_t n = strlen(text);
    return len >= at + n && memcmp(bytes + at, text, n) == 0;
}

/* The first packet of the first page says what an Ogg file has; its place follows from the page's table. */
static bool is_ogg(const uint8_t *bytes, size_t len, const char *packet)
{
    return begins(bytes, len, 0, "OggS") && len >= 28 && begins(bytes, len, 27 + (size_t)bytes[26], packet);
}

static bool is_vorbis(const uint8_t *bytes, size_t len)
{
    return is_ogg(bytes, len, "\x01vorbis");
}

/* A frame of layer III, with a bit rate and a sampling rate that exist; or a tag in front of one. */
static bool is_mp3(const uint8_t *bytes, size_t len)
{
    if (begins(bytes, len, 0, "ID3"))
        return true;
    return len >= 4 && bytes[0] == 0xFF && (bytes[1] & 0xE6) == 0xE2 && (bytes[1] & 0x18) != 0x08 &&
           (bytes[2] & 0xF0) != 0xF0 && (bytes[2] & 0x0C) != 0x0C;
}

bool sound_is(const uint8_t *bytes, size_t len)
{
    bool wav = (begins(bytes, len, 0, "RIFF") || begins(bytes, len, 0, "RF64")) && begins(bytes, len, 8, "WAVE");
    bool aiff = begins(bytes, len, 0, "FORM") && (begins(bytes, len, 8, "AIFF") || begins(bytes, len, 8, "AIFC"));
    return wav || aiff || begins(bytes, len, 0, "fLaC") || is_vorbis(bytes, len) || is_ogg(bytes, len, "OpusHead") ||
           is_mp3(bytes, len);
}

int sound_check(struct error *err)
{
#ifdef LARDER_SOUND
    struct error missing;
    return sound_load(&missing) ? error_set(err, LARDER_EINVAL, "%s", missing.text) : 0;
#else
    return error_set(err, LARDER_EINVAL,
                     "this larderd was built without sound: build it where libsndfile 1.1 or newer and libsoxr are "
                     "(Debian: libsndfile1-dev and libsoxr-dev)");
#endif
}

/* check lets to the library what it may see. */
static int check(const uint8_t *bytes, size_t len, struct decode_fault *fault)
{
    struct error err;
    if (!sound_is(bytes, len))
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "not a sound of a supported format (WAV, FLAC, Ogg with Vorbis or Opus, MP3, AIFF)");
    if (is_vorbis(bytes, len) && !ogg_vorbis_is_whole(bytes, len))
        return decode_fail(fault, BAD_CORRUPT, "an Ogg file whose headers are damaged or cut short");
    return sound_check(&err) ? decode_fail(fault, BAD_UNREADABLE, "%s", err.text) : 0;
}

int sound_look(const uint8_t *bytes, size_t len_bytes, struct sound_facts *out, struct decode_fault *fault)
{
    int code = check(bytes, len_bytes, fault);
#ifdef LARDER_SOUND
    if (code == 0)
        code = sound_read_head(bytes, len_bytes, out, fault);
#else
    (void)out;
#endif
    return code;
}

int sound_make(struct scratch *memory, const struct sound_wish *wish, struct decode_fault *fault)
{
    int code = check(wish->bytes, wish->len_bytes, fault);
#ifdef LARDER_SOUND
    if (code == 0)
        code = sound_decode(memory, wish, fault);
#else
    (void)memory;
#endif
    return code;
}
