#include "server/workers/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/check.h"
#include "common/log.h"
#include "common/poison_file.h"
#include "common/socket_file.h"
#include "server/workers/crash.h"

/* A note, and where it is in the file. It does not change, apart from its record's state. */
struct known {
    struct poison_record *record;
    uint64_t id[2];
    bool bad;
};

struct watch {
    char path[POISON_PATH_BYTES];
    struct socket_file file;
    void *map;
    size_t map_bytes;
    struct known *known; /* a hash table: size is a power of two, and an entry without a record is empty */
    size_t known_size;
    atomic_uint noted;                     /* notes that are not taken back; relaxed, no partner */
    struct poison_record *notes, *threads; /* arrays in the map */
    uint32_t n_notes, n_threads;
    atomic_uint threads_begun;
    pthread_mutex_t alone; /* held while a suspect is prepared: that is what keeps others from being prepared then */
};

struct watch_thread {
    struct watch *watch;
    struct poison_record *record; /* nobody else writes it while the daemon lives */
    const struct known *suspect;  /* the sample under work, if it is one; then the thread has the lock `alone` */
    struct crash_stack stack;
};

/* ── what earlier daemons have left ── */

static void log_crash(const struct poison_note *note)
{
    const char *signal = poison_signal(note->signal);
    log_warn("msg=\"the daemon before this one died while it prepared a sample\" file=\"%s\" signal=%s times=%u",
             note->name, signal ? signal : "?", note->crashes);
}

static void log_learned(const struct poison_notes *notes, const struct poison_death *death)
{
    uint32_t bad = 0;
    for (size_t i = 0; i < notes->count; i++) {
        const struct poison_note *note = &notes->all[i];
        if (note->latest && death->crashed)
            log_crash(note);
        if (note->latest && poison_is_bad(note))
            log_error("msg=\"a sample is poisonous: it is left out from now on (larder poison)\" file=\"%s\" deaths=%u",
                      note->name, note->crashes + note->deaths);
        bad += poison_is_bad(note);
    }
    if (death->suspects)
        log_warn("msg=\"the daemon before this one was killed at work: what it worked on is prepared one at a time\""
                 " samples=%u",
                 death->suspects);
    if (death->forgotten)
        log_warn("msg=\"too many samples are noted: see larder poison list\" not_noted=%u", death->forgotten);
    if (bad)
        log_warn("msg=\"samples are left out because daemons died of them: see larder poison list\" samples=%u", bad);
}

/* learn returns what the file at path says; nothing when it is damaged. */
static void learn(const char *path, struct poison_notes *notes)
{
    void *bytes = NULL;
    size_t len_bytes = 0;
    struct poison_death death;
    struct error err;
    int code = poison_file_load(path, &bytes, &len_bytes, &err);
    if (code == LARDER_ENOENT)
        return;
    if (!code)
        code = poison_learn(bytes, len_bytes, notes, &death, &err);
    if (!code)
        log_learned(notes, &death);
    else
        log_warn("msg=\"what earlier daemons noted of samples that they died of is not known\" file=\"%s\" err=\"%s\"",
                 path, err.text);
    free(bytes);
}

/* ── the file ── */

/* map_new makes a file of `bytes`, reserved whole, and maps it. So far its only name is `name`. */
static int map_new(const char *name, size_t bytes, void **map, struct error *err)
{
    unlink(name); /* a killed daemon may have left one */
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return socket_file_error(err, "making", name);
    int code = 0;
    errno = posix_fallocate(fd, 0, (off_t)bytes);
    if (errno)
        code = socket_file_error(err, "reserving room for", name);
    void *at = code ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!code && at == MAP_FAILED)
        code = socket_file_error(err, "mapping", name);
    close(fd);
    if (code)
        unlink(name);
    else
        *map = at;
    return code;
}

/* begin_file puts a new file in place of the one that was read. Until the rename the old one holds, so that a death is
 * counted once, whenever another follows. */
static int begin_file(struct watch *watch, const struct poison_notes *notes, struct error *err)
{
    char name[POISON_PATH_BYTES + sizeof ".new"];
    snprintf(name, sizeof name, "%s.new", watch->path);
    watch->map_bytes = POISON_FILE_BYTES(watch->n_notes + watch->n_threads);
    int code = map_new(name, watch->map_bytes, &watch->map, err);
    if (code)
        return code;
    poison_encode(notes, watch->n_threads, watch->map);
    watch->notes = (struct poison_record *)((char *)watch->map + POISON_FILE_BYTES(0));
    watch->threads = watch->notes + watch->n_notes;
    if (rename(name, watch->path) == 0) {
        socket_file_note(watch->path, &watch->file);
        return 0;
    }
    code = socket_file_error(err, "putting in place", watch->path);
    unlink(name);
    munmap(watch->map, watch->map_bytes);
    return code;
}

/* ── what is noted ── */

static struct known *place_of(const struct watch *watch, const uint64_t id[2])
{
    size_t at = (size_t)id[0] & (watch->known_size - 1);
    while (watch->known[at].record && (watch->known[at].id[0] != id[0] || watch->known[at].id[1] != id[1]))
        at = (at + 1) & (watch->known_size - 1);
    return &watch->known[at];
}

static void make_known(struct watch *watch, const struct poison_notes *notes)
{
    watch->known_size = 1;
    while (watch->known_size < 2 * (size_t)watch->n_notes + 1)
        watch->known_size *= 2;
    watch->known = xcalloc(watch->known_size, sizeof *watch->known);
    for (size_t i = 0; i < notes->count; i++) {
        const struct poison_note *note = &notes->all[i];
        *place_of(watch, note->id) = (struct known){
            .record = &watch->notes[i], .id = {note->id[0], note->id[1]}, .bad = poison_is_bad(note)};
    }
    atomic_init(&watch->noted, watch->n_notes);
}

