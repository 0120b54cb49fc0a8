/* tar_shard.c: reads the members of one shard: hops from header to header, and reads bodies of labels alone. Where a
 * shard has the .idx of DALI beside it, that says where the members are. See tar_priv.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/tar_idx.h"
#include "cache/source/tar_priv.h"

#define EXTENSIONS_MAX 64 /* headers that say more of one member */
#define BEHIND_BLOCKS 64  /* that are looked at behind an archive's end */

/* The sample that is being gathered. */
struct gathered {
    bool open;
    unsigned rank; /* of its image; 0: none yet */
    uint64_t header, size, proof;
    struct label label;
    uint64_t cell;
    char name[TAR_NAME_MAX + 1]; /* of its image, or of its first member */
};

/* A member whose place is known. block: its header; NULL: not read. */
struct placed {
    const char *name;
    size_t name_len;
    uint64_t header, size;
    const uint8_t *block;
};

struct shard {
    const struct tar_walk *walk;
    struct tar_reader *reader;
    const char *name; /* path below the root */
    struct index *index;
    struct tar_found *found;
    struct index_sample stamp; /* what all its samples have of the file */
    struct tar_group group;
    struct gathered sample;
    struct tar_member member;
    struct error *err;
};

uint64_t tar_proof(const uint8_t block[TAR_BLOCK_BYTES])
{
    uint64_t hash = XXH3_64bits(block, TAR_BLOCK_BYTES);
    return hash ? hash : 1;
}

static int shard_error(const struct shard *shard, int code, const char *what)
{
    struct shown root, name;
    return error_set(shard->err, code, "%s/%s: %s", path_shown(shard->walk->root, &root),
                     path_shown(shard->name, &name), what);
}

static int member_error(const struct shard *shard, const char *member, uint64_t at, const char *what)
{
    struct shown root, name, shown;
    return error_set(shard->err, LARDER_EINVAL, "%s/%s: %s, at byte %llu: %s", path_shown(shard->walk->root, &root),
                     path_shown(shard->name, &name), path_shown(member, &shown), (unsigned long long)at, what);
}

static int limit_error(const struct shard *shard, int code)
{
    return shard_error(
        shard, code, code == LARDER_ELIMIT ? "more samples than one dataset may have" : "out of memory while indexing");
}

/* Bytes did not come that the file had when it was opened. */
static int read_error(const struct shard *shard)
{
    char what[128];
    if (errno == 0)
        return shard_error(shard, LARDER_EIO, "it became shorter while it was indexed");
    snprintf(what, sizeof what, "cannot read it: %m");
    return shard_error(shard, errno_code(errno), what);
}

/* ── samples ── */

static int add_sample(struct shard *shard, const char *name, uint64_t size, struct index_place place)
{
    struct index *index = shard->index;
    struct tar_found *found = shard->found;
    struct index_sample sample = shard->stamp;
    int code = array_grow((void **)&index->samples, index->sample_count, &index->sample_cap, sizeof *index->samples,
                          DATASET_SAMPLES_MAX);
    if (!code)
        code = array_grow((void **)&index->places, index->sample_count, &index->place_cap, sizeof *index->places,
                          DATASET_SAMPLES_MAX);
    if (!code)
        code = array_grow((void **)&found->labels, index->sample_count, &found->label_cap, sizeof *found->labels,
                          DATASET_SAMPLES_MAX);
    if (!code && shard->walk->column)
        code = array_grow((void **)&found->cells, index->sample_count, &found->cell_cap, sizeof *found->cells,
                          DATASET_SAMPLES_MAX);
    if (!code)
        code = index_text(index, shard->name, name, &sample.key);
    if (code)
        return limit_error(shard, code);
    if (found->cells)
        found->cells[index->sample_count] = shard->sample.cell;
    sample.size = size;
    found->labels[index->sample_count] = shard->sample.label;
    index->places[index->sample_count] = place;
    index->samples[index->sample_count++] = sample;
    return 0;
}

