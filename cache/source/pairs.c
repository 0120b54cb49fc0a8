/* pairs.c: files that fit a pattern, as one part of samples. See pairs.h. */
#include "cache/source/pairs.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/files.h"
#include "cache/source/labels.h"

struct paired {
    struct source source;
    char *pattern;
    uint64_t listing; /* hash of the paths that fit */
};

/* A path that fits, below the folder. */
struct fit {
    char *path, *stem;
};

struct fits {
    struct fit *list;
    size_t count, cap;
};

/* ── patterns ── */

/* take_stars writes what stands for the stars of one folder's or file's name, each behind a '/' but the first of all.
 * The name fits. Each star but the last takes as little as it can. */
static char *take_stars(const char *pattern, size_t pattern_len, const char *name, size_t name_len, bool first,
                        char *to)
{
    const char *pattern_end = pattern + pattern_len, *name_end = name + name_len;
    const char *star = memchr(pattern, '*', pattern_len);
    for (name += star ? star - pattern : 0; star;) {
        const char *plain = star + 1;
        star = memchr(plain, '*', (size_t)(pattern_end - plain));
        size_t len = (size_t)((star ? star : pattern_end) - plain);
        const char *at = star ? memmem(name, (size_t)(name_end - name), plain, len) : name_end - len;
        if (!at || at < name)
            return to;
        if (!first)
            *to++ = '/';
        first = false;
        memcpy(to, name, (size_t)(at - name));
        to += at - name;
        name = at + len;
    }
    return to;
}

/* find_stem finds what stands for the stars of the first pattern that a path fits: malloc'ed, the caller's. NULL: it
 * fits none, or out of memory. */
static char *find_stem(const char *patterns, const char *path)
{
    char *stem = NULL;
    for (const char *at = patterns; !stem; at += strcspn(at, ";") + 1) {
        size_t all = strcspn(at, ";");
        char *pattern = strndup(at, all);
        if (pattern && fnmatch(pattern, path, FNM_PATHNAME | FNM_NOESCAPE) == 0)
            stem = calloc(1, strlen(path) + all + 1);
        char *to = stem;
        for (const char *from = pattern, *name = path; stem && *from;) {
            size_t len = strcspn(from, "/"), name_len = strcspn(name, "/");
            to = take_stars(from, len, name, name_len, to == stem, to);
            from += len + (from[len] == '/');
            name += name_len + (name[name_len] == '/');
        }
        free(pattern);
        if (!at[all])
            break;
    }
    return stem;
}

char *pairs_stem(const struct source *source, uint32_t index)
{
    const char *key = index_key(&source->index, index);
    char *stem = find_stem(((const struct paired *)source)->pattern, key);
    return stem ? stem : strdup(key);
}

static int check_pattern(const char *pattern, struct error *err)
{
    if (!strchr(pattern, '*') || strpbrk(pattern, "?[") || !key_is_below(pattern))
        return error_set(err, LARDER_EINVAL,
                         "\"%.200s\" is no pattern of files below the folder, such as masks/*.png: it has one star or "
                         "several, no ? and no [, and does not leave the folder",
                         pattern);
    return 0;
}

static int check_patterns(const char *patterns, struct error *err)
{
    int code = 0;
    for (const char *at = patterns; !code; at += strcspn(at, ";") + 1) {
        size_t len = strcspn(at, ";");
        char *pattern = strndup(at, len);
        code = pattern ? check_pattern(pattern, err) : error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
        free(pattern);
        if (!at[len])
            break;
    }
    return code;
}

/* ── files ── */

static void fits_free(struct fits *fits)
{
    for (size_t i = 0; i < fits->count; i++) {
        free(fits->list[i].path);
        free(fits->list[i].stem);
    }
    free(fits->list);
    *fits = (struct fits){0};
}

static int by_stem(const void *a, const void *b)
{
    const struct fit *left = a, *right = b;
    int order = strcmp(left->stem, right->stem);
    return order ? order : strcmp(left->path, right->path);
}

static int add_fit(struct fits *fits, const char *patterns, const char *path)
{
    int code = array_grow((void **)&fits->list, fits->count, &fits->cap, sizeof *fits->list, DATASET_SAMPLES_MAX);
    if (code)
        return code;
    struct fit fit = {.path = strdup(path), .stem = find_stem(patterns, path)};
    if (!fit.path || !fit.stem) {
        free(fit.path);
        free(fit.stem);
        return LARDER_ENOMEM;
    }
    fits->list[fits->count++] = fit;
    return 0;
}

/* Writes a text of which no sign but, if `stars`, the star has a meaning to glob. Returns where it ends; NULL: there
 * is no room. */
static char *write_plain(const char *text, bool stars, char *to, const char *end)
{
    for (; *text && to; text++) {
        bool escaped = strchr(stars ? "\\" : "\\*?[", *text);
        if (end - to < 3) {
            to = NULL;
        } else {
            if (escaped)
                *to++ = '\\';
            *to++ = *text;
        }
    }
    if (to)
        *to = 0;
    return to;
}

/* Adds what fits one pattern. The folder's own name is none. */
static int find_one(const char *root, const char *patterns, const char *pattern, struct fits *fits)
{
    char whole[PATH_MAX * 2];
    const char *const whole_end = whole + sizeof whole;
    glob_t found;
    size_t root_len = strlen(root) + (root[1] != 0);
    char *end = write_plain(root[1] ? root : "", false, whole, whole_end);
    end = end ? write_plain("/", true, end, whole_end) : NULL;
    end = end ? write_plain(pattern, true, end, whole_end) : NULL;
    if (!end || root_len + strlen(pattern) >= PATH_MAX)
        return LARDER_ELIMIT;
    int failed = glob(whole, GLOB_NOSORT, NULL, &found);
    if (failed)
        return failed == GLOB_NOMATCH ? 0 : LARDER_ENOMEM;
    int code = 0;
    for (size_t i = 0; !code && i < found.gl_pathc; i++)
        code = add_fit(fits, patterns, found.gl_pathv[i] + root_len);
    globfree(&found);
    return code;
}

