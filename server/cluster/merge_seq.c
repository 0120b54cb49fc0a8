/* merge_seq.c: the numbers of a part's requests. */
#include "server/cluster/merge_priv.h"

/* merge_seq_took notes that the answer with this number is here. */
void merge_seq_took(struct part *part, uint64_t seq)
{
    if (seq <= part->acked || seq - part->acked > MORE_BITS)
        return;
    part->more |= UINT64_C(1) << (seq - part->acked - 1);
    for (; part->more & 1; part->more >>= 1)
        part->acked++;
}

/* merge_seq_next returns a number for a request. One that was answered by nothing is asked for again: the node may have
 * come to give something for it after all, if that request came to it twice. */
uint64_t merge_seq_next(struct part *part)
{
    uint64_t *first = NULL;
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (part->unused[i] && (!first || part->unused[i] < *first))
            first = &part->unused[i];
    }
    if (!first)
        return ++part->seq;
    uint64_t seq = *first;
    *first = 0;
    return seq;
}

/* merge_seq_has tells whether another request can have a number: one request can acknowledge only so many answers. */
bool merge_seq_has(const struct part *part)
{
    for (int i = 0; i < MERGE_ASKED_MAX; i++) {
        if (part->unused[i])
            return true;
    }
    return part->seq - part->acked < MORE_BITS;
}

/* merge_seq_leave keeps the number for another request. No more are unused than requests can be under way. */
void merge_seq_leave(struct part *part, uint64_t seq)
{
    int i = 0;
    while (part->unused[i])
        i++;
    part->unused[i] = seq;
}
