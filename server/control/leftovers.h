/* leftovers.h: finds connections that nng has ended and forgotten, and closes their descriptors.
 *
 * When nng's listener has ended by itself, connections that it had accepted but not handed to the socket are lost with
 * it: closing the listener shuts them down and leaves them open. They are noted right after that, before the next
 * listener begins, so each connection of the socket's address belongs to the old listener. nng soon closes those that
 * it still knows. A noted connection that is open much later is known to nobody, and is closed. */
#ifndef LARDER_SERVER_CONTROL_LEFTOVERS_H
#define LARDER_SERVER_CONTROL_LEFTOVERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct leftover {
    int fd;
    ino_t inode;
    uint64_t noted_ns; /* when it was noted first */
};

struct leftovers {
    struct leftover *all;
    size_t count, cap;
};

/* leftovers_note notes the process's connections at the address. No listener may have it now.
 * Connections noted before keep their time. */
void leftovers_note(struct leftovers *leftovers, const char *address, uint64_t now_ns);
/* leftovers_close closes those that have been open for long enough since they were first noted. It returns their
 * number. */
size_t leftovers_close(struct leftovers *leftovers, uint64_t now_ns);
void leftovers_free(struct leftovers *leftovers);

#endif
