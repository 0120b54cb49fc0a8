/* resolve.c: finds out what a client's request means: the dataset, the part of it that the job trains on, and how much
 * memory its samples take. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/little_endian.h"
#include "common/utf8.h"
#include "server/registration/epochs.h"
#include "server/registration/one_size.h"
#include "server/registration/ranks.h"
#include "server/registration/registration.h"

/* The following four answer a view's questions about its dataset. */
static sample_id source_id(const void *dataset, uint32_t index)
{
    return dataset_id(dataset, index);
}

static int32_t source_label(const void *dataset, uint32_t index)
{
    return dataset_label(dataset, index);
}

static const char *source_key(const void *dataset, uint32_t index)
{
    return dataset_key(dataset, index);
}

static const char *source_class(const void *dataset, uint32_t label)
{
    return dataset_class(dataset, label);
}

static int parse_view(const char *json, struct view **out, struct error *err)
{
    return json && *json ? view_parse(json, strlen(json), out, err) : 0;
}

/* select_view finds the part of the dataset that the job trains on: what the client asks for, within what the
 * configuration leaves of the dataset. */
static int select_view(struct registration *reg, const struct config_dataset *named, const char *given_path,
                       struct selection *selection, struct error *err)
{
    struct view *view = NULL, *configured = NULL;
    struct view_sets *sets = NULL;
    struct view_source source = {.dataset = reg->found.dataset,
                                 .path = dataset_path(reg->found.dataset),
                                 .given_path = given_path,
                                 .count = dataset_count(reg->found.dataset),
                                 .n_classes = dataset_classes(reg->found.dataset),
                                 .id = source_id,
                                 .label = source_label,
                                 .key = source_key,
                                 .class_name = source_class,
                                 .interrupt = &reg->unwanted};
    const char *narrowed_to = named ? named->subset : NULL;
    int code = reg->asked.has_sets ? view_sets_open(reg->asked.file_fd, &sets, &reg->asked.record_at, err) : 0;
    source.sets = sets;
    if (!code)
        code = parse_view(reg->asked.subset_json, &view, err);
    if (!code)
        code = parse_view(narrowed_to, &configured, err);
    if (!code) {
        view = view_intersect(view, configured);
        configured = NULL;
        code = view_eval(view, &source, &selection->view, err);
        if (code && narrowed_to)
            code = error_prefix(err, code, "dataset %s, which the configuration narrows to %.200s", named->name,
                                narrowed_to);
    }
    view_destroy(view);
    view_destroy(configured);
    view_sets_close(sets);
    return code;
}

/* select_part takes the samples that a guest is for. */
static int select_part(struct registration *reg, struct selection *selection, struct error *err)
{
    struct view_result *view = &selection->view;
    struct idset *indices = NULL;
    int code = bag_of_flat(reg->guest.part, dataset_count(reg->found.dataset), &reg->guest.draws);
    code = code ? code : bag_ids(reg->guest.draws, &indices);
    uint64_t count = indices ? idset_count(indices) : 0;
    view->indices = malloc((count + 1) * sizeof *view->indices);
    view->order = malloc((count + 1) * sizeof *view->order);
    if (!code && (!view->indices || !view->order || idset_create(&view->ids)))
        code = LARDER_ENOMEM;
    if (!code)
        idset_to_array(indices, view->indices);
    idset_destroy(indices);
    if (code == LARDER_ENOMEM)
        return error_set(err, code, "no memory for a part of %llu samples", (unsigned long long)count);
    if (code || count == 0)
        return error_set(err, LARDER_EINVAL, "the part has no samples, or some that the dataset does not have");
    for (uint64_t i = 0; i < count; i++)
        view->order[i] = dataset_id(reg->found.dataset, view->indices[i]);
    idset_add_many(view->ids, view->order, count);
    view->count = (uint32_t)count;
    return 0;
}

/* make_dense_labels gives the view's classes the numbers 0, 1, 2 … in their order, as WIRE_RELABEL asks. */
static int make_dense_labels(struct registration_found *found, struct error *err)
{
    struct dense_labels *labels = &found->labels;
    uint32_t classes = dataset_classes(found->dataset);
    labels->of = malloc((classes + UINT64_C(1)) * sizeof *labels->of);
    labels->classes = malloc((classes + UINT64_C(1)) * sizeof *labels->classes);
    if (!labels->of || !labels->classes)
        return error_set(err, LARDER_ENOMEM,
                         "no memory for the numbers of %u classes: free memory, or lower the budgets", classes);
    for (uint32_t label = 0; label < classes; label++)
        labels->of[label] = -1;
    for (uint32_t i = 0; i < found->selection->view.count; i++)
        labels->of[dataset_label(found->dataset, found->selection->view.indices[i])] = 0;
    for (uint32_t label = 0; label < classes; label++) {
        if (labels->of[label] == 0) {
            labels->of[label] = (int32_t)labels->n_classes;
            labels->classes[labels->n_classes++] = label;
        }
    }
    return 0;
}

