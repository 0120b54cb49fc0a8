#include "server/governor/tiers.h"

#include <math.h>

void governor_tiers_mix(double parts[GOVERNOR_TIERS_MAX], const uint64_t loads[GOVERNOR_TIERS_MAX], double part_new)
{
    double known = 0;
    uint64_t all = 0;
    for (int tier = 0; tier < GOVERNOR_TIERS_MAX; tier++) {
        known += parts[tier];
        all += loads[tier];
    }
    for (int tier = 0; all && tier < GOVERNOR_TIERS_MAX; tier++)
        parts[tier] += ((double)loads[tier] / (double)all - parts[tier]) * (known > 0 ? part_new : 1);
}

double governor_tiers_seconds(const double samples[GOVERNOR_TIERS_MAX], const double sample_s[GOVERNOR_TIERS_MAX],
                              double usual_s)
{
    double seconds = 0;
    for (int tier = 0; tier < GOVERNOR_TIERS_MAX; tier++)
        seconds += samples[tier] * (sample_s[tier] > 0 ? sample_s[tier] : usual_s);
    return seconds;
}

uint32_t governor_tiers_enough(uint32_t most, double source_part, uint32_t all)
{
    double enough = source_part > 0 ? ceil(most / source_part - 1e-9) : all;
    return enough < all ? (uint32_t)enough : all;
}
