/* parts.c: samples of several parts. See parts.h. */
#include "cache/source/parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/list.h"
#include "cache/source/pairs.h"
#include "cache/source/parts_text.h"
#include "cache/source/rows.h"
#include "cache/source/tar.h"
#include "cache/source/tar_text.h"
#include "common/sample_parts.h"

struct gathered {
    struct source source;
    uint32_t n;
    struct source *parts[SAMPLE_PARTS_MAX];
    struct sample_parts head; /* with the names */
};

static int out_of_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
}

/* ── what it is ── */

static int is_parts(const char *text, bool *is, struct error *err)
{
    size_t len;
    struct stat st;
    (void)err;
    *is = parts_text_of(text, &len) && (stat(text, &st) || !S_ISDIR(st.st_mode));
    return 0;
}

/* kind_of_plain finds the kind of source that each part of a text without labels is. A folder without list and shards
 * has files that fit patterns. */
static int kind_of_plain(const char *text, const struct source_kind **out, struct error *err)
{
    static const struct source_kind *const kinds[] = {&list_kind, &tar_kind};
    bool is = false;
    int code = 0;
    for (size_t i = 0; i < 2 && !is && !code; i++) {
        *out = kinds[i];
        code = kinds[i]->is(text, &is, err);
    }
    if (!code && !is)
        *out = &pairs_kind;
    return code;
}

/* kind_of does the same of any text. Files that fit patterns have no labels, so the text of these loses "none". */
static int kind_of(char *text, const struct source_kind **out, struct error *err)
{
    size_t len;
    const char *labels = tar_text_labels(text, &len);
    char *plain = strndup(text, len);
    int code = plain ? kind_of_plain(plain, out, err) : out_of_memory(err);
    free(plain);
    if (code || *out != &pairs_kind || !*labels)
        return code;
    if (strcmp(labels, "none") != 0)
        return error_set(err, LARDER_EINVAL,
                         "%.*s: files that fit patterns have no labels, and \"%.100s\" is asked for: leave labels out",
                         (int)(len < 200 ? len : 200), text, labels);
    text[len] = '\0';
    return 0;
}

/* ── samples that go together ── */

/* has_stems tells whether a part's samples have stems; else their order says what goes together. */
static bool has_stems(const struct source *part)
{
    return part->kind == &pairs_kind || part->kind == &tar_kind;
}

/* What a sample's parts have in common, of this part: malloc'ed, the caller's. NULL: out of memory. */
static char *stem_of(const struct source *part, uint32_t index)
{
    const char *key = index_key(&part->index, index);
    if (part->kind == &pairs_kind)
        return pairs_stem(part, index);
    const char *slash = strrchr(key, '/'), *base = slash ? slash + 1 : key;
    return strndup(key, (size_t)(base - key) + strcspn(base, "."));
}

static int refuse(const struct gathered *gathered, const char *stem, uint32_t has, uint32_t lacks, struct error *err)
{
    return error_set(err, LARDER_EINVAL,
                     "%.200s has the part %s and no %s: each sample has all parts, so add it, or leave the other out",
                     stem, gathered->head.parts[has].name, gathered->head.parts[lacks].name);
}

/* check_stems compares a sample of the first part with one of another. A part that has no more has UINT32_MAX. */
static int check_stems(const struct gathered *gathered, uint32_t number, uint32_t first, uint32_t other,
                       struct error *err)
{
    char *stem = first == UINT32_MAX ? NULL : stem_of(gathered->parts[0], first);
    char *other_stem = other == UINT32_MAX ? NULL : stem_of(gathered->parts[number], other);
    int code = 0;
    if ((!stem && first != UINT32_MAX) || (!other_stem && other != UINT32_MAX)) {
        code = out_of_memory(err);
    } else {
        int order = !stem ? 1 : !other_stem ? -1 : strcmp(stem, other_stem);
        code = order > 0   ? refuse(gathered, other_stem, number, 0, err)
               : order < 0 ? refuse(gathered, stem, 0, number, err)
                           : 0;
    }
    free(stem);
    free(other_stem);
    return code;
}

