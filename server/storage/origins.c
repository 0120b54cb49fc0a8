#include "server/storage/origins.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/storage/origins_priv.h"

static uint64_t hash_text(const char *text)
{
    return XXH3_64bits(text, strlen(text));
}

static struct tier_key key_of(const struct origin_class *class, const struct dataset *dataset, uint32_t index,
                              bool *named)
{
    uint64_t id[2] = {0};
    *named = dataset_content_id(dataset, index, tier_seed(class->tier), id);
    return (struct tier_key){id[0], id[1]};
}

/* owner_of returns the dataset's number in classes. The name of its first sample tells whether the dataset's records
 * can be found at all. If its file system has another device number, or all files are new, none can be found, and all
 * must make room. */
static uint64_t owner_of(const struct dataset *dataset)
{
    uint64_t path = hash_text(dataset_path(dataset)), id[2];
    return dataset_content_id(dataset, 0, path, id) ? id[0] : path;
}

/* ── what is under way ── */

/* The reads under way are those when it began and when it ended, on average. */
static void end_locked(struct origin *origin, uint32_t began_with, uint64_t bytes, uint64_t came_bytes, double took_s)
{
    CHECK(origin->under_way > 0 && origin->bytes_under_way >= bytes);
    curve_note(&origin->curve, (began_with + origin->under_way) / 2.0, came_bytes, took_s);
    origin->under_way--;
    origin->bytes_under_way -= bytes;
}

/* ── classes ── */

/* One class's part of a read. */
struct part {
    struct tier_read *reads;
    uint32_t *which; /* the number of each in the origins_read */
    uint32_t count;
    uint64_t bytes;
};

static void find_part(const struct origin_class *class, const struct origins_read *read, struct part *part)
{
    part->count = 0;
    part->bytes = 0;
    for (uint32_t i = 0; i < read->count; i++) {
        bool named;
        uint32_t index = read->reads[i].index;
        struct tier_key key = key_of(class, read->dataset, index, &named);
        uint64_t bytes = dataset_size(read->dataset, index);
        if (read->done[i] || !named || !tier_find(class->tier, key, bytes))
            continue;
        part->reads[part->count] = (struct tier_read){
            .key = key, .bytes = bytes, .buf = read->reads[i].buf, .room = read->reads[i].room};
        part->which[part->count++] = i;
        part->bytes += bytes;
    }
}