/* A sample that is damaged, or what takes the place of all that cannot be found. */
static int add_unreachable(struct shard *shard, const char *name, enum tar_fault fault, uint64_t at)
{
    shard->sample.label = (struct label){.kind = LABEL_NONE};
    shard->sample.cell = TAR_NO_CELL;
    int code = add_sample(shard, name, 0, (struct index_place){.offset = at, .proof = fault});
    if (!code)
        shard->index->samples[shard->index->sample_count - 1].flags = INDEX_UNREACHABLE;
    return code;
}

static int end_sample(struct shard *shard)
{
    struct gathered *sample = &shard->sample;
    bool open = sample->open;
    sample->open = false;
    if (!open)
        return 0;
    if (sample->rank == 0) {
        shard->found->imageless++;
        return 0;
    }
    struct index_place place = {.offset = sample->header + TAR_BLOCK_BYTES, .proof = sample->proof};
    return add_sample(shard, sample->name, sample->size, place);
}

/* Reads a member that has the sample's label, its cell of a column, or both. */
static int read_small(struct shard *shard, const struct placed *member, bool label, bool cell)
{
    const struct tar_walk *walk = shard->walk;
    if (member->size > TAR_LABEL_BYTES_MAX)
        return member_error(shard, member->name, member->header,
                            label ? "a label's member has at most 65536 bytes"
                                  : "a column's member has at most 65536 bytes");
    const uint8_t *bytes = tar_reader_bytes(shard->reader, member->header, TAR_BLOCK_BYTES + (size_t)member->size);
    struct error why = {0};
    if (!bytes)
        return read_error(shard);
    bytes += TAR_BLOCK_BYTES;
    int code = 0;
    if (label)
        code = tar_label_read(&walk->labels, bytes, (size_t)member->size, shard->index, &shard->sample.label, &why);
    if (!code && cell)
        code = tar_cell_read(walk->column, bytes, (size_t)member->size, shard->index, &shard->sample.cell, &why);
    return code == LARDER_EINVAL ? member_error(shard, member->name, member->header, why.text)
           : code                ? limit_error(shard, code)
                                 : 0;
}

/* Reads the names of the classes. What is none of such is passed over, as other members of such a name are. */
static int read_classes(struct shard *shard, const struct placed *member)
{
    if (shard->found->classes || member->size > TAR_CLASSES_BYTES_MAX)
        return 0;
    char *text = malloc((size_t)member->size + 1);
    if (!text)
        return limit_error(shard, LARDER_ENOMEM);
    errno = 0;
    if (file_read_at(shard->reader->fd, text, (size_t)member->size, member->header + TAR_BLOCK_BYTES)) {
        free(text);
        return read_error(shard);
    }
    text[member->size] = '\0';
    if (strlen(text) == member->size && tar_classes_are(text))
        shard->found->classes = text;
    else
        free(text);
    return 0;
}

static bool wants_label(const struct shard *shard, const char *part)
{
    return tar_labels_want(&shard->walk->labels, part);
}

static bool wants_cell(const struct shard *shard, const char *part)
{
    return shard->walk->column && tar_cell_want(shard->walk->column, part);
}

static bool was_met(const struct cells *parts, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0, from = 0; i < parts->count; from = parts->ends[i++]) {
        if (parts->ends[i] - from == len && memcmp(parts->texts + from, part, len) == 0)
            return true;
    }
    return false;
}

/* Notes which columns a part is, from the first one of its name. */
static int note_names(struct shard *shard, const char *part, const struct placed *member)
{
    struct tar_found *found = shard->found;
    if (tar_kind_rank(part, shard->walk->files) || found->parts.count == TAR_NAMES_MAX || was_met(&found->parts, part))
        return 0;
    int code = cells_add_text(&found->parts, part, strlen(part));
    if (code || member->size > TAR_LABEL_BYTES_MAX)
        return code ? limit_error(shard, code) : 0;
    const uint8_t *bytes = tar_reader_bytes(shard->reader, member->header, TAR_BLOCK_BYTES + (size_t)member->size);
    if (!bytes)
        return read_error(shard);
    code = tar_names_add(part, bytes + TAR_BLOCK_BYTES, (size_t)member->size, &found->names);
    return code ? limit_error(shard, code) : 0;
}

