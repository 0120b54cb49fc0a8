/* value.c: one setting's text to its value and back. No state. */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/config/config_priv.h"

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"TiB", UINT64_C(1) << 40}, {"GiB", UINT64_C(1) << 30},      {"MiB", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10}, {"TB", UINT64_C(1000000000000)}, {"GB", UINT64_C(1000000000)},
    {"MB", UINT64_C(1000000)},  {"KB", UINT64_C(1000)},          {"kB", UINT64_C(1000)},
    {"B", UINT64_C(1)},
};
#define N_UNITS (sizeof units / sizeof *units)

const char *config_shown(const char *text)
{
    enum { SHOWN_MAX = 60, BUFFERS = 4 };
    static _Thread_local char buffers[BUFFERS][SHOWN_MAX + 4];
    static _Thread_local unsigned turn;
    char *out = buffers[turn++ % BUFFERS];
    size_t len = 0;
    while (text[len] && len < SHOWN_MAX) {
        out[len] = (unsigned char)text[len] < ' ' || text[len] == 0x7f ? '?' : text[len];
        len++;
    }
    bool cut = text[len] != '\0';
    while (cut && len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) /* not in the middle of a character */
        len--;
    strcpy(out + len, cut ? "…" : "");
    return out;
}

void config_bytes_print(uint64_t bytes, char *buf, size_t cap)
{
    for (size_t i = 0; i < 4; i++) {
        if (bytes >= units[i].bytes) {
            snprintf(buf, cap, bytes % units[i].bytes ? "%.1f %s" : "%.0f %s", (double)bytes / (double)units[i].bytes,
                     units[i].name);
            return;
        }
    }
    snprintf(buf, cap, "%llu B", (unsigned long long)bytes);
}

/* digits reads decimal digits at *at and steps behind them; false when there are none or they overflow. */
static bool digits(const char **at, uint64_t *out)
{
    uint64_t value = 0;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++) {
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

/* fraction reads ".5" at *at, when it is there. */
static bool fraction(const char **at, double *out)
{
    double scale = 0.1;
    *out = 0;
    if (**at != '.')
        return true;
    (*at)++;
    if (!isdigit((unsigned char)**at))
        return false;
    for (; isdigit((unsigned char)**at); (*at)++, scale /= 10)
        *out += scale * (**at - '0');
    return true;
}

static int parse_count(const struct config_row *row, struct config_scalar value, uint64_t *out, struct error *err)
{
    const char *at = value.text;
    uint64_t count;
    bool number = !value.quoted && digits(&at, &count) && *at == '\0';
    if (number && count >= row->min && count <= row->max) {
        *out = count;
        return 0;
    }
    return error_set(err, LARDER_EINVAL, "%s%s%s %s: write a whole number from %llu to %llu (%s), without quotes",
                     number ? "" : "'", config_shown(value.text), number ? "" : "'",
                     number ? "is out of range" : "is not a whole number", (unsigned long long)row->min,
                     (unsigned long long)row->max, row->unit);
}

static int parse_width(const struct config_row *row, struct config_scalar value, uint64_t *out, struct error *err)
{
    bool half = strcmp(value.text, "half") == 0;
    if (value.quoted || !(half || strcmp(value.text, "off") == 0))
        return parse_count(row, value, out, err);
    *out = half ? CONFIG_WIDTH_HALF : 0;
    return 0;
}

/* amount reads a number and returns the unit behind it, with or without blanks between; NULL when there is no
 * number. */
static const char *amount(const char *text, double *out)
{
    uint64_t whole;
    double part;
    if (!digits(&text, &whole) || !fraction(&text, &part))
        return NULL;
    *out = (double)whole + part;
    return text + strspn(text, " ");
}

static bool parse_percent(const char *text, double *out)
{
    const char *unit = amount(text, out);
    return unit && strcmp(unit, "%") == 0;
}

static bool parse_size(const char *text, double *out)
{
    double number;
    const char *unit = amount(text, &number);
    for (size_t i = 0; unit && i < N_UNITS; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            *out = number * (double)units[i].bytes;
            return true;
        }
    }
    return false;
}

