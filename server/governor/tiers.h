/* tiers.h: loading times by tier: what comes from the source, and what from each storage class, takes its own time
 * (Lobster, equation 1). What is in memory takes none, and is nothing that waits to be loaded. The functions are pure;
 * any thread may call them. */
#ifndef LARDER_SERVER_GOVERNOR_TIERS_H
#define LARDER_SERVER_GOVERNOR_TIERS_H

#include <stdint.h>

/* Tier 0 is the source, tier n the storage class with the number n. */
#define GOVERNOR_TIERS_MAX 9

/* governor_tiers_mix moves the parts that the tiers have of what a queue loads towards those of a window. In a window
 * without loads they stay. The parts' sum is 1 once there was a load. */
void governor_tiers_mix(double parts[GOVERNOR_TIERS_MAX], const uint64_t loads[GOVERNOR_TIERS_MAX], double part_new);
/* governor_tiers_seconds returns the loading time of so many samples of each tier, each of which takes sample_s there.
 * A tier whose time is not known counts usual_s. */
double governor_tiers_seconds(const double samples[GOVERNOR_TIERS_MAX], const double sample_s[GOVERNOR_TIERS_MAX],
                              double usual_s);
/* governor_tiers_enough returns the loaders beyond which more bring nothing, when sources may have only `most` reads at
 * once and have the part source_part of the loading time. The other loaders read from classes meanwhile. At most
 * `all`. */
uint32_t governor_tiers_enough(uint32_t most, double source_part, uint32_t all);

#endif