/* check_together finds the first sample that lacks a part. */
static int check_together(const struct gathered *gathered, uint32_t number, struct error *err)
{
    const struct source *first = gathered->parts[0], *other = gathered->parts[number];
    size_t counts[] = {first->index.sample_count, other->index.sample_count};
    for (uint32_t i = 0; has_stems(first) && has_stems(other) && (i < counts[0] || i < counts[1]); i++) {
        uint32_t there = i < counts[0] ? i : UINT32_MAX, other_there = i < counts[1] ? i : UINT32_MAX;
        int code = check_stems(gathered, number, there, other_there, err);
        if (code)
            return code;
    }
    return counts[0] == counts[1]
               ? 0
               : error_set(err, LARDER_EINVAL, "%zu samples have the part %s, and %zu the part %s", counts[0],
                           gathered->head.parts[0].name, counts[1], gathered->head.parts[number].name);
}

/* ── the index ── */

/* The folder that all parts lie below. */
static char *common_root(const struct gathered *gathered)
{
    const char *first = gathered->parts[0]->index.root;
    size_t len = strlen(first);
    for (uint32_t i = 1; i < gathered->n; i++) {
        const char *root = gathered->parts[i]->index.root;
        while (len > 0 && (strncmp(first, root, len) != 0 || (root[len] && root[len] != '/'))) {
            do
                len--;
            while (len > 0 && first[len] != '/');
        }
    }
    return strndup(first, len ? len : 1);
}

static struct index_sample join_sample(const struct gathered *gathered, uint32_t index)
{
    struct sample_parts head = gathered->head;
    struct index_sample made = index_sample(&gathered->parts[0]->index, index);
    for (uint32_t i = 0; i < gathered->n; i++) {
        const struct index_sample part = index_sample(&gathered->parts[i]->index, index);
        head.parts[i].bytes = part.size;
        made.flags |= part.flags;
        if (i) { /* numbers that differ where those of a part do */
            made.mtime_ns = (int64_t)XXH3_64bits_withSeed(&part.mtime_ns, sizeof part.mtime_ns,
                                                          (uint64_t)made.mtime_ns);
            made.ctime_ns = part.ctime_ns > made.ctime_ns ? part.ctime_ns : made.ctime_ns;
        }
    }
    made.size = sample_parts_place(&head);
    return made;
}

/* Where the runs of samples begin and end, which chunks are made of. */
static int copy_blobs(const struct index *from, struct index *index)
{
    uint64_t nameless;
    if (from->blob_count == 0)
        return 0;
    index->blobs = calloc(from->blob_count, sizeof *index->blobs);
    if (!index->blobs || index_text(index, "", NULL, &nameless))
        return LARDER_ENOMEM;
    index->blob_count = index->blob_cap = from->blob_count;
    for (size_t i = 0; i < from->blob_count; i++)
        index->blobs[i] = (struct index_blob){
            .path = nameless, .first = from->blobs[i].first, .size = from->blobs[i].size};
    return 0;
}

static int copy_classes(const struct index *from, struct index *index)
{
    int code = 0;
    for (size_t i = 0; i < from->class_count && !code; i++) {
        code = array_grow((void **)&index->classes, i, &index->class_cap, sizeof *index->classes, SIZE_MAX);
        if (!code)
            code = index_text(index, from->strings + from->classes[i], NULL, &index->classes[i]);
        index->class_count += !code;
    }
    return code;
}

static int copy_samples(const struct gathered *gathered, struct index *index)
{
    const struct index *from = &gathered->parts[0]->index;
    size_t root_len = strlen(index->root);
    const char *below = from->root + root_len + (from->root[root_len] == '/');
    int code = 0;
    index->samples = calloc(from->sample_count, sizeof *index->samples);
    if (!index->samples)
        return LARDER_ENOMEM;
    index->sample_cap = from->sample_count;
    for (size_t i = 0; i < from->sample_count && !code; i++) {
        const char *key = index_key(from, i);
        index->samples[i] = join_sample(gathered, (uint32_t)i);
        code = *below ? index_text(index, below, key, &index->samples[i].key)
                      : index_text(index, key, NULL, &index->samples[i].key);
        index->sample_count += !code;
    }
    return code;
}

static int gather(struct gathered *gathered, struct error *err)
{
    struct index *index = &gathered->source.index;
    const struct index *first = &gathered->parts[0]->index;
    index->root = common_root(gathered);
    if (!index->root)
        return out_of_memory(err);
    int code = copy_classes(first, index);
    if (!code)
        code = copy_blobs(first, index);
    if (!code)
        code = copy_samples(gathered, index);
    if (code)
        return out_of_memory(err);
    gathered->source.medium = gathered->parts[0]->medium;
    return 0;
}

