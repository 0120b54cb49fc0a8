/* queue.h: a bounded FIFO of fixed-size elements between threads.
 *
 * It has one mutex and two conditions, and any thread may call any function. Elements are copied in and out. A consumer
 * that sits in epoll can watch an eventfd, which is readable while the queue is not empty, or closed. */
#ifndef LARDER_COMMON_QUEUE_H
#define LARDER_COMMON_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct queue;

int queue_create(size_t capacity, size_t element_bytes, struct queue **out);
void queue_destroy(struct queue *queue); /* accepts NULL; nobody may be inside */
/* queue_push waits while the queue is full; queue_try_push gives LARDER_ELIMIT then. After queue_close both give
 * LARDER_EGONE. */
int queue_push(struct queue *queue, const void *element);
int queue_try_push(struct queue *queue, const void *element);
/* queue_pop waits up to timeout_ms (negative: for ever; 0: not at all) for an element. It gives 0, LARDER_ETIMEOUT, or
 * LARDER_EGONE when the queue is closed and nothing is left in it. */
int queue_pop(struct queue *queue, void *element, int64_t timeout_ms);
/* queue_pop_many waits in the same way for the first element. Then it takes up to max in all, without waiting.
 * *count is 1 or more on success. */
int queue_pop_many(struct queue *queue, void *elements, size_t max, size_t *count, int64_t timeout_ms);
void queue_close(struct queue *queue);
size_t queue_length(struct queue *queue);
/* queue_eventfd gives the eventfd, which the first call makes and the queue owns; -1 when none could be made. */
int queue_eventfd(struct queue *queue);

#endif
