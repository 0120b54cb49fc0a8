/* Prometheus' own checker has nothing to say about the metrics of a daemon with two jobs. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/server/control/sample_status.h"
#include "tests/unit/server/program.h"

#define SKIPPED 77

int main(void)
{
    char *argv[] = {"promtool", "check", "metrics", NULL}, output[16384];
    struct daemon_status status;
    size_t len = 0;
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        puts("skipped: promtool (Debian: prometheus) is not installed");
        return SKIPPED;
    }
    sample_status_fill(&status);
    char *text = status_to_metrics(&status, &len);
    int rc = program_run(argv, text, output, sizeof output);
    if (rc || *output)
        printf("promtool says (%d): %s\n%s\n", rc, output, text);
    free(text);
    status_clear(&status);
    return rc || *output ? 1 : 0;
}
