/* origins_curves.c: the curves between runs, as text: a title, then for each curve `class` or `source`, its name, and
 * what a byte costs at each knot, in nanoseconds. They are a first guess: a wrong one is corrected while running. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file.h"
#include "common/check.h"
#include "common/log.h"
#include "server/storage/origins_priv.h"

#define TITLE "larder curves 1\n"
#define BYTES_MAX (64u << 10)
#define COST_MAX 1e9 /* a second for a byte */

static struct origin *find(struct origins *origins, const char *kind, uint64_t name)
{
    for (uint32_t i = 0; strcmp(kind, "class") == 0 && i < origins->n_classes; i++) {
        if (origins->classes[i].origin.name == name)
            return &origins->classes[i].origin;
    }
    bool room = strcmp(kind, "source") == 0 && origins->n_sources < ORIGIN_SOURCES_MAX;
    return room ? &origins->sources[origins_source_locked(origins, name)] : NULL;
}

static void load_line(struct origins *origins, const char *line)
{
    char kind[8];
    uint64_t name;
    int used;
    if (sscanf(line, "%7s %16" SCNx64 "%n", kind, &name, &used) != 2)
        return;
    struct origin *origin = find(origins, kind, name);
    struct curve curve = {.seen = {0}};
    for (uint32_t knot = 0; origin && knot < CURVE_KNOTS; knot++) {
        char *end;
        double cost = strtod(line + used, &end);
        if (end == line + used || !isfinite(cost) || cost < 0 || cost > COST_MAX)
            return;
        curve.cost[knot] = cost / 1e9;
        curve.seen[knot] = cost > 0;
        used = (int)(end - line);
    }
    if (origin) {
        origin->curve = curve;
        origin->earlier = true;
    }
}

void origins_curves_load(struct origins *origins)
{
    uint8_t *bytes = NULL;
    size_t len;
    struct error err;
    if (!origins->curves)
        return;
    int code = file_load(&(struct file_wanted){.path = origins->curves, .max_bytes = BYTES_MAX}, &bytes, &len, &err);
    if (code) {
        if (code != LARDER_ENOENT)
            log_warn("msg=\"the curves of storage classes are measured anew\" err=\"%s\"", err.text);
        return;
    }
    bytes[len] = '\0'; /* file_load has room for it */
    char *rest = (char *)bytes;
    if (len > strlen(TITLE) && strncmp(rest, TITLE, strlen(TITLE)) == 0) {
        rest += strlen(TITLE);
        for (char *line; (line = strsep(&rest, "\n"));)
            load_line(origins, line);
    } else {
        log_warn("msg=\"the curves of storage classes are measured anew: the file is damaged\" file=\"%s\"",
                 origins->curves);
    }
    free(bytes);
}

static void print_curve(FILE *out, const char *kind, const struct origin *origin)
{
    fprintf(out, "%s %016" PRIx64, kind, origin->name);
    for (uint32_t knot = 0; knot < CURVE_KNOTS; knot++)
        fprintf(out, " %.6g", origin->curve.cost[knot] * 1e9);
    fputc('\n', out);
}

void origins_curves_save(const struct origins *origins)
{
    char *text = NULL;
    size_t len = 0;
    struct error err;
    FILE *out = origins->curves ? open_memstream(&text, &len) : NULL;
    if (!out)
        return;
    fputs(TITLE, out);
    for (uint32_t i = 0; i < origins->n_classes; i++)
        print_curve(out, "class", &origins->classes[i].origin);
    for (uint32_t i = 0; i < origins->n_sources; i++)
        print_curve(out, "source", &origins->sources[i]);
    if (fclose(out) == 0 && file_replace(origins->curves, 0600, text, len, &err))
        log_warn("msg=\"the curves of storage classes are not kept\" err=\"%s\"", err.text);
    free(text);
}
