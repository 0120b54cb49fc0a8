/* tar_walk.c: reads all shards of a text, by a crew of threads. See tar_priv.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/source/crew.h"
#include "cache/source/tar_priv.h"

static int read_shard(void *context, void *own, size_t shard, struct error *err)
{
    return tar_shard_read(context, own, shard, err);
}

static void free_reader(void *own)
{
    tar_reader_free(own);
}

int tar_walk_failed(const struct tar_walk *walk, int code, struct error *err)
{
    struct shown shown;
    return error_set(err, code, "%s: %s", path_shown(walk->text, &shown),
                     code == LARDER_ELIMIT ? "more samples than one dataset may have" : "out of memory while indexing");
}

int tar_walk_open(struct tar_walk *walk, struct stat *st, struct error *err)
{
    struct shown shown;
    int code = tar_shards_find(walk->text, walk->root, &walk->shards, err);
    if (code)
        return code;
    walk->root_fd = open(walk->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk->root_fd < 0 || fstat(walk->root_fd, st))
        return error_set(err, errno_code(errno), "%s: cannot open the folder: %s", path_shown(walk->root, &shown),
                         strerror(errno));
    walk->parts = calloc(walk->shards.count, sizeof *walk->parts);
    walk->found = calloc(walk->shards.count, sizeof *walk->found);
    return walk->parts && walk->found ? 0 : tar_walk_failed(walk, LARDER_ENOMEM, err);
}

int tar_walk_run(struct tar_walk *walk, uint64_t device, struct error *err)
{
    const struct crew_work work = {.count = walk->shards.count,
                                   .context = walk,
                                   .one = read_shard,
                                   .own_bytes = sizeof(struct tar_reader),
                                   .own_free = free_reader,
                                   .device = device};
    return crew_run(&work, err);
}

void tar_walk_close(struct tar_walk *walk)
{
    for (size_t i = 0; i < walk->shards.count; i++) {
        if (walk->parts)
            index_free(&walk->parts[i]);
        if (walk->found) {
            free(walk->found[i].labels);
            free(walk->found[i].cells);
            free(walk->found[i].classes);
            cells_free(&walk->found[i].parts);
            cells_free(&walk->found[i].names);
        }
    }
    free(walk->parts);
    free(walk->found);
    if (walk->root_fd >= 0)
        close(walk->root_fd);
    tar_shards_free(&walk->shards);
}
