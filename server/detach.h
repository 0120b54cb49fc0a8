/* detach.h: a daemon that a script starts serves others too, and stays when the script has ended: it must not live
 * within the bounds that the script was given. Main's thread, before there are others. */
#ifndef LARDER_SERVER_DETACH_H
#define LARDER_SERVER_DETACH_H

/* detach_from_starter takes back what is inherited: the set of CPUs, niceness, scheduling policy and I/O priority, and
 * soft limits below the hard ones. What cannot be had is logged, and no error. shares_group: NULL, or why the daemon is
 * in its starter's control group; borrowed. */
void detach_from_starter(const char *shares_group);

#endif
