/* lists.c: `larder datasets`, `larder tree`, `larder events`, `larder cluster status`: one list each. */
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/line.h"

#define PATH_COLUMNS 56
#define INDENT_MOST 40
#define STORE_COLUMNS 24

static int done(void)
{
    return fflush(stdout) || ferror(stdout) ? CLI_FAILED : CLI_OK;
}

static int dump(const json_t *rows)
{
    json_dumpf(rows, stdout, CLI_JSON);
    putchar('\n');
    return done();
}

/* datasets_of returns a row for each dataset that jobs train on, with the jobs' names. */
static json_t *datasets_of(const json_t *status)
{
    json_t *rows = json_array(), *row;
    const json_t *jobs = json_object_get(status, "jobs"), *job;
    size_t i, k;
    json_array_foreach((json_t *)jobs, i, job) {
        json_t *path = json_object_get(job, "dataset"), *store = json_object_get(job, "store"), *found = NULL;
        json_array_foreach(rows, k, row) {
            bool same = json_equal(json_object_get(row, "dataset"), path) &&
                        json_equal(json_object_get(row, "samples"), json_object_get(job, "dataset_samples")) &&
                        (!store || json_equal(json_object_get(row, "store"), store));
            found = same ? row : found;
        }
        if (!found) {
            found = json_pack("{s:O?,s:O?,s:O?,s:[]}", "dataset", path, "samples",
                              json_object_get(job, "dataset_samples"), "store", store, "jobs");
            json_array_append_new(rows, found);
        }
        json_array_append(json_object_get(found, "jobs"), json_object_get(job, "name"));
    }
    return rows;
}

/* print_store says how a dataset was packed. */
static void print_store(const json_t *store)
{
    const json_t *side = json_object_get(store, "max_side"), *rows = json_object_get(store, "restart_rows");
    const json_t *planes = json_object_get(store, "planes");
    char buf[CELL_BYTES], number[CELL_BYTES];
    int len = snprintf(buf, sizeof buf, "%s", json_is_object(store) ? "a store" : "not packed");
    if (json_is_integer(side))
        len += snprintf(buf + len, sizeof buf - (size_t)len, ", %s shrunk to %u (quality %u)",
                        cells_count(cells_field(store, "shrunk"), number), (unsigned)json_integer_value(side),
                        (unsigned)json_integer_value(json_object_get(store, "quality")));
    if (json_is_integer(planes))
        len += snprintf(buf + len, sizeof buf - (size_t)len, ", planes in %s",
                        cells_count(cells_field(store, "planes"), number));
    if (json_integer_value(rows) > 0 || (json_is_integer(rows) && !json_is_integer(planes)))
        snprintf(buf + len, sizeof buf - (size_t)len, ", restart rows in %s",
                 cells_count(cells_field(store, "restart_rows"), number));
    cells_left(stdout, buf, STORE_COLUMNS);
}

static void print_datasets(const json_t *rows)
{
    char buf[CELL_BYTES];
    size_t i, k;
    const json_t *row, *name;
    if (json_array_size(rows) == 0)
        puts("no job trains on a dataset now");
    else
        printf("%12s  %-*s  %-*s  JOBS\n", "SAMPLES", PATH_COLUMNS, "DATASET", STORE_COLUMNS, "KIND");
    json_array_foreach((json_t *)rows, i, row) {
        printf("%12s  ", cells_count(cells_field(row, "samples"), buf));
        cells_left(stdout, cells_printable(json_object_get(row, "dataset"), PATH_COLUMNS, buf), PATH_COLUMNS);
        fputs("  ", stdout);
        print_store(json_object_get(row, "store"));
        json_array_foreach(json_object_get(row, "jobs"), k, name)
            printf("%s%s", k ? ", " : "  ", cells_printable(name, PATH_COLUMNS, buf));
        putchar('\n');
    }
}

int cli_datasets(const struct cli_line *line)
{
    struct cli_look look;
    struct error err;
    if (cli_look(line->socket, &look, &err))
        return cli_fail(&err);
    json_t *rows = datasets_of(look.now);
    int status = CLI_OK;
    if (line->json)
        status = dump(rows);
    else
        print_datasets(rows);
    json_decref(rows);
    cli_look_clear(&look);
    return status ? status : done();
}

/* ask_rows asks for a list. */
static int ask_rows(const struct cli_line *line, const char *what, json_t **rows)
{
    struct cli_peer *peer = NULL;
    struct error err;
    int rc = cli_connect(line->socket, &peer, &err);
    if (rc == 0)
        rc = cli_ask_field(peer, what, what, rows, &err);
    cli_disconnect(peer);
    return rc ? cli_fail(&err) : CLI_OK;
}

/* print_drawn tells of the jobs that have nothing left to draw until their next epoch, and returns how many there are.
 * The rows ascend by what is left, so these come first. They are in no vertex of the tree. */
static size_t print_drawn(const json_t *rows)
{
    char name[CELL_BYTES];
    size_t drawn = 0;
    for (; drawn < json_array_size(rows); drawn++) {
        const json_t *row = json_array_get(rows, drawn);
        if (json_integer_value(json_object_get(row, "left")) > 0)
            break;
        printf("%s has drawn all samples of its epoch\n",
               cells_printable(json_object_get(row, "job"), PATH_COLUMNS, name));
    }
    return drawn;
}

/* print_tree draws the vertices: those that share the most at the left. */
static void print_tree(const json_t *rows)
{
    char buf[CELL_BYTES], name[CELL_BYTES];
    size_t n = json_array_size(rows);
    if (n == 0)
        puts("no job draws samples that others could draw too");
    int indent = 0;
    for (size_t i = print_drawn(rows); i < n; i++) {
        const json_t *row = json_array_get(rows, i);
        if (i + 1 < n && cells_field(row, "shared") > 0) {
            printf("%*s%s in common to %s and the %zu below\n", indent, "",
                   cells_count(cells_field(row, "shared"), buf),
                   cells_printable(json_object_get(row, "job"), PATH_COLUMNS, name), n - 1 - i);
            indent += indent < INDENT_MOST ? 2 : 0;
        }
        printf("%*s%s of %s alone", indent, "", cells_count(cells_field(row, "own"), buf),
               cells_printable(json_object_get(row, "job"), PATH_COLUMNS, name));
        printf(", which has %s left\n", cells_count(cells_field(row, "left"), buf));
    }
}

int cli_tree(const struct cli_line *line)
{
    json_t *rows = NULL;
    int status = ask_rows(line, "tree", &rows);
    if (status == CLI_OK && line->json)
        status = dump(rows);
    else if (status == CLI_OK)
        print_tree(rows);
    json_decref(rows);
    return status ? status : done();
}

int cli_cluster(const struct cli_line *line)
{
    struct cli_look look;
    struct error err;
    if (cli_look(line->socket, &look, &err))
        return cli_fail(&err);
    json_t *cluster = json_object_get(look.now, "cluster");
    if (line->json) {
        json_dumpf(cluster ? cluster : json_null(), stdout, CLI_JSON | JSON_ENCODE_ANY);
        putchar('\n');
    } else {
        cli_cluster_print(cluster, stdout);
    }
    cli_look_clear(&look);
    return done();
}

int cli_events(const struct cli_line *line)
{
    json_t *rows = NULL;
    const json_t *row;
    size_t i;
    int status = ask_rows(line, "events", &rows);
    if (status == CLI_OK && line->json)
        status = dump(rows);
    else
        json_array_foreach(rows, i, row)
            puts(json_is_string(row) ? json_string_value(row) : "-");
    json_decref(rows);
    return status ? status : done();
}
