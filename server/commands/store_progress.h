/* store_progress.h: shows how far a pack or a verification is. A terminal gets a bar, anything else a plain line now
 * and then. One thread uses it. */
#ifndef LARDER_SERVER_COMMANDS_STORE_PROGRESS_H
#define LARDER_SERVER_COMMANDS_STORE_PROGRESS_H

#include "cache/pack/pack.h"

struct progress_view {
    const char *verb; /* "packing" */
    bool quiet;       /* show nothing */
    bool terminal;    /* standard error is one */
    bool bar_drawn;   /* the bar is drawn, and the cursor is on its line */
    uint64_t start_ns, shown_ns;
    struct store_progress last;
};

/* progress_view_start begins a view, and the time that it measures. verb is borrowed. */
void progress_view_start(struct progress_view *view, const char *verb, bool quiet);
/* progress_view_show notes the progress. It shows the progress if it has shown none for long enough. */
void progress_view_show(struct progress_view *view, const struct store_progress *progress);
/* progress_view_clear takes the bar away, so that something else can be printed. */
void progress_view_clear(struct progress_view *view);
double progress_view_seconds(const struct progress_view *view); /* since the start */

#endif
