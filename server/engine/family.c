#include "server/engine/family.h"

static bool related(const struct job *a, const struct job *b)
{
    return a->terms.family && a->terms.family == b->terms.family && a->terms.pipeline == b->terms.pipeline &&
           a->terms.variant == b->terms.variant && a->shape.chunk_base == b->shape.chunk_base;
}

void family_join(const struct jobs *jobs, struct job *job)
{
    job->kin = (struct job_kin){job->no, job->no};
    for (uint32_t no = 0; no < jobs->end; no++) {
        struct job *member = job_at(jobs, no);
        if (member == job || member->state == JOB_FREE || !related(member, job))
            continue;
        job->kin.next = member->kin.next;
        member->kin.next = job->no;
        if (!job->terms.repeatable)
            job->kin.had = member->kin.had;
        return;
    }
}

bool family_leave(const struct jobs *jobs, struct job *job)
{
    struct job *before = job;
    while (before->kin.next != job->no)
        before = job_at(jobs, before->kin.next);
    bool last = before == job || job->terms.repeatable;
    before->kin.next = job->kin.next;
    job->kin.next = job->no;
    return last;
}

bool family_is_known(const struct job *job)
{
    return job->kin.next != job->no;
}
