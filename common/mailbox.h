/* mailbox.h: a bounded FIFO of fixed-size elements between threads.
 *
 * It has one mutex and two conditions, and any thread may call any function. Elements are copied in and out. */
#ifndef LARDER_COMMON_MAILBOX_H
#define LARDER_COMMON_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct mailbox;

int mailbox_create(size_t capacity, size_t element_bytes, struct mailbox **out);
void mailbox_destroy(struct mailbox *mailbox); /* accepts NULL; nobody may be inside */
/* mailbox_push waits while the mailbox is full; mailbox_try_push returns LARDER_ELIMIT then. After mailbox_close both
 * give LARDER_EGONE. */
int mailbox_push(struct mailbox *mailbox, const void *element);
int mailbox_try_push(struct mailbox *mailbox, const void *element);
/* mailbox_push_many pushes the elements in order, and waits as mailbox_push does. A consumer is woken once for as many
 * as there is room for. */
int mailbox_push_many(struct mailbox *mailbox, const void *elements, size_t count);
/* mailbox_pop waits up to timeout_ms (negative: for ever; 0: not at all) for an element. It returns 0, LARDER_ETIMEOUT,
 * or LARDER_EGONE when the mailbox is closed and nothing is left in it. */
int mailbox_pop(struct mailbox *mailbox, void *element, int64_t timeout_ms);
/* mailbox_pop_many waits in the same way for the first element. Then it takes up to max in all, without waiting.
 * *count is 1 or more on success. */
int mailbox_pop_many(struct mailbox *mailbox, void *elements, size_t max, size_t *count, int64_t timeout_ms);
void mailbox_close(struct mailbox *mailbox);
size_t mailbox_length(struct mailbox *mailbox);

#endif