/* index_rows makes a part of rows, which may take what the parts before it have left. */
static int index_rows(const struct source_wish *wish, const char *column, bool masks, const struct gathered *gathered,
                      struct source **out, struct error *err)
{
    struct source_wish own = {.part = column, .rows_max = wish->rows_max, .interrupt = wish->interrupt};
    uint64_t taken = 0;
    for (uint32_t i = 0; i < gathered->n; i++)
        taken += gathered->parts[i]->kind == &rows_kind ? rows_bytes(gathered->parts[i]) : 0;
    own.rows_max = own.rows_max ? own.rows_max : ROWS_BYTES_MAX;
    own.rows_max = own.rows_max > taken ? own.rows_max - taken : 1;
    return rows_index(gathered->parts[0], &own, masks, out, err);
}

static int index_part(const struct source_wish *wish, const char *text, const struct source_kind *kind,
                      const struct parts_asked *asked, struct gathered *gathered, struct error *err)
{
    uint32_t number = gathered->n;
    const struct source_wish own = {
        .text = text, .part = asked->values[number], .files = wish->files, .interrupt = wish->interrupt};
    bool masks;
    char *column = rows_column(asked->values[number], &masks);
    bool rows = column && kind != &pairs_kind; /* whose patterns may have brackets */
    int code = 0;
    strcpy(gathered->head.parts[number].name, asked->names[number]);
    if (!rows)
        code = source_index(kind, &own, &gathered->parts[number], err);
    else if (number == 0)
        code = error_set(err, LARDER_EINVAL, "the first part is files, such as the images, and rows stand behind it");
    else
        code = index_rows(wish, column, masks, gathered, &gathered->parts[number], err);
    free(column);
    if (!code) {
        uint64_t paths, bytes = source_bytes(gathered->parts[number], &paths);
        gathered->source.own_bytes += bytes + paths;
        gathered->n++;
    }
    gathered->head.n = gathered->n;
    if (!code && number)
        code = check_together(gathered, number, err);
    return code ? error_prefix(err, code, "part %s", asked->names[number]) : 0;
}

static int index_parts(const struct source_wish *wish, struct source *source, struct error *err)
{
    struct gathered *gathered = (struct gathered *)source;
    struct parts_asked asked = {0};
    const struct source_kind *kind = NULL;
    size_t len;
    const char *parts = parts_text_of(wish->text, &len);
    char *text = strndup(wish->text, len);
    source->index.text = strdup(wish->text);
    int code = text && source->index.text ? parts_text_parse(parts, &asked, err) : out_of_memory(err);
    if (!code)
        code = kind_of(text, &kind, err);
    for (uint32_t i = 0; i < asked.n && !code; i++)
        code = index_part(wish, text, kind, &asked, gathered, err);
    if (!code)
        code = gather(gathered, err);
    parts_asked_free(&asked);
    free(text);
    return code;
}

static bool unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    struct gathered *gathered = (struct gathered *)source;
    bool same = true, one;
    *settled = false;
    for (uint32_t i = 0; i < gathered->n && same; i++) {
        same = gathered->parts[i]->kind->unchanged(gathered->parts[i], interrupt, &one);
        *settled |= one;
    }
    return same;
}

/* ── samples ── */

/* Reads one part of those samples that have no error yet. */
static void read_part(const struct gathered *gathered, uint32_t number, struct sample_read *reads, uint32_t count,
                      uint64_t until_ns, struct sample_read *own)
{
    const struct source *part = gathered->parts[number];
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct sample_parts head = gathered->head;
        if (reads[i].err.code || reads[i].left)
            continue;
        for (uint32_t j = 0; j < head.n; j++)
            head.parts[j].bytes = index_size(&gathered->parts[j]->index, reads[i].index);
        sample_parts_place(&head);
        if (number == 0)
            sample_parts_write(&head, reads[i].buf);
        own[wanted++] = (struct sample_read){.index = reads[i].index,
                                             .buf = (char *)reads[i].buf + head.parts[number].offset};
    }
    if (wanted)
        part->kind->read(part, own, wanted, until_ns);
    for (uint32_t i = 0, at = 0; i < count; i++) {
        if (reads[i].err.code || reads[i].left)
            continue;
        reads[i].left = own[at].left;
        if (own[at].err.code) {
            reads[i].err = own[at].err;
            error_prefix(&reads[i].err, reads[i].err.code, "part %s", gathered->head.parts[number].name);
        }
        at++;
    }
    if (atomic_load(&part->changed))
        atomic_store((atomic_bool *)&gathered->source.changed, true); /* the one part of a const source that changes */
}

