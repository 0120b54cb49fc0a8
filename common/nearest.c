#include "common/nearest.h"

#include <string.h>

#define WORD_MAX_BYTES 48

/* distance counts the edits (Levenshtein) between two short words. Words that are too long count as far apart. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX_BYTES + 1], len_a = strlen(a), len_b = strlen(b);
    if (len_a > WORD_MAX_BYTES || len_b > WORD_MAX_BYTES)
        return WORD_MAX_BYTES;
    for (size_t j = 0; j <= len_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[len_b];
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
