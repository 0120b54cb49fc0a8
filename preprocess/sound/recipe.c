#include "preprocess/sound/recipe.h"

#include <math.h>

#include "common/random.h"

int sound_recipe_settle(struct sound_recipe *recipe, struct sample_layout *out, struct error *err)
{
    if (!recipe->has_segment)
        return error_set(
            err, LARDER_EINVAL,
            "the pipeline makes sounds of different lengths: begin it with random_segment or segment, such "
            "as {\"random_segment\": {\"seconds\": 4}}");
    if (!recipe->channels)
        return error_set(err, LARDER_EINVAL,
                         "the pipeline makes sounds of as many channels as each clip has: add to_mono or to_stereo");
    if (recipe->seconds && !recipe->rate)
        return error_set(err, LARDER_EINVAL,
                         "a segment in seconds has as many frames as each clip has in them: add resample, such as "
                         "{\"resample\": {\"rate\": 16000}}, or give frames instead of seconds");
    double frames = recipe->seconds ? floor(recipe->seconds * recipe->rate + 0.5) : recipe->frames;
    if (frames < 1 || frames * recipe->channels > SOUND_NUMBERS_MAX)
        return error_set(err, LARDER_EINVAL,
                         "a sample would have %.0f frames of %u channels, and may have 1 to %u numbers", frames,
                         recipe->channels, SOUND_NUMBERS_MAX);
    recipe->frames = (uint32_t)frames;
    const uint32_t dims[] = {recipe->channels, recipe->frames};
    *out = sample_layout_of_array("sound", recipe->whole ? PIXEL_INT16 : PIXEL_FLOAT32, 2, dims);
    return 0;
}

static float draw_gain(const struct sound_recipe *recipe, const uint64_t key[3], uint32_t stream)
{
    struct rng rng;
    if (!recipe->has_gain)
        return 1;
    random_seed_keys(&rng, key[0], key[1], key[2], stream + recipe->gain_stream);
    if (random_unit(&rng) >= recipe->gain_chance)
        return 1;
    double db = recipe->gain_db[0] + (recipe->gain_db[1] - recipe->gain_db[0]) * random_unit(&rng);
    return (float)pow(10, db / 20);
}

/* draw_first draws where a piece begins that leaves `spare` frames of the clip. */
static uint64_t draw_first(const struct sound_recipe *recipe, uint64_t spare, const uint64_t key[3], uint32_t stream)
{
    struct rng rng;
    if (recipe->place != SOUND_ANYWHERE)
        return recipe->place == SOUND_CENTER ? spare / 2 : 0;
    random_seed_keys(&rng, key[0], key[1], key[2], stream + recipe->segment_stream);
    return random_below(&rng, spare + 1);
}

int sound_recipe_plan(const struct sound_recipe *recipe, const struct sound_form *form, const uint64_t key[3],
                      uint32_t stream, struct sound_plan *out, struct error *err)
{
    double wanted = recipe->frames;
    if (recipe->rate)
        wanted = floor(wanted * form->rate / recipe->rate + 0.5);
    uint64_t count = wanted < 1 ? 1 : (uint64_t)wanted;
    if (form->channels > 2 && recipe->channels == 2)
        return error_set(err, LARDER_EFORMAT,
                         "it has %u channels, and to_stereo takes 1 or 2: use to_mono, or leave the "
                         "file out",
                         form->channels);
    if (count > form->frames && !recipe->pad)
        return error_set(err, LARDER_ELIMIT,
                         "it has %llu frames at %u Hz, and the segment takes %llu: let pad be true, "
                         "or leave the file out",
                         (unsigned long long)form->frames, form->rate, (unsigned long long)count);
    if (count > SOUND_NUMBERS_MAX / form->channels)
        return error_set(err, LARDER_ELIMIT, "a segment of %llu frames of %u channels is above the limit of %u numbers",
                         (unsigned long long)count, form->channels, SOUND_NUMBERS_MAX);
    bool fits = count <= form->frames;
    uint64_t first = fits ? draw_first(recipe, form->frames - count, key, stream) : 0;
    *out = (struct sound_plan){
        .first = first, .count = count, .present = fits ? count : form->frames, .gain = draw_gain(recipe, key, stream)};
    return 0;
}
