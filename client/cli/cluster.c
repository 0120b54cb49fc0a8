/* cluster.c: the nodes of the daemon's cluster, and what they give each other. Pure: JSON in, text out. */
#include <string.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"

#define NAME_COLUMNS 24
#define NUMBER_COLUMNS 11

/* A node that is known by its id alone is named by the id. */
static const char *name_of(const json_t *node, char buf[CELL_BYTES])
{
    const json_t *name = json_object_get(node, "name");
    return cells_printable(json_is_string(name) ? name : json_object_get(node, "id"), NAME_COLUMNS, buf);
}

/* named finds the node with this id. */
static const char *named(const json_t *nodes, const json_t *id, char buf[CELL_BYTES])
{
    const json_t *node;
    size_t i;
    json_array_foreach((json_t *)nodes, i, node) {
        if (json_equal(json_object_get(node, "id"), id))
            return name_of(node, buf);
    }
    return cells_printable(id, NAME_COLUMNS, buf);
}

static bool is_up(const json_t *node)
{
    const char *state = json_string_value(json_object_get(node, "state"));
    return state && strcmp(state, "UP") == 0;
}

static const char *asked_text(const json_t *node)
{
    if (json_is_true(json_object_get(node, "self")))
        return "itself";
    return json_is_true(json_object_get(node, "asked")) ? "yes" : "no";
}

void cli_cluster_line(const json_t *cluster, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES], c[CELL_BYTES], d[CELL_BYTES];
    const json_t *nodes = json_object_get(cluster, "nodes"), *node;
    size_t i, up = 0;
    if (!json_is_object(cluster))
        return;
    json_array_foreach((json_t *)nodes, i, node)
        up += is_up(node);
    fprintf(out, "cluster  %s: %zu of %zu nodes UP; guests: %s; samples: %s received, %s given\n",
            cells_printable(json_object_get(cluster, "name"), NAME_COLUMNS, a), up, json_array_size(nodes),
            cells_count(cells_field(cluster, "guests"), b), cells_count(cells_field(cluster, "received"), c),
            cells_count(cells_field(cluster, "given"), d));
    json_array_foreach((json_t *)nodes, i, node) {
        if (!is_up(node))
            fprintf(out, "         %s is %s\n", name_of(node, a),
                    cells_printable(json_object_get(node, "state"), NAME_COLUMNS, b));
        else if (!json_is_true(json_object_get(node, "self")) && !json_is_true(json_object_get(node, "asked")))
            fprintf(out, "         %s is not asked now: it did not answer\n", name_of(node, a));
    }
}

struct heads {
    const char *first, *last; /* before and behind the figures */
    const char *all[4];
};

static void print_heads(const struct heads *heads, FILE *out)
{
    cells_left(out, heads->first, NAME_COLUMNS);
    for (size_t i = 0; i < sizeof heads->all / sizeof *heads->all && heads->all[i]; i++)
        cells_right(out, heads->all[i], NUMBER_COLUMNS);
    fprintf(out, "%s\n", heads->last);
}

static void print_counts(const char *first, const json_t *row, const char *const *keys, FILE *out)
{
    char buf[CELL_BYTES];
    cells_left(out, first, NAME_COLUMNS);
    for (size_t i = 0; keys[i]; i++)
        cells_right(out, cells_count(cells_field(row, keys[i]), buf), NUMBER_COLUMNS);
}

static void print_nodes(const json_t *nodes, FILE *out)
{
    static const struct heads heads = {"NODE", "  ADDRESS", {"STATE", "ASKED"}};
    char buf[CELL_BYTES];
    const json_t *node;
    size_t i;
    print_heads(&heads, out);
    json_array_foreach((json_t *)nodes, i, node) {
        cells_left(out, name_of(node, buf), NAME_COLUMNS);
        cells_right(out, cells_printable(json_object_get(node, "state"), NUMBER_COLUMNS, buf), NUMBER_COLUMNS);
        cells_right(out, asked_text(node), NUMBER_COLUMNS);
        fprintf(out, "  %s\n", cells_printable(json_object_get(node, "url"), CELL_BYTES / 4, buf));
    }
}

static void print_jobs(const json_t *jobs, FILE *out)
{
    static const struct heads heads = {"JOB", "  PREPARED", {"RECEIVED", "REFUSED", "MOVED", "BACK"}};
    static const char *const keys[] = {"received", "refused", "moved", "back", NULL};
    char buf[CELL_BYTES];
    const json_t *job;
    size_t i;
    if (json_array_size(jobs) == 0)
        return;
    fputc('\n', out);
    print_heads(&heads, out);
    json_array_foreach((json_t *)jobs, i, job) {
        print_counts(cells_printable(json_object_get(job, "name"), NAME_COLUMNS, buf), job, keys, out);
        fprintf(out, "  %s, %s wanting it\n", json_is_true(json_object_get(job, "homes")) ? "by homes" : "here",
                cells_count(cells_field(job, "trainings"), buf));
    }
}

/* print_parts prints a line for each job and node that has still samples to give to it. */
static void print_parts(const json_t *jobs, const json_t *nodes, FILE *out)
{
    static const struct heads heads = {"STILL TO COME FROM", "  TO", {"LEFT", "ASKED", "WAITING"}};
    static const char *const keys[] = {"left", "asked", "waiting", NULL};
    char buf[CELL_BYTES];
    const json_t *job, *part;
    size_t i, k;
    bool any = false;
    json_array_foreach((json_t *)jobs, i, job) {
        json_array_foreach(json_object_get(job, "parts"), k, part) {
            if (!any) {
                fputc('\n', out);
                print_heads(&heads, out);
            }
            any = true;
            print_counts(named(nodes, json_object_get(part, "node"), buf), part, keys, out);
            fprintf(out, "  %s\n", cells_printable(json_object_get(job, "name"), NAME_COLUMNS, buf));
        }
    }
}

void cli_cluster_print(const json_t *cluster, FILE *out)
{
    char a[CELL_BYTES], b[CELL_BYTES], c[CELL_BYTES];
    const json_t *nodes = json_object_get(cluster, "nodes"), *jobs = json_object_get(cluster, "jobs");
    if (!json_is_object(cluster)) {
        fputs("this daemon is in no cluster\n", out);
        return;
    }
    fprintf(out, "cluster  %s, this node is %s, its id %s\n",
            cells_printable(json_object_get(cluster, "name"), NAME_COLUMNS, a),
            cells_printable(json_object_get(cluster, "node"), NAME_COLUMNS, b),
            cells_printable(json_object_get(cluster, "id"), CELL_BYTES / 4, c));
    fprintf(out, "guests   %s, to which %s samples were sent\n", cells_count(cells_field(cluster, "guests"), a),
            cells_count(cells_field(cluster, "given"), b));
    fprintf(out, "samples  %s received, %s refused", cells_count(cells_field(cluster, "received"), a),
            cells_count(cells_field(cluster, "refused"), b));
    fprintf(out, ", %s moved, %s back, for %s requests\n\n", cells_count(cells_field(cluster, "moved"), a),
            cells_count(cells_field(cluster, "back"), b), cells_count(cells_field(cluster, "requests"), c));
    print_nodes(nodes, out);
    print_jobs(jobs, out);
    print_parts(jobs, nodes, out);
}
