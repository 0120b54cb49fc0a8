/* fuzz_poison.c: proves that no bytes make poison_learn read outside them, or give a note that is there twice or whose
 * name does not end; and that what it gives goes into a new file unchanged. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/poison.h"
#include "tests/fuzz/fuzz.h"

enum { NOTES = 3, THREADS = 4 };

/* A file as a daemon leaves it that died with its threads in these states. */
size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const enum poison_state states[][THREADS] = {
        {POISON_FREE}, {POISON_WORK, POISON_WORK}, {POISON_WORK, POISON_ALONE}, {POISON_CRASHED, POISON_WORK}};
    if (index >= sizeof states / sizeof *states)
        return 0;
    struct poison_note all[NOTES] = {{.id = {1, 2}, .crashes = 1, .signal = 11, .name = "/data/a.jpg"},
                                     {.id = {3, 4}, .deaths = 2, .name = "/data/b.jpg"},
                                     {.id = {5, 6}, .name = "/data/c\xff\n.jpg"}};
    const size_t bytes = POISON_FILE_BYTES(NOTES + THREADS);
    CHECK(bytes <= cap);
    struct poison_record *file = aligned_alloc(64, bytes);
    CHECK(file);
    poison_encode(&(struct poison_notes){.all = all, .count = NOTES}, THREADS, file);
    struct poison_record *threads = (struct poison_record *)((char *)file + POISON_FILE_BYTES(NOTES));
    for (int i = 0; i < THREADS; i++) {
        threads[i].id[0] = i == 1 ? 3 : 7;
        threads[i].id[1] = i == 1 ? 4 : 8;
        threads[i].signal = 7;
        strcpy(threads[i].name, i == 1 ? "/data/b.jpg" : "/data/d.jpg");
        atomic_store(&threads[i].state, states[index][i]);
    }
    memcpy(buf, file, bytes);
    free(file);
    return bytes;
}

static void check_notes(const struct poison_notes *notes)
{
    char shown[POISON_NAME_BYTES];
    CHECK(notes->count <= POISON_NOTES_MAX);
    for (size_t i = 0; i < notes->count; i++) {
        const struct poison_note *note = &notes->all[i];
        CHECK(note->name[0] && memchr(note->name, 0, sizeof note->name));
        poison_shown(note->name, shown);
        CHECK(strlen(shown) <= strlen(note->name) && poison_means(shown, note->id, note->name));
        for (size_t j = 0; j < i; j++)
            CHECK(notes->all[j].id[0] != note->id[0] || notes->all[j].id[1] != note->id[1]);
    }
}

static void check_same(const struct poison_notes *notes)
{
    struct poison_notes again = {0};
    struct poison_death death;
    size_t bytes = POISON_FILE_BYTES(notes->count + 1);
    void *file = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(file);
    poison_encode(notes, 1, file);
    CHECK(poison_learn(file, bytes, &again, &death, NULL) == 0);
    CHECK(again.count == notes->count && !death.crashed && !death.suspects && !death.forgotten);
    for (size_t i = 0; i < again.count; i++) {
        const struct poison_note *a = &again.all[i], *b = &notes->all[i];
        CHECK(a->crashes == b->crashes && a->deaths == b->deaths && a->signal == b->signal && !a->latest);
        CHECK(a->id[0] == b->id[0] && a->id[1] == b->id[1] && strcmp(a->name, b->name) == 0);
    }
    poison_notes_free(&again);
    free(file);
}

static void learn(const uint8_t *data, size_t size)
{
    struct poison_notes notes = {0};
    struct poison_death death;
    struct error err = {0};
    int code = poison_learn(data, size, &notes, &death, &err);
    CHECK(code == 0 || ((code == LARDER_EFORMAT || code == LARDER_EVERSION) && err.code == code && err.text[0]));
    CHECK(code == 0 || notes.count == 0);
    check_notes(&notes);
    check_same(&notes);
    poison_notes_free(&notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    learn(data, size);
    if (size < sizeof(struct poison_header))
        return 0;
    /* Most mutations would end at the header: make it fit, as whoever forges a file would. */
    uint32_t records = (uint32_t)((size - POISON_FILE_BYTES(0)) / sizeof(struct poison_record));
    size_t fitting = POISON_FILE_BYTES(records);
    uint8_t *fitted = xmalloc(fitting);
    memcpy(fitted, data, fitting);
    struct poison_header header = {.magic = "LDRPOIS", .version = 1, .records = records};
    header.magic[7] = 'N';
    memcpy(fitted, &header, sizeof header);
    learn(fitted, fitting);
    free(fitted);
    return 0;
}