static bool is_noted(const struct poison_record *record)
{
    return atomic_load_explicit(&record->state, memory_order_relaxed) == POISON_NOTED;
}

static bool take_back(struct watch *watch, struct poison_record *record)
{
    if (atomic_exchange_explicit(&record->state, POISON_FREE, memory_order_relaxed) != POISON_NOTED)
        return false;
    atomic_fetch_sub_explicit(&watch->noted, 1, memory_order_relaxed);
    return true;
}

static const struct known *find_noted(const struct watch *watch, const uint64_t id[2])
{
    if (atomic_load_explicit(&watch->noted, memory_order_relaxed) == 0)
        return NULL;
    const struct known *known = place_of(watch, id);
    return known->record && is_noted(known->record) ? known : NULL;
}

/* ── life ── */

struct watch *watch_open(const char *socket_path, uint32_t threads)
{
    struct watch *watch = xcalloc(1, sizeof *watch);
    struct poison_notes notes = {0};
    struct error err;
    poison_file_path(socket_path, watch->path);
    learn(watch->path, &notes);
    watch->n_notes = (uint32_t)notes.count;
    watch->n_threads = threads < POISON_THREADS_MAX ? threads : POISON_THREADS_MAX;
    if (begin_file(watch, &notes, &err)) {
        log_warn("msg=\"a sample that kills the daemon will not be found\" err=\"%s\"", err.text);
        poison_notes_free(&notes);
        free(watch);
        return NULL;
    }
    make_known(watch, &notes);
    poison_notes_free(&notes);
    pthread_mutex_init(&watch->alone, NULL);
    crash_watch();
    return watch;
}

void watch_close(struct watch *watch)
{
    if (!watch)
        return;
    crash_unwatch();
    if (atomic_load_explicit(&watch->noted, memory_order_relaxed) == 0)
        socket_file_remove(watch->path, &watch->file);
    munmap(watch->map, watch->map_bytes);
    pthread_mutex_destroy(&watch->alone);
    free(watch->known);
    free(watch);
}

void watch_forsake(struct watch *watch)
{
    uint32_t begun = watch ? atomic_load_explicit(&watch->threads_begun, memory_order_relaxed) : 0;
    for (uint32_t i = 0; i < begun; i++)
        atomic_store_explicit(&watch->threads[i].state, POISON_FREE, memory_order_release);
}

struct watch_thread *watch_thread_begin(struct watch *watch)
{
    if (!watch)
        return NULL;
    uint32_t number = atomic_fetch_add_explicit(&watch->threads_begun, 1, memory_order_relaxed);
    CHECK(number < watch->n_threads);
    struct watch_thread *thread = xcalloc(1, sizeof *thread);
    thread->watch = watch;
    thread->record = &watch->threads[number];
    crash_thread_begin(thread->record, &thread->stack);
    return thread;
}

void watch_thread_end(struct watch_thread *thread)
{
    if (!thread)
        return;
    crash_thread_end(&thread->stack);
    free(thread);
}

/* ── samples ── */

bool watch_begin(struct watch_thread *thread, const struct dataset *dataset, sample_id id)
{
    uint32_t index;
    if (!thread)
        return true;
    struct poison_record *record = thread->record;
    struct watch *watch = thread->watch;
    CHECK(dataset_index(dataset, id, &index));
    dataset_lasting_id(dataset, index, record->id);
    poison_name(record->name, dataset_path(dataset), dataset_key(dataset, index));
    enum poison_state state = POISON_WORK;
    const struct known *known = find_noted(watch, record->id);
    if (known && known->bad)
        return false;
    if (known) {
        pthread_mutex_lock(&watch->alone);
        thread->suspect = known;
        state = POISON_ALONE;
    }
    atomic_store_explicit(&record->state, state, memory_order_release);
    return true;
}

void watch_end(struct watch_thread *thread)
{
    if (!thread)
        return;
    atomic_store_explicit(&thread->record->state, POISON_FREE, memory_order_release);
    const struct known *suspect = thread->suspect;
    if (!suspect)
        return;
    thread->suspect = NULL;
    if (suspect->record->crashes == 0) /* it was killed, and may not have been at fault */
        take_back(thread->watch, suspect->record);
    pthread_mutex_unlock(&thread->watch->alone);
}

/* ── operators ── */

int watch_list(const struct watch *watch, struct poison_notes *out, struct error *err)
{
    if (!watch)
        return error_set(err, LARDER_ENOENT, "this daemon notes no samples that daemons died of: its log says why");
    for (uint32_t i = 0; i < watch->n_notes; i++) {
        const struct poison_record *record = &watch->notes[i];
        if (!is_noted(record))
            continue;
        out->all = xgrow(out->all, sizeof *out->all, &out->cap, out->count + 1);
        struct poison_note *note = &out->all[out->count++];
        *note = (struct poison_note){.id = {record->id[0], record->id[1]},
                                     .crashes = record->crashes,
                                     .deaths = record->deaths,
                                     .signal = record->signal};
        memcpy(note->name, record->name, sizeof note->name);
    }
    return 0;
}

int watch_clear(struct watch *watch, const char *text, struct error *err)
{
    uint32_t taken = 0;
    if (!watch)
        return error_set(err, LARDER_ENOENT, "this daemon notes no samples that daemons died of: its log says why");
    for (uint32_t i = 0; i < watch->n_notes; i++) {
        struct poison_record *record = &watch->notes[i];
        if (is_noted(record) && poison_means(text, record->id, record->name))
            taken += take_back(watch, record);
    }
    if (text && !taken)
        return error_set(err, LARDER_ENOENT, "no sample is noted as '%.300s': `larder poison list` has their names",
                         text);
    return 0;
}
