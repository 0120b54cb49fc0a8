/* news.c: the observer that writes into the log what happens. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/log_place.h"
#include "preprocess/prepare.h"
#include "server/driver/driver_priv.h"
#include "server/registration/ranks.h"

/* log_shortened says why look-ahead is shorter, and what would help: a larger arena if that is too small, else a larger
 * share of it for one job. */
static void log_shortened(const struct driver *driver, const struct registration *reg, uint32_t from, uint32_t to,
                          uint64_t wanted_bytes)
{
    uint64_t quota_bytes = driver->config.engine.job_quota_bytes;
    if (wanted_bytes > driver->config.engine.arena_bytes)
        log_warn_limited("msg=\"look-ahead shortened from %u to %u batches: the arena has no room for all that the "
                         "jobs ask for; raise memory.arena to %llu MiB\" job=\"%s\"",
                         from, to, (unsigned long long)(wanted_bytes >> 20) + 1, reg->name);
    else
        log_warn_limited("msg=\"look-ahead shortened from %u to %u batches: one job may have %llu MiB of the arena; "
                         "raise jobs.quota or memory.arena\" job=\"%s\"",
                         from, to, (unsigned long long)(quota_bytes >> 20), reg->name);
}

/* log_short_reads warns when encoded memory is smaller than what the jobs look ahead. Look-ahead stays as it is, but
 * reads wait for room, and each brings fewer samples of its chunk. A further line comes only when more is missing. */
static void log_short_reads(struct driver *driver, uint64_t needed_bytes)
{
    const struct engine_config *engine = &driver->config.engine;
    uint64_t budget_bytes = engine->encoded_bytes;
    uint64_t raised_bytes = needed_bytes + (engine->lent_bytes ? engine->arena_bytes : 0);
    if (needed_bytes > budget_bytes && needed_bytes > driver->short_told_bytes)
        log_warn_limited("msg=\"encoded memory of %llu MiB is less than what the jobs look ahead, %llu MiB: reads wait "
                         "for room and bring fewer samples each; raise memory.%s to %llu MiB, or lower prefetch\"",
                         (unsigned long long)(budget_bytes >> 20), (unsigned long long)(needed_bytes >> 20),
                         engine->lent_bytes ? "samples" : "encoded", (unsigned long long)(raised_bytes >> 20) + 1);
    if (needed_bytes <= budget_bytes)
        driver->short_told_bytes = 0;
    else if (needed_bytes > driver->short_told_bytes)
        driver->short_told_bytes = needed_bytes;
}

/* log_small_slots says when prepared samples take at least twice their size in the arena. They do when they are so
 * small that the records of an arena full of them would not fit into encoded memory. */
static void log_small_slots(const struct driver *driver, const struct registration *reg)
{
    const struct engine_config *config = &driver->config.engine;
    uint64_t slot_bytes = reg->found.slot_bytes;
    if (engine_slot_bytes(config, slot_bytes) < 2 * slot_bytes)
        return;
    log_info("msg=\"prepared samples of %llu bytes take %llu of the arena each, because their bookkeeping counts "
             "against memory.%s: raise it to have more of them in memory\" job=\"%s\"",
             (unsigned long long)slot_bytes, (unsigned long long)engine_slot_bytes(config, slot_bytes),
             config->lent_bytes ? "samples" : "encoded", reg->name);
}

static void job_added(struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->adding.reg;
    if (reg->found.restore)
        log_info_limited("msg=\"goes on where it was\" job=\"%s\" rank=%u epoch=%u batch=%u", reg->name,
                         reg->asked.first_rank + reg->asked.rank, action->job_added.epoch, action->job_added.batch);
    if (action->job_added.attached) {
        log_info_limited("msg=\"rank attached\" job=\"%s\" rank=%u epoch=%u", reg->name,
                         reg->asked.first_rank + reg->asked.rank, action->job_added.epoch);
        return;
    }
    char *pipeline = pipeline_shown(reg->found.pipeline);
    log_info_limited("msg=\"job registered\" job=\"%s\" rank=%u ranks=%u dataset=\"%s\" samples=%u batch_size=%u "
                     "quota_mib=%llu pipeline=\"%s\"",
                     reg->name, reg->asked.first_rank + reg->asked.rank, ranks_here(reg).world_size,
                     dataset_path(reg->found.dataset), reg->found.samples, reg->asked.batch_size,
                     (unsigned long long)(action->job_added.quota_bytes >> 20), pipeline);
    free(pipeline);
    if (action->job_added.ahead < reg->asked.prefetch)
        log_shortened(driver, reg, reg->asked.prefetch, action->job_added.ahead, action->job_added.wanted_bytes);
    log_short_reads(driver, action->job_added.encoded_bytes);
    log_small_slots(driver, reg);
}

