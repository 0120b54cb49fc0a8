#include <stdlib.h>

#include "server/past/past_priv.h"

int track_create(struct track *track, uint32_t cap, uint32_t points_cap)
{
    *track = (struct track){.frames = calloc(cap, sizeof *track->frames),
                            .points = calloc(points_cap, sizeof *track->points),
                            .cap = cap,
                            .points_cap = points_cap};
    return track->frames && track->points ? 0 : LARDER_ENOMEM;
}

void track_clear(struct track *track)
{
    free(track->frames);
    free(track->points);
}

void track_add(struct track *track, const struct frame *frame, const struct point *points, uint32_t n_points)
{
    while (track->begin < track->end &&
           (track->end - track->begin == track->cap ||
            track->points_end + n_points - track_frame(track, track->begin)->first > track->points_cap))
        track->begin++;
    struct frame *to = &track->frames[track->end++ % track->cap];
    *to = *frame;
    to->n_points = n_points;
    to->first = track->points_end;
    for (uint32_t i = 0; i < n_points; i++)
        track->points[track->points_end++ % track->points_cap] = points[i];
}
