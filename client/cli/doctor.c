#include "client/cli/doctor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "common/library.h"

#define FDS_LEAST 1024 /* descriptors that some hundred clients and readers may need */
#define FDS_RAISED 65536
#define FDS_FULL 0.8    /* the part of the descriptors from which on they may run out */
#define MEMORY_FULL 0.9 /* the part of the machine's memory that budgets may take */
#define THROTTLED 0.1   /* the part of the periods from which on a quota slows the daemon down */
#define PAGE_COLUMNS 120
#define CACHE_LEAST 0.05 /* the part of the memory that files should have for themselves */

void doctor_find(struct doctor_report *report, const char *of, enum doctor_verdict verdict, const char *todo,
                 const char *fmt, ...)
{
    if (report->count == DOCTOR_FINDINGS_MAX)
        return;
    struct doctor_finding *finding = &report->all[report->count++];
    *finding = (struct doctor_finding){.of = of, .verdict = verdict};
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
    if (todo && verdict == DOCTOR_BAD)
        snprintf(finding->todo, sizeof finding->todo, "%s", todo);
}

bool doctor_is_bad(const struct doctor_report *report)
{
    bool bad = false;
    for (size_t i = 0; i < report->count; i++)
        bad = bad || report->all[i].verdict == DOCTOR_BAD;
    return bad;
}

/* ── what the daemon says ──────────────────────────────────────────────────────────────────────────────────────── */

static void judge_version(const json_t *status, struct doctor_report *report)
{
    const char *version = json_string_value(cells_at(status, "daemon", "version", NULL));
    char buf[CELL_BYTES];
    bool same = version && strcmp(version, LARDER_VERSION) == 0;
    doctor_find(report, "version", same ? DOCTOR_GOOD : DOCTOR_BAD,
                "install both from one release, and larder drain --for-restart", "larderd is %s, larder is %s",
                cells_printable(cells_at(status, "daemon", "version", NULL), 40, buf), LARDER_VERSION);
}

static void judge_memory(const json_t *status, const struct cli_machine *machine, struct doctor_report *report)
{
    char a[CELL_BYTES], b[CELL_BYTES];
    double budgets = cli_budgets(status);
    bool limited = machine->limit_bytes && (machine->limit_bytes < machine->memory_bytes || !machine->memory_bytes);
    double limit = (double)(limited ? machine->limit_bytes : machine->memory_bytes);
    if (limit == 0)
        doctor_find(report, "memory", DOCTOR_UNKNOWN, NULL, "how much memory there is cannot be read");
    else
        doctor_find(report, "memory", budgets <= MEMORY_FULL * limit ? DOCTOR_GOOD : DOCTOR_BAD,
                    limited ? "lower memory.samples, or raise the cgroup's limit, before the kernel "
                              "kills larderd"
                            : "lower memory.samples before the kernel kills larderd",
                    "larderd's budgets are %s; %s %s", cells_bytes(budgets, a),
                    limited ? "its cgroup may have" : "the machine has", cells_bytes(limit, b));
}

static void judge_cache(const struct cli_machine *machine, struct doctor_report *report)
{
    char a[CELL_BYTES], b[CELL_BYTES];
    double all = (double)machine->memory_bytes, available = (double)machine->available_bytes;
    if (all == 0)
        doctor_find(report, "page cache", DOCTOR_UNKNOWN, NULL, "what the page cache has cannot be read");
    else
        doctor_find(report, "page cache", available >= CACHE_LEAST * all ? DOCTOR_GOOD : DOCTOR_BAD,
                    "files have no memory, so they are read from storage every time: end programs that take much, or "
                    "lower memory.samples",
                    "it holds %s of files, and %s of memory is available",
                    cells_bytes((double)machine->page_cache_bytes, a), cells_bytes(available, b));
}