static void ahead_changed(const struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->tables.jobs[action->job].reg;
    if (action->ahead.failed) /* job_failed has told that */
        return;
    if (action->ahead.to < action->ahead.from)
        log_shortened(driver, reg, action->ahead.from, action->ahead.to, action->ahead.wanted_bytes);
    else
        log_info_limited("msg=\"look-ahead extended from %u to %u batches\" job=\"%s\"", action->ahead.from,
                         action->ahead.to, reg->name);
}

void driver_note_beyond(struct driver *driver, sample_id id, char *text)
{
    uint32_t at = driver->beyond.next % DRIVER_BEYOND_MAX;
    if (!text)
        return;
    free(driver->beyond.all[at].text);
    driver->beyond.all[at].id = id;
    driver->beyond.all[at].text = text;
    driver->beyond.next++;
}

/* beyond_text says which limit of the daemon's the sample has exceeded. */
static const char *beyond_text(const struct driver *driver, sample_id id)
{
    for (uint32_t i = 0; i < DRIVER_BEYOND_MAX; i++) {
        if (driver->beyond.all[i].text && driver->beyond.all[i].id == id)
            return driver->beyond.all[i].text;
    }
    return "it exceeds a limit of the daemon's, which the log names: raise that, or leave the file out";
}

/* log_beyond tells of a sample that encoded memory has no room for. */
static void log_beyond(struct driver *driver, const struct dataset *dataset, sample_id id)
{
    uint32_t index;
    char text[192];
    snprintf(text, sizeof text,
             driver->config.engine.lent_bytes
                 ? "the file is larger than the %llu MiB that files have of memory.samples at all times: raise "
                   "memory.samples, or leave the file out"
                 : "the file is larger than all %llu MiB of memory.encoded: raise memory.encoded, or leave the file "
                   "out",
             (unsigned long long)(driver->config.engine.encoded_bytes >> 20));
    driver_note_beyond(driver, id, xstrdup(text));
    if (dataset_index(dataset, id, &index))
        log_warn_limited("msg=\"bad sample\" file=\"%s/%s\" reason=%s err=\"%s\"", dataset_path(dataset),
                         dataset_key(dataset, index), bad_reason_name(BAD_TOO_LARGE), text);
}

static void source_news(struct driver *driver, const struct engine_action *action)
{
    const struct dataset *dataset = action->source.dataset;
    const char *path = dataset_path(dataset), *said = tables_source_said(&driver->tables, dataset);
    uint32_t index;
    switch (action->source.news) {
    case ENGINE_SOURCE_AWAY:
        log_warn_limited("msg=\"storage does not answer, its reads are tried again\" dataset=\"%s\" err=\"%s\"", path,
                         said);
        break;
    case ENGINE_SOURCE_BACK:
        log_info_limited("msg=\"storage answers again\" dataset=\"%s\" after_s=%.3f retried=%llu", path,
                         (double)action->source.waited_ns / 1e9, (unsigned long long)action->source.retries);
        break;
    case ENGINE_SOURCE_GAVE_UP:
        if (dataset_index(dataset, action->source.id, &index))
            log_warn_limited(
                "msg=\"bad sample\" file=\"%s/%s\" reason=%s err=\"it cannot be read while others can: %s\"", path,
                dataset_key(dataset, index), bad_reason_name((enum bad_reason)action->source.reason), said);
        break;
    case ENGINE_SOURCE_BEYOND: log_beyond(driver, dataset, action->source.id); break;
    }
}

/* shorten writes the text. If it is too long, shorten writes its beginning and its end, because the end tells files
 * apart. */
static const char *shorten(const char *text, char *out, size_t size)
{
    size_t length = strlen(text), tail = size / 2;
    if (length < size)
        snprintf(out, size, "%s", text);
    else
        snprintf(out, size, "%.*s...%s", (int)(size - tail - 4), text, text + length - tail);
    return out;
}

/* error_of_bad names the sample that was bad last, others that were bad before it, and where all of them are named.
 * Long ones are shortened, so that what is to be done keeps its place in the error's text. */
