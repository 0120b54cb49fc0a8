/* fuzz_list.c: proves that no list file makes view_list_select crash, and that what is refused is refused with the
 * file's name, its line and column. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "sampler/view_priv.h"
#include "tests/fuzz/fuzz.h"

static const char *const keys[] = {"c/a b.png", "c/a,b.png", "c/#1.png", "c/\"q\".png", "c/x.png", "c/x.png 7"};
enum { KEYS = sizeof keys / sizeof *keys };

static const char *const seeds[] = {
    "path,label\r\nc/a b.png,1\r\nc/x.png,2\r\n",
    "\xef\xbb\xbf# mine\n\"c/\"\"q\"\".png\";\"3\"\nc/x.png 7\n",
    "./c//x.png\t1 2 3\n/data/set/c/a,b.png\n0\n5\n",
    "c/x.png 8\rc/#1.png\r",
    "\xff\xfe"
    "c\\x.png\n",
};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[index]);
    CHECK(len <= cap);
    memcpy(buf, seeds[index], len);
    return len;
}

static const char *key_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return keys[index];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct view_source source = {
        .path = "/data/set", .given_path = "/link", .count = KEYS, .n_classes = 1, .key = key_of};
    char path[64];
    uint32_t indices[KEYS], count = 0;
    struct error err = {0};
    int fd = memfd_create("list", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = view_list_select(path, &source, indices, &count, &err);
    unsigned line, column;
    CHECK(rc == 0 || rc == LARDER_EINVAL || rc == LARDER_ELIMIT);
    CHECK(rc != LARDER_EINVAL ||
          (strncmp(err.text, "list ", 5) == 0 && strncmp(err.text + 5, path, strlen(path)) == 0 &&
           sscanf(err.text + 5 + strlen(path), ":%u:%u: ", &line, &column) == 2));
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        CHECK(indices[i] < KEYS && (i == 0 || indices[i - 1] < indices[i]));
    close(fd);
    return 0;
}
