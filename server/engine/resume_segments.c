/* resume_segments.c: which samples of a fixed order were taken; see struct engine_segment. */
#include "common/check.h"
#include "server/engine/resume.h"

uint64_t resume_part(uint64_t samples, uint32_t world_size, uint32_t rank)
{
    return (samples + world_size - 1 - rank) / world_size;
}

bool resume_segment_fits(const struct engine_segment *segment, uint64_t samples)
{
    for (uint32_t rank = 0; rank < segment->world_size; rank++)
        if (segment->through[rank] > resume_part(samples, segment->world_size, rank))
            return false;
    return true;
}

uint64_t engine_segments_left(const struct engine_segment *segments, uint32_t n_segments, uint64_t samples)
{
    for (uint32_t i = 0; i < n_segments; i++) {
        uint64_t taken = 0;
        for (uint32_t rank = 0; rank < segments[i].world_size; rank++)
            taken += segments[i].through[rank];
        samples -= taken < samples ? taken : samples;
    }
    return samples;
}

uint64_t engine_segment_delivered(const struct engine_segment *segment, uint64_t samples)
{
    uint64_t least = resume_part(samples, segment->world_size, 0);
    for (uint32_t rank = 0; rank < segment->world_size; rank++)
        if (segment->through[rank] < resume_part(samples, segment->world_size, rank) && segment->through[rank] < least)
            least = segment->through[rank];
    return least;
}

void resume_walk_begin(struct resume_walk *walk, const struct engine_segment *segments, uint32_t n_segments)
{
    CHECK(n_segments <= ENGINE_SEGMENTS_MAX + 1);
    *walk = (struct resume_walk){.segments = segments, .n_segments = n_segments};
    for (uint32_t i = 0; i < n_segments; i++) {
        for (uint32_t rank = 0; rank < segments[i].world_size; rank++) {
            uint32_t through = segments[i].through[rank];
            uint64_t end = through ? (through - UINT64_C(1)) * segments[i].world_size + rank + 1 : 0;
            walk->end[i] = end > walk->end[i] ? end : walk->end[i];
        }
    }
}

/* Each sample of a sequence was one of the sequence before. */
uint64_t resume_walk_ahead(const struct resume_walk *walk)
{
    uint64_t ahead = 0;
    for (uint32_t i = 0; i < walk->n_segments; i++)
        if (walk->at[i] < walk->end[i] && walk->end[i] - walk->at[i] > ahead)
            ahead = walk->end[i] - walk->at[i];
    return ahead;
}

uint64_t resume_walk_next(struct resume_walk *walk, bool *had)
{
    uint64_t position = 0;
    for (uint32_t i = 0; i < walk->n_segments; i++) {
        const struct engine_segment *segment = &walk->segments[i];
        position = walk->at[i]++;
        *had = walk->number[i] < segment->through[walk->rank[i]];
        if (++walk->rank[i] == segment->world_size) {
            walk->rank[i] = 0;
            walk->number[i]++;
        }
        if (*had && i + 1 < walk->n_segments)
            return RESUME_TAKEN;
    }
    return position;
}
