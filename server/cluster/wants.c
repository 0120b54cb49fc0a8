#include "server/cluster/wants.h"

bool wants_hear(struct wants *wants, uint64_t training, uint64_t preparation, uint64_t now_ns)
{
    struct wants_row *oldest = &wants->rows[0];
    for (uint32_t i = 0; i < WANTS_MAX; i++) {
        struct wants_row *row = &wants->rows[i];
        if (row->used && row->training == training && row->preparation == preparation) {
            bool forgotten = now_ns - row->told_ns > WANTS_NS;
            row->told_ns = now_ns;
            return forgotten;
        }
        if (oldest->used && (!row->used || row->told_ns < oldest->told_ns))
            oldest = row;
    }
    *oldest = (struct wants_row){training, preparation, now_ns, true};
    return true;
}

void wants_end(struct wants *wants, uint64_t training)
{
    for (uint32_t i = 0; i < WANTS_MAX; i++) {
        if (wants->rows[i].training == training)
            wants->rows[i].used = false;
    }
}

uint32_t wants_count(const struct wants *wants, uint64_t training, uint64_t preparation, uint64_t now_ns)
{
    uint32_t count = 1;
    for (uint32_t i = 0; i < WANTS_MAX; i++) {
        const struct wants_row *row = &wants->rows[i];
        count += row->used && row->preparation == preparation && row->training != training &&
                 now_ns - row->told_ns <= WANTS_NS;
    }
    return count;
}

bool wants_pays(uint32_t trainings, double prepare_s, double transport_s)
{
    return trainings > 1 && (prepare_s == 0 || (1 - 1.0 / trainings) * prepare_s > transport_s);
}