/* How long the content of a dataset's version is waited for: slow storage holds nobody up for long, and a home answers
 * before its guest's node gives it up. */
enum { VERSION_MS = 2000, GUEST_VERSION_MS = 1000 };
enum { HASHED_AT_ONCE = 1024, ROOTS_SHOWN_MAX = 80 };

/* fingerprint_view says what the job trains on, in the same words in every daemon: XXH3-128 over the dataset's
 * fingerprint and the view's indices, ascending, all little-endian. */
static int fingerprint_view(struct selection *selection, struct error *err)
{
    uint64_t dataset[2];
    uint8_t bytes[HASHED_AT_ONCE * sizeof(uint32_t)];
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return error_set(err, LARDER_ENOMEM, "no memory to tell what the job trains on");
    XXH3_128bits_reset(state);
    dataset_fingerprint(selection->dataset, dataset);
    XXH3_128bits_update(state, bytes, (size_t)(put_u64(put_u64(bytes, dataset[0]), dataset[1]) - bytes));
    for (uint32_t i = 0; i < selection->view.count;) {
        uint8_t *at = bytes;
        for (uint32_t end = i + HASHED_AT_ONCE; i < end && i < selection->view.count; i++)
            at = put_u32(at, selection->view.indices[i]);
        XXH3_128bits_update(state, bytes, (size_t)(at - bytes));
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    selection->fingerprint[0] = hash.low64;
    selection->fingerprint[1] = hash.high64;
    return 0;
}

struct placed {
    sample_id id;
    struct chunk_slot place;
};

static int compare_placed(const void *a, const void *b)
{
    sample_id x = ((const struct placed *)a)->id, y = ((const struct placed *)b)->id;
    return (x > y) - (x < y);
}

/* find_places finds where the view's samples are stored, by ascending id. */
static int find_places(struct selection *selection, struct error *err)
{
    uint32_t count = selection->view.count;
    struct placed *placed = malloc(count * sizeof *placed);
    bool *touched = calloc((size_t)dataset_chunk_count(selection->dataset) + 1, sizeof *touched);
    selection->places = malloc(count * sizeof *selection->places);
    if (!placed || !touched || !selection->places) {
        free(placed);
        free(touched);
        return error_set(err, LARDER_ENOMEM, "no memory for the places of %u samples", count);
    }
    selection->ascending = true;
    for (uint32_t i = 0; i < count; i++) {
        struct chunk_slot *place = &placed[i].place;
        placed[i].id = selection->view.order[i];
        place->chunk = dataset_chunk_of(selection->dataset, selection->view.indices[i], &place->slot);
        selection->ascending = selection->ascending && (i == 0 || placed[i - 1].id < placed[i].id);
        selection->touched += !touched[place->chunk];
        touched[place->chunk] = true;
    }
    if (!selection->ascending)
        qsort(placed, count, sizeof *placed, compare_placed);
    for (uint32_t i = 0; i < count; i++)
        selection->places[i] = placed[i].place;
    free(placed);
    free(touched);
    return 0;
}

/* select_samples finds the part of the dataset that the job trains on, or takes what is known of it because another job
 * trains on it. */
static int select_samples(struct registration *reg, const struct config_dataset *named, const char *path,
                          struct error *err)
{
    struct registration_found *found = &reg->found;
    const char *subset = reg->asked.subset_json ? reg->asked.subset_json : "";
    const char *narrowed = named && named->subset ? named->subset : "";
    bool shared = !reg->guest.number && !reg->asked.has_sets && selection_is_shared(subset, narrowed);
    found->selection = shared ? selection_find(found->dataset, subset, narrowed) : NULL;
    if (found->selection)
        return 0;
    struct selection *made = selection_create(found->dataset);
    int code = reg->guest.number ? select_part(reg, made, err) : select_view(reg, named, path, made, err);
    if (!code)
        code = find_places(made, err);
    if (!code)
        code = fingerprint_view(made, err);
    if (code)
        selection_unref(&made);
    else if (shared)
        selection_share(&made, subset, narrowed);
    found->selection = made;
    return code;
}

/* make_deal sorts the view by chunks, from which each epoch is dealt. That of a multiset deals numbers, in the view's
 * order, instead of samples. */
static int make_deal(struct registration *reg, struct error *err)
{
    struct registration_found *found = &reg->found;
    uint32_t count = found->selection->view.count, slot;
    uint32_t *chunk_of = malloc(count * sizeof *chunk_of);
    sample_id *numbers = found->multiset ? malloc(count * sizeof *numbers) : NULL;
    for (uint32_t i = 0; chunk_of && i < count; i++)
        chunk_of[i] = dataset_chunk_of(found->dataset, found->selection->view.indices[i], &slot);
    for (uint32_t i = 0; numbers && i < count; i++)
        numbers[i] = i;
    int code = chunk_of && (numbers || !found->multiset)
                   ? deal_create(numbers ? numbers : found->selection->view.order, chunk_of, count,
                                 dataset_chunk_count(found->dataset), &found->deal)
                   : LARDER_ENOMEM;
    free(numbers);
    free(chunk_of);
    if (!code && reg->asked.at_home)
        code = ranks_stay_home(reg);
    return code ? error_set(err, code,
                            "no memory to deal %u samples to the job's ranks: free memory, or lower the "
                            "budgets",
                            count)
                : 0;
}

static int compare_descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

struct counted_sample {
    const struct dataset *dataset;
    uint32_t index;
};

static uint32_t row_count(const void *context, const char *part)
{
    const struct counted_sample *of = context;
    return dataset_row_count(of->dataset, part, of->index);
}

uint64_t registration_made_bytes(const struct dataset *dataset, const struct pipeline *pipeline, uint32_t index)
{
    struct counted_sample of = {dataset, index};
    return pipeline_sample_bytes(pipeline, row_count, &of);
}

/* size_slots finds how much of the arena a sample takes. Without operators a sample takes its file's size. Where
 * samples differ in length, batches are promised the mean of the batch_samples longest ones. batch_samples counts one
 * batch for each rank. A job holds at least two batches for each rank; two epochs may meet in them, so that a sample is
 * held twice. */
static int size_slots(struct registration_found *found, uint64_t batch_samples, const struct engine_config *engine,
                      struct error *err)
{
    found->sample_bytes = found->slot_bytes = pipeline_layout(found->pipeline)->bytes;
    bool ragged = pipeline_is_ragged(found->pipeline);
    if (found->sample_bytes && !ragged)
        return 0;
    uint32_t count = found->selection->view.count;
    uint64_t *sizes = malloc(count * sizeof *sizes);
    if (!sizes)
        return error_set(err, LARDER_ENOMEM, "no memory for the sizes of %u samples", count);
    for (uint32_t i = 0; i < count; i++)
        sizes[i] = ragged ? registration_made_bytes(found->dataset, found->pipeline, found->selection->view.indices[i])
                          : dataset_size(found->dataset, found->selection->view.indices[i]);
    qsort(sizes, count, sizeof *sizes, compare_descending);
    uint64_t longest = batch_samples < count ? batch_samples : count, sum = 0;
    for (uint64_t i = 0; i < longest; i++)
        sum += engine_slot_bytes(engine, sizes[i]);
    if (ragged) {
        found->mean_slot_bytes = (sum + longest - 1) / longest;
    } else {
        found->sample_bytes = sizes[0];
        found->slot_bytes = (sum + longest - 1) / longest;
    }
    free(sizes);
    return found->sample_bytes <= UINT32_MAX
               ? 0
               : error_set(err, LARDER_ELIMIT,
                           "a file of %llu bytes is too long to be delivered: leave files over 4 GiB out",
                           (unsigned long long)found->sample_bytes);
}

static int check_roots(const struct config *config, const char *path, const char *resolved, struct error *err)
{
    char roots[ROOTS_SHOWN_MAX];
    if (config_roots_allow(config, resolved))
        return 0;
    config_roots_tell(config, roots, sizeof roots);
    return error_set(
        err, LARDER_EPERM,
        "dataset \"%.110s\" is below none of the folders that this daemon serves (roots: %s): put it there, "
        "or add its folder to `roots` in %.90s (links resolved, the dataset is %.110s)",
        path, roots, config->settings_file ? config->settings_file : "the daemon's configuration", resolved);
}

/* open_dataset opens a dataset that lies below the configuration's roots. It does not look into folders elsewhere. A
 * link may change between the two checks, so the second checks the folder that was opened. */
static int open_dataset(struct registration *reg, struct catalog *catalog, const struct config *config,
                        const char *path, struct error *err)
{
    bool all = reg->asked.flags & WIRE_ALL_FILES, sounds = pipeline_is_of_sound(reg->found.pipeline);
    struct catalog_wish wish = {.path = path,
                                .files = all      ? FILES_ALL
                                         : sounds ? FILES_SOUNDS
                                                  : FILES_IMAGES,
                                .interrupt = &reg->unwanted};
    char *folder = NULL;
    int code = config->n_roots ? catalog_folder(path, &folder, err) : 0;
    if (!code && folder)
        code = check_roots(config, path, folder, err);
    free(folder);
    if (!code)
        code = catalog_open_for(catalog, &wish, &reg->found.dataset, err);
    return code ? code : check_roots(config, path, dataset_path(reg->found.dataset), err);
}

/* close_pipeline makes a pipeline that leaves images the size they have one for images of the view's size. */
static int close_pipeline(struct registration *reg, const struct resolver *with, struct error *err)
{
    struct registration_found *found = &reg->found;
    struct one_size_wish wish = {.dataset = found->dataset,
                                 .indices = found->selection->view.indices,
                                 .count = found->selection->view.count,
                                 .limits = {.pixels_max = with->config->pixels_max,
                                            .scans_max = (uint32_t)with->config->scans_max},
                                 .watched = with->watched,
                                 .interrupt = &reg->unwanted};
    return one_size_close(&found->pipeline, &wish, err);
}

/* check_encoded refuses to give samples as they are of a store that has samples which only Larder can read. */
static int check_encoded(const struct registration_found *found, const char *path, struct error *err)
{
    struct packing packing;
    dataset_packing(found->dataset, &packing);
    if (packing.samples_planes == 0 || pipeline_layout(found->pipeline)->bytes)
        return 0;
    return error_set(
        err, LARDER_EINVAL,
        "%.200s was packed with --planes, so its samples are no JPEGs; give a pipeline, or pack it again with "
        "--restart-rows",
        path);
}

static int resolve(struct registration *reg, const struct resolver *with, struct error *err)
{
    const struct config *config = with->config;
    const struct registration_asked *asked = &reg->asked;
    struct registration_found *found = &reg->found;
    const struct config_dataset *named = config_dataset_find(config, asked->source);
    const char *path = named ? named->path : asked->source;
    const char *pipeline = asked->pipeline_json;
    if (!*pipeline && named && named->pipeline)
        pipeline = named->pipeline;
    if (!utf8_printable(reg->name)) /* two such names could look the same in the metrics */
        return error_set(err, LARDER_EINVAL, "the job's name is not UTF-8, or has control characters: give it another");
    if (asked->world_size > ENGINE_RANKS_MAX)
        return error_set(err, LARDER_ELIMIT, "%s is %u, and a job may have %d ranks at one daemon",
                         asked->all_ranks ? "local_world_size" : "world_size", asked->world_size, ENGINE_RANKS_MAX);
    if (asked->all_ranks > ENGINE_ALL_RANKS_MAX)
        return error_set(err, LARDER_ELIMIT, "world_size is %u, and a job may have %d ranks over all nodes",
                         asked->all_ranks, ENGINE_ALL_RANKS_MAX);
    if ((asked->world_size > 1 || asked->all_ranks) && !*reg->name)
        return error_set(err, LARDER_EINVAL, "a job of %u ranks needs a name, which all of them give",
                         ranks_here(reg).world_size);
    if (path[0] != '/')
        return error_set(
            err, LARDER_EINVAL,
            "dataset \"%s\" is neither an absolute path nor a name under `datasets` in the daemon's configuration; a "
            "relative path must exist where the script runs",
            path);
    int code = pipeline_parse_open(pipeline, strlen(pipeline), &found->pipeline, err);
    if (!code)
        code = open_dataset(reg, with->catalog, config, path, err);
    if (!code)
        found->device = dataset_device(found->dataset);
    if (!code)
        code = select_samples(reg, named, path, err);
    if (!code)
        code = close_pipeline(reg, with, err);
    if (!code)
        code = check_encoded(found, path, err);
    if (!code) {
        found->samples = found->selection->view.count;
        memcpy(found->view_fingerprint, found->selection->fingerprint, sizeof found->view_fingerprint);
    }
    if (!code)
        code = epochs_make(reg, err);
    if (!code && asked->all_ranks && asked->shuffle == SHUFFLE_DEPENDENT)
        code = make_deal(reg, err);
    if (!code)
        code = size_slots(found, (uint64_t)asked->batch_size * asked->world_size, with->engine, err);
    if (!code && asked->flags & WIRE_RELABEL)
        code = make_dense_labels(found, err);
    if (!code)
        catalog_version(with->catalog, found->dataset, reg->guest.number ? GUEST_VERSION_MS : VERSION_MS,
                        &reg->unwanted, &found->version);
    if (!code && asked->has_record)
        code = restore_read(reg, with->catalog, &found->restore, err);
    if (!code)
        dataset_version(found->dataset, &found->version); /* restore_read may have waited for the content */
    return code;
}

int registration_resolve(struct registration *reg, const struct resolver *with)
{
    reg->code = resolve(reg, with, &reg->err);
    registration_close_file(reg);
    return reg->code;
}
