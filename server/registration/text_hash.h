/* text_hash.h: a number for a text. */
#ifndef LARDER_SERVER_REGISTRATION_TEXT_HASH_H
#define LARDER_SERVER_REGISTRATION_TEXT_HASH_H

#include <stdint.h>

/* text_hash is FNV-1a. Random draws depend on its value and must be the same in every daemon, so it must not change. */
static inline uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
