/* detach.h: a daemon that a script starts also serves other scripts, and stays when that script has ended. So it must
 * not live within the bounds that the script was given. Main's thread calls this before there are other threads. */
#ifndef LARDER_SERVER_DETACH_H
#define LARDER_SERVER_DETACH_H

/* detach_from_starter undoes the bounds that the process has inherited: the set of CPUs, niceness, scheduling policy,
 * I/O priority, and soft limits below the hard ones. A bound that cannot be undone is logged and is no error.
 * shares_group says why the daemon is in its starter's control group, or is NULL; borrowed. */
void detach_from_starter(const char *shares_group);

#endif