/* Gives a member to its sample, which it may begin. */
static int take_member(struct shard *shard, const struct placed *member)
{
    struct gathered *sample = &shard->sample;
    size_t key_len;
    if (strcmp(member->name, TAR_CLASSES_NAME) == 0)
        return read_classes(shard, member);
    if (!tar_name_split(member->name, member->name_len, &key_len))
        return 0;
    enum tar_place place = tar_group_add(&shard->group, member->name, key_len);
    if (place == TAR_NO_MEMORY)
        return limit_error(shard, LARDER_ENOMEM);
    if (place == TAR_TOO_MANY)
        return member_error(shard, member->name, member->header, "a sample has at most 4096 members");
    if (place != TAR_JOINS) {
        int code = end_sample(shard);
        if (code)
            return code;
        shard->found->repeated += place == TAR_REPEATS;
        sample->open = true;
        sample->rank = 0;
        sample->label = (struct label){.kind = LABEL_NONE};
        sample->cell = TAR_NO_CELL;
        memcpy(sample->name, member->name, member->name_len + 1);
    }
    const char *part = member->name + key_len + 1;
    const struct tar_walk *walk = shard->walk;
    unsigned rank = walk->part ? tar_part_rank(walk->part, part) : tar_kind_rank(part, walk->files);
    if (rank && (sample->rank == 0 || rank < sample->rank)) {
        sample->rank = rank;
        sample->header = member->header;
        sample->size = member->size;
        sample->proof = member->block ? tar_proof(member->block) : 0;
        memcpy(sample->name, member->name, member->name_len + 1);
    }
    if (shard->walk->names)
        return note_names(shard, part, member);
    bool label = wants_label(shard, part), cell = wants_cell(shard, part);
    return label || cell ? read_small(shard, member, label, cell) : 0;
}

/* ── damage ── */

/* What is known of the member that is cut off belongs to a sample, which is bad. So is one that lacks its image or its
 * label, for they may lie behind the damage. */
static int end_damaged(struct shard *shard, enum tar_fault fault, uint64_t at, const char *member)
{
    struct gathered *sample = &shard->sample;
    char name[32];
    size_t key_len = 0;
    bool joins = member && tar_name_split(member, strlen(member), &key_len) && sample->open &&
                 shard->group.key_len == key_len && memcmp(shard->group.key, member, key_len) == 0;
    bool lacks = sample->open &&
                 (sample->rank == 0 || (sample->label.kind == LABEL_NONE && shard->walk->labels.from != LABELS_NONE));
    shard->found->damaged = true;
    if (joins || (lacks && !member)) {
        sample->open = false;
        return add_unreachable(shard, sample->name, fault, at);
    }
    int code = end_sample(shard);
    snprintf(name, sizeof name, "@%llu", (unsigned long long)at);
    return code ? code : add_unreachable(shard, key_len ? member : name, fault, at);
}

static int fault_at(struct shard *shard, enum tar_fault fault, uint64_t at, const char *member)
{
    if (tar_is_refused(fault))
        return member_error(shard, member ? member : "a member", at, tar_fault_text(fault));
    return end_damaged(shard, fault, at, member);
}

/* ── from header to header ── */

/* A fault where a member was expected, or none; *at moves to the next header. `member->type` TAR_END: that was all. */
static int next_member(struct shard *shard, uint64_t *at, uint64_t *header, enum tar_fault *fault)
{
    struct tar_member *member = &shard->member;
    struct tar_reader *reader = shard->reader;
    member->has_name = member->has_size = false;
    for (unsigned more = 0;; more++) {
        *header = *at;
        member->type = TAR_END;
        *fault = reader->size == 0 ? TAR_EMPTY : reader->size - *at < TAR_BLOCK_BYTES ? TAR_CUT : TAR_SOUND;
        if (*at == reader->size && *at > 0)
            *fault = more ? TAR_CUT : TAR_SOUND;
        if (*fault != TAR_SOUND || *at == reader->size)
            return 0;
        const uint8_t *block = tar_reader_bytes(reader, *at, TAR_BLOCK_BYTES);
        if (!block)
            return read_error(shard);
        uint8_t kind = tar_flag_of(block);
        *fault = more > EXTENSIONS_MAX ? TAR_EXTENSION : tar_header_read(member, block);
        if (*fault != TAR_SOUND || member->type == TAR_END)
            return 0;
        uint64_t body = *at + TAR_BLOCK_BYTES, left = reader->size - body;
        bool says_more = member->type == TAR_MORE || member->type == TAR_GLOBAL;
        if (member->body_bytes > left) {
            *fault = TAR_CUT;
            return 0;
        }
        *at = body + tar_body_blocks(member->body_bytes);
        *at = *at > reader->size ? reader->size : *at; /* the last member's last block may be short */
        if (!says_more)
            return 0;
        const uint8_t *bytes = tar_reader_bytes(reader, body, (size_t)member->body_bytes);
        if (!bytes)
            return read_error(shard);
        *fault = tar_more_read(member, kind, bytes);
        if (*fault != TAR_SOUND)
            return 0;
    }
}

