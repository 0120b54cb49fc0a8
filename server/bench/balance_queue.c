#include <stdlib.h>

#include "common/check.h"
#include "server/bench/balance_priv.h"

static bool earlier(const struct timed *a, const struct timed *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void agenda_put(struct agenda *agenda, struct timed timed)
{
    if (agenda->length == agenda->cap) {
        agenda->cap = agenda->cap ? agenda->cap * 2 : 256;
        agenda->rows = xrealloc(agenda->rows, agenda->cap, sizeof *agenda->rows);
    }
    timed.order = agenda->order++;
    size_t at = agenda->length++;
    for (; at && earlier(&timed, &agenda->rows[(at - 1) / 2]); at = (at - 1) / 2)
        agenda->rows[at] = agenda->rows[(at - 1) / 2];
    agenda->rows[at] = timed;
}

struct timed agenda_take(struct agenda *agenda)
{
    struct timed first = agenda->rows[0], last = agenda->rows[--agenda->length];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < agenda->length; at = child) {
        if (child + 1 < agenda->length && earlier(&agenda->rows[child + 1], &agenda->rows[child]))
            child++;
        if (!earlier(&agenda->rows[child], &last))
            break;
        agenda->rows[at] = agenda->rows[child];
    }
    agenda->rows[at] = last;
    return first;
}

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
