/* tar_idx.c: the index of a shard that DALI's wds2idx writes. See tar_idx.h. */
#include "cache/source/tar_idx.h"

#include <string.h>

#include "cache/source/tar_header.h"

static const char version[] = "v1.2 ";

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r';
}

/* The next word; it returns its length, 0 at the end. */
static size_t next_word(struct tar_idx *idx, const char **word)
{
    while (idx->at < idx->end && is_blank(*idx->at))
        idx->at++;
    *word = idx->at;
    while (idx->at < idx->end && !is_blank(*idx->at))
        idx->at++;
    return (size_t)(idx->at - *word);
}

static bool next_number(struct tar_idx *idx, uint64_t *out)
{
    const char *word;
    size_t len = next_word(idx, &word);
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (word[i] < '0' || word[i] > '9' || i >= 18)
            return false;
        value = value * 10 + (uint64_t)(word[i] - '0');
    }
    *out = value;
    return len > 0;
}

bool tar_idx_begin(struct tar_idx *idx, const char *text, size_t len)
{
    uint64_t samples;
    *idx = (struct tar_idx){text, text + len};
    size_t version_len = sizeof version - 1;
    if (len < version_len || memcmp(text, version, version_len) != 0)
        return false;
    idx->at += version_len;
    return next_number(idx, &samples);
}

/* The extension must be the name's end, so that a name with blanks in it, which would be taken for several words, does
 * not go unnoticed. */
static bool ends_with(const struct tar_idx_member *member, const char *extension, size_t len)
{
    return len < member->name_len && memcmp(member->name + member->name_len - len, extension, len) == 0 &&
           member->name[member->name_len - len - 1] == '.';
}

int tar_idx_next(struct tar_idx *idx, struct tar_idx_member *out)
{
    const char *extension;
    size_t len = next_word(idx, &extension);
    uint64_t body;
    if (len == 0)
        return 0;
    if (!next_number(idx, &body) || !next_number(idx, &out->size))
        return -1;
    out->name_len = next_word(idx, &out->name);
    if (out->name_len == 0 || out->name_len > TAR_NAME_MAX || !ends_with(out, extension, len) ||
        memchr(out->name, 0, out->name_len) || body < TAR_BLOCK_BYTES || body % TAR_BLOCK_BYTES)
        return -1;
    out->header = body - TAR_BLOCK_BYTES;
    return 1;
}
