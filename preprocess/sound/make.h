/* make.h: the part of sound_make that needs the libraries; a build without them leaves make.c out. */
#ifndef LARDER_PREPROCESS_SOUND_MAKE_H
#define LARDER_PREPROCESS_SOUND_MAKE_H

#include "preprocess/sound/sound.h"

/* sound_read_head is sound_look for a clip that sound_is. */
int sound_read_head(const uint8_t *bytes, size_t len_bytes, struct sound_facts *out, struct decode_fault *fault);
/* sound_decode is sound_make for a clip that sound_is. */
int sound_decode(struct scratch *memory, const struct sound_wish *wish, struct decode_fault *fault);

#endif