/* read_part waits until the class may have another read, and reads. */
static uint32_t read_part(struct origins *origins, struct origin_class *class, struct part *part,
                          const struct origins_read *read)
{
    pthread_mutex_lock(&origins->lock);
    class->origin.bytes_under_way += part->bytes;
    while (class->origin.under_way >= class->threads)
        pthread_cond_wait(&class->freed, &origins->lock);
    uint32_t began_with = ++class->origin.under_way;
    pthread_mutex_unlock(&origins->lock);

    behind_reading(class->behind, 1);
    convert_hold(class->convert, 1);
    uint64_t began_ns = clock_now_ns(), came_bytes = 0;
    uint32_t came = tier_read_many(class->tier, part->reads, part->count);
    double took_s = (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_S;
    convert_hold(class->convert, -1);
    behind_reading(class->behind, -1);
    for (uint32_t i = 0; i < part->count; i++) {
        const struct tier_read *one = &part->reads[i];
        read->done[part->which[i]] = one->done;
        read->reads[part->which[i]].planes_bytes = one->done ? one->planes_bytes : 0;
        came_bytes += !one->done ? 0 : one->planes_bytes ? one->planes_bytes : one->bytes;
    }
    pthread_mutex_lock(&origins->lock);
    end_locked(&class->origin, began_with, part->bytes, came_bytes, took_s);
    class->origin.samples += came;
    class->origin.bytes += came_bytes;
    pthread_cond_signal(&class->freed);
    pthread_mutex_unlock(&origins->lock);
    return came;
}

static void add_class(struct origins_classed *classed, uint32_t *most, uint32_t class, uint32_t samples)
{
    classed->samples += samples;
    if (samples > *most) {
        *most = samples;
        classed->class = class;
    }
}

/* brings tells whether a read of the sample can be served by the class. */
static bool brings(const struct origin_class *class, const struct dataset *dataset, uint32_t index, bool as_read)
{
    bool named;
    struct tier_key key = key_of(class, dataset, index, &named);
    return named && tier_find(class->tier, key, dataset_size(dataset, index)) &&
           !(as_read && tier_find_planes(class->tier, key));
}

struct origins_classed origins_expect(struct origins *origins, const struct dataset *dataset, const uint32_t *indexes,
                                      uint32_t count, bool as_read)
{
    struct origins_classed classed = {.class = 0};
    uint32_t samples[ORIGIN_CLASSES_MAX] = {0}, most = 0;
    bool alone[ORIGIN_CLASSES_MAX];
    pthread_mutex_lock(&origins->lock);
    for (uint32_t i = 0; i < origins->n_classes; i++)
        alone[i] = origins_left_alone(&origins->classes[i]);
    pthread_mutex_unlock(&origins->lock);
    for (uint32_t at = 0; at < count; at++) {
        bool found = false;
        for (uint32_t i = 0; i < origins->n_classes && !found; i++) {
            found = !alone[i] && brings(&origins->classes[i], dataset, indexes[at], as_read);
            samples[i] += found;
        }
    }
    for (uint32_t i = 0; i < origins->n_classes; i++)
        add_class(&classed, &most, i + 1, samples[i]);
    return classed;
}

struct origins_classed origins_read_classes(struct origins *origins, const struct origins_read *read)
{
    struct part part = {.reads = xcalloc(read->count ? read->count : 1, sizeof *part.reads),
                        .which = xcalloc(read->count ? read->count : 1, sizeof *part.which)};
    struct origins_classed came = {.class = 0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < origins->n_classes && came.samples < read->count; i++) {
        struct origin_class *class = &origins->classes[i];
        find_part(class, read, &part);
        if (part.count == 0)
            continue;
        pthread_mutex_lock(&origins->lock);
        bool chosen = origins_choose_locked(origins, class, read->device, part.bytes);
        pthread_mutex_unlock(&origins->lock);
        if (chosen)
            add_class(&came, &most, i + 1, read_part(origins, class, &part, read));
    }
    free(part.reads);
    free(part.which);
    return came;
}

/* ── sources ── */

struct origins_source origins_source_begin(struct origins *origins, uint64_t device, uint64_t bytes)
{
    pthread_mutex_lock(&origins->lock);
    uint32_t source = origins_source_locked(origins, device);
    struct origin *origin = &origins->sources[source];
    origin->bytes_under_way += bytes;
    struct origins_source begun = {source, ++origin->under_way, bytes};
    pthread_mutex_unlock(&origins->lock);
    return begun;
}

static bool has_come(const struct origins_read *read, uint32_t i)
{
    return !read->done[i] && !read->reads[i].left && !read->reads[i].err.code;
}

/* put_behind passes samples from the source to the first class that takes any. */
static void put_behind(struct origins *origins, const struct origins_read *read, uint64_t bytes)
{
    for (uint32_t i = 0; i < origins->n_classes; i++) {
        struct origin_class *class = &origins->classes[i];
        pthread_mutex_lock(&origins->lock);
        bool fills = origins_fills_locked(origins, class, read->device, bytes);
        pthread_mutex_unlock(&origins->lock);
        if (!fills || !tier_writable(class->tier))
            continue;
        struct tier_record *records = xcalloc(read->count, sizeof *records);
        uint32_t n = 0;
        for (uint32_t at = 0; at < read->count; at++) {
            bool named;
            uint32_t index = read->reads[at].index;
            struct tier_key key = key_of(class, read->dataset, index, &named);
            uint64_t len_bytes = dataset_size(read->dataset, index);
            if (named && has_come(read, at) && !tier_find(class->tier, key, len_bytes))
                records[n++] = (struct tier_record){key, read->reads[at].buf, len_bytes};
        }
        behind_put(class->behind, owner_of(read->dataset), records, n);
        free(records);
        return;
    }
}

void origins_source_end(struct origins *origins, struct origins_source source, const struct origins_read *read,
                        double took_s)
{
    struct origin *origin = &origins->sources[source.source];
    uint64_t came_bytes = 0, came = 0;
    for (uint32_t i = 0; i < read->count; i++) {
        came += has_come(read, i);
        came_bytes += has_come(read, i) ? dataset_size(read->dataset, read->reads[i].index) : 0;
    }
    pthread_mutex_lock(&origins->lock);
    end_locked(origin, source.under_way, source.bytes, came_bytes, took_s);
    origin->samples += came;
    origin->bytes += came_bytes;
    pthread_mutex_unlock(&origins->lock);
    put_behind(origins, read, source.bytes);
}

/* ── the rest ── */

void origins_want(struct origins *origins, const struct dataset *const *datasets, uint32_t count, bool as_read)
{
    uint64_t owners[TIER_OWNERS_MAX];
    CHECK(count <= TIER_OWNERS_MAX);
    for (uint32_t i = 0; i < count; i++)
        owners[i] = owner_of(datasets[i]);
    for (uint32_t i = 0; i < origins->n_classes; i++)
        tier_want(origins->classes[i].tier, owners, count);
    if (as_read != origins->as_read)
        origins_hold(origins, as_read ? 1 : -1);
    origins->as_read = as_read;
}

void origins_hold(struct origins *origins, int more)
{
    for (uint32_t i = 0; origins && i < origins->n_classes; i++)
        convert_hold(origins->classes[i].convert, more);
}

uint64_t origins_planes(struct origins *origins, const struct dataset *dataset, uint32_t index)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < origins->n_classes; i++) {
        const struct origin_class *class = &origins->classes[i];
        bool named;
        struct tier_key key = key_of(class, dataset, index, &named);
        uint64_t bytes = named ? tier_find_planes(class->tier, key) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

void origins_status(struct origins *origins, struct origins_status *out)
{
    memset(out, 0, sizeof *out);
    out->n_classes = origins->n_classes;
    for (uint32_t i = 0; i < origins->n_classes; i++) {
        struct origin_class *class = &origins->classes[i];
        struct origins_class_status *status = &out->classes[i];
        struct behind_counts behind;
        tier_stats(class->tier, &status->tier);
        behind_counts(class->behind, &behind);
        status->path = tier_path(class->tier);
        status->planes = class->convert != NULL;
        status->waiting_bytes = behind.waiting_bytes;
        status->skipped = behind.skipped;
        pthread_mutex_lock(&origins->lock);
        status->read_samples = class->origin.samples;
        status->read_bytes = class->origin.bytes;
        status->left_alone = origins_left_alone(class);
        status->bytes_per_s = curve_at(&class->origin.curve, 1);
        pthread_mutex_unlock(&origins->lock);
    }
    pthread_mutex_lock(&origins->lock);
    for (uint32_t i = 0; i < origins->n_sources; i++) {
        out->source_samples += origins->sources[i].samples;
        out->source_bytes += origins->sources[i].bytes;
    }
    pthread_mutex_unlock(&origins->lock);
}

/* open_class returns 0 also for a class that is left out: a cache stops no training. Only what is no class at all is
 * refused, for it may be somebody's. */
static int open_class(struct origins *origins, const struct origins_config *config, uint32_t i, struct error *err)
{
    const char *path = config->classes[i].path;
    struct origin_class *class = &origins->classes[origins->n_classes];
    struct error why;
    int code = tier_open(path, config->classes[i].size_bytes, &class->tier, &why);
    if (code == LARDER_EINVAL)
        return error_set(err, code, "storage[%u]: %s", i, why.text);
    const struct convert_config convert = {config->behind_bytes, config->scans_max};
    bool opened = !code;
    if (!code && config->classes[i].planes)
        code = convert_create(class->tier, &convert, &class->convert, &why);
    if (!code)
        code = behind_create(class->tier, config->behind_bytes, class->convert, &class->behind, &why);
    if (code && opened) {
        convert_destroy(class->convert);
        tier_close(class->tier);
        *class = (struct origin_class){.convert = NULL};
    }
    if (code) {
        log_error(
            "msg=\"storage class left out: jobs go on without; the next start tries it again\" class=%u err=\"%s\"", i,
            why.text);
        return 0;
    }
    class->threads = config->classes[i].threads;
    class->origin.name = hash_text(path);
    CHECK(pthread_cond_init(&class->freed, NULL) == 0);
    origins->n_classes++;
    struct tier_stats stats;
    tier_stats(class->tier, &stats);
    log_info("msg=\"storage class\" path=\"%s\" size_mib=%llu used_mib=%llu samples=%llu", path,
             (unsigned long long)(stats.size_bytes >> 20), (unsigned long long)(stats.used_bytes >> 20),
             (unsigned long long)stats.samples);
    return 0;
}

int origins_create(const struct origins_config *config, struct origins **out, struct error *err)
{
    CHECK(config->n_classes <= ORIGIN_CLASSES_MAX);
    struct origins *origins = xcalloc(1, sizeof *origins);
    CHECK(pthread_mutex_init(&origins->lock, NULL) == 0);
    int code = 0;
    for (uint32_t i = 0; !code && i < config->n_classes; i++)
        code = open_class(origins, config, i, err);
    if (code) {
        origins_destroy(origins);
        return code;
    }
    origins->curves = config->curves ? xstrdup(config->curves) : NULL;
    origins_curves_load(origins);
    *out = origins;
    return 0;
}

void origins_destroy(struct origins *origins)
{
    if (!origins)
        return;
    for (uint32_t i = 0; i < origins->n_classes; i++) {
        behind_destroy(origins->classes[i].behind);
        convert_destroy(origins->classes[i].convert);
        tier_close(origins->classes[i].tier);
        pthread_cond_destroy(&origins->classes[i].freed);
    }
    origins_curves_save(origins);
    pthread_mutex_destroy(&origins->lock);
    free(origins->curves);
    free(origins);
}
