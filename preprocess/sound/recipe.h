/* recipe.h: what a list of operators makes of a sound: an array of (channels, frames), "sound".
 *
 * Operators that work on sounds say what they want of the result, and each of them stands once in a list. So a list
 * is a recipe, whose steps have one order whatever the list's: a piece of the clip is drawn, decoded, mixed to the
 * channels that are wanted, made louder or softer, resampled, and converted. All steps behind the decoding are linear,
 * so that their order changes no more than the last bits. A frame is one number a channel. Pure. */
#ifndef LARDER_PREPROCESS_SOUND_RECIPE_H
#define LARDER_PREPROCESS_SOUND_RECIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/types.h"

#define SOUND_SECONDS_MAX 1800.0
#define SOUND_RATE_MIN 1000
#define SOUND_RATE_MAX 384000
#define SOUND_CHANNELS_MAX 32                 /* channels of a clip */
#define SOUND_NUMBERS_MAX (UINT32_C(1) << 28) /* numbers of a sample, and numbers that are decoded for one */

enum sound_place { SOUND_START, SOUND_CENTER, SOUND_ANYWHERE };

/* Zeroed: nothing is said yet. */
struct sound_recipe {
    bool has_segment, has_gain;
    enum sound_place place; /* where in the clip the piece is taken */
    double seconds;         /* length of the piece; 0: frames has it */
    uint32_t frames;        /* frames of the result */
    bool pad;               /* a clip that is too short gets zeros at its end; else it is a bad sample */
    uint32_t rate;          /* frames a second of the result; 0: those of the clip */
    uint32_t channels;      /* of the result, 1 or 2; 0: not said */
    double gain_db[2];      /* from … to */
    double gain_chance;
    bool whole;                           /* the result is int16, else float32 */
    uint32_t segment_stream, gain_stream; /* places of the operators in the list, by which they draw */
};

/* sound_recipe_settle finds how many frames the result has, and returns its layout. LARDER_EINVAL where the recipe does
 * not say all of it. */
int sound_recipe_settle(struct sound_recipe *recipe, struct sample_layout *out, struct error *err);

/* A clip's own. */
struct sound_form {
    uint64_t frames;
    uint32_t rate, channels;
};

/* What is drawn for one instance: the piece [first, first + count) of the clip, of which `present` frames are there,
 * and by what its numbers are multiplied. */
struct sound_plan {
    uint64_t first, count, present;
    float gain;
};

/* sound_recipe_plan draws an instance. The random streams are those of the key and of `stream` plus the operators'
 * places. LARDER_ELIMIT for a clip that is too short, or too much to decode; LARDER_EFORMAT for one with more channels
 * than the result can have. */
int sound_recipe_plan(const struct sound_recipe *recipe, const struct sound_form *form, const uint64_t key[3],
                      uint32_t stream, struct sound_plan *out, struct error *err);

#endif
