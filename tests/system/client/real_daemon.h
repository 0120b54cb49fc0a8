/* real_daemon.h: the real daemon for the system tests of the C library: on a private socket and folder, with a small
 * set of images made for the test. Failures end the test. */
#ifndef LARDER_TESTS_SYSTEM_CLIENT_REAL_DAEMON_H
#define LARDER_TESTS_SYSTEM_CLIENT_REAL_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

struct real {
    char folder[64], dataset[96], socket[96], config[96];
    pid_t pid; /* 0: it does not run */
};

/* real_arguments takes the test program's arguments, LARDERD MAKE_IMAGES, and gives 0, or the program's exit code. */
int real_arguments(int argc, char **argv);
const char *real_larderd(void);

pid_t real_spawn(const char *const *arguments);
void real_run(const char *const *arguments); /* waits for its end, which must be exit status 0 */

/* real_make makes the folder, the images (samples / classes in each class) and the configuration. It starts nothing. */
void real_make(struct real *real, uint32_t samples, uint32_t classes);
/* real_start returns when the daemon answers. */
void real_start(struct real *real);
void real_kill(struct real *real); /* SIGKILL */
int real_stop(struct real *real);  /* SIGTERM; gives its status; 0 too when it does not run */
void real_remove(struct real *real);

#endif