static void judge_descriptors(const json_t *status, struct doctor_report *report)
{
    char todo[DOCTOR_TEXT_BYTES];
    double open = cells_number(cells_at(status, "daemon", "open_fds", NULL));
    double most = cells_number(cells_at(status, "daemon", "max_fds", NULL));
    snprintf(todo, sizeof todo, "raise the limit: LimitNOFILE=%.0f in its unit, or ulimit -n before it is started",
             most < FDS_RAISED ? FDS_RAISED : 2 * most);
    if (open == 0 || most == 0)
        doctor_find(report, "descriptors", DOCTOR_UNKNOWN, NULL, "the daemon does not say how many it has");
    else
        doctor_find(report, "descriptors", open < FDS_FULL * most && most >= FDS_LEAST ? DOCTOR_GOOD : DOCTOR_BAD, todo,
                    "%.0f of %.0f are open", open, most);
}

/* judge_cores compares the setting, for how many threads prepare at the moment says nothing of it. */
static void judge_cores(const json_t *status, const struct cli_machine *machine, struct doctor_report *report)
{
    char todo[DOCTOR_TEXT_BYTES];
    double throttled = machine->periods ? (double)machine->throttled_periods / (double)machine->periods : 0;
    double workers = cells_number(cells_at(status, "daemon", "settings", "threads.workers"));
    double quota = machine->quota_cores, fit = quota < 1 ? 1 : (double)(long)quota;
    bool useful = quota<machine->cores, many = workers> quota + 1; /* useful: to raise the quota */
    if (many)
        snprintf(todo, sizeof todo, "%sset threads.workers from %.0f to %.0f, so that threads do not stop together",
                 useful ? "raise the quota (CPUQuota=), or " : "", workers, fit);
    else
        snprintf(todo, sizeof todo, "%s",
                 useful ? "raise the quota (CPUQuota=)" : "move other programs out of the cgroup of larderd");
    if (machine->cores == 0)
        doctor_find(report, "processors", DOCTOR_UNKNOWN, NULL, "which cores larderd has cannot be read");
    else if (quota > 0)
        doctor_find(report, "processors", throttled < THROTTLED && !many ? DOCTOR_GOOD : DOCTOR_BAD, todo,
                    "%.0f cores, of which its cgroup may use %.1f; it was stopped in %.0f %% of the periods; %.0f "
                    "threads may prepare",
                    machine->cores, quota, 100 * throttled, workers);
    else
        doctor_find(report, "processors", DOCTOR_GOOD, NULL, "%.0f cores, no quota", machine->cores);
}

static void judge_storage(const json_t *status, struct doctor_report *report)
{
    double asked = cells_number(cells_at(status, "daemon", "settings", "storage"));
    double used = (double)json_array_size(cells_at(status, "storage", "classes", NULL));
    if (asked > 0)
        doctor_find(report, "storage", used < asked ? DOCTOR_BAD : DOCTOR_GOOD,
                    "the daemon's log says why (\"storage class left out\"): mend it, and larder drain --for-restart",
                    "%.0f of %.0f storage classes are in use", used, asked);
}

static void judge_page(const json_t *status, struct doctor_report *report)
{
    const json_t *page = cells_at(status, "daemon", "page", NULL);
    char shown[CELL_BYTES];
    if (json_is_string(page))
        doctor_find(report, "page", DOCTOR_GOOD, NULL, "it and the metrics are at %s",
                    cells_printable(page, PAGE_COLUMNS, shown));
    else
        doctor_find(report, "page", DOCTOR_UNKNOWN, NULL,
                    "there is none: metrics.enabled or metrics.port says so, or the daemon's log says why");
}

static void judge_samples(const json_t *status, struct doctor_report *report)
{
    const json_t *bad = cells_at(status, "samples", "bad", NULL), *count;
    const char *reason;
    double sum = 0;
    json_object_foreach((json_t *)bad, reason, count)
        sum += cells_number(count);
    doctor_find(report, "samples", sum == 0 ? DOCTOR_GOOD : DOCTOR_BAD,
                "larder events and the daemon's log name them: replace the files, or leave them out",
                "%.0f of them were bad", sum);
}

