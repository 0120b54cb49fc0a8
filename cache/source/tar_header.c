/* tar_header.c: the headers of a tar archive. See tar_header.h. */
#include "cache/source/tar_header.h"

#include <string.h>

enum { NAME_AT = 0, SIZE_AT = 124, SUM_AT = 148, KIND_AT = 156, PREFIX_AT = 345 };
enum { NAME_BYTES = 100, SIZE_BYTES = 12, SUM_BYTES = 8, PREFIX_BYTES = 155 };
#define OCTAL_MOST UINT64_C(077777777777) /* what the size's digits can say */
enum { BINARY = 0x80, BINARY_LOW_BYTES = 8 };

static const char *const texts[] = {
    [TAR_SOUND] = "it is sound",
    [TAR_CUT] = "the shard ends in the middle of it",
    [TAR_CHECKSUM] = "no header of a member stands there, or a damaged one",
    [TAR_NUMBER] = "the size in the header is no number",
    [TAR_EXTENSION] = "the header that says more of the member is not of its form, or too long",
    [TAR_LONG_NAME] = "the member's name has more than 4096 bytes",
    [TAR_EMPTY] = "the shard has no bytes",
    [TAR_SPARSE] = "the member is stored with holes, so its bytes do not lie as they are: write the shard anew, "
                   "without tar's --sparse",
    [TAR_VOLUMES] = "the shard is one volume of an archive: join the volumes, or write shards of their own",
    [TAR_COMPRESSED] = "the shard is compressed, so its samples cannot be read one by one: decompress it once "
                       "(gunzip, unzstd, unxz, bunzip2), images do not become smaller by it",
};

const char *tar_fault_text(enum tar_fault fault)
{
    return texts[fault];
}

bool tar_is_refused(enum tar_fault fault)
{
    return fault == TAR_SPARSE || fault == TAR_VOLUMES || fault == TAR_COMPRESSED;
}

/* ── fields ── */

/* A number in octal digits between blanks, or since GNU's tar in binary. */
static bool read_number(const uint8_t *field, size_t len, uint64_t *out)
{
    uint64_t value = 0;
    if (field[0] == BINARY) {
        for (size_t i = 1; i < len; i++) {
            if (i < len - BINARY_LOW_BYTES && field[i])
                return false;
            value = value << 8 | field[i];
        }
        *out = value;
        return value <= INT64_MAX;
    }
    len = strnlen((const char *)field, len);
    size_t at = 0;
    while (at < len && field[at] == ' ')
        at++;
    for (; at < len && field[at] >= '0' && field[at] <= '7'; at++)
        value = value << 3 | (uint64_t)(field[at] - '0'); /* at most 36 bits */
    while (at < len && field[at] == ' ')
        at++;
    *out = value;
    return at == len;
}

/* Old programs summed up signed bytes. */
static bool sum_fits(const uint8_t *block)
{
    uint64_t said;
    uint32_t plain = ' ' * SUM_BYTES;
    int32_t with_sign = ' ' * SUM_BYTES;
    if (!read_number(block + SUM_AT, SUM_BYTES, &said))
        return false;
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++) {
        bool own = i >= SUM_AT && i < SUM_AT + SUM_BYTES;
        plain += own ? 0 : block[i];
        with_sign += own ? 0 : (int8_t)block[i];
    }
    return said == plain || (with_sign >= 0 && said == (uint32_t)with_sign);
}

static bool is_zero(const uint8_t *block)
{
    return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK_BYTES - 1) == 0;
}

static bool is_compressed(const uint8_t *block)
{
    return memcmp(block, "\x1f\x8b", 2) == 0 || memcmp(block, "\x28\xb5\x2f\xfd", 4) == 0 ||
           memcmp(block,
                  "\xfd"
                  "7zXZ",
                  5) == 0 ||
           memcmp(block, "BZh", 3) == 0;
}

/* The name that the header itself has; it fits. */
static size_t read_name(const uint8_t *block, char *name)
{
    size_t prefix = strnlen((const char *)block + PREFIX_AT, PREFIX_BYTES), len = 0;
    if (prefix) {
        memcpy(name, block + PREFIX_AT, prefix);
        name[prefix] = '/';
        len = prefix + 1;
    }
    size_t own = strnlen((const char *)block + NAME_AT, NAME_BYTES);
    memcpy(name + len, block + NAME_AT, own);
    name[len + own] = '\0';
    return len + own;
}

static void set_name(struct tar_member *member, const char *name, size_t len)
{
    memcpy(member->name, name, len);
    member->name[len] = '\0';
    member->name_len = len;
}

/* ── headers ── */

/* A file's header, or another's that is no announcement. tarfile skips the bodies of files and of what it does not
 * know, and takes others to have none. */
static void finish(struct tar_member *member, const uint8_t *block, uint64_t size)
{
    uint8_t kind = block[KIND_AT];
    bool folder = kind == 0 && block[NAME_AT + strnlen((const char *)block + NAME_AT, NAME_BYTES) - !!block[0]] == '/';
    bool file = (kind == '0' || kind == 0 || kind == '7') && !folder;
    if (!member->has_name)
        member->name_len = read_name(block, member->name);
    member->type = file ? TAR_FILE : TAR_OTHER;
    member->size = member->has_size ? member->size : size;
    member->body_bytes = folder || (kind >= '1' && kind <= '6') ? 0 : member->size;
}

