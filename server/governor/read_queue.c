#include "server/governor/read_queue.h"

#include <stdlib.h>

#include "common/check.h"

static void make_room(struct read_queue *queue)
{
    if (queue->length < queue->cap)
        return;
    uint32_t cap = queue->cap ? queue->cap * 2 : 16;
    struct worker_load *tasks = xcalloc(cap, sizeof *tasks);
    for (uint32_t i = 0; i < queue->length; i++)
        tasks[i] = queue->tasks[(queue->head + i) % queue->cap];
    free(queue->tasks);
    *queue = (struct read_queue){.tasks = tasks, .length = queue->length, .cap = cap};
}

void read_queue_put(struct read_queue *queue, const struct worker_load *task)
{
    make_room(queue);
    queue->tasks[(queue->head + queue->length++) % queue->cap] = *task;
}

void read_queue_put_first(struct read_queue *queue, const struct worker_load *task)
{
    make_room(queue);
    queue->head = (queue->head + queue->cap - 1) % queue->cap;
    queue->length++;
    uint32_t at = 0;
    for (; at + 1 < queue->length; at++) {
        const struct worker_load *next = &queue->tasks[(queue->head + at + 1) % queue->cap];
        if (next->needed >= task->needed)
            break;
        queue->tasks[(queue->head + at) % queue->cap] = *next;
    }
    queue->tasks[(queue->head + at) % queue->cap] = *task;
}

struct worker_load read_queue_take(struct read_queue *queue)
{
    CHECK(queue->length > 0);
    struct worker_load task = queue->tasks[queue->head];
    queue->head = (queue->head + 1) % queue->cap;
    queue->length--;
    return task;
}

void read_queue_clear(struct read_queue *queue)
{
    while (queue->length) {
        struct worker_load task = read_queue_take(queue);
        free(task.samples);
        dataset_unref(&task.dataset);
    }
    free(queue->tasks);
    *queue = (struct read_queue){.tasks = NULL};
}
