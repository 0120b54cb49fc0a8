#include "server/commands/look_kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "preprocess/sound/sound.h"

enum { CLIPS_READ = 64, KINDS = 8, KIND_BYTES = 96 };

/* ── sounds ── */

/* What the clips that were read have: each kind once, and the shortest and longest. */
struct clips {
    char kinds[KINDS][KIND_BYTES];
    unsigned n_kinds, n, bad, rate_hz; /* rate_hz: the lowest */
    double sum_s, least_s, most_s;
};

static void add_clip(struct clips *clips, const struct sound_facts *facts)
{
    char kind[KIND_BYTES];
    snprintf(kind, sizeof kind, "%s of %g kHz, %s", facts->format, facts->rate_hz / 1e3,
             facts->channels == 1   ? "mono"
             : facts->channels == 2 ? "stereo"
                                    : "more channels");
    unsigned i = 0;
    while (i < clips->n_kinds && strcmp(clips->kinds[i], kind) != 0)
        i++;
    if (i == clips->n_kinds && i < KINDS)
        memcpy(clips->kinds[clips->n_kinds++], kind, sizeof kind);
    clips->rate_hz = clips->n && clips->rate_hz < facts->rate_hz ? clips->rate_hz : facts->rate_hz;
    clips->least_s = clips->n ? fmin(clips->least_s, facts->seconds) : facts->seconds;
    clips->most_s = fmax(clips->most_s, facts->seconds);
    clips->sum_s += facts->seconds;
    clips->n++;
}

static struct clips read_clips(const struct dataset *dataset)
{
    struct clips clips = {.n = 0};
    uint32_t count = dataset_count(dataset), read = count < CLIPS_READ ? count : CLIPS_READ;
    for (uint32_t i = 0; i < read; i++) {
        uint32_t index = (uint32_t)((uint64_t)i * count / read);
        size_t len = dataset_size(dataset, index);
        uint8_t *bytes = malloc(len ? len : 1);
        struct sound_facts facts;
        struct decode_fault fault;
        struct error err;
        if (bytes && dataset_read(dataset, index, bytes, &err) == 0 && sound_look(bytes, len, &facts, &fault) == 0)
            add_clip(&clips, &facts);
        else
            clips.bad++;
        free(bytes);
    }
    return clips;
}

void look_at_sounds(const struct dataset *dataset)
{
    struct error err;
    if (sound_check(&err)) {
        printf("sounds   %s\n", err.text);
        return;
    }
    struct clips clips = read_clips(dataset);
    for (unsigned i = 0; i < clips.n_kinds; i++)
        printf("%s%s%s", i ? "; " : "sounds   ", clips.kinds[i], i + 1 < clips.n_kinds ? "" : "\n");
    if (clips.n)
        printf("length   %.2f s on average, %.2f to %.2f s, of %u clip%s that were read\n", clips.sum_s / clips.n,
               clips.least_s, clips.most_s, clips.n, clips.n == 1 ? "" : "s");
    if (clips.bad)
        printf("damaged  %u of %u clips cannot be read as sounds\n", clips.bad, clips.bad + clips.n);
    if (clips.n)
        printf("write    [larder.RandomSegment(seconds=%.3g), larder.ToMono(), larder.Resample(%u)]\n",
               fmax(0.5, round(2 * clips.sum_s / clips.n) / 2), clips.rate_hz);
}

/* ── masks ── */

/* One of the two folders. All its files have one extension, and what else their names end in behind the stem. */
struct folder {
    const char *name, *ending;
    uint32_t first, count;
    uint64_t bytes;
};

/* The stem of an image's name is all before its extension. */
static size_t stem_length(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot ? (size_t)(dot - file) : strlen(file);
}

/* file_of returns a sample's name below its class's folder. NULL: it is not right below. */
static const char *file_of(const struct dataset *dataset, const struct folder *folder, uint32_t i)
{
    const char *key = dataset_key(dataset, folder->first + i);
    size_t len = strlen(folder->name);
    bool below = strncmp(key, folder->name, len) == 0 && key[len] == '/' && !strchr(key + len + 1, '/');
    return below ? key + len + 1 : NULL;
}

/* go_together tells whether the masks' names are those of the images with one other ending, and notes both endings. */
static bool go_together(const struct dataset *dataset, struct folder *images, struct folder *masks)
{
    for (uint32_t i = 0; i < images->count; i++) {
        const char *image = file_of(dataset, images, i), *mask = file_of(dataset, masks, i);
        if (!image || !mask)
            return false;
        size_t stem = stem_length(image);
        if (strncmp(image, mask, stem) != 0 || (i && strcmp(image + stem, images->ending) != 0) ||
            (i && strcmp(mask + stem, masks->ending) != 0))
            return false;
        images->ending = image + stem;
        masks->ending = mask + stem;
    }
    size_t len = strlen(masks->ending);
    return len >= 4 && strcasecmp(masks->ending + len - 4, ".png") == 0;
}

void look_for_masks(const struct dataset *dataset)
{
    struct folder folders[2] = {{.count = 0}};
    uint32_t count = dataset_count(dataset);
    if (dataset_classes(dataset) != 2)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct folder *folder = &folders[dataset_label(dataset, i) == 1];
        if (folder->count++ == 0)
            folder->first = i;
        folder->bytes += dataset_size(dataset, i);
    }
    for (int i = 0; i < 2; i++)
        folders[i].name = dataset_class(dataset, (uint32_t)i);
    struct folder *masks = &folders[folders[1].bytes < folders[0].bytes], *images = &folders[masks == folders];
    if (folders[0].count != folders[1].count || folders[1].first != folders[0].count ||
        !go_together(dataset, images, masks))
        return;
    printf("masks    %s goes with %s, file by file. If these are masks and no second class, write\n"
           "         parts={\"image\": \"%s/*%s\", \"mask\": \"%s/*%s\"}\n",
           masks->name, images->name, images->name, images->ending, masks->name, masks->ending);
}
