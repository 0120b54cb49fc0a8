/* fuzz_log.c: proves that no shard makes writer_whole read outside of it, and that what it calls whole is whole by
 * itself: a writer that goes on there, and is killed at once, finds the same samples. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/writer_priv.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

static size_t put(uint8_t *out, const char *name, const char *data)
{
    size_t len = strlen(data), used = writer_header(out, name, strlen(name), len);
    memcpy(out + used, data, len);
    memset(out + used + len, 0, writer_padding(len));
    return used + len + writer_padding(len);
}

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    char name[300] = "d/";
    size_t used = 0;
    if (number > 2)
        return 0;
    CHECK(cap >= 16384);
    if (number == 1)
        used += put(buf, WRITER_CLASSES, "wren\nauk\n");
    memset(name + 2, 'x', number == 2 ? 200 : 3);
    for (int i = 0; i < 3; i++) {
        strcpy(name + (number == 2 ? 202 : 5), ".cls");
        used += put(buf + used, name, "1");
        strcpy(name + (number == 2 ? 202 : 5), ".ppm");
        used += put(buf + used, name, "P6 1 1 255\nabc");
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    uint64_t bytes, samples, again, samples_again;
    if (fd < 0)
        CHECK((fd = memfd_create("shard", MFD_CLOEXEC)) >= 0);
    CHECK(ftruncate(fd, (off_t)size) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    CHECK(writer_whole(fd, size, &bytes, &samples) == 0);
    CHECK(bytes <= size && bytes % WRITER_BLOCK == 0 && samples <= bytes / WRITER_BLOCK);
    CHECK(writer_whole(fd, bytes, &again, &samples_again) == 0);
    CHECK(again == bytes && samples_again == samples);
    return 0;
}
