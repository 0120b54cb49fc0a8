#include "server/control/live.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static void add_line(void *rows, const char *line, size_t len_bytes)
{
    json_t *text = json_stringn(line, len_bytes);
    if (text) /* a line that was cut off within a character is left out */
        json_array_append_new(rows, text);
}

char *live_lines_json(enum log_recent kind)
{
    json_t *rows = json_array();
    log_recent_read(kind, add_line, rows);
    char *text = rows ? json_dumps(rows, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(rows);
    return text;
}

char *live_json(char *status, char *tree)
{
    char *warnings = live_lines_json(LOG_RECENT_WARNINGS), *all = NULL;
    if (!status || !tree || !warnings ||
        asprintf(&all, "{\"v\":1,\"status\":%s,\"tree\":%s,\"warnings\":%s}", status, tree, warnings) < 0)
        all = NULL;
    free(status);
    free(tree);
    free(warnings);
    return all;
}
