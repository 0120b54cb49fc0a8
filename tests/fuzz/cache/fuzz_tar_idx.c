/* fuzz_tar_idx.c: proves that no text makes tar_idx_next read outside it, give a member that cannot be one, or not
 * come to an end. */
#include <stdio.h>
#include <string.h>

#include "cache/source/tar_header.h"
#include "cache/source/tar_idx.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    static const char *const texts[] = {"v1.2 2\njpg 512 33 k/a.jpg cls 1536 1 k/a.cls\njpg 2560 0 k/b.jpg\n",
                                        "v1.2 1\r\nseg.png 10240 999999999999 x/y.seg.png\r\n", "v1.1 1\njpg 512 1\n"};
    if (number >= sizeof texts / sizeof *texts)
        return 0;
    size_t len = strlen(texts[number]);
    CHECK(len <= cap);
    memcpy(buf, texts[number], len);
    return len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tar_idx idx;
    struct tar_idx_member member;
    const char *text = (const char *)data;
    if (size == 0 || !tar_idx_begin(&idx, text, size))
        return 0;
    for (size_t steps = 0; tar_idx_next(&idx, &member) > 0; steps++) {
        CHECK(steps < size);
        CHECK(member.name > text && member.name + member.name_len <= text + size && member.name_len <= TAR_NAME_MAX);
        CHECK(member.header % TAR_BLOCK_BYTES == 0 && member.size <= INT64_MAX && member.header <= INT64_MAX);
        for (size_t i = 0; i < member.name_len; i++)
            CHECK(member.name[i] != ' ' && member.name[i] != '\n' && member.name[i] != '\0');
    }
    return 0;
}
