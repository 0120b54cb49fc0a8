/* guess.c: what was learned of pipelines in earlier runs, as the governor's first guess, and what this one learned. */
#include "common/check.h"
#include "server/governor/governor_priv.h"
#include "server/governor/kept.h"
#include "server/governor/split.h"

static bool has_class(const struct governor *governor, uint32_t pipeline, uint32_t size)
{
    bool has = false;
    for (size_t i = 0; i < governor->n_classes; i++)
        has |= governor->classes[i].pipeline == pipeline && governor->classes[i].size == size;
    return has;
}

static double sum_of_parts(const struct governor *governor)
{
    double sum = 0;
    for (size_t i = 0; i < governor->n_classes; i++)
        sum += governor->parts[i];
    return sum;
}

static void guess_class(struct governor *governor, uint32_t pipeline, const struct kept_row *row)
{
    if (governor->n_classes == GOVERNOR_CLASSES_MAX || has_class(governor, pipeline, row->size))
        return;
    size_t place = governor->n_classes++;
    governor->classes[place] = (struct prepare_class){.pipeline = pipeline, .size = row->size};
    governor->curves[place] = (struct governor_curve){.age = {0}};
    governor->parts[place] = governor->guessed ? row->part : 0;
    for (uint32_t i = 0; i < row->count; i++)
        governor_curve_guess(&governor->curves[place], row->points[i]);
}

double governor_guess(struct governor *governor, uint32_t pipeline, uint64_t fingerprint, const struct kept *kept)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    governor->guessed = governor->guessed || sum_of_parts(governor) <= 0;
    for (uint32_t i = 0; i < kept->count; i++) {
        if (kept->rows[i].fingerprint == fingerprint)
            guess_class(governor, pipeline, &kept->rows[i]);
    }
    double sum = sum_of_parts(governor);
    for (size_t i = 0; i < governor->n_classes && governor->guessed && sum > 0; i++)
        governor->parts[i] /= sum;
    const struct governor_balance balance = {.workers = governor->limits.workers,
                                             .curves = governor->curves,
                                             .parts = governor->parts,
                                             .n_classes = governor->n_classes};
    return governor_prepare_rate(&balance, governor->decision.preparers);
}

void governor_learned(const struct governor *governor, uint32_t pipeline, uint64_t fingerprint, struct kept *kept)
{
    CHECK_MAGIC(governor, GOVERNOR_MAGIC);
    double sum = 0;
    uint32_t classes = 0;
    for (size_t i = 0; i < governor->n_classes; i++) {
        bool its = governor->classes[i].pipeline == pipeline;
        sum += its ? governor->parts[i] : 0;
        classes += its;
    }
    for (size_t i = 0; i < governor->n_classes; i++) {
        if (governor->classes[i].pipeline != pipeline)
            continue;
        struct kept_row row = {.fingerprint = fingerprint,
                               .size = governor->classes[i].size,
                               .part = sum > 0 ? governor->parts[i] / sum : 1.0 / classes};
        row.count = governor_curve_points(&governor->curves[i], row.points);
        kept_put(kept, &row);
    }
}