void doctor_judge(const json_t *status, const struct cli_machine *machine, struct doctor_report *report)
{
    judge_version(status, report);
    judge_memory(status, machine, report);
    judge_cache(machine, report);
    judge_descriptors(status, report);
    judge_cores(status, machine, report);
    judge_storage(status, report);
    judge_page(status, report);
    judge_samples(status, report);
}

/* ── what is on disk ───────────────────────────────────────────────────────────────────────────────────────────── */

void doctor_look_at_libraries(struct doctor_report *report)
{
    char there[DOCTOR_TEXT_BYTES] = "";
    struct error err;
    for (enum library library = 0; library < LIBRARIES; library++) {
        size_t used = strlen(there);
        if (library_try(library, &err))
            doctor_find(report, "libraries", DOCTOR_BAD, "install it, as docs/reference/install.md has it", "%s",
                        err.text);
        else if (library_file(library))
            snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "", library_file(library));
    }
    if (*there)
        doctor_find(report, "libraries", DOCTOR_GOOD, NULL, "there, to be loaded when needed: %s", there);
}

void doctor_look_at_socket(const char *path, struct doctor_report *report)
{
    char folder[4096];
    struct stat there;
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    else
        strcpy(folder, ".");
    if (stat(folder, &there) != 0)
        doctor_find(report, "socket folder", DOCTOR_BAD, "larderd makes it when it starts; or name another --socket",
                    "%.180s: %s", folder, strerror(errno));
    else
        doctor_find(report, "socket folder",
                    there.st_mode & S_IWOTH && !(there.st_mode & S_ISVTX) ? DOCTOR_BAD : DOCTOR_GOOD,
                    "take the right to write from others: whoever can write there can put a socket of their own "
                    "there",
                    "%.180s: mode %o, user %u", folder, (unsigned)(there.st_mode & 07777), (unsigned)there.st_uid);
    if (stat(path, &there) != 0)
        doctor_find(report, "socket", DOCTOR_BAD, "start larderd, or name its socket with --socket or LARDER_SOCKET",
                    "%.180s: %s", path, strerror(errno));
    else
        doctor_find(report, "socket",
                    S_ISSOCK(there.st_mode) && access(path, R_OK | W_OK) == 0 ? DOCTOR_GOOD : DOCTOR_BAD,
                    "run scripts as the daemon's user, or a daemon of your own", "%.180s: mode %o, user %u", path,
                    (unsigned)(there.st_mode & 07777), (unsigned)there.st_uid);
}

/* place_of writes the path that can be looked at: of a pattern, and where labels are named behind it, the folder. */
static const char *place_of(const char *dataset, char out[4096])
{
    snprintf(out, 4096, "%s", dataset);
    size_t plain = strcspn(out, "*?[{#");
    if (out[plain] && access(dataset, F_OK) != 0) {
        out[plain] = '\0';
        char *slash = strrchr(out, '/');
        if (slash)
            slash[slash == out] = '\0';
    }
    return out;
}

void doctor_look_at_datasets(const json_t *status, struct doctor_report *report)
{
    const json_t *jobs = json_object_get(status, "jobs"), *job;
    size_t i, k;
    json_array_foreach((json_t *)jobs, i, job) {
        const char *path = json_string_value(json_object_get(job, "dataset"));
        char shown[CELL_BYTES], place[4096];
        bool told = !path;
        for (k = 0; k < i && !told; k++)
            told = json_equal(json_object_get(json_array_get(jobs, k), "dataset"), json_object_get(job, "dataset"));
        if (told)
            continue;
        bool readable = access(place_of(path, place), R_OK) == 0;
        doctor_find(report, "dataset", readable ? DOCTOR_GOOD : DOCTOR_BAD,
                    "mount it, or let this user read it; that of larderd must be able to as well", "%s%s%s",
                    cells_printable(json_object_get(job, "dataset"), 120, shown), readable ? "" : ": ",
                    readable ? " can be read" : strerror(errno));
    }
}
