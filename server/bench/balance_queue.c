#include <stdlib.h>

#include "common/check.h"
#include "server/bench/balance_priv.h"

void line_put(struct line *line, struct waiting row)
{
    if (line->length == line->cap) {
        uint32_t cap = line->cap ? line->cap * 2 : 64;
        struct waiting *rows = xcalloc(cap, sizeof *rows);
        for (uint32_t i = 0; i < line->length; i++)
            rows[i] = line->rows[(line->head + i) % line->cap];
        free(line->rows);
        *line = (struct line){.rows = rows, .length = line->length, .cap = cap};
    }
    line->rows[(line->head + line->length++) % line->cap] = row;
}

struct waiting line_take(struct line *line)
{
    struct waiting row = line->rows[line->head];
    line->head = (line->head + 1) % line->cap;
    line->length--;
    return row;
}
