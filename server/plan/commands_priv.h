/* commands_priv.h: what the parts of `larder plan` have in common (plan*.c only). */
#ifndef LARDER_SERVER_PLAN_COMMANDS_PRIV_H
#define LARDER_SERVER_PLAN_COMMANDS_PRIV_H

#include "cache/catalog/catalog.h"
#include "preprocess/limits.h"
#include "preprocess/pipeline.h"
#include "server/plan/plan.h"

/* ── options ── */

#define PLAN_SIZES_MAX (PLAN_ROWS_MAX / 2)

struct plan_arguments {
    const char *path, *config, *pipeline, *storage;
    uint64_t jobs, epochs, batch, prefetch;
    double step_ms, apart;
    enum shuffle_mode shuffle;
    uint64_t sizes[PLAN_SIZES_MAX];
    uint32_t n_sizes;
    int json, warm;
};

/* plan_parse reads the command line over the defaults in *arguments, which borrows its texts. It returns the exit
 * status, or -1 to go on. */
int plan_parse(int argc, char **argv, struct plan_arguments *arguments);

/* ── measuring ── */

struct plan_probe {
    const struct dataset *dataset;
    const struct pipeline *pipeline;
    struct prepare_limits limits;
    uint32_t workers, loaders, cores;
    uint64_t seed; /* seed for the choice of files */
    bool warm;     /* the files' pages stay in the page cache */
};

struct plan_measured {
    uint32_t files, unreadable, unprepared; /* files of the sample, and those of them that failed */
    uint64_t bytes;                         /* bytes of the files that were read */
    struct plan_curve source, preparing;
    struct plan_forms forms; /* ratio 0: the pipeline takes none, or none could be made */
    double took_s;
};

/* plan_measure reads some files and prepares them. LARDER_EIO: none of them can be read, or prepared. */
int plan_measure(const struct plan_probe *probe, struct plan_measured *out, struct error *err);

/* ── telling ── */

struct plan_told {
    const struct plan_case *plan;
    const struct plan_measured *measured;
    const struct plan_machine *machine;
    const struct plan_row *rows;
    uint32_t count;
    const char *path, *pipeline;
    const char *storage; /* the class's own folder; NULL: nobody said where it would lie */
    const char *refused; /* the engine's error if the jobs cannot run with today's memory; or NULL */
};

void plan_tell(const struct plan_told *told);      /* a table and a paragraph */
void plan_tell_json(const struct plan_told *told); /* both go to stdout */

#endif
