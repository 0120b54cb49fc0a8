#include "server/recorder.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "cache/file.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/mailbox.h"
#include "common/thread.h"
#include "server/recorder_events.h"

#define PERIOD_NS CLOCK_NS_PER_S
#define SAVED_EVERY_NS (60 * CLOCK_NS_PER_S)
#define SAVING_SHARE 50 /* the file is written so seldom that it takes at most a fiftieth of the time */
#define FILE_BYTES_MAX (16u << 20)
enum { NOTES = 1024, NOTES_AT_ONCE = 16 };
enum { LOOKS = 3 }; /* the last looks that are kept, from which rates are told */

/* What was told, on its way to the thread. */
struct note {
    uint64_t now_ns;
    struct recorder_event event;
};

struct recorder {
    pthread_mutex_t lock; /* guards past and looks */
    struct past *past;
    struct daemon_status looks[LOOKS]; /* the latest last; those before n_looks from the end are empty */
    size_t n_looks;
    size_t bytes;
    char *file, *events;   /* the file, and the one of what came since; NULL: nothing is kept */
    double wall_s;         /* Unix time at start_ns */
    uint64_t start_ns;     /* by clock_now_ns, as are all of the following */
    struct mailbox *notes; /* closed: the thread is to end */
    pthread_t thread;
    bool started;
    void (*read)(void *ctx, struct daemon_status *status);
    void *ctx;
    /* Only the thread uses the following. */
    bool busy;                                /* jobs are here, or were at the last look */
    bool changed, urgent;                     /* since the file was written: anything; what became of a job */
    uint64_t next_ns, save_from_ns, saved_ns; /* the next look; the file is not written before; when it was */
};

/* The machine's clock may be set; this one goes on. */
static double wall_of(const struct recorder *recorder, uint64_t now_ns)
{
    uint64_t since_ns = now_ns > recorder->start_ns ? now_ns - recorder->start_ns : 0;
    return recorder->wall_s + (double)since_ns / 1e9;
}

/* ── what was measured ── */

static struct past_figures figures_of(const struct engine_job_status *job)
{
    struct past_figures figures = {.delivered = job->delivery.samples,
                                   .shared = job->samples_shared,
                                   .prepared = job->instances_prepared,
                                   .bad = job->bad_samples,
                                   .epochs = job->epochs,
                                   .ranks = job->world_size};
    double part = job->epoch_samples ? (double)job->delivery.epoch_samples / (double)job->epoch_samples : 0;
    if (job->progress.done) /* fewer may have been delivered: bad samples, and a last batch that is dropped */
        part = 1;
    figures.epochs_done = job->progress.started ? job->progress.epoch + (part < 1 ? part : 1) : 0;
    memcpy(figures.waits_s, job->delivery.stall_s, sizeof figures.waits_s);
    return figures;
}

static void values_of(const struct daemon_status *status, double values[PAST_VALUES])
{
    values[PAST_DELIVERED] = (double)status->totals.counts.samples_delivered;
    values[PAST_PREPARED] = (double)status->totals.counts.instances_prepared;
    values[PAST_CORES] = status->process.cpu_s;
    values[PAST_READ] = (double)status->storage.source.bytes;
    for (uint32_t i = 0; i < status->storage.n_classes && i + 1 < PAST_TIERS; i++)
        values[PAST_READ + 1 + i] = (double)status->storage.classes[i].read.bytes;
    values[PAST_RSS] = (double)status->process.rss_bytes;
    values[PAST_ARENA] = (double)status->totals.arena.used_bytes;
    values[PAST_ENCODED] = (double)status->totals.encoded.used_bytes;
}

static void add(struct recorder *recorder, const struct daemon_status *status, uint64_t now_ns)
{
    struct past_job_sample *jobs = xcalloc(status->n_jobs, sizeof *jobs);
    struct past_sample sample = {.time_s = wall_of(recorder, now_ns), .jobs = jobs, .n_jobs = status->n_jobs};
    values_of(status, sample.values);
    for (size_t i = 0; i < status->n_jobs; i++) {
        const struct status_job *job = &status->jobs[i];
        jobs[i] = (struct past_job_sample){.place = job->engine.job,
                                           .name = job->engine.name,
                                           .figures = figures_of(&job->engine),
                                           .givers = job->givers,
                                           .n_givers = job->n_givers};
    }
    pthread_mutex_lock(&recorder->lock);
    bool first = past_add(recorder->past, &sample);
    pthread_mutex_unlock(&recorder->lock);
    recorder->urgent = recorder->urgent || first;
    free(jobs);
}

/* ── what was told ── */

void recorder_told(struct recorder *recorder, const struct driver_told *told)
{
    static const enum past_state ends[] = {[DRIVER_SAID_BYE] = PAST_ENDED,
                                           [DRIVER_CANCELLED] = PAST_CANCELLED,
                                           [DRIVER_LOST] = PAST_DIED,
                                           [DRIVER_STOPPED] = PAST_LOST};
    struct note note = {.now_ns = told->now_ns,
                        .event = {.fate = told->fate, .place = told->place, .end = ends[told->end]}};
    if (told->last)
        note.event.last = figures_of(told->last);
    if (told->text)
        snprintf(note.event.text, sizeof note.event.text, "%s", told->text);
    if (mailbox_try_push(recorder->notes, &note) == LARDER_ELIMIT)
        log_warn_limited("msg=\"the history misses what became of a job: too much happened at once\"");
}

