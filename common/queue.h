/* queue.h: a bounded FIFO of fixed-size elements between threads.
 *
 * One mutex, two conditions; elements are copied in and out. Optionally an eventfd becomes readable while the queue is
 * not empty or closed, for a consumer that sits in epoll. Bounded: push waits while full, try_push says LARDER_ELIMIT.
 * After queue_close pushes give LARDER_EGONE, and pops drain what is left before they do. */
#ifndef LARDER_COMMON_QUEUE_H
#define LARDER_COMMON_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct queue;

int queue_create(size_t capacity, size_t element_bytes, struct queue **out);
void queue_destroy(struct queue *queue); /* accepts NULL; nobody may be inside */
int queue_push(struct queue *queue, const void *element);
int queue_try_push(struct queue *queue, const void *element);
/* queue_pop waits up to timeout_ms (negative: for ever; 0: not at all): 0, LARDER_ETIMEOUT or LARDER_EGONE. */
int queue_pop(struct queue *queue, void *element, int64_t timeout_ms);
/* queue_pop_many waits likewise for the first element, then takes up to max without waiting; *count ≥ 1 on success. */
int queue_pop_many(struct queue *queue, void *elements, size_t max, size_t *count, int64_t timeout_ms);
void queue_close(struct queue *queue);
size_t queue_length(struct queue *queue);
/* queue_eventfd gives the (queue-owned) descriptor, made on first call; -1 when none could be made. */
int queue_eventfd(struct queue *queue);

#endif
