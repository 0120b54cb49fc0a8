/* slab.h: a growing array of numbered places, with a list of the unused ones.
 *
 * An element's first member is its state; state 0 means that the place is unused. SLAB defines NAME_new and NAME_drop
 * for one array of a module. NAME_new returns the number of an element that is all zeros. NAME_drop makes its place
 * unused. `scope` is static or empty. `spare_link` is the member of the element that links unused places. SLAB_FREE
 * frees the array. */
#ifndef LARDER_SERVER_ENGINE_SLAB_H
#define LARDER_SERVER_ENGINE_SLAB_H

#include <string.h>

#include "common/check.h"
#include "common/vast.h"
#include "server/engine/line.h"

struct slab {
    uint32_t size;  /* places that were ever taken: all used ones lie below */
    size_t cap;     /* places that there is memory for */
    uint32_t spare; /* the first unused place below size; ENGINE_NONE when there is none */
    uint32_t taken; /* places in use */
};

#define SLAB_FREE(module, array) vast_free((module)->array, sizeof *(module)->array, (module)->slab.cap)

#define SLAB(scope, name, module, array, spare_link)                                                     \
    scope uint32_t name##_new(struct module *module)                                                     \
    {                                                                                                    \
        struct slab *slab = &module->slab;                                                               \
        uint32_t index = slab->spare;                                                                    \
        if (index != ENGINE_NONE) {                                                                      \
            slab->spare = module->array[index].spare_link;                                               \
        } else {                                                                                         \
            module->array = vast_grow(module->array, sizeof *module->array, &slab->cap, slab->size + 1); \
            index = slab->size++;                                                                        \
        }                                                                                                \
        slab->taken++;                                                                                   \
        memset(&module->array[index], 0, sizeof module->array[index]);                                   \
        return index;                                                                                    \
    }                                                                                                    \
                                                                                                         \
    scope void name##_drop(struct module *module, uint32_t index)                                        \
    {                                                                                                    \
        CHECK(index < module->slab.size && module->array[index].state != 0);                             \
        memset(&module->array[index], 0, sizeof module->array[index]);                                   \
        module->array[index].spare_link = module->slab.spare;                                            \
        module->slab.spare = index;                                                                      \
        module->slab.taken--;                                                                            \
    }

#endif
