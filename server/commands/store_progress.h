/* store_progress.h: how far a pack or a verification is: a bar on a terminal, a plain line now and then elsewhere. */
#ifndef LARDER_SERVER_COMMANDS_STORE_PROGRESS_H
#define LARDER_SERVER_COMMANDS_STORE_PROGRESS_H

#include "cache/store/store.h"

struct progress_view {
    const char *verb; /* "packing" */
    bool quiet;       /* show nothing */
    bool terminal;    /* standard error is one */
    bool bar_drawn;   /* and the cursor is in its line */
    uint64_t start_ns, shown_ns;
    struct store_progress last;
};

void progress_view_start(struct progress_view *view, const char *verb, bool quiet);
/* progress_view_show notes the progress, and shows it when the last time is long enough ago. */
void progress_view_show(struct progress_view *view, const struct store_progress *progress);
/* progress_view_clear takes the bar away, so that something else can be printed. */
void progress_view_clear(struct progress_view *view);
double progress_view_seconds(const struct progress_view *view); /* since the start */

#endif
