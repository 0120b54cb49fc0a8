#include "server/cluster/pace.h"

bool pace_saw(struct pace *pace, double signed_s)
{
    pace->sum_s += signed_s;
    pace->squares += signed_s * signed_s;
    return signed_s > 0 && pace->sum_s > 0 &&
           pace->sum_s * pace->sum_s >= PACE_DEVIATIONS * PACE_DEVIATIONS * pace->squares;
}

void pace_begin(struct pace *pace, uint64_t epoch)
{
    bool forgiven = pace->pause ? pace->again < epoch : pace->sum_s < 0;
    if (forgiven)
        *pace = (struct pace){0};
    pace->left = pace->again > epoch;
}

void pace_leave(struct pace *pace, uint64_t epoch)
{
    pace->pause = pace->pause ? 2 * pace->pause : 1;
    pace->again = epoch + 1 + pace->pause;
    pace->left = true;
}
