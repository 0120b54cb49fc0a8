/* sample_status.h: a made-up snapshot of a daemon with two jobs, for tests of what shows it. */
#ifndef LARDER_TESTS_UNIT_SERVER_CONTROL_SAMPLE_STATUS_H
#define LARDER_TESTS_UNIT_SERVER_CONTROL_SAMPLE_STATUS_H

#include "server/control/status.h"

/* sample_status_fill: the caller clears it. */
void sample_status_fill(struct daemon_status *status);
/* sample_status_join puts the daemon into a cluster of four nodes, one of them lost, and one that is not asked now. */
void sample_status_join(struct daemon_status *status);

#endif
