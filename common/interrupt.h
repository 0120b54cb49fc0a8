/* interrupt.h: a flag by which one thread tells another that its work is not wanted any more. Work that may take
 * long is given such a flag, and looks at it again and again. Several pieces of work can be told at once by a flag
 * above theirs. */
#ifndef LARDER_COMMON_INTERRUPT_H
#define LARDER_COMMON_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct interrupt {
    atomic_bool set; /* set by any thread, read by the one that works; relaxed, since no data is handed over with it */
    const struct interrupt *above; /* while that one is set this one counts as set too; borrowed; NULL: none */
};

static inline void interrupt_set(struct interrupt *interrupt)
{
    atomic_store_explicit(&interrupt->set, true, memory_order_relaxed);
}

/* interrupt_is_set says whether this one, or one above it, is set. NULL is an interrupt that nobody can set. */
static inline bool interrupt_is_set(const struct interrupt *interrupt)
{
    for (; interrupt; interrupt = interrupt->above) {
        if (atomic_load_explicit(&interrupt->set, memory_order_relaxed))
            return true;
    }
    return false;
}

#endif