static int find_all(const char *root, const char *patterns, struct fits *fits)
{
    int code = 0;
    for (const char *at = patterns; !code; at += strcspn(at, ";") + 1) {
        size_t len = strcspn(at, ";");
        char *pattern = strndup(at, len);
        code = pattern ? find_one(root, patterns, pattern, fits) : LARDER_ENOMEM;
        free(pattern);
        if (!at[len])
            break;
    }
    if (!code && fits->count)
        qsort(fits->list, fits->count, sizeof *fits->list, by_stem);
    return code;
}

static uint64_t hash_of(const struct fits *fits)
{
    uint64_t hash = fits->count;
    for (size_t i = 0; i < fits->count; i++)
        hash = XXH3_64bits_withSeed(fits->list[i].path, strlen(fits->list[i].path), hash);
    return hash;
}

/* ── the index ── */

static int refuse_twins(const struct fits *fits, const char *pattern, struct error *err)
{
    for (size_t i = 1; i < fits->count; i++) {
        const struct fit *one = &fits->list[i - 1], *other = &fits->list[i];
        if (strcmp(one->stem, other->stem) == 0)
            return error_set(err, LARDER_EINVAL,
                             "%.200s and %.200s both fit %.100s with the stem %.100s: leave one out", one->path,
                             other->path, pattern, one->stem);
    }
    return 0;
}

static int add_samples(struct index *index, const struct fits *fits, int root_fd, const struct interrupt *interrupt,
                       struct error *err)
{
    for (size_t i = 0; i < fits->count; i++) {
        struct index_sample sample = {0};
        if (interrupt_is_set(interrupt))
            return file_interrupted(index->root, err);
        int code = array_grow((void **)&index->samples, i, &index->sample_cap, sizeof sample, DATASET_SAMPLES_MAX);
        if (!code)
            code = index_text(index, fits->list[i].path, NULL, &sample.key);
        if (code)
            return error_set(err, code, "%.200s: out of memory while indexing", index->root);
        index->samples[index->sample_count++] = sample;
        file_look(root_fd, index, i);
    }
    return 0;
}

static int add_root(struct index *index, int root_fd, struct error *err)
{
    struct stat st;
    struct index_folder folder = {0};
    if (root_fd < 0 || fstat(root_fd, &st))
        return error_set(err, errno_code(errno), "%.200s: cannot open the folder: %s", index->root, strerror(errno));
    folder.device = st.st_dev;
    folder.inode = st.st_ino;
    int code = index_text(index, "", NULL, &folder.path);
    if (!code)
        code = array_grow((void **)&index->folders, 0, &index->folder_cap, sizeof folder, INDEX_FOLDERS_MAX);
    if (code)
        return error_set(err, code, "out of memory for a dataset");
    index->folders[index->folder_count++] = folder;
    return 0;
}

static int fill(const struct source_wish *wish, struct paired *paired, const struct fits *fits, struct error *err)
{
    static const struct labels_wish unlabelled = {.what = "label", .instead = ""};
    struct index *index = &paired->source.index;
    int root_fd = open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = add_root(index, root_fd, err);
    if (!code)
        code = add_samples(index, fits, root_fd, wish->interrupt, err);
    if (root_fd >= 0)
        close(root_fd);
    struct label *labels = code ? NULL : calloc(fits->count, sizeof *labels);
    if (!code)
        code = labels ? labels_apply(&unlabelled, labels, index, err)
                      : error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    free(labels);
    if (code)
        return code;
    paired->source.medium = (struct medium){
        .root = index->root, .device = index->folders[0].device, .inode = index->folders[0].inode};
    return 0;
}

static int index_pairs(const struct source_wish *wish, struct source *source, struct error *err)
{
    struct paired *paired = (struct paired *)source;
    struct fits fits = {0};
    int code = check_patterns(wish->part, err);
    if (code)
        return code;
    source->index.text = strdup(wish->text);
    source->index.root = strdup(wish->text);
    paired->pattern = strdup(wish->part);
    if (!source->index.text || !source->index.root || !paired->pattern)
        return error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    code = find_all(wish->text, wish->part, &fits);
    if (code)
        error_set(err, code, "%.200s: cannot list %.200s", wish->text, wish->part);
    else if (fits.count == 0)
        code = error_set(err, LARDER_ENOENT, "%.200s: no file fits %.200s", wish->text, wish->part);
    else
        code = refuse_twins(&fits, wish->part, err);
    if (!code)
        code = fill(wish, paired, &fits, err);
    paired->listing = hash_of(&fits);
    fits_free(&fits);
    return code;
}

static bool unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    struct paired *paired = (struct paired *)source;
    struct fits fits = {0};
    *settled = false;
    bool same = find_all(source->index.root, paired->pattern, &fits) == 0 && hash_of(&fits) == paired->listing;
    fits_free(&fits);
    return same && files_unchanged(&source->index, interrupt);
}

static void destroy(struct source *source)
{
    free(((struct paired *)source)->pattern);
}

const struct source_kind pairs_kind = {
    .name = "files of a pattern",
    .bytes = sizeof(struct paired),
    .index = index_pairs,
    .unchanged = unchanged,
    .read = files_read,
    .hash = files_hash,
    .identity = files_identity,
    .destroy = destroy,
};
