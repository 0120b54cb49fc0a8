#include "common/manual.h"

#include <stdbool.h>
#include <string.h>

#define ROW_GAP 2

/* ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* columns_of counts the characters of len_bytes of UTF-8. */
static size_t columns_of(const char *text, size_t len_bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < len_bytes; i++)
        columns += (text[i] & 0xc0) != 0x80;
    return columns;
}

/* fill writes a text whose words go into lines from column indent on; the first line is at that column already. A
 * newline in the text begins a new line. */
static void fill(const char *text, size_t indent, FILE *out)
{
    size_t at = indent;
    bool first = true;
    while (*text) {
        size_t len = strcspn(text, " \n"), columns = columns_of(text, len);
        if (!first && at + 1 + columns > MANUAL_COLUMNS) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", (int)len, text);
        at += !first + columns;
        first = false;
        text += len;
        if (*text == '\n') {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        text += *text != '\0';
    }
    fputc('\n', out);
}

static void rows_text(const struct manual_part *part, FILE *out)
{
    size_t widest = 0;
    for (size_t i = 0; i < part->n_rows; i++) {
        size_t columns = columns_of(part->rows[i].usage, strlen(part->rows[i].usage));
        widest = columns > widest ? columns : widest;
    }
    for (size_t i = 0; i < part->n_rows; i++) {
        const struct manual_row *row = &part->rows[i];
        size_t columns = columns_of(row->usage, strlen(row->usage));
        fprintf(out, "  %s%*s", row->usage, (int)(widest - columns + ROW_GAP), "");
        fill(row->text, 2 + widest + ROW_GAP, out);
    }
}

void manual_part_text(const struct manual_part *part, FILE *out)
{
    fprintf(out, "\n%s\n", part->title);
    rows_text(part, out);
    if (part->text) {
        fputs("  ", out);
        fill(part->text, 2, out);
    }
}

void manual_text(const struct manual *manual, FILE *out)
{
    fprintf(out, "%s: %s\n", manual->name, manual->summary);
    for (size_t i = 0; i < manual->n_parts; i++)
        manual_part_text(&manual->parts[i], out);
}

/* ── man page ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* escape writes a text in which roff finds nothing to act on. */
static void escape(const char *text, FILE *out)
{
    bool line_begins = true;
    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
        line_begins = *text == '\n';
    }
}

void manual_roff(const struct manual *manual, FILE *out)
{
    fputs(".TH ", out);
    for (const char *c = manual->name; *c; c++)
        fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fprintf(out, " %d \"\" \"Larder " LARDER_VERSION "\"\n.SH NAME\n%s \\- ", manual->section, manual->name);
    escape(manual->summary, out);
    fputc('\n', out);
    for (size_t i = 0; i < manual->n_parts; i++) {
        const struct manual_part *part = &manual->parts[i];
        fprintf(out, ".SH %s\n", part->title);
        for (size_t k = 0; k < part->n_rows; k++) {
            fputs(".TP\n\\fB", out);
            escape(part->rows[k].usage, out);
            fputs("\\fR\n", out);
            escape(part->rows[k].text, out);
            fputc('\n', out);
        }
        for (const char *text = part->text; text && *text;) {
            size_t len = strcspn(text, "\n");
            char line[2048];
            snprintf(line, sizeof line, "%.*s", (int)len, text);
            fputs(".PP\n", out);
            escape(line, out);
            fputc('\n', out);
            text += len + (text[len] == '\n');
        }
    }
}
