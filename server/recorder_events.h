/* recorder_events.h: what became of jobs since the history's file was written last, in a file beside it: a record is
 * there at once, so that a daemon that is killed loses none. Records go only to the machine's file system, not to the
 * disk: a power cut may take them. One thread at a time. */
#ifndef LARDER_SERVER_RECORDER_EVENTS_H
#define LARDER_SERVER_RECORDER_EVENTS_H

#include <stdbool.h>

#include "server/driver/driver.h"
#include "server/past/past.h"

/* What became of the job at a place. */
struct recorder_event {
    enum driver_fate fate;
    uint32_t place;
    enum past_state end;      /* of DRIVER_ENDED */
    struct past_figures last; /* of DRIVER_ENDED */
    char text[PAST_TEXT_BYTES];
};

/* recorder_event_apply tells it to the past. */
void recorder_event_apply(struct past *past, const struct recorder_event *event, double now_s);

/* recorder_events_append writes that the event comes next in the past. LARDER_EIO and others; err has the text. */
int recorder_events_append(const char *path, const struct past *past, const struct recorder_event *event, double now_s,
                           struct error *err);
/* recorder_events_replay applies those of the file that the past does not have, and returns whether there were any. It
 * ends at the first record that is damaged or later than now_s. */
bool recorder_events_replay(const char *path, struct past *past, double now_s);
/* recorder_events_clear forgets all, as the history's file has them now. */
void recorder_events_clear(const char *path);

#endif
