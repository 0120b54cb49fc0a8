/* column.c: columns of the dataset, as the daemon passes them: mapped read-only, and looked at before they are
 * believed. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/loader_priv.h"

/* What larder_column_open gives, with the mapping behind it. */
struct mapped {
    struct larder_column of;
    void *data;
    size_t bytes;
};

static int wrong(const struct larder_loader *loader, struct error *err)
{
    return error_set(err, LARDER_EFORMAT, "the daemon at %s passed a column that is not what it says",
                     loader->connection.path);
}

static bool texts_fit(const struct larder_column *column, uint64_t bytes)
{
    const uint64_t *offsets = column->offsets;
    for (uint64_t i = 0; i < column->count; i++) {
        if (offsets[i] > offsets[i + 1])
            return false;
    }
    return offsets[0] == 0 && offsets[column->count] == bytes - (column->count + 1) * sizeof *offsets;
}

/* Maps a column; msg is as wire_decode has checked it. */
static int map(const struct larder_loader *loader, const struct wire_column *msg, int fd, struct mapped *mapped,
               struct error *err)
{
    struct larder_column *column = &mapped->of;
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fd < 0 || seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_WRITE) || fstat(fd, &info) ||
        (uint64_t)info.st_size != msg->n_bytes || msg->n_bytes > SIZE_MAX)
        return wrong(loader, err);
    *column = (struct larder_column){.kind = msg->kind, .width = msg->width, .count = msg->count};
    if (msg->n_bytes == 0)
        return 0;
    void *data = mmap(NULL, (size_t)msg->n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return error_set(err, LARDER_ENOMEM, "no memory to map a column of %llu bytes",
                         (unsigned long long)msg->n_bytes);
    mapped->data = data;
    mapped->bytes = (size_t)msg->n_bytes;
    if (msg->kind == WIRE_COLUMN_INT64)
        column->int64 = data;
    else if (msg->kind == WIRE_COLUMN_FLOAT64)
        column->float64 = data;
    else {
        column->offsets = data;
        column->text = (const char *)(column->offsets + column->count + 1);
    }
    return msg->kind != WIRE_COLUMN_TEXT || texts_fit(column, msg->n_bytes) ? 0 : wrong(loader, err);
}

void column_answer(struct larder_loader *loader, const struct wire_column *msg, int fd)
{
    struct loader_question *question = &loader->question;
    struct mapped *mapped = question->given_up ? NULL : calloc(1, sizeof *mapped);
    question->open = false;
    question->answered = true;
    question->answer.code = 0;
    if (mapped)
        map(loader, msg, fd, mapped, &question->answer);
    else if (!question->given_up)
        error_set(&question->answer, LARDER_ENOMEM, "no memory for a column");
    if (fd >= 0)
        close(fd);
    question->column = mapped ? &mapped->of : NULL;
    if (question->answer.code)
        larder_column_free(&question->column);
}

void larder_column_free(struct larder_column **column)
{
    struct mapped *mapped = (struct mapped *)*column;
    *column = NULL;
    if (mapped && mapped->data)
        munmap(mapped->data, mapped->bytes);
    free(mapped);
}
