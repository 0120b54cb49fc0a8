/* program.h: running other programs from a test. */
#ifndef LARDER_TESTS_PROGRAM_H
#define LARDER_TESTS_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

/* program_start starts argv[0] (a path, or a name in PATH) with stdin and stdout as pipes of which *to and *from are
 * our ends, and stderr going to stdout. Fails the test when it cannot. */
pid_t program_start(char *const argv[], int *to, int *from);
/* program_wait returns the exit status, 128 + the signal for a killed one. */
int program_wait(pid_t pid);
/* program_run runs a program with that input to its end; its output, NUL-terminated, goes to output (cut at cap). */
int program_run(char *const argv[], const char *input, char *output, size_t cap);

#endif
