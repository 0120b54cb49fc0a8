/* cells.h: parts of JSON, and texts of figures, for what is shown to a person. Pure; what is missing is 0 or "-". */
#ifndef LARDER_CLIENT_CLI_CELLS_H
#define LARDER_CLIENT_CLI_CELLS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define CELL_BYTES 256

/* cells_at follows keys up to the first NULL: cells_at(status, "memory", "arena", NULL). */
const json_t *cells_at(const json_t *json, const char *a, const char *b, const char *c);
double cells_number(const json_t *json);
double cells_field(const json_t *json, const char *key);
/* cells_rate returns what a counter grew by a second between two snapshots; negative when there is no telling. */
double cells_rate(double now, double before, double elapsed_s);

/* The following write into buf and return it. cells_bytes writes "1.5 GiB", cells_duration "1 h 2 min". cells_count
 * writes a count with its thousands apart, cells_rate_text "-" for a negative rate. cells_printable copies a text
 * without control characters, cut on the left to max columns, "-" for none. */
const char *cells_bytes(double bytes, char buf[CELL_BYTES]);
const char *cells_duration(double seconds, char buf[CELL_BYTES]);
const char *cells_count(double value, char buf[CELL_BYTES]);
const char *cells_rate_text(double per_second, char buf[CELL_BYTES]);
const char *cells_printable(const json_t *json, size_t max, char buf[CELL_BYTES]);

/* cells_name writes the name of one of the jobs, as cells_printable does; where another job's looks the same, with the
 * job's number behind it: "train #17". */
const char *cells_name(const json_t *jobs, const json_t *job, size_t max, char buf[CELL_BYTES]);

size_t cells_columns(const char *text); /* characters of UTF-8 */
/* cells_left and cells_right write a text, filled up to the width; cells_right has a gap before it. */
void cells_left(FILE *out, const char *text, size_t width);
void cells_right(FILE *out, const char *text, size_t width);

#endif
