#include "server/governor/line.h"

#include <stdlib.h>

#include "common/check.h"

void read_line_put(struct read_line *line, const struct worker_load *task)
{
    if (line->length == line->cap) {
        uint32_t cap = line->cap ? line->cap * 2 : 16;
        struct worker_load *tasks = xcalloc(cap, sizeof *tasks);
        for (uint32_t i = 0; i < line->length; i++)
            tasks[i] = line->tasks[(line->head + i) % line->cap];
        free(line->tasks);
        *line = (struct read_line){.tasks = tasks, .length = line->length, .cap = cap};
    }
    line->tasks[(line->head + line->length++) % line->cap] = *task;
}

struct worker_load read_line_take(struct read_line *line)
{
    CHECK(line->length > 0);
    struct worker_load task = line->tasks[line->head];
    line->head = (line->head + 1) % line->cap;
    line->length--;
    return task;
}

void read_line_clear(struct read_line *line)
{
    while (line->length) {
        struct worker_load task = read_line_take(line);
        free(task.samples);
        dataset_unref(&task.dataset);
    }
    free(line->tasks);
    *line = (struct read_line){.tasks = NULL};
}
