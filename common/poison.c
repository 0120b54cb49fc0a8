#include "common/poison.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/utf8.h"

#define VERSION 1
static const char magic[8] = {'L', 'D', 'R', 'P', 'O', 'I', 'S', 'N'};

/* ── notes ── */

void poison_notes_free(struct poison_notes *notes)
{
    free(notes->all);
    *notes = (struct poison_notes){0};
}

static struct poison_note *find(const struct poison_notes *notes, const uint64_t id[2])
{
    for (size_t i = 0; i < notes->count; i++) {
        if (notes->all[i].id[0] == id[0] && notes->all[i].id[1] == id[1])
            return &notes->all[i];
    }
    return NULL;
}

/* forget_one makes room by forgetting the oldest suspect that no death counts against. */
static bool forget_one(struct poison_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        const struct poison_note *note = &notes->all[i];
        if (note->crashes || note->deaths || note->latest)
            continue;
        notes->count--;
        memmove(&notes->all[i], &notes->all[i + 1], (notes->count - i) * sizeof *notes->all);
        return true;
    }
    return false;
}

/* note_of finds the note of a record's sample, or adds one. NULL: there is no room for it. */
static struct poison_note *note_of(struct poison_notes *notes, const struct poison_record *record)
{
    struct poison_note *note = find(notes, record->id);
    if (note || (notes->count == POISON_NOTES_MAX && !forget_one(notes)))
        return note;
    notes->all = xgrow(notes->all, sizeof *notes->all, &notes->cap, notes->count + 1);
    note = &notes->all[notes->count++];
    *note = (struct poison_note){.id = {record->id[0], record->id[1]}};
    memcpy(note->name, record->name, sizeof note->name);
    return note;
}

bool poison_is_bad(const struct poison_note *note)
{
    return note->crashes > 1 || (note->crashes && note->deaths) || note->deaths >= POISON_DEATHS_MAX;
}

const char *poison_verdict(const struct poison_note *note)
{
    return poison_is_bad(note) ? "poisonous" : note->crashes ? "crashed" : "suspect";
}

/* ── reading ── */

static int check_header(const void *bytes, size_t len_bytes, uint32_t *records, struct error *err)
{
    struct poison_header header;
    if (len_bytes < sizeof header || memcmp(bytes, magic, sizeof magic) != 0)
        return error_set(err, LARDER_EFORMAT, "the notes of samples are damaged: they do not begin as they must");
    memcpy(&header, bytes, sizeof header);
    if (header.version != VERSION)
        return error_set(err, LARDER_EVERSION, "the notes of samples are of version %u, and this Larder reads %d",
                         header.version, VERSION);
    if (header.records > POISON_NOTES_MAX + POISON_THREADS_MAX || len_bytes != POISON_FILE_BYTES(header.records))
        return error_set(err, LARDER_EFORMAT, "the notes of samples are damaged: %u records do not fit their length",
                         header.records);
    *records = header.records;
    return 0;
}

/* read_record copies a record. It returns the state, FREE for one that no daemon has written. */
static enum poison_state read_record(const void *bytes, uint32_t index, struct poison_record *out)
{
    memcpy(out, (const char *)bytes + POISON_FILE_BYTES(index), sizeof *out);
    unsigned state = atomic_load_explicit(&out->state, memory_order_relaxed);
    bool sound = state <= POISON_CRASHED && out->name[0] && memchr(out->name, 0, sizeof out->name);
    return sound ? (enum poison_state)state : POISON_FREE;
}

static void read_notes(const void *bytes, uint32_t records, struct poison_notes *notes)
{
    struct poison_record record;
    for (uint32_t i = 0; i < records; i++) {
        if (read_record(bytes, i, &record) != POISON_NOTED)
            continue;
        struct poison_note *note = note_of(notes, &record);
        if (!note)
            continue;
        note->crashes = record.crashes;
        note->deaths = record.deaths;
        note->signal = record.signal;
    }
}

/* blame notes the samples of the threads' records in one state. A sample that several threads had is noted once. */
static uint32_t blame(const void *bytes, uint32_t records, enum poison_state state, struct poison_notes *notes,
                      struct poison_death *death)
{
    struct poison_record record;
    uint32_t blamed = 0;
    for (uint32_t i = 0; i < records; i++) {
        if (read_record(bytes, i, &record) != state)
            continue;
        struct poison_note *note = note_of(notes, &record);
        death->forgotten += !note;
        if (!note || note->latest)
            continue;
        note->latest = true;
        blamed++;
        if (state == POISON_CRASHED) {
            note->crashes += note->crashes < UINT32_MAX;
            note->signal = record.signal;
        } else if (state == POISON_ALONE) {
            note->deaths += note->deaths < UINT32_MAX;
        }
    }
    return blamed;
}

