/* plan.h: what memory and a storage class would save, for `larder plan`: from measurements of a person's own files to a
 * row for each setting, and to what to set. The real engine runs in virtual time, with threads that read and prepare as
 * fast as was measured. Nothing here does I/O, and the same case gives the same rows. */
#ifndef LARDER_SERVER_PLAN_PLAN_H
#define LARDER_SERVER_PLAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"
#include "sampler/sampler.h"

#define PLAN_POINTS 6
#define PLAN_JOBS_MAX 64
#define PLAN_EPOCHS_MAX 100
#define PLAN_BATCH_MAX 8192
#define PLAN_PREFETCH_MAX 64
#define PLAN_WIDTH_HALF UINT32_MAX /* a fiber is half of a chunk */
#define PLAN_ROWS_MAX 16
#define PLAN_PLAYED_MAX 20000 /* samples of a run in virtual time */
#define PLAN_RECORD_BYTES 56  /* bytes that a storage class takes for a sample beside its own */

/* A rate as a function of the work under way: bytes per second of reads, samples per second of preparations. It is
 * linear between points, and constant outside. */
struct plan_curve {
    uint32_t count;
    struct {
        double at_once, per_s;
    } at[PLAN_POINTS]; /* ascending by at_once */
};

/* plan_curve_add adds a point above the others; none where the curve is full, or the point is no rate. */
void plan_curve_add(struct plan_curve *curve, double at_once, double per_s);
double plan_curve_at(const struct plan_curve *curve, double at_once);

/* Means of decoded forms. */
struct plan_forms {
    double ratio;   /* bytes of a form by the bytes of its file; 0: none are made */
    double making;  /* time of a preparation that makes a form, by that of one without forms */
    double of_form; /* time of a preparation from a form, by the same */
};

/* The measurements, and the jobs. All fields but `class` are set. */
struct plan_case {
    uint32_t samples; /* samples of the dataset */
    uint64_t dataset_bytes;
    /* The samples that are played: all, or whole chunks of a large dataset; and the bytes of each, chunk by chunk. If
     * only some are played, memory and batches are scaled down in proportion. Borrowed. */
    uint32_t played;
    const uint64_t *sizes;
    uint32_t chunk;      /* samples of one */
    uint64_t slot_bytes; /* bytes of a prepared sample; 0: those of the encoded one */
    bool repeatable;     /* the pipeline draws nothing at random */
    struct plan_curve source, class;
    double class_writes_per_s;   /* bytes; > 0 where there is a class */
    struct plan_curve preparing; /* at_once: workers */
    struct plan_forms forms;
    uint32_t workers, loaders;
    uint32_t redirect_width; /* slots of a fiber, or PLAN_WIDTH_HALF; 0: no redirection */
    double quota_share;      /* share of the arena that one job may pin */
    uint32_t jobs, epochs;   /* epochs ≥ 2 */
    uint32_t batch, prefetch;
    double step_s; /* training time of one batch; 0: jobs take batches as fast as they come */
    double apart;  /* epochs, or part of one, that the first job has received when the next one begins */
    enum shuffle_mode shuffle;
    uint64_t seed;
    /* The most that each setting is played, with seeds in a row: orders differ. A row is the mean, and they end sooner
     * where chance is hardly left in it. */
    uint32_t runs;
};

/* plan_fail_case says what of a case is out of bounds; 0: nothing is. */
int plan_fail_case(const struct plan_case *plan, struct error *err);

struct plan_setting {
    uint64_t encoded_bytes, arena_bytes;
    bool moves;           /* Room moves between the two, from these on. */
    uint64_t class_bytes; /* 0: there is no storage class */
};

/* The results of some epochs, for the samples that were played. */
struct plan_part {
    uint64_t delivered, decoded, prepared;
    uint64_t from_decoded;              /* made of decoded forms, and not decoded */
    double work;                        /* of preparing; one sample made of its file, and no form of it, is 1 */
    uint64_t source_bytes, class_bytes; /* read */
    double stall_s, train_s;            /* sums over all jobs */
    double took_s;                      /* duration for the first job */
    uint32_t epochs;                    /* epochs of the first job */
};

struct plan_row {
    struct plan_setting setting;
    struct plan_part first, later; /* the first job's first epoch, and those after it */
    uint32_t runs;                 /* number of runs in these means */
    double stall_sd_s;             /* standard deviation, from run to run, of the waiting of all jobs in all epochs */
};

/* plan_play runs the jobs with one setting. LARDER_EINVAL, or the code with which the engine refuses a job. */
int plan_play(const struct plan_case *plan, const struct plan_setting *setting, struct plan_row *out,
              struct error *err);

/* A part's figures for the whole dataset. */
struct plan_rates {
    double source, class;     /* bytes read per byte of the dataset and epoch of the first job */
    double decoded, prepared; /* per delivered sample */
    double of_forms;          /* the part of the preparations that decoded forms in memory serve, 0 … 1 */
    double core_ms;           /* time of a processor that preparing takes, per delivered sample */
    double stall;             /* the part of their time that jobs wait, 0 … 1 */
    double epoch_s;           /* an epoch of the first job */
    double samples_per_s;     /* rate of all jobs together */
};

struct plan_rates plan_rates(const struct plan_case *plan, const struct plan_part *part);

/* The machine as it is. */
struct plan_machine {
    struct plan_setting now;
    uint64_t room_bytes; /* the most that encoded or prepared samples may have of memory, beside each other */
};

/* plan_settings fills in the settings to try: today's first, then the others by ascending cost. The sizes of encoded
 * memory in asked_bytes replace those that suit the dataset; count ≤ PLAN_ROWS_MAX / 2. It returns the number of
 * settings. */
uint32_t plan_settings(const struct plan_case *plan, const struct plan_machine *machine, const uint64_t *asked_bytes,
                       uint32_t count, struct plan_setting out[PLAN_ROWS_MAX]);

/* What limits an epoch's speed. */
enum plan_limit { PLAN_TRAINING, PLAN_READING, PLAN_PREPARING };

enum plan_limit plan_limit(const struct plan_case *plan, const struct plan_row *row);

struct plan_advice {
    uint32_t row;         /* the row to set; 0: all may stay as it is */
    enum plan_limit now;  /* what limits later epochs today */
    enum plan_limit then; /* what limits them with that row */
    double saved;         /* the part of a later epoch's time that it saves, 0 … 1 */
    uint32_t sparing;     /* the first row with which later epochs read next to nothing; `row`: none spares more */
    uint32_t thrifty;     /* the first row that comes near the least core_ms of later epochs; `row`: none saves much */
};

/* plan_advise chooses the first row that comes near the best one. rows are in the order of plan_settings; count ≥ 1. */
struct plan_advice plan_advise(const struct plan_case *plan, const struct plan_row *rows, uint32_t count);

#endif
