/* poison.h: which samples daemons have died of, as bytes that outlive them, and what follows from those bytes.
 *
 * A daemon maps a file with one record for each of its worker threads. Before a thread prepares a sample it writes into
 * its record which one, and afterwards it clears the record. When the daemon dies, the file says what was under work.
 * The next daemon reads it (poison_learn) and begins a new file (poison_encode). That holds what is known of samples so
 * far, as notes, and cleared records for the new daemon's threads. These are the rules:
 *
 *   A thread that gets SIGSEGV or the like while it prepares a sample marks its record as CRASHED. Such a death counts
 *   against the samples of the marked records, and says nothing of any other.
 *   After any other death (SIGKILL, no memory) each sample under work is a suspect. Suspects are prepared one at a
 *   time: one that does not kill the daemon is cleared. A death counts against the suspect that was prepared then. If
 *   none was, no suspect has a row of deaths any more.
 *   Two crashes, or a crash and a death as a suspect, or POISON_DEATHS_MAX deaths in a row as a suspect make a sample
 *   poisonous: it is prepared no more.
 *
 * So a daemon that is killed from outside, however often, makes no good sample poisonous: that would take several kills
 * in a row in the very milliseconds of one sample, although it was free to be cleared in between.
 *
 * The layout is the machine's own, since the file never leaves it. Its bytes are checked as those of a stranger. All
 * functions are pure; any thread may call them. */
#ifndef LARDER_COMMON_POISON_H
#define LARDER_COMMON_POISON_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define POISON_NAME_BYTES 480   /* bytes of a sample's name, with its NUL */
#define POISON_NOTES_MAX 4096   /* samples that are known at once */
#define POISON_THREADS_MAX 2056 /* records of threads */
#define POISON_DEATHS_MAX 3

enum poison_state { POISON_FREE, POISON_NOTED, POISON_WORK, POISON_ALONE, POISON_CRASHED };

/* A record: a thread's, or a note. The state is stored last, and FREE means that the rest means nothing. In a mapped
 * file the thread that the record belongs to writes it; a note only ever becomes FREE. */
struct poison_record {
    atomic_uint state; /* NOTED in a note; otherwise one of the others */
    uint32_t signal;   /* the last crash's */
    uint64_t id[2];    /* the sample's: the same in the next daemon */
    uint32_t crashes;
    uint32_t deaths; /* deaths in a row as a suspect */
    char name[POISON_NAME_BYTES];
};
_Static_assert(sizeof(struct poison_record) == 512, "the layout of version 1");

struct poison_header {
    char magic[8];
    uint32_t version, records;
    uint8_t nothing[48]; /* 0 */
};
_Static_assert(sizeof(struct poison_header) == 64, "the layout of version 1");

#define POISON_FILE_BYTES(records) (sizeof(struct poison_header) + (size_t)(records) * sizeof(struct poison_record))
#define POISON_FILE_MAX_BYTES POISON_FILE_BYTES(POISON_NOTES_MAX + POISON_THREADS_MAX)

/* The notes about one sample. */
struct poison_note {
    uint64_t id[2];
    uint32_t crashes, deaths, signal; /* these three are as in its record */
    bool latest;                      /* the latest death has changed the note */
    char name[POISON_NAME_BYTES];
};

struct poison_notes {
    struct poison_note *all; /* malloc'ed, the owner's */
    size_t count, cap;
};
void poison_notes_free(struct poison_notes *notes); /* frees what they hold; zeroed notes are empty */

/* The latest death. */
struct poison_death {
    uint32_t crashed;   /* samples that a thread crashed over */
    uint32_t suspects;  /* samples under work, if none was crashed over; both 0: the daemon ended, or had no work */
    uint32_t forgotten; /* samples that are not noted, because POISON_NOTES_MAX are */
};

/* poison_learn reads a file's bytes into empty notes, and adds what the latest death says. LARDER_EFORMAT,
 * LARDER_EVERSION. */
int poison_learn(const void *bytes, size_t len_bytes, struct poison_notes *out, struct poison_death *death,
                 struct error *err);
/* poison_encode writes a new file, POISON_FILE_BYTES(notes->count + threads): the notes, in their order, and then the
 * threads' records. bytes is aligned as a record is. */
void poison_encode(const struct poison_notes *notes, uint32_t threads, void *bytes);

/* poison_is_bad says whether the sample is poisonous. Otherwise it is a suspect. */
bool poison_is_bad(const struct poison_note *note);
/* poison_verdict: "poisonous"; "crashed", a suspect that a thread crashed over; or "suspect". */
const char *poison_verdict(const struct poison_note *note);
/* poison_signal returns a crash's signal by name; NULL: none, or an unknown one. */
const char *poison_signal(uint32_t number);

/* poison_name writes "folder/key". It cuts off the front of a long name. */
void poison_name(char out[POISON_NAME_BYTES], const char *folder, const char *key);
/* poison_shown writes the name as it is shown: without control characters and what is no UTF-8. */
void poison_shown(const char *name, char out[POISON_NAME_BYTES]);
/* poison_hex writes the id as 32 digits. */
#define POISON_HEX_BYTES 33
void poison_hex(const uint64_t id[2], char out[POISON_HEX_BYTES]);
/* poison_means says whether a person who wrote `text` means the sample: by its name, as it is or as it is shown, or by
 * its id. NULL means each. */
bool poison_means(const char *text, const uint64_t id[2], const char *name);

#endif
