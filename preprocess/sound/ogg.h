/* ogg.h: looks at the headers of Ogg files before libsndfile does. libsndfile 1.2.0 never frees 5.8 kB of each Vorbis
 * file whose headers it cannot read. Pure. */
#ifndef LARDER_PREPROCESS_SOUND_OGG_H
#define LARDER_PREPROCESS_SOUND_OGG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ogg_vorbis_is_whole says whether a file that begins as Vorbis in Ogg has its three headers, in pages whose checksums
 * are right. Whether what they say can be, it does not tell. */
bool ogg_vorbis_is_whole(const uint8_t *bytes, size_t len_bytes);

#endif