static int error_of_bad(const struct driver *driver, const struct engine_action *action, uint32_t index,
                        struct error *err)
{
    const struct dataset *dataset = action->error.dataset;
    char others[160] = "", place[128], folder[160], key[80];
    bool beyond = action->error.reason == BAD_TOO_LARGE;
    for (uint32_t i = 0, other; i < action->error.n_others; i++) {
        size_t used = strlen(others);
        if (dataset_index(dataset, action->error.others[i].id, &other))
            snprintf(others + used, sizeof others - used, "%s%s (%s)", i + 1 == action->error.n_others ? " and " : ", ",
                     shorten(dataset_key(dataset, other), key, 60),
                     bad_reason_name((enum bad_reason)action->error.others[i].reason));
    }
    log_place(place, sizeof place);
    return error_set(err, action->error.error.code, "%s/%s (%s%s%s)%s: %s; the daemon's log names all: %s",
                     shorten(dataset_path(dataset), folder, sizeof folder),
                     shorten(dataset_key(dataset, index), key, sizeof key),
                     bad_reason_name((enum bad_reason)action->error.reason), beyond ? ": " : "",
                     beyond ? beyond_text(driver, action->error.id) : "", others, action->error.error.text, place);
}

struct error driver_placed(const struct driver *driver, int code, const char *text)
{
    struct error err = {.code = code};
    config_tell_places(driver->config.settings, text, err.text, sizeof err.text);
    return err;
}

struct error driver_job_error(const struct driver *driver, const struct engine_action *action)
{
    struct error err = action->error.error;
    uint32_t index;
    const char *said = driver->tables.jobs[action->job].source_said;
    bool of_sample = action->error.id != SAMPLE_NONE && dataset_index(action->error.dataset, action->error.id, &index);
    if (action->error.of_source && said)
        error_set(&err, err.code, "%s; it said: %s", action->error.error.text, said);
    else if (err.code == LARDER_ECHANGED && of_sample)
        error_prefix(&err, err.code, "%s/%s", dataset_path(action->error.dataset),
                     dataset_key(action->error.dataset, index));
    else if (action->error.of_all_bad && of_sample)
        error_of_bad(driver, action, index, &err);
    else if (of_sample && action->error.reason == BAD_TOO_LARGE)
        error_set(&err, err.code, "%s/%s (%s): job %s: %s", dataset_path(action->error.dataset),
                  dataset_key(action->error.dataset, index), bad_reason_name(BAD_TOO_LARGE),
                  driver->tables.jobs[action->job].reg->name, beyond_text(driver, action->error.id));
    else if (of_sample)
        error_prefix(&err, err.code, "%s/%s (%s)", dataset_path(action->error.dataset),
                     dataset_key(action->error.dataset, index), bad_reason_name((enum bad_reason)action->error.reason));
    return driver_placed(driver, err.code, err.text);
}

static void job_failed(const struct driver *driver, const struct engine_action *action)
{
    struct error err = driver_job_error(driver, action);
    const struct registration *reg = driver->tables.jobs[action->job].reg;
    log_warn_limited("msg=\"job failed\" job=\"%s\" rank=%u code=%s err=\"%s\"", reg->name,
                     reg->asked.first_rank + action->rank, larder_err_name(err.code), err.text);
}

static void job_refused(const struct driver *driver, const struct engine_action *action)
{
    struct error err = driver_placed(driver, action->error.error.code, action->error.error.text);
    log_warn_limited("msg=\"job refused\" job=\"%s\" code=%s err=\"%s\"", driver->adding.reg->name,
                     larder_err_name(err.code), err.text);
}

void driver_news(void *ctx, const struct engine_action *action)
{
    struct driver *driver = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED: job_added(driver, action); break;
    case ENGINE_JOB_REFUSED: job_refused(driver, action); break;
    case ENGINE_JOB_ERROR: job_failed(driver, action); break;
    case ENGINE_AHEAD: ahead_changed(driver, action); break;
    case ENGINE_SOURCE: source_news(driver, action); break;
    case ENGINE_JOB_ENDED:
        log_info_limited("msg=\"job ended\" job=\"%s\"", driver->tables.jobs[action->job].reg->name);
        break;
    case ENGINE_LOAD:
    case ENGINE_PREPARE:
    case ENGINE_EXPECT:
    case ENGINE_DROP_ENCODED:
    case ENGINE_RESERVE:
    case ENGINE_RETURN:
    case ENGINE_DELIVER: break;
    }
}
