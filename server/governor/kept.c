#include "server/governor/kept.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/file.h"
#include "common/check.h"
#include "common/log.h"

#define NAME "larder preparing rates "
#define TITLE NAME "1\n"
#define SUM "checksum "
#define RATE_MAX 1e9 /* samples a second */

enum { SUM_BYTES = sizeof SUM - 1 + 16 + 1, FILE_BYTES_MAX = 1 << 20 };

void kept_create(struct kept *kept)
{
    *kept = (struct kept){.rows = xcalloc(KEPT_ROWS_MAX, sizeof *kept->rows)};
}

void kept_free(struct kept *kept)
{
    free(kept->rows);
    *kept = (struct kept){.rows = NULL};
}

void kept_put(struct kept *kept, const struct kept_row *row)
{
    uint32_t place = 0;
    if (row->count == 0)
        return;
    while (place < kept->count &&
           (kept->rows[place].fingerprint != row->fingerprint || kept->rows[place].size != row->size))
        place++;
    if (place == kept->count && kept->count < KEPT_ROWS_MAX)
        kept->count++;
    else if (place == kept->count)
        place--;
    memmove(&kept->rows[1], &kept->rows[0], place * sizeof *kept->rows);
    kept->rows[0] = *row;
}

/* ── as text ── */

char *kept_encode(const struct kept *kept, size_t *len_bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len_bytes);
    CHECK(out);
    fputs(TITLE, out);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct kept_row *row = &kept->rows[i];
        fprintf(out, "%016" PRIx64 " %u %.6g", row->fingerprint, row->size, row->part);
        for (uint32_t at = 0; at < row->count; at++)
            fprintf(out, " %u=%.6g", row->points[at].threads, row->points[at].rate);
        fputc('\n', out);
    }
    CHECK(fflush(out) == 0);
    fprintf(out, SUM "%016" PRIx64 "\n", (uint64_t)XXH3_64bits(text, *len_bytes));
    CHECK(fclose(out) == 0);
    return text;
}

static bool within(double value, double most)
{
    return isfinite(value) && value >= 0 && value <= most;
}

static bool read_point(const char **at, struct governor_point *point)
{
    char *end;
    unsigned long threads = strtoul(*at, &end, 10);
    if (end == *at || *end != '=' || threads < 1 || threads > GOVERNOR_THREADS_MAX)
        return false;
    *at = end + 1;
    *point = (struct governor_point){(uint32_t)threads, strtod(*at, &end)};
    bool good = end != *at && within(point->rate, RATE_MAX) && point->rate > 0;
    *at = end;
    return good;
}

static bool read_row(const char *line, struct kept_row *row)
{
    int used;
    row->count = 0;
    if (sscanf(line, "%16" SCNx64 " %2u %lf%n", &row->fingerprint, &row->size, &row->part, &used) != 3 ||
        row->size >= KEPT_SIZES_MAX || !within(row->part, 1))
        return false;
    const char *at = line + used;
    while (*at == ' ' && row->count < GOVERNOR_KNOTS) {
        at++;
        if (!read_point(&at, &row->points[row->count++]))
            return false;
    }
    return *at == '\0' && row->count > 0;
}

static int read_rows(char *rest, struct kept *out)
{
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        if (out->count == KEPT_ROWS_MAX || !read_row(line, &out->rows[out->count])) {
            out->count = 0;
            return LARDER_EFORMAT;
        }
        out->count++;
    }
    return 0;
}

int kept_decode(const char *bytes, size_t len_bytes, struct kept *out, struct error *err)
{
    char sum[SUM_BYTES + 1];
    size_t title = sizeof TITLE - 1;
    if (len_bytes >= sizeof NAME - 1 && memcmp(bytes, NAME, sizeof NAME - 1) == 0 &&
        (len_bytes < title || memcmp(bytes, TITLE, title) != 0))
        return error_set(err, LARDER_EVERSION, "another version of larderd wrote it");
    if (len_bytes < title + SUM_BYTES || memcmp(bytes, TITLE, title) != 0 || memchr(bytes, 0, len_bytes))
        return error_set(err, LARDER_EFORMAT, "it is damaged");
    size_t rows = len_bytes - SUM_BYTES;
    snprintf(sum, sizeof sum, SUM "%016" PRIx64 "\n", (uint64_t)XXH3_64bits(bytes, rows));
    if (memcmp(bytes + rows, sum, SUM_BYTES) != 0)
        return error_set(err, LARDER_EFORMAT, "it is damaged: its checksum is another");
    char *text = xmalloc(rows - title + 1);
    memcpy(text, bytes + title, rows - title);
    text[rows - title] = '\0';
    int code = read_rows(text, out);
    free(text);
    return code ? error_set(err, code, "it is damaged: a row has no sense") : 0;
}

/* ── the file ── */

void kept_load(struct kept *kept, const char *path)
{
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct error err;
    int code = file_load(&(struct file_wanted){.path = path, .max_bytes = FILE_BYTES_MAX}, &bytes, &len_bytes, &err);
    if (!code)
        code = kept_decode((const char *)bytes, len_bytes, kept, &err);
    if (code && code != LARDER_ENOENT)
        log_warn(
            "msg=\"preparing rates of an earlier run are not used; they are measured anew\" file=\"%s\" err=\"%s\"",
            path, err.text);
    free(bytes);
}

void kept_save(const struct kept *kept, const char *path)
{
    size_t len_bytes;
    struct error err;
    if (kept->count == 0)
        return;
    char *text = kept_encode(kept, &len_bytes);
    if (file_replace(path, 0600, text, len_bytes, &err))
        log_warn("msg=\"preparing rates are not kept\" err=\"%s\"", err.text);
    free(text);
}
