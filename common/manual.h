/* manual.h: what a program's --help says, as text and as a man page: one source for both. */
#ifndef LARDER_COMMON_MANUAL_H
#define LARDER_COMMON_MANUAL_H

#include <stddef.h>
#include <stdio.h>

/* A command or an option, and what it does. */
struct manual_row {
    const char *usage, *text;
};

struct manual_part {
    const char *title; /* "COMMANDS" */
    const struct manual_row *rows;
    size_t n_rows;
    const char *text; /* paragraphs, with a newline between two of them; NULL: none */
};

struct manual {
    const char *name;
    int section; /* section of the manual: 1 for commands, 8 for servers */
    const char *summary;
    const struct manual_part *parts;
    size_t n_parts;
};

/* manual_text writes plain text in lines of at most MANUAL_COLUMNS characters, manual_part_text one part of it, and
 * manual_roff a man page (man(7)). The texts are UTF-8. */
#define MANUAL_COLUMNS 110
void manual_part_text(const struct manual_part *part, FILE *out);
void manual_text(const struct manual *manual, FILE *out);
void manual_roff(const struct manual *manual, FILE *out);

#endif