static int parse_bytes(const struct config_row *row, struct config_scalar value, const struct config_machine *machine,
                       uint64_t *out, struct error *err)
{
    double bytes, percent;
    char min[32], max[32], memory[32], got[32];
    config_bytes_print(row->min, min, sizeof min);
    config_bytes_print(row->max, max, sizeof max);
    config_bytes_print(machine->memory_bytes, memory, sizeof memory);
    if (row->kind == CONFIG_BYTES && parse_percent(value.text, &percent)) {
        if (percent <= 0 || percent > 100)
            return error_set(err, LARDER_EINVAL,
                             "%s is out of range: a percentage of the memory is above 0%% and at most 100%%",
                             config_shown(value.text));
        bytes = percent / 100 * (double)machine->memory_bytes;
    } else if (!parse_size(value.text, &bytes)) {
        return error_set(err, LARDER_EINVAL,
                         "'%s' is not a size: write a number with a unit (KiB, MiB, GiB, TiB, KB, MB, GB, TB or B), "
                         "such as %s",
                         config_shown(value.text),
                         row->kind == CONFIG_BYTES ? "512MiB, or a percentage of the memory, such as 25%" : "100GiB");
    }
    if (bytes < (double)row->min || bytes > (double)row->max) {
        config_bytes_print(bytes < 1e18 ? (uint64_t)bytes : UINT64_C(1000000000000000000), got, sizeof got);
        return error_set(err, LARDER_EINVAL, "%s is out of range (it is %s): write a size from %s to %s",
                         config_shown(value.text), got, min, max);
    }
    if (row->kind == CONFIG_BYTES && bytes > (double)machine->memory_bytes)
        return error_set(err, LARDER_EINVAL,
                         "%s is more than the %s of memory this machine (or cgroup) has: write less",
                         config_shown(value.text), memory);
    *out = (uint64_t)bytes;
    return 0;
}

static int parse_share(const struct config_row *row, struct config_scalar value, double *out, struct error *err)
{
    double percent;
    if (!parse_percent(value.text, &percent))
        return error_set(err, LARDER_EINVAL, "'%s' is not a percentage: write one from %llu%% to %llu%%",
                         config_shown(value.text), (unsigned long long)row->min, (unsigned long long)row->max);
    if (percent < (double)row->min || percent > (double)row->max)
        return error_set(err, LARDER_EINVAL, "%s is out of range: write a percentage from %llu%% to %llu%%",
                         config_shown(value.text), (unsigned long long)row->min, (unsigned long long)row->max);
    *out = percent / 100;
    return 0;
}

static int parse_bad(const struct config_row *row, struct config_scalar value, struct config_bad *out,
                     struct error *err)
{
    double percent = 0;
    uint64_t count = 0;
    if (!value.quoted && strcmp(value.text, "auto") == 0) {
        *out = (struct config_bad){.automatic = true, .count = CONFIG_BAD_AUTO_COUNT, .share = CONFIG_BAD_AUTO_SHARE};
        return 0;
    }
    if (parse_percent(value.text, &percent)) {
        if (percent > 100)
            return error_set(err, LARDER_EINVAL, "%s is out of range: write a percentage from 0%% to 100%%",
                             config_shown(value.text));
        *out = (struct config_bad){.share = percent / 100};
        return 0;
    }
    int code = parse_count(row, value, &count, err);
    if (code)
        return error_set(
            err, code, "'%s' is neither auto, a whole number nor a percentage: write one of them, such as 100 or 0.5%%",
            config_shown(value.text));
    *out = (struct config_bad){.count = count};
    return 0;
}

