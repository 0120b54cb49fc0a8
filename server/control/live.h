/* live.h: what the live page shows beside the status, as JSON. Any thread. Texts are malloc'ed and the caller's; NULL:
 * out of memory. */
#ifndef LARDER_SERVER_CONTROL_LIVE_H
#define LARDER_SERVER_CONTROL_LIVE_H

#include "common/log_recent.h"

/* live_lines_json returns the lines of a kind that the log has kept, the oldest first: ["time=… level=…",…] */
char *live_lines_json(enum log_recent kind);
/* live_json returns {"v":1,"status":…,"tree":…,"warnings":[…]} of two JSON texts, which it takes over. Each may be
 * NULL: there was no memory for it. */
char *live_json(char *status, char *tree);

#endif