/* Whether another archive follows the one whose zeros begin at `at`: webdataset does not read it. */
static bool more_follows(struct shard *shard, uint64_t at)
{
    struct tar_member *member = &shard->member;
    for (unsigned i = 0; i < BEHIND_BLOCKS; i++, at += TAR_BLOCK_BYTES) {
        const uint8_t *block = tar_reader_bytes(shard->reader, at, TAR_BLOCK_BYTES);
        if (!block)
            return false;
        member->has_name = member->has_size = false;
        if (tar_header_read(member, block) != TAR_SOUND)
            return false;
        if (member->type != TAR_END)
            return true;
    }
    return false;
}

static int read_by_headers(struct shard *shard)
{
    struct tar_member *member = &shard->member;
    uint64_t at = 0, header;
    for (;;) {
        enum tar_fault fault;
        if (interrupt_is_set(shard->walk->interrupt))
            return file_interrupted(shard->walk->text, shard->err);
        int code = next_member(shard, &at, &header, &fault);
        if (code)
            return code;
        if (fault != TAR_SOUND)
            return fault_at(shard, fault, header, member->type == TAR_FILE ? member->name : NULL);
        if (member->type == TAR_END) {
            shard->found->more = more_follows(shard, at);
            return end_sample(shard);
        }
        const uint8_t *block = tar_reader_bytes(shard->reader, header, TAR_BLOCK_BYTES);
        if (!block)
            return read_error(shard);
        if (member->type == TAR_FILE)
            code = take_member(shard, &(struct placed){member->name, member->name_len, header, member->size, block});
        if (code)
            return code;
    }
}

/* ── by its .idx ── */

/* Forgets what came of an .idx that is not the shard's. */
static void forget(struct shard *shard)
{
    shard->index->sample_count = 0;
    shard->found->imageless = shard->found->repeated = 0;
    shard->group.open = shard->sample.open = false;
}

/* Whether a member that an .idx names is there; its header costs a read, unless the member is read as well. */
static bool idx_fits(struct shard *shard, const struct placed *member, bool look)
{
    if (member->header > shard->reader->size || member->size > shard->reader->size - member->header - TAR_BLOCK_BYTES)
        return false;
    if (!look)
        return true;
    const uint8_t *block = tar_reader_bytes(shard->reader, member->header, TAR_BLOCK_BYTES);
    return block && tar_header_fits(block, member->name, member->size);
}

/* Whether nothing follows the last member that an .idx names. */
static bool is_end(struct shard *shard, const struct placed *last)
{
    uint64_t end = last->header + TAR_BLOCK_BYTES + tar_body_blocks(last->size);
    const uint8_t *block = tar_reader_bytes(shard->reader, end, TAR_BLOCK_BYTES);
    return block ? tar_header_read(&shard->member, block) == TAR_SOUND && shard->member.type == TAR_END : errno == 0;
}

