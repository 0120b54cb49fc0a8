/* doctor_all.c: `larder doctor`: looks at everything, with a daemon or without, and says what to do. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/doctor.h"
#include "client/cli/line.h"
#include "common/socket_path.h"

static const char *const verdicts[] = {[DOCTOR_GOOD] = "good", [DOCTOR_UNKNOWN] = "unknown", [DOCTOR_BAD] = "bad"};

static void print(const struct doctor_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct doctor_finding *finding = &report->all[i];
        printf("%-8s %-14s %s\n", verdicts[finding->verdict], finding->of, finding->text);
        if (*finding->todo)
            printf("%-8s %-14s → %s\n", "", "", finding->todo);
    }
}

static void dump(const struct doctor_report *report)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < report->count; i++) {
        const struct doctor_finding *finding = &report->all[i];
        json_t *row = json_pack("{s:s,s:s,s:s,s:s?}", "of", finding->of, "verdict", verdicts[finding->verdict], "found",
                                finding->text, "todo", *finding->todo ? finding->todo : NULL);
        if (row) /* a path that is not UTF-8 has none */
            json_array_append_new(rows, row);
    }
    json_dumpf(rows, stdout, CLI_JSON);
    putchar('\n');
    json_decref(rows);
}

int cli_doctor(const struct cli_line *line)
{
    struct doctor_report report = {.count = 0};
    struct cli_look look;
    struct cli_machine machine;
    struct error err = {.code = 0};
    char path[SOCKET_PATH_MAX];
    snprintf(path, sizeof path, "%s", line->socket ? line->socket : "");
    if (!line->socket && socket_path_default(path, sizeof path, &err))
        return cli_fail(&err);
    int rc = cli_look(line->socket, &look, &err);
    const json_t *status = rc ? NULL : look.now;
    long pid = rc ? getpid() : lround(cells_number(cells_at(status, "daemon", "pid", NULL)));
    if (rc)
        doctor_find(&report, "daemon", DOCTOR_BAD, "start one with larderd", "%s", err.text);
    else
        doctor_find(&report, "daemon", DOCTOR_GOOD, NULL, "pid %ld answers", pid);
    doctor_look_at_socket(path, &report);
    doctor_look_at_libraries(&report);
    cli_machine_read("", pid, &machine);
    if (status) {
        doctor_judge(status, &machine, &report);
        doctor_look_at_datasets(status, &report);
    }
    if (line->json)
        dump(&report);
    else
        print(&report);
    cli_look_clear(&look);
    if (fflush(stdout) || ferror(stdout))
        return CLI_FAILED;
    if (rc)
        return err.code == LARDER_EGONE ? CLI_NO_DAEMON : CLI_FAILED;
    return doctor_is_bad(&report) ? CLI_FOUND : CLI_OK;
}