static int parse_choice(const struct config_row *row, const char *text, int *out, struct error *err)
{
    int index = 0;
    for (const char *at = row->unit; at; index++) {
        const char *end = strchr(at, '|');
        size_t len = end ? (size_t)(end - at) : strlen(at);
        if (strlen(text) == len && strncmp(text, at, len) == 0) {
            *out = index;
            return 0;
        }
        at = end ? end + 1 : NULL;
    }
    return error_set(err, LARDER_EINVAL, "'%s' is none of the choices: write one of %s", config_shown(text), row->unit);
}

static int parse_bool(struct config_scalar value, bool *out, struct error *err)
{
    if (value.quoted || (strcmp(value.text, "true") != 0 && strcmp(value.text, "false") != 0))
        return error_set(err, LARDER_EINVAL, "'%s' is neither true nor false: write one of the two, without quotes",
                         config_shown(value.text));
    *out = value.text[0] == 't';
    return 0;
}

static int parse_path(const struct config_row *row, struct config_scalar value, char **out, struct error *err)
{
    size_t len = strlen(value.text);
    const char *what = row->kind == CONFIG_FOLDER ? "an absolute path"
                       : row->min                 ? "an absolute path or auto"
                                                  : "an absolute path, auto or none";
    if (row->kind == CONFIG_PATH && !value.quoted &&
        (strcmp(value.text, "auto") == 0 || (row->min == 0 && strcmp(value.text, "none") == 0))) {
        free(*out);
        *out = value.text[0] == 'a' ? NULL : xstrdup("");
        return 0;
    }
    if (value.text[0] != '/')
        return error_set(err, LARDER_EINVAL, "'%s' is not an absolute path: write %s", config_shown(value.text), what);
    if (len > row->max)
        return error_set(err, LARDER_EINVAL,
                         "the path '%s' has %zu bytes: at most %llu are possible here, choose a shorter one",
                         config_shown(value.text), len, (unsigned long long)row->max);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)value.text[i] < ' ')
            return error_set(err, LARDER_EINVAL, "the path '%s' has a control character in it: write %s",
                             config_shown(value.text), what);
    }
    free(*out);
    *out = xstrdup(value.text);
    return 0;
}

static int parse_address(const char *text, char **out, struct error *err)
{
    struct in_addr v4;
    struct in6_addr v6;
    bool loopback = inet_pton(AF_INET, text, &v4) == 1
                        ? ntohl(v4.s_addr) >> 24 == 127
                        : inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    if (!loopback)
        return error_set(err, LARDER_EINVAL,
                         "'%s' is not a loopback address: write 127.0.0.1 or ::1 (the endpoint has no access control; "
                         "put a proxy in front of it to reach it from elsewhere)",
                         config_shown(text));
    free(*out);
    *out = xstrdup(text);
    return 0;
}

static int parse_text(const struct config_row *row, const char *text, char **out, struct error *err)
{
    size_t len = strlen(text);
    if (len < row->min || len > row->max)
        return error_set(err, LARDER_EINVAL, "'%s' has %zu bytes: write %llu to %llu (%s)", config_shown(text), len,
                         (unsigned long long)row->min, (unsigned long long)row->max, row->unit);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < ' ')
            return error_set(err, LARDER_EINVAL, "'%s' has a control character in it: remove it", config_shown(text));
    }
    free(*out);
    *out = xstrdup(text);
    return 0;
}

/* One text alone is a list only where it says that there are none. config_list_apply reads the others. */
static int parse_empty_list(const struct config_row *row, struct config_scalar value, struct config_text **out,
                            struct error *err)
{
    if (value.quoted || strcmp(value.text, "[]") != 0)
        return error_set(err, LARDER_EINVAL, "'%s' is not a list: write `[%s]` (%s)", config_shown(value.text),
                         config_shown(value.text), row->unit);
    config_list_free(*out);
    *out = NULL;
    return 0;
}

int config_value_set(struct config *config, const struct config_row *row, struct config_scalar value,
                     const struct config_machine *machine, struct error *err)
{
    return config_value_read((char *)config + row->offset, row, value, machine, err);
}

