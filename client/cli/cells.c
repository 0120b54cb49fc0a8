/* cells.c: parts of JSON, and texts of figures, for what is shown to a person. Pure.
 *
 * Texts in a status are clients' bytes: nothing of them may reach the terminal as a control sequence. */
#include "client/cli/cells.h"

#include <string.h>

const json_t *cells_at(const json_t *json, const char *a, const char *b, const char *c)
{
    json = json_object_get(json, a);
    if (b)
        json = json_object_get(json, b);
    return c ? json_object_get(json, c) : json;
}

double cells_number(const json_t *json)
{
    return json_is_number(json) ? json_number_value(json) : 0;
}

double cells_field(const json_t *json, const char *key)
{
    return cells_number(json_object_get(json, key));
}

const char *cells_bytes(double bytes, char buf[CELL_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(buf, CELL_BYTES, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return buf;
}

const char *cells_duration(double seconds, char buf[CELL_BYTES])
{
    unsigned long s = seconds > 0 && seconds < 1e12 ? (unsigned long)seconds : 0;
    if (s >= 86400)
        snprintf(buf, CELL_BYTES, "%lu d %lu h", s / 86400, s % 86400 / 3600);
    else if (s >= 3600)
        snprintf(buf, CELL_BYTES, "%lu h %lu min", s / 3600, s % 3600 / 60);
    else if (s >= 60)
        snprintf(buf, CELL_BYTES, "%lu min %lu s", s / 60, s % 60);
    else
        snprintf(buf, CELL_BYTES, "%lu s", s);
    return buf;
}

const char *cells_count(double value, char buf[CELL_BYTES])
{
    char digits[64];
    int len = snprintf(digits, sizeof digits, "%.0f", value);
    size_t to = 0;
    for (int i = 0; i < len && len < (int)sizeof digits; i++) {
        buf[to++] = digits[i];
        if ((len - i) % 3 == 1 && i + 1 < len && digits[i] != '-')
            buf[to++] = ',';
    }
    buf[to] = '\0';
    return buf;
}

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t cells_columns(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += !continues(*text);
    return count;
}

const char *cells_printable(const json_t *json, size_t max, char buf[CELL_BYTES])
{
    const char *text = json_string_value(json);
    size_t len = 0, skip;
    if (!text || !*text)
        return strcpy(buf, "-");
    skip = cells_columns(text) > max ? cells_columns(text) - (max - 1) : 0;
    if (skip) {
        strcpy(buf, "…");
        len = strlen(buf);
    }
    for (; skip > 0 || continues(*text); text++)
        skip -= !continues(*text);
    for (; *text && len < CELL_BYTES - 5; text++) {
        unsigned char byte = (unsigned char)*text;
        bool c1 = byte == 0xc2 && (unsigned char)text[1] < 0xa0;
        buf[len++] = byte < ' ' || byte == 0x7f || c1 ? '?' : *text;
        text += c1; /* its second byte too */
    }
    buf[len] = '\0';
    return buf;
}

/* looks_like tells whether two names look the same when each is cut on the left to max columns. */
static bool looks_like(const char *a, const char *b, size_t max)
{
    size_t long_a = cells_columns(a), long_b = cells_columns(b);
    if (long_a <= max || long_b <= max)
        return strcmp(a, b) == 0;
    for (size_t skip = long_a - (max - 1); skip > 0 || continues(*a); a++)
        skip -= !continues(*a);
    for (size_t skip = long_b - (max - 1); skip > 0 || continues(*b); b++)
        skip -= !continues(*b);
    return strcmp(a, b) == 0;
}

const char *cells_name(const json_t *jobs, const json_t *job, size_t max, char buf[CELL_BYTES])
{
    const char *name = json_string_value(json_object_get(job, "name"));
    char number[24] = "";
    const json_t *other;
    size_t i;
    json_array_foreach((json_t *)jobs, i, other) {
        const char *called = json_string_value(json_object_get(other, "name"));
        if (other != job && cells_field(job, "id") > 0 && name && called && looks_like(name, called, max)) {
            snprintf(number, sizeof number, " #%.0f", cells_field(job, "id"));
            break;
        }
    }
    cells_printable(json_object_get(job, "name"), max - strlen(number), buf);
    strncat(buf, number, CELL_BYTES - 1 - strlen(buf));
    return buf;
}

static int padding(const char *text, size_t width)
{
    size_t used = cells_columns(text);
    return (int)(used < width ? width - used : 0);
}

void cells_left(FILE *out, const char *text, size_t width)
{
    fprintf(out, "%s%*s", text, padding(text, width), "");
}

void cells_right(FILE *out, const char *text, size_t width)
{
    fprintf(out, "  %*s%s", padding(text, width), "", text);
}

double cells_rate(double now, double before, double elapsed_s)
{
    return elapsed_s > 0 && now >= before ? (now - before) / elapsed_s : -1;
}

const char *cells_rate_text(double per_second, char buf[CELL_BYTES])
{
    if (per_second < 0)
        return strcpy(buf, "-");
    if (per_second >= 100)
        return cells_count(per_second, buf);
    snprintf(buf, CELL_BYTES, "%.1f", per_second);
    return buf;
}