/* Once the first part of a sample is read, so are the others, whatever the time. */
static uint32_t read_samples(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    const struct gathered *gathered = (const struct gathered *)source;
    struct sample_read *own = malloc(count * sizeof *own);
    uint32_t failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        reads[i].err.code = 0;
        reads[i].left = false;
        if (!own)
            error_set(&reads[i].err, LARDER_ENOMEM, "out of memory to read it");
    }
    for (uint32_t i = 0; own && i < gathered->n; i++)
        read_part(gathered, i, reads, count, i == 0 ? until_ns : 0, own);
    free(own);
    for (uint32_t i = 0; i < count; i++)
        failed += reads[i].err.code != 0;
    return failed;
}

/* The hash of the parts' hashes: none of them needs to be held whole. */
static int hash_sample(const struct source *source, uint32_t index, const struct interrupt *interrupt,
                       struct identity *out, struct error *err)
{
    const struct gathered *gathered = (const struct gathered *)source;
    struct identity hashes[SAMPLE_PARTS_MAX];
    for (uint32_t i = 0; i < gathered->n; i++) {
        const struct source *part = gathered->parts[i];
        int code = part->kind->hash(part, index, interrupt, &hashes[i], err);
        if (code)
            return code;
    }
    XXH128_hash_t hash = XXH3_128bits(hashes, gathered->n * sizeof *hashes);
    *out = (struct identity){.low = hash.low64, .high = hash.high64};
    return 0;
}

/* Two samples are one where their parts are, and have the same names. */
static struct identity identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    const struct gathered *gathered = (const struct gathered *)source;
    struct identity own[SAMPLE_PARTS_MAX];
    uint64_t names = seed;
    for (uint32_t i = 0; i < gathered->n; i++) {
        own[i] = gathered->parts[i]->kind->identity(gathered->parts[i], index, apart, seed);
        names = XXH3_64bits_withSeed(gathered->head.parts[i].name, SAMPLE_NAME_BYTES, names);
    }
    XXH128_hash_t hash = XXH3_128bits_withSeed(own, gathered->n * sizeof *own, names);
    return (struct identity){.low = hash.low64, .high = hash.high64};
}

static struct sample_place place(const struct source *source, uint32_t index)
{
    const struct source *first = ((const struct gathered *)source)->parts[0];
    return first->kind->place(first, index);
}

/* The container's columns are those that each of its parts knows. */
static int column(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
                  struct error *err)
{
    const struct source *first = ((const struct gathered *)source)->parts[0];
    if (first->kind->column)
        return first->kind->column(first, name, interrupt, cells, err);
    return strcmp(name, COLUMN_NAMES) == 0 ? 0 : LARDER_ENOENT;
}

/* rows_of returns a part of rows; NULL: there is none of this name. */
static const struct source *rows_of(const struct source *source, const char *part)
{
    const struct gathered *gathered = (const struct gathered *)source;
    for (uint32_t i = 0; i < gathered->n; i++) {
        if (gathered->parts[i]->kind == &rows_kind && strcmp(gathered->head.parts[i].name, part) == 0)
            return gathered->parts[i];
    }
    return NULL;
}

static bool rows(const struct source *source, const char *part, struct part_rows *out)
{
    const struct source *found = rows_of(source, part);
    if (found)
        *out = rows_about(found);
    return found;
}

static uint32_t row_count(const struct source *source, const char *part, uint32_t index)
{
    return rows_count(rows_of(source, part), index);
}

static void destroy(struct source *source)
{
    struct gathered *gathered = (struct gathered *)source;
    for (uint32_t i = 0; i < gathered->n; i++)
        source_free(&gathered->parts[i]);
}

const struct source_kind parts_kind = {
    .name = "samples of several parts",
    .shares = "with sources of the same parts in the same files, and with nothing else: a sample is all its parts",
    .bytes = sizeof(struct gathered),
    .is = is_parts,
    .index = index_parts,
    .unchanged = unchanged,
    .read = read_samples,
    .hash = hash_sample,
    .identity = identity,
    .column = column,
    .rows = rows,
    .row_count = row_count,
    .destroy = destroy,
    .place = place,
};