int config_value_read(void *field, const struct config_row *row, struct config_scalar value,
                      const struct config_machine *machine, struct error *err)
{
    if (!value.quoted && (value.text[0] == '\0' || strcmp(value.text, "~") == 0 || strcmp(value.text, "null") == 0))
        return error_set(err, LARDER_EINVAL,
                         "no value is given: write one (%s), or remove the line for the default, %s", row->unit,
                         row->initial);
    switch (row->kind) {
    case CONFIG_BOOL: return parse_bool(value, field, err);
    case CONFIG_COUNT: return parse_count(row, value, field, err);
    case CONFIG_WIDTH: return parse_width(row, value, field, err);
    case CONFIG_BYTES:
    case CONFIG_SIZE: return parse_bytes(row, value, machine, field, err);
    case CONFIG_SHARE: return parse_share(row, value, field, err);
    case CONFIG_BAD: return parse_bad(row, value, field, err);
    case CONFIG_CHOICE: return parse_choice(row, value.text, field, err);
    case CONFIG_PATH:
    case CONFIG_FOLDER: return parse_path(row, value, field, err);
    case CONFIG_ADDRESS: return parse_address(value.text, field, err);
    case CONFIG_TEXT: return parse_text(row, value.text, field, err);
    case CONFIG_LIST: return parse_empty_list(row, value, field, err);
    }
    CHECK(!"a kind of setting that nobody reads");
    return LARDER_EINVAL;
}

static void print_bad(const struct config_bad *bad, FILE *out)
{
    if (bad->automatic)
        fputs("auto", out);
    else if (bad->share > 0)
        fprintf(out, "%.10g%%", bad->share * 100);
    else
        fprintf(out, "%llu", (unsigned long long)bad->count);
}

static void print_choice(const struct config_row *row, int index, FILE *out)
{
    const char *at = row->unit;
    for (; index > 0; index--)
        at = strchr(at, '|') + 1;
    fprintf(out, "%.*s", (int)strcspn(at, "|"), at);
}

int config_encoded_read(const char *text, const struct config_machine *machine, uint64_t *out, struct error *err)
{
    return config_value_read(out, &config_rows[SETTING_encoded_bytes], (struct config_scalar){.text = text}, machine,
                             err);
}

void config_text_print(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void print_list(const struct config_text *list, FILE *out)
{
    uint32_t count = config_list_count(list);
    fputc('[', out);
    for (uint32_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", out);
        config_text_print(list[i].text, out);
    }
    fputc(']', out);
}

void config_value_print(const struct config *config, const struct config_row *row, FILE *out)
{
    const void *field = (const char *)config + row->offset;
    const char *path;
    switch (row->kind) {
    case CONFIG_BOOL: fputs(*(const bool *)field ? "true" : "false", out); break;
    case CONFIG_COUNT:
    case CONFIG_WIDTH:
        if (row->kind == CONFIG_WIDTH && *(const uint64_t *)field == CONFIG_WIDTH_HALF)
            fputs("half", out);
        else
            fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)field);
        break;
    case CONFIG_BYTES:
    case CONFIG_SIZE: fprintf(out, "%lluB", (unsigned long long)*(const uint64_t *)field); break;
    case CONFIG_SHARE: fprintf(out, "%.10g%%", *(const double *)field * 100); break;
    case CONFIG_BAD: print_bad(field, out); break;
    case CONFIG_CHOICE: print_choice(row, *(const int *)field, out); break;
    case CONFIG_PATH:
    case CONFIG_FOLDER:
    case CONFIG_ADDRESS:
        path = *(char *const *)field;
        if (*path)
            config_text_print(path, out);
        else
            fputs("none", out);
        break;
    case CONFIG_TEXT: config_text_print(*(char *const *)field, out); break;
    case CONFIG_LIST: print_list(*(struct config_text *const *)field, out); break;
    }
}
