/* tiers.h: loading times by origin: the source and each storage class have their own (Lobster, equation 1). Samples in
 * memory take none, and never wait to be loaded. The functions are pure; any thread may call them. */
#ifndef LARDER_SERVER_GOVERNOR_TIERS_H
#define LARDER_SERVER_GOVERNOR_TIERS_H

#include <stdint.h>

/* A tier is the number of an origin: 0 is the source, n the storage class n. */
#define GOVERNOR_TIERS_MAX 9

/* governor_tiers_mix moves the tiers' shares of a queue's loads towards those of a window. A window without loads
 * changes nothing. The shares sum to 1 once there was a load. */
void governor_tiers_mix(double parts[GOVERNOR_TIERS_MAX], const uint64_t loads[GOVERNOR_TIERS_MAX], double part_new);
/* governor_tiers_seconds returns the loading time of `samples` by tier, at sample_s for each. A tier whose time is not
 * known counts usual_s. */
double governor_tiers_seconds(const double samples[GOVERNOR_TIERS_MAX], const double sample_s[GOVERNOR_TIERS_MAX],
                              double usual_s);
/* governor_tiers_enough returns the number of loaders beyond which more bring nothing, at most `all`. Sources may have
 * only `most` reads at once, and take the fraction source_part of the loading time. The other loaders read from classes
 * meanwhile. */
uint32_t governor_tiers_enough(uint32_t most, double source_part, uint32_t all);

#endif