static int take_idx(struct shard *shard, struct tar_idx *idx, bool *fits)
{
    struct tar_idx_member next;
    struct placed last = {0};
    char name[TAR_NAME_MAX + 1];
    int came, code = 0;
    while (!code && (came = tar_idx_next(idx, &next)) > 0) {
        size_t key_len;
        if (interrupt_is_set(shard->walk->interrupt))
            return file_interrupted(shard->walk->text, shard->err);
        memcpy(name, next.name, next.name_len);
        name[next.name_len] = '\0';
        bool read = tar_name_split(name, next.name_len, &key_len) &&
                    (wants_label(shard, name + key_len + 1) || wants_cell(shard, name + key_len + 1));
        struct placed member = {name, next.name_len, next.header, next.size, NULL};
        *fits = member.header >= last.header && idx_fits(shard, &member, read || !last.name);
        if (!*fits)
            return 0;
        code = take_member(shard, &member);
        last = member;
    }
    if (code)
        return code;
    *fits = came == 0 && last.name && idx_fits(shard, &last, true) && is_end(shard, &last);
    return *fits ? end_sample(shard) : 0;
}

/* Reads the shard by its .idx, which is as new as it is. *read: it had one that fits. */
static int read_by_idx(struct shard *shard, bool *read)
{
    char path[PATH_MAX];
    struct stat st;
    struct error why;
    uint8_t *text = NULL;
    size_t len;
    *read = false;
    const char *slash = strrchr(shard->name, '/'), *base = slash ? slash + 1 : shard->name;
    const char *dot = *base ? strchr(base + 1, '.') : NULL; /* where wds2idx takes it to be */
    int stem = (int)(dot ? dot - shard->name : (long)strlen(shard->name));
    if (snprintf(path, sizeof path, "%s/%.*s.idx", shard->walk->root, stem, shard->name) >= (int)sizeof path ||
        stat(path, &st) || file_mtime_ns(&st) < shard->stamp.mtime_ns)
        return 0;
    struct file_wanted wanted = {path, TAR_IDX_BYTES_MAX, shard->walk->interrupt};
    if (file_load(&wanted, &text, &len, &why))
        return 0;
    struct tar_idx idx;
    int code = tar_idx_begin(&idx, (const char *)text, len) ? take_idx(shard, &idx, read) : 0;
    free(text);
    if (!code && !*read)
        forget(shard);
    shard->found->by_idx = *read;
    return code;
}

/* ── the whole ── */

static int open_shard(struct shard *shard, int *fd)
{
    struct index_blob *blob;
    struct stat st;
    char what[160];
    int code = array_grow((void **)&shard->index->blobs, 0, &shard->index->blob_cap, sizeof *shard->index->blobs, 2);
    if (code)
        return limit_error(shard, code);
    blob = &shard->index->blobs[0];
    *fd = openat(shard->walk->root_fd, shard->name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &st)) {
        snprintf(what, sizeof what, errno == ENOENT ? "there is no such shard" : "cannot open the shard: %m");
        return shard_error(shard, errno_code(errno), what);
    }
    if (!S_ISREG(st.st_mode))
        return shard_error(shard, LARDER_EINVAL, "not a file: a shard is a tar archive");
    *blob = (struct index_blob){
        .size = (uint64_t)st.st_size, .device = st.st_dev, .inode = st.st_ino, .mtime_ns = file_mtime_ns(&st)};
    shard->index->blob_count = 1;
    shard->stamp = (struct index_sample){
        .mtime_ns = blob->mtime_ns, .ctime_ns = file_ctime_ns(&st), .device = st.st_dev, .inode = st.st_ino};
    tar_reader_begin(shard->reader, *fd, blob->size);
    return index_text(shard->index, shard->name, NULL, &blob->path) ? limit_error(shard, LARDER_ENOMEM) : 0;
}

int tar_shard_read(struct tar_walk *walk, struct tar_reader *reader, size_t number, struct error *err)
{
    struct shard *shard = calloc(1, sizeof *shard);
    int fd = -1;
    bool read = false;
    if (!shard)
        return error_set(err, LARDER_ENOMEM, "out of memory while indexing");
    shard->walk = walk;
    shard->reader = reader;
    shard->name = walk->shards.names[number];
    shard->index = &walk->parts[number];
    shard->found = &walk->found[number];
    shard->err = err;
    int code = open_shard(shard, &fd);
    if (!code)
        code = read_by_idx(shard, &read);
    if (!code && !read)
        code = read_by_headers(shard);
    if (fd >= 0)
        close(fd);
    tar_group_free(&shard->group);
    free(shard);
    return code;
}
