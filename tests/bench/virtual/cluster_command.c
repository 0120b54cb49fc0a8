/* cluster_command.c: the command `larder_bench cluster`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/cluster.h"
#include "tests/bench/virtual/paper.h"

int cluster_bench_main(int argc, char **argv)
{
    bool json_paper = argc >= 3 && strcmp(argv[2], "--json") == 0;
    bool brief = json_paper && argc == 4 && strcmp(argv[3], "--short") == 0;
    if (argc >= 2 && strcmp(argv[1], "--paper") == 0 && argc == 2 + json_paper + brief)
        return paper_bench(json_paper, brief);
    struct sharing_scenario *scenario = xcalloc(1, sizeof *scenario);
    struct error err;
    json_t *json;
    int status = 2;
    if (argc != 2 || argv[1][0] == '-')
        fprintf(stderr, "usage: larder_bench %s SCENARIO.yaml | --paper [--json [--short]]\n", argv[0]);
    else if (sharing_read(argv[1], true, scenario, &err))
        fprintf(stderr, "larder_bench cluster: %s\n", err.text);
    else if ((status = cluster_run(scenario, &json)) == 0)
        status = sharing_print(json);
    free(scenario);
    return status;
}
