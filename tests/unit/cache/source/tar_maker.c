#include "tests/unit/cache/source/tar_maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/source/tar_header.h"
#include "common/check.h"

static uint8_t *room(struct tar_made *tar, size_t len)
{
    tar->bytes = xgrow(tar->bytes, 1, &tar->cap, tar->len + len);
    uint8_t *at = tar->bytes + tar->len;
    memset(at, 0, len);
    tar->len += len;
    return at;
}

void tar_sign(uint8_t *block)
{
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
        sum += block[i];
    snprintf((char *)block + 148, 8, "%06o", sum);
}

size_t tar_block(struct tar_made *tar, char flag, const char *name, uint64_t size)
{
    size_t at = tar->len, len = strlen(name);
    uint8_t *block = room(tar, TAR_BLOCK_BYTES);
    memcpy(block, name, len < 100 ? len : 100);
    memcpy(block + 100, "0000644", 8);
    snprintf((char *)block + 124, 12, "%011llo", (unsigned long long)size);
    block[156] = (uint8_t)flag;
    memcpy(block + 257, "ustar\00000", 8);
    tar_sign(block);
    return at;
}

void tar_body(struct tar_made *tar, const void *body, size_t len)
{
    uint8_t *at = room(tar, (size_t)tar_body_blocks(len));
    memcpy(at, body, len);
}

size_t tar_file(struct tar_made *tar, const char *name, const char *body)
{
    size_t at = tar_block(tar, '0', name, strlen(body));
    tar_body(tar, body, strlen(body));
    return at;
}

void tar_zeros(struct tar_made *tar, size_t blocks)
{
    room(tar, blocks * TAR_BLOCK_BYTES);
}

void tar_pax(struct tar_made *tar, char flag, const char *const *words)
{
    char body[8192];
    size_t len = 0;
    for (; *words; words += 2) {
        size_t line = strlen(words[0]) + strlen(words[1]) + 3, digits = 1, before;
        do { /* the length counts its own digits */
            before = digits;
            digits = (size_t)snprintf(NULL, 0, "%zu", line + digits);
        } while (digits != before);
        len += (size_t)snprintf(body + len, sizeof body - len, "%zu %s=%s\n", line + digits, words[0], words[1]);
        CHECK(len < sizeof body);
    }
    tar_block(tar, flag, "PaxHeaders/x", len);
    tar_body(tar, body, len);
}

void tar_write(struct tar_made *tar, const char *path)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(tar->bytes, 1, tar->len, file) == tar->len && fclose(file) == 0);
    free(tar->bytes);
    *tar = (struct tar_made){0};
}
