#include "common/nearest.h"

#include <string.h>

#define WORD_MAX_BYTES 48

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* distance counts the edits between two short words: a letter more, less or another, or two neighbours exchanged
 * (optimal string alignment). Words that are too long count as far apart. */
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX_BYTES + 1], len_a = strlen(a), len_b = strlen(b);
    if (len_a > WORD_MAX_BYTES || len_b > WORD_MAX_BYTES)
        return WORD_MAX_BYTES;
    for (size_t j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[len_a % 3][len_b];
}

void nearest_consider(struct nearest *search, const char *word, const char *shown)
{
    size_t edits = distance(search->given, word);
    size_t near_enough = strlen(word) < 6 ? 1 : strlen(word) / 3; /* beyond that it is another word, not a slip */
    if (edits <= near_enough && (!search->best || edits < search->edits)) {
        search->best = shown;
        search->edits = edits;
    }
}