enum tar_fault tar_header_read(struct tar_member *member, const uint8_t block[TAR_BLOCK_BYTES])
{
    uint64_t size;
    if (is_zero(block)) {
        member->type = TAR_END;
        return TAR_SOUND;
    }
    if (!sum_fits(block))
        return is_compressed(block) ? TAR_COMPRESSED : TAR_CHECKSUM;
    if (!read_number(block + SIZE_AT, SIZE_BYTES, &size))
        return TAR_NUMBER;
    switch (block[KIND_AT]) {
    case 'S': return TAR_SPARSE;
    case 'M': return TAR_VOLUMES;
    case 'L':
    case 'K':
    case 'x':
    case 'X':
    case 'g':
        member->type = block[KIND_AT] == 'g' ? TAR_GLOBAL : TAR_MORE;
        member->body_bytes = size;
        return size <= TAR_MORE_BYTES_MAX ? TAR_SOUND : TAR_EXTENSION;
    default: finish(member, block, size); return TAR_SOUND;
    }
}

/* ── what says more ── */

static enum tar_fault take_name(struct tar_member *member, const uint8_t *name, size_t len)
{
    if (len > TAR_NAME_MAX)
        return TAR_LONG_NAME;
    if (!member->has_name)
        set_name(member, (const char *)name, len);
    member->has_name = true;
    return TAR_SOUND;
}

static bool is_word(const uint8_t *word, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(word, text, len) == 0;
}

static enum tar_fault take_size(struct tar_member *member, const uint8_t *digits, size_t len)
{
    uint64_t size = 0;
    for (size_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9' || size > (uint64_t)INT64_MAX / 10 - 1)
            return TAR_NUMBER;
        size = size * 10 + (uint64_t)(digits[i] - '0');
    }
    if (len == 0)
        return TAR_NUMBER;
    if (!member->has_size)
        member->size = size;
    member->has_size = true;
    return TAR_SOUND;
}

/* What one header says: the last of several lines on one thing holds. */
struct pax {
    const uint8_t *name, *size;
    size_t name_len, size_len;
    bool sparse;
};

/* One line of a pax header: LEN WORD=VALUE and a newline, LEN of the whole line. It returns LEN; 0: it is not of that
 * form. */
static size_t read_line(const uint8_t *at, size_t left, struct pax *pax)
{
    size_t len = 0, digits = 0;
    for (; digits < left && digits < 6 && at[digits] >= '0' && at[digits] <= '9'; digits++)
        len = len * 10 + (size_t)(at[digits] - '0');
    if (digits == 0 || len > left || len < digits + 3 || at[digits] != ' ' || at[len - 1] != '\n')
        return 0;
    const uint8_t *word = at + digits + 1, *equals = memchr(word, '=', len - digits - 2);
    if (!equals || equals == word)
        return 0;
    size_t word_len = (size_t)(equals - word), value_len = len - digits - 3 - word_len;
    if (is_word(word, word_len, "path")) {
        pax->name = equals + 1;
        pax->name_len = value_len;
    } else if (is_word(word, word_len, "size")) {
        pax->size = equals + 1;
        pax->size_len = value_len;
    } else if (word_len > 11 && memcmp(word, "GNU.sparse.", 11) == 0) {
        pax->sparse = true;
    }
    return len;
}

static enum tar_fault read_pax(struct tar_member *member, const uint8_t *body, bool global)
{
    struct pax pax = {0};
    enum tar_fault fault = TAR_SOUND;
    for (size_t at = 0, len; at < member->body_bytes && body[at]; at += len) {
        len = read_line(body + at, (size_t)member->body_bytes - at, &pax);
        if (len == 0)
            return TAR_EXTENSION;
    }
    if (pax.sparse)
        return TAR_SPARSE;
    if (global)
        return pax.name || pax.size ? TAR_EXTENSION : TAR_SOUND; /* all members of one name or size */
    if (pax.name && memchr(pax.name, 0, pax.name_len))
        return TAR_EXTENSION;
    while (pax.name_len && pax.name[pax.name_len - 1] == '/')
        pax.name_len--;
    if (pax.name)
        fault = take_name(member, pax.name, pax.name_len);
    return fault == TAR_SOUND && pax.size ? take_size(member, pax.size, pax.size_len) : fault;
}

enum tar_fault tar_more_read(struct tar_member *member, uint8_t kind, const uint8_t *body)
{
    if (kind == 'L')
        return take_name(member, body, strnlen((const char *)body, (size_t)member->body_bytes));
    if (kind == 'K')
        return TAR_SOUND;
    return read_pax(member, body, kind == 'g');
}

/* Others may have put something in place of letters that are not ASCII. */
static bool is_ascii(const char *name)
{
    while (*name > 0)
        name++;
    return *name == '\0';
}

bool tar_header_fits(const uint8_t block[TAR_BLOCK_BYTES], const char *name, uint64_t size)
{
    struct tar_member own;
    own.has_name = own.has_size = false;
    own.type = TAR_END;
    if (tar_header_read(&own, block) != TAR_SOUND || own.type != TAR_FILE)
        return false;
    bool is_whole = strnlen((const char *)block + NAME_AT, NAME_BYTES) < NAME_BYTES && is_ascii(name);
    if (is_whole && strcmp(own.name, name) != 0)
        return false;
    return own.size == size || (own.size == 0 && size > OCTAL_MOST);
}
