/* sound.h: makes sounds of encoded clips: WAV, FLAC, Ogg with Vorbis or Opus, MP3 and AIFF, by libsndfile, which is
 * known to this folder alone, as libsoxr is. A build may lack the two, and so may a machine: then sound_check refuses.
 * Only the piece that is drawn is decoded. */
#ifndef LARDER_PREPROCESS_SOUND_SOUND_H
#define LARDER_PREPROCESS_SOUND_SOUND_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/decode/fault.h"
#include "preprocess/scratch.h"
#include "preprocess/sound/recipe.h"

/* sound_check returns 0, or LARDER_EINVAL with a text that says what is missing. The first call loads the libraries.
 * Any thread. */
int sound_check(struct error *err);

/* sound_is says by the first bytes whether a clip is of a format that is decoded. Nothing else reaches the library.
 * Pure. */
bool sound_is(const uint8_t *bytes, size_t len_bytes);

/* What a clip's head says of it. */
struct sound_facts {
    char format[32]; /* such as "WAV" */
    unsigned rate_hz, channels;
    double seconds;
};
/* sound_look reads the head of a whole clip. It returns 0, or the fault's code. */
int sound_look(const uint8_t *bytes, size_t len_bytes, struct sound_facts *out, struct decode_fault *fault);

/* What one instance is made of. All is borrowed. */
struct sound_wish {
    const uint8_t *bytes;
    size_t len_bytes;
    const struct sound_recipe *recipe; /* settled */
    const uint64_t *key;               /* three numbers */
    uint32_t stream;
    void *dst; /* has room for the layout's bytes, aligned to 4 */
};
/* sound_make makes the instance, in memory of the scratch. It returns 0, or the fault's code. */
int sound_make(struct scratch *memory, const struct sound_wish *wish, struct decode_fault *fault);

#endif