static void break_rows(struct poison_notes *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        if (!poison_is_bad(&notes->all[i]))
            notes->all[i].deaths = 0;
    }
}

int poison_learn(const void *bytes, size_t len_bytes, struct poison_notes *out, struct poison_death *death,
                 struct error *err)
{
    uint32_t records = 0;
    int code = check_header(bytes, len_bytes, &records, err);
    if (code)
        return code;
    *death = (struct poison_death){0};
    read_notes(bytes, records, out);
    death->crashed = blame(bytes, records, POISON_CRASHED, out, death);
    if (death->crashed)
        return 0;
    uint32_t alone = blame(bytes, records, POISON_ALONE, out, death);
    uint32_t at_work = blame(bytes, records, POISON_WORK, out, death);
    if (at_work && !alone)
        break_rows(out);
    death->suspects = alone + at_work;
    return 0;
}

/* ── writing ── */

void poison_encode(const struct poison_notes *notes, uint32_t threads, void *bytes)
{
    struct poison_header *header = bytes;
    struct poison_record *record = (struct poison_record *)((char *)bytes + sizeof *header);
    uint32_t records = (uint32_t)notes->count + threads;
    CHECK(notes->count <= POISON_NOTES_MAX && threads <= POISON_THREADS_MAX);
    memset(bytes, 0, POISON_FILE_BYTES(records));
    memcpy(header->magic, magic, sizeof magic);
    header->version = VERSION;
    header->records = records;
    for (size_t i = 0; i < notes->count; i++, record++) {
        const struct poison_note *note = &notes->all[i];
        *record = (struct poison_record){
            .signal = note->signal, .id = {note->id[0], note->id[1]}, .crashes = note->crashes, .deaths = note->deaths};
        memcpy(record->name, note->name, sizeof record->name);
        atomic_init(&record->state, POISON_NOTED);
    }
}

/* ── names ── */

const char *poison_signal(uint32_t number)
{
    switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGABRT: return "SIGABRT";
    case SIGTRAP: return "SIGTRAP";
    default: return NULL;
    }
}

void poison_name(char out[POISON_NAME_BYTES], const char *folder, const char *key)
{
    static const char cut[] = "…";
    size_t folder_len = strlen(folder), key_len = strlen(key), len = folder_len + 1 + key_len, at = 0, skip = 0;
    if (len >= POISON_NAME_BYTES) {
        at = sizeof cut - 1;
        skip = len - (POISON_NAME_BYTES - 1 - at);
        memcpy(out, cut, at);
    }
    if (skip < folder_len) {
        memcpy(out + at, folder + skip, folder_len - skip);
        at += folder_len - skip;
        skip = folder_len;
    }
    if (skip == folder_len) {
        out[at++] = '/';
        skip++;
    }
    memcpy(out + at, key + (skip - folder_len - 1), len - skip);
    out[at + len - skip] = '\0';
}

void poison_shown(const char *name, char out[POISON_NAME_BYTES])
{
    size_t to = 0;
    for (size_t i = 0, len; i < POISON_NAME_BYTES - 1 && name[i]; i += len) {
        const unsigned char *at = (const unsigned char *)name + i;
        len = utf8_length(at);
        if (len == 0 || *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0)) {
            out[to++] = '?';
            len = len ? len : 1;
            continue;
        }
        memcpy(out + to, at, len);
        to += len;
    }
    out[to] = '\0';
}

void poison_hex(const uint64_t id[2], char out[POISON_HEX_BYTES])
{
    snprintf(out, POISON_HEX_BYTES, "%016llx%016llx", (unsigned long long)id[1], (unsigned long long)id[0]);
}

bool poison_means(const char *text, const uint64_t id[2], const char *name)
{
    char shown[POISON_NAME_BYTES], hex[POISON_HEX_BYTES];
    if (!text)
        return true;
    poison_shown(name, shown);
    poison_hex(id, hex);
    return strcmp(text, name) == 0 || strcmp(text, shown) == 0 || strcmp(text, hex) == 0;
}
