/* view_interrupt.c: an evaluation ends early when its source says so. */
#include "sampler/view_priv.h"

int view_interrupted(const struct view_source *source, struct error *err)
{
    if (!interrupt_is_set(source->interrupt))
        return 0;
    return error_set(err, LARDER_EGONE,
                     "subset: its evaluation was interrupted: the daemon is stopping, or nobody waits for it");
}
