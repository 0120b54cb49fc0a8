#include "server/plan/agenda.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static struct due *row_at(const struct agenda *agenda, size_t at)
{
    return (struct due *)(agenda->rows + at * agenda->row_bytes);
}

static bool earlier(const struct due *a, const struct due *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void agenda_free(struct agenda *agenda)
{
    free(agenda->rows);
}

void agenda_put(struct agenda *agenda, const void *row)
{
    struct due due = {((const struct due *)row)->at_ns, agenda->order++};
    agenda->rows = xgrow(agenda->rows, agenda->row_bytes, &agenda->cap, agenda->length + 1);
    size_t at = agenda->length++;
    for (; at > 0 && earlier(&due, row_at(agenda, (at - 1) / 2)); at = (at - 1) / 2)
        memcpy(row_at(agenda, at), row_at(agenda, (at - 1) / 2), agenda->row_bytes);
    memcpy(row_at(agenda, at), row, agenda->row_bytes);
    row_at(agenda, at)->order = due.order;
}

void agenda_take(struct agenda *agenda, void *out)
{
    CHECK(agenda->length > 0);
    memcpy(out, agenda->rows, agenda->row_bytes);
    const struct due *last = row_at(agenda, --agenda->length);
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < agenda->length; at = child) {
        if (child + 1 < agenda->length && earlier(row_at(agenda, child + 1), row_at(agenda, child)))
            child++;
        if (!earlier(row_at(agenda, child), last))
            break;
        memcpy(row_at(agenda, at), row_at(agenda, child), agenda->row_bytes);
    }
    memmove(row_at(agenda, at), last, agenda->row_bytes);
}

uint64_t agenda_next_ns(const struct agenda *agenda)
{
    return agenda->length ? row_at(agenda, 0)->at_ns : UINT64_MAX;
}
