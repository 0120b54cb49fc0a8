/* fuzz_tar.c: proves that no bytes of a shard make tar_shard_read read outside them, give a sample that does not lie in
 * the shard or a cell of a column that is none, or not come back. Blocks that look like headers get checksums that fit,
 * or all mutations would end there. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cache/source/tar_priv.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/cache/source/tar_maker.h"

static const char *const labels[] = {"", "cls", "json:k", "none"};
static const char *const columns[] = {NULL, "cls", "json:k", "png"};

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    struct tar_made tar = {0};
    if (number >= 8)
        return 0;
    if (number & 1)
        tar_pax(&tar, 'x', (const char *[]){"path", "longer/a.jpg", "size", "600", NULL});
    if (number & 2) {
        tar_block(&tar, 'L', "././@LongLink", 14);
        tar_body(&tar, "longer/name.a", 14);
    }
    tar_file(&tar, "k/a.jpg", "an image, which nobody looks into");
    tar_file(&tar, number & 4 ? "k/a.json" : "k/a.cls", number & 4 ? "{\"k\": \"cat\"}" : "7");
    tar_pax(&tar, 'g', (const char *[]){"comment", "of all", NULL});
    tar_block(&tar, '5', "folder", 0);
    tar_file(&tar, "k/b.png", "");
    tar_file(&tar, "k/b.cls", "8");
    tar_zeros(&tar, 2);
    CHECK(tar.len + 1 <= cap);
    buf[0] = (uint8_t)(number | number << 4);
    memcpy(buf + 1, tar.bytes, tar.len);
    free(tar.bytes);
    return tar.len + 1;
}

static void check_part(const struct index *index, const struct tar_found *found, uint64_t size)
{
    for (size_t i = 0; i < index->sample_count; i++) {
        const struct index_sample *sample = &index->samples[i];
        const struct index_place *place = &index->places[i];
        CHECK(sample->key + strlen(index->strings + sample->key) < index->strings_len_bytes);
        CHECK(found->labels[i].kind != LABEL_TEXT || found->labels[i].text < index->strings_len_bytes);
        if (sample->flags & INDEX_UNREACHABLE)
            CHECK(place->offset <= size && !tar_is_refused((enum tar_fault)place->proof));
        else
            CHECK(place->offset >= TAR_BLOCK_BYTES && place->offset <= size && sample->size <= size - place->offset);
    }
}

/* Each sample has a cell of the column that is read, or none, and its text lies in the strings. */
static void check_cells(const char *column, const struct index *index, const struct tar_found *found)
{
    struct cells cells = {.bytes_max = 1 << 20};
    struct column made;
    int code = 0;
    for (size_t i = 0; !code && i < index->sample_count; i++) {
        uint64_t cell = found->cells[i];
        CHECK(cell == TAR_NO_CELL || cell + strlen(index->strings + cell) < index->strings_len_bytes);
        code = cell == TAR_NO_CELL ? cells_add_none(&cells) : tar_cell_add(column, index->strings + cell, &cells);
    }
    if (code || cells_finish(&cells, &made)) {
        cells_free(&cells);
        return;
    }
    CHECK(made.count == index->sample_count);
    column_free(&made);
}

static void read_shard(const uint8_t *data, size_t size, const char *wanted, const char *column)
{
    char name[16];
    char *names[] = {name};
    char folder[] = "/shards";
    struct index part = {.root = folder, .text = folder};
    struct tar_found found = {0};
    struct tar_reader reader = {0};
    struct error err;
    int fd = memfd_create("shard", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(name, sizeof name, "%d", fd);
    struct tar_walk walk = {.text = "/shards",
                            .column = column,
                            .root = "/proc/self/fd",
                            .root_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                            .shards = {names, 1, 1},
                            .parts = &part,
                            .found = &found};
    CHECK(walk.root_fd >= 0 && tar_labels_parse(wanted, &walk.labels, &err) == 0);
    int code = tar_shard_read(&walk, &reader, 0, &err);
    CHECK(code == 0 || code == LARDER_EINVAL);
    check_part(&part, &found, size);
    if (column)
        check_cells(column, &part, &found);
    if (code == 0 && part.sample_count &&
        tar_labels_apply(&walk.labels, found.classes, found.labels, &part, &err) == 0) {
        for (size_t i = 0; i < part.sample_count; i++)
            CHECK((size_t)part.samples[i].label < part.class_count);
    }
    free(found.labels);
    free(found.classes);
    free(found.cells);
    tar_reader_free(&reader);
    part.root = part.text = NULL;
    index_free(&part);
    close(walk.root_fd);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    uint8_t *copy = xmalloc(size);
    memcpy(copy, data, size);
    for (size_t at = 1; at + TAR_BLOCK_BYTES <= size && !(copy[0] & 128); at += TAR_BLOCK_BYTES) {
        if (memcmp(copy + at + 257, "ustar", 5) == 0)
            tar_sign(copy + at);
    }
    read_shard(copy + 1, size - 1, labels[copy[0] / 4 % 4], columns[copy[0] / 16 % 4]);
    free(copy);
    return 0;
}