/* take has it in the file before anybody is told of it. Only this thread changes the past, so it reads it unlocked. */
static void take(struct recorder *recorder, const struct note *note)
{
    double now_s = wall_of(recorder, note->now_ns);
    struct error err;
    if (recorder->events && recorder_events_append(recorder->events, recorder->past, &note->event, now_s, &err))
        log_warn_limited("msg=\"the history may miss what became of a job\" err=\"%s\"", err.text);
    pthread_mutex_lock(&recorder->lock);
    recorder_event_apply(recorder->past, &note->event, now_s);
    pthread_mutex_unlock(&recorder->lock);
    recorder->changed = recorder->urgent = true;
    if (note->event.fate == DRIVER_CAME && !recorder->busy) {
        recorder->busy = true;
        recorder->next_ns = clock_now_ns();
    }
}

/* ── the file ── */

static char *file_of(const char *folder, const char *socket)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/history-%016" PRIx64, folder, (uint64_t)XXH3_64bits(socket, strlen(socket))) >= 0);
    return path;
}

/* load returns NULL when there is nothing to use. */
static struct past *load(const char *path, double now_s)
{
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct past *past = NULL;
    struct error err;
    int code = file_load(&(struct file_wanted){.path = path, .max_bytes = FILE_BYTES_MAX}, &bytes, &len_bytes, &err);
    if (!code)
        code = past_decode(bytes, len_bytes, now_s, &past, &err);
    if (code && code != LARDER_ENOENT)
        log_warn("msg=\"the history of an earlier daemon is not used, and begins anew\" file=\"%s\" err=\"%s\"", path,
                 err.text);
    free(bytes);
    return past;
}

static void save(struct recorder *recorder)
{
    uint64_t began_ns = clock_now_ns();
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct error err;
    pthread_mutex_lock(&recorder->lock);
    int code = past_encode(recorder->past, &bytes, &len_bytes);
    pthread_mutex_unlock(&recorder->lock);
    if (code)
        error_set(&err, code, "out of memory");
    else
        code = file_replace(recorder->file, 0600, bytes, len_bytes, &err);
    if (code == 0)
        recorder_events_clear(recorder->events);
    if (code)
        log_warn_limited("msg=\"the history is not kept\" file=\"%s\" err=\"%s\"", recorder->file, err.text);
    free(bytes);
    recorder->changed = recorder->urgent = false;
    recorder->saved_ns = clock_now_ns();
    recorder->save_from_ns = recorder->saved_ns + SAVING_SHARE * (recorder->saved_ns - began_ns);
}

/* save_at_ns returns when the file is to be written; UINT64_MAX: not before something happens. */
static uint64_t save_at_ns(const struct recorder *recorder)
{
    uint64_t at_ns = recorder->urgent ? recorder->save_from_ns : recorder->saved_ns + SAVED_EVERY_NS;
    if (!recorder->file || !recorder->changed)
        return UINT64_MAX;
    return at_ns > recorder->save_from_ns ? at_ns : recorder->save_from_ns;
}

/* ── the thread ── */

/* take_notes waits for notes and takes them. False: the thread is to end. */
static bool take_notes(struct recorder *recorder, int64_t wait_ms)
{
    struct note notes[NOTES_AT_ONCE];
    size_t count;
    int code = mailbox_pop_many(recorder->notes, notes, NOTES_AT_ONCE, &count, wait_ms);
    for (size_t i = 0; code == 0 && i < count; i++)
        take(recorder, &notes[i]);
    return code != LARDER_EGONE;
}

/* keep takes the status over, as the latest look. Where no job is here, none is kept: the next ones begin anew. */
static void keep(struct recorder *recorder, struct daemon_status *status)
{
    pthread_mutex_lock(&recorder->lock);
    size_t forgotten = status->n_jobs == 0 ? LOOKS : 1;
    for (size_t i = 0; i < forgotten; i++)
        status_clear(&recorder->looks[i]);
    if (forgotten == 1) {
        memmove(recorder->looks, recorder->looks + 1, (LOOKS - 1) * sizeof *recorder->looks);
        recorder->looks[LOOKS - 1] = *status;
        recorder->n_looks += recorder->n_looks < LOOKS;
    } else {
        recorder->n_looks = 0;
        status_clear(status);
    }
    pthread_mutex_unlock(&recorder->lock);
}

/* look takes a sample. What was told before the engine answered is taken first, so that the jobs are known. */
static void look(struct recorder *recorder)
{
    struct daemon_status status;
    recorder->read(recorder->ctx, &status);
    uint64_t now_ns = clock_now_ns();
    while (mailbox_length(recorder->notes) && take_notes(recorder, 0))
        ;
    add(recorder, &status, now_ns);
    recorder->busy = status.n_jobs > 0;
    recorder->changed = true;
    keep(recorder, &status);
    recorder->next_ns = now_ns + PERIOD_NS;
}

