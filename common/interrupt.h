/* interrupt.h: a flag by which somebody tells another thread that its work is not wanted any more: work that may take
 * long is given one, and looks at it again and again. Pieces of work that can all be told at once have one above. */
#ifndef LARDER_COMMON_INTERRUPT_H
#define LARDER_COMMON_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct interrupt {
    atomic_bool set; /* by any thread; read by whoever does the work. Relaxed: nothing is handed over with it */
    const struct interrupt *above; /* set: this one counts as set too. NULL: none */
};

static inline void interrupt_set(struct interrupt *interrupt)
{
    atomic_store_explicit(&interrupt->set, true, memory_order_relaxed);
}

/* interrupt_is_set: NULL is one that nobody can set. */
static inline bool interrupt_is_set(const struct interrupt *interrupt)
{
    for (; interrupt; interrupt = interrupt->above) {
        if (atomic_load_explicit(&interrupt->set, memory_order_relaxed))
            return true;
    }
    return false;
}

#endif
