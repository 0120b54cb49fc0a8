/* family.h: families of jobs: the parts of one training whose ranks are at several nodes. The node that is a chunk's
 * home has one job for each other node's part, and one for its own. No two members want the same sample in an epoch,
 * but in another epoch a sample may be another member's. So what one of them had counts as had by all. Each has stocks
 * of its own: what memory has of a chunk that was dealt to one member serves no other. Groups are larger for it
 * (chunks.c), so that each finds some of its chunks in memory.
 *
 * Invariant: the members form a ring, by job.kin.next. In `had` of an instance all of them have one bit, job.kin.had.
 * It is the number of the member that came first, which no other job gets while a member is there. A job of a pipeline
 * that draws nothing at random has a bit of its own, because it may get instances again.
 * Owner: family.c owns job.kin. */
#ifndef LARDER_SERVER_ENGINE_FAMILY_H
#define LARDER_SERVER_ENGINE_FAMILY_H

#include "server/engine/job.h"

/* family_join makes a job that has just come a member of its family. family_leave takes it out. It returns whether no
 * member has the bit of `had` any more that was the job's. */
void family_join(const struct jobs *jobs, struct job *job);
bool family_leave(const struct jobs *jobs, struct job *job);
/* family_is_known tells whether other members know what the job's family had. */
bool family_is_known(const struct job *job);
/* FAMILY_EACH goes over the numbers of the job's family, the job's own first. */
#define FAMILY_EACH(jobs, of, member)                                  \
    for (uint32_t member = (of)->no, member##_left = 1; member##_left; \
         member = job_at(jobs, member)->kin.next, member##_left = member != (of)->no)

#endif
