/* slab.h: a growing array of numbered places, with a list of those that are unused.
 *
 * An element's first member is its state; 0 is a place that is unused. SLAB defines NAME_new and NAME_drop for one
 * array of a module, `scope` is static or empty; `spare` is the element's member that links unused places. A new
 * element is all zeros. */
#ifndef LARDER_SERVER_ENGINE_SLAB_H
#define LARDER_SERVER_ENGINE_SLAB_H

#include <string.h>

#include "common/check.h"
#include "server/engine/line.h"

struct slab {
    uint32_t size;  /* places that were ever taken: all lie below */
    size_t cap;     /* places that there is memory for */
    uint32_t spare; /* the first unused place below size; ENGINE_NONE: there is none */
    uint32_t taken; /* places in use */
};

#define SLAB(scope, name, module, array, spare_link)                                                 \
    scope uint32_t name##_new(struct module *module)                                                 \
    {                                                                                                \
        struct slab *slab = &module->slab;                                                           \
        uint32_t index = slab->spare;                                                                \
        if (index != ENGINE_NONE) {                                                                  \
            slab->spare = module->array[index].spare_link;                                           \
        } else {                                                                                     \
            module->array = xgrow(module->array, sizeof *module->array, &slab->cap, slab->size + 1); \
            index = slab->size++;                                                                    \
        }                                                                                            \
        slab->taken++;                                                                               \
        memset(&module->array[index], 0, sizeof module->array[index]);                               \
        return index;                                                                                \
    }                                                                                                \
                                                                                                     \
    scope void name##_drop(struct module *module, uint32_t index)                                    \
    {                                                                                                \
        CHECK(index < module->slab.size && module->array[index].state != 0);                         \
        memset(&module->array[index], 0, sizeof module->array[index]);                               \
        module->array[index].spare_link = module->slab.spare;                                        \
        module->slab.spare = index;                                                                  \
        module->slab.taken--;                                                                        \
    }

#endif
