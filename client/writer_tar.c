/* writer_tar.c: the bytes of a log's shards: plain tar, byte for byte as client/python/larder/_log.py writes it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "client/writer_priv.h"

enum { NAME = 0, NAME_BYTES = 100, SIZE = 124, SUM = 148, SUM_BYTES = 8, KIND = 156, MAGIC = 257 };

static void put_octal(uint8_t *out, size_t digits, uint64_t value)
{
    while (digits > 0) {
        out[--digits] = (uint8_t)('0' + (value & 7));
        value >>= 3;
    }
}

/* read_octal: false where there is another character. */
static bool read_octal(const uint8_t *digits, size_t count, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '7')
            return false;
        value = value << 3 | (uint64_t)(digits[i] - '0');
    }
    *out = value;
    return true;
}

/* sum_of: of a header's bytes. Its own field counts as blanks. */
static uint32_t sum_of(const uint8_t block[WRITER_BLOCK])
{
    uint32_t sum = SUM_BYTES * ' ';
    for (size_t i = 0; i < SUM; i++)
        sum += block[i];
    for (size_t i = SUM + SUM_BYTES; i < WRITER_BLOCK; i++)
        sum += block[i];
    return sum;
}

static void put_header(uint8_t block[WRITER_BLOCK], const char *name, size_t name_len, uint64_t size, char kind)
{
    memset(block, 0, WRITER_BLOCK);
    memcpy(block + NAME, name, name_len);
    memcpy(block + NAME_BYTES,
           "0000644\0"
           "0000000\0"
           "0000000",
           SIZE - NAME_BYTES - 1);
    put_octal(block + SIZE, 11, size);
    memcpy(block + SIZE + 12, "00000000000", 11);
    block[KIND] = (uint8_t)kind;
    memcpy(block + MAGIC,
           "ustar\0"
           "00",
           8);
    memcpy(block + 329,
           "0000000\0"
           "0000000",
           15);
    put_octal(block + SUM, 6, sum_of(block));
    memcpy(block + SUM + 6, "\0 ", 2);
}

size_t writer_header(uint8_t *out, const char *name, size_t name_len, uint64_t size)
{
    size_t used = 0;
    if (name_len > NAME_BYTES) {
        put_header(out, "././@LongLink", 13, name_len + 1, 'L');
        memcpy(out + WRITER_BLOCK, name, name_len);
        used = WRITER_BLOCK + name_len + 1 + writer_padding(name_len + 1);
        memset(out + WRITER_BLOCK + name_len, 0, used - WRITER_BLOCK - name_len);
        name_len = NAME_BYTES;
    }
    put_header(out + used, name, name_len, size, '0');
    return used + WRITER_BLOCK;
}

static bool is_image_ending(const char *ending)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".ppm", ".pgm"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcasecmp(ending, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Whether a folder of a key, of which `len` bytes are the name, may be called so. */
static bool is_folder_name(const char *name, size_t len, bool first)
{
    if (len == 0 || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))))
        return false;
    return !(first && len >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + len - 2, "__", 2) == 0);
}

size_t writer_key_stem(const char *key)
{
    const char *name = key;
    if (strlen(key) > WRITER_KEY_MAX)
        return 0;
    for (const char *slash; (slash = strchr(name, '/')); name = slash + 1) {
        if (!is_folder_name(name, (size_t)(slash - name), name == key))
            return 0;
    }
    const char *dot = strchr(name, '.');
    if (!dot)
        dot = name + strlen(name);
    else if (!is_image_ending(dot))
        return 0;
    return dot == name ? 0 : (size_t)(dot - key);
}

/* read_at: 1: all of it; 0: the file ends before; LARDER_EIO. */
static int read_at(int fd, void *buf, size_t bytes, uint64_t at)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = pread(fd, (uint8_t *)buf + have, bytes - have, (off_t)(at + have));
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return LARDER_EIO;
        have += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

enum member { MEMBER_NONE, MEMBER_NAME, MEMBER_CLASSES, MEMBER_LABEL, MEMBER_DATA };

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

/* read_member says what the member at `at` is, and its size. A long name goes to `name`, and is the next member's. */
static int read_member(int fd, uint64_t at, char name[WRITER_KEY_MAX + WRITER_BLOCK], uint64_t *size, enum member *out)
{
    uint8_t block[WRITER_BLOCK];
    uint64_t sum;
    int rc = read_at(fd, block, sizeof block, at);
    *out = MEMBER_NONE;
    if (rc <= 0)
        return rc;
    if (memcmp(block + MAGIC, "ustar", 5) != 0 || !read_octal(block + SUM, 6, &sum) || sum != sum_of(block) ||
        !read_octal(block + SIZE, 11, size))
        return 0;
    if (block[KIND] == 'L') {
        if (*size >= WRITER_KEY_MAX + WRITER_BLOCK || *size == 0)
            return 0;
        name[*size] = 0;
        *out = MEMBER_NAME;
        rc = read_at(fd, name, *size, at + WRITER_BLOCK);
        return rc < 0 ? rc : 0;
    }
    if (!*name) {
        memcpy(name, block, NAME_BYTES);
        name[NAME_BYTES] = 0;
    }
    *out = strcmp(name, WRITER_CLASSES) == 0 ? MEMBER_CLASSES : ends_with(name, ".cls") ? MEMBER_LABEL : MEMBER_DATA;
    *name = 0;
    return 0;
}

int writer_whole(int fd, uint64_t end, uint64_t *bytes, uint64_t *samples)
{
    char name[WRITER_KEY_MAX + WRITER_BLOCK] = "";
    uint64_t whole = 0, count = 0, size, after;
    for (uint64_t at = 0; at + WRITER_BLOCK <= end; at = after) {
        enum member member;
        int rc = read_member(fd, at, name, &size, &member);
        if (rc)
            return rc;
        if (member == MEMBER_NONE)
            break;
        after = at + WRITER_BLOCK + size + writer_padding(size);
        if (after > end)
            break;
        if (member == MEMBER_CLASSES || member == MEMBER_DATA)
            whole = after;
        count += member == MEMBER_DATA;
    }
    *bytes = whole;
    *samples = count;
    return 0;
}
