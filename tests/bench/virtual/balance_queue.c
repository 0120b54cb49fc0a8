#include <stdlib.h>

#include "common/check.h"
#include "tests/bench/virtual/balance_priv.h"

static void make_room(struct line *line)
{
    if (line->length < line->cap)
        return;
    uint32_t cap = line->cap ? line->cap * 2 : 64;
    struct waiting *rows = xcalloc(cap, sizeof *rows);
    for (uint32_t i = 0; i < line->length; i++)
        rows[i] = line->rows[(line->head + i) % line->cap];
    free(line->rows);
    *line = (struct line){.rows = rows, .length = line->length, .cap = cap};
}

void line_put_first(struct line *line, struct waiting row)
{
    make_room(line);
    line->head = (line->head + line->cap - 1) % line->cap;
    line->rows[line->head] = row;
    line->length++;
}

void line_put(struct line *line, struct waiting row)
{
    make_room(line);
    line->rows[(line->head + line->length++) % line->cap] = row;
}

struct waiting line_take(struct line *line)
{
    struct waiting row = line->rows[line->head];
    line->head = (line->head + 1) % line->cap;
    line->length--;
    return row;
}