static int64_t wait_ms(const struct recorder *recorder)
{
    uint64_t now_ns = clock_now_ns(), at_ns = save_at_ns(recorder);
    if (recorder->busy && recorder->next_ns < at_ns)
        at_ns = recorder->next_ns;
    if (at_ns == UINT64_MAX)
        return -1;
    return at_ns > now_ns ? (int64_t)((at_ns - now_ns) / CLOCK_NS_PER_MS + 1) : 0;
}

static void *run(void *arg)
{
    struct recorder *recorder = arg;
    while (take_notes(recorder, wait_ms(recorder))) {
        if (recorder->busy && clock_now_ns() >= recorder->next_ns)
            look(recorder);
        if (clock_now_ns() >= save_at_ns(recorder))
            save(recorder);
    }
    if (recorder->busy)
        look(recorder); /* jobs that are here are kept as they are at the end */
    return NULL;
}

/* ── life ── */

int recorder_create(const char *folder, const char *socket, struct recorder **out, struct error *err)
{
    struct recorder *recorder = xcalloc(1, sizeof *recorder);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_init(&recorder->lock, NULL);
    recorder->start_ns = clock_now_ns();
    recorder->wall_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    if (folder) {
        recorder->file = file_of(folder, socket);
        CHECK(asprintf(&recorder->events, "%s.events", recorder->file) >= 0);
        recorder->past = load(recorder->file, recorder->wall_s);
    }
    if ((!recorder->past && past_create(&recorder->past)) ||
        mailbox_create(NOTES, sizeof(struct note), &recorder->notes)) {
        recorder_destroy(recorder);
        return error_set(err, LARDER_ENOMEM, "no memory to remember what jobs do");
    }
    recorder->bytes = sizeof *recorder + past_bytes(recorder->past) + NOTES * sizeof(struct note);
    recorder->saved_ns = recorder->start_ns;
    if (recorder->events && recorder_events_replay(recorder->events, recorder->past, recorder->wall_s))
        recorder->changed = recorder->urgent = true;
    past_restarted(recorder->past, recorder->wall_s, "larderd " LARDER_VERSION);
    *out = recorder;
    return 0;
}

int recorder_start(struct recorder *recorder, void (*read)(void *ctx, struct daemon_status *status), void *ctx,
                   struct error *err)
{
    recorder->read = read;
    recorder->ctx = ctx;
    int failed = thread_start(&recorder->thread, "larder-history", run, recorder);
    recorder->started = failed == 0;
    return failed ? error_set(err, LARDER_ENOMEM, "cannot start the history's thread: %s", strerror(failed)) : 0;
}

void recorder_stop(struct recorder *recorder)
{
    if (!recorder || !recorder->started)
        return;
    mailbox_close(recorder->notes);
    pthread_join(recorder->thread, NULL);
    recorder->started = false;
    bool stopped = past_stops(recorder->past, wall_of(recorder, clock_now_ns()));
    if (recorder->file && (recorder->changed || stopped))
        save(recorder);
}

void recorder_destroy(struct recorder *recorder)
{
    if (!recorder)
        return;
    recorder_stop(recorder);
    for (size_t i = 0; i < LOOKS; i++)
        status_clear(&recorder->looks[i]);
    past_destroy(recorder->past);
    mailbox_destroy(recorder->notes);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder->file);
    free(recorder->events);
    free(recorder);
}

char *recorder_json(struct recorder *recorder, const char *job, uint32_t span_s)
{
    struct past_asked asked = {.job = job, .span_s = span_s, .now_s = wall_of(recorder, clock_now_ns())};
    pthread_mutex_lock(&recorder->lock);
    char *text = past_to_json(recorder->past, &asked);
    pthread_mutex_unlock(&recorder->lock);
    return text;
}

void recorder_number(struct recorder *recorder, struct daemon_status *status)
{
    pthread_mutex_lock(&recorder->lock);
    for (size_t i = 0; i < status->n_jobs; i++) {
        const struct engine_job_status *job = &status->jobs[i].engine;
        status->jobs[i].id = past_number(recorder->past, job->job, job->name);
    }
    pthread_mutex_unlock(&recorder->lock);
}

char *recorder_earlier(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    char *text = recorder->n_looks ? status_to_json(&recorder->looks[LOOKS - recorder->n_looks]) : xstrdup("null");
    pthread_mutex_unlock(&recorder->lock);
    return text;
}

size_t recorder_bytes(struct recorder *recorder)
{
    pthread_mutex_lock(&recorder->lock);
    size_t bytes = recorder->bytes;
    for (size_t i = LOOKS - recorder->n_looks; i < LOOKS; i++)
        bytes += status_bytes(&recorder->looks[i]) - sizeof recorder->looks[i];
    pthread_mutex_unlock(&recorder->lock);
    return bytes;
}
