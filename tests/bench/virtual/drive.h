/* drive.h: jobs that take epoch after epoch of one dataset, for the benches of the engine's own work (engine.c,
 * scale.c). Loads, preparations and batches are answered at once, so that hardly anything but the engine takes time. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_DRIVE_H
#define LARDER_TESTS_BENCH_VIRTUAL_DRIVE_H

#include "server/plan/play.h"

enum {
    DRIVE_SLOT_BYTES = 1024,
    DRIVE_CHUNK = 64,
    DRIVE_BATCH = 256,
    DRIVE_SAMPLES_MAX = 10000000 /* of a dataset */
};

/* What jobs are driven on. All of it but `play` is set by the bench. */
struct drive_case {
    uint32_t samples; /* of each dataset */
    uint32_t part;    /* the arena holds one sample in so many, beside what n_jobs jobs are sure of */
    uint32_t n_jobs;
    bool raw;   /* Jobs get the bytes as they are. Else a pipeline with random draws prepares them. */
    bool reads; /* There is memory for a tenth of the bytes. Else it is for twice the bytes of all samples. */
};

struct drive {
    struct play play;
    struct drive_case what;
    uint64_t events;    /* that the player gave, and that answer actions */
    uint64_t refused;   /* jobs that were refused or failed: then the bench is over */
    bool got[JOBS_MAX]; /* by job: it has got a batch */
    /* How many jobs have got a batch since the bench set `served` to 0, and when the first and the last of them did. */
    uint32_t served;
    uint64_t first_ns, last_ns;
};

/* drive_create makes an engine. It returns 0, or 1 after it has said on stderr why it cannot. drive_end frees what
 * it made. */
int drive_create(struct drive *drive, const struct drive_case *what);
void drive_end(struct drive *drive);
/* drive_add adds job `number` to a dataset: their ids follow each other. Its instances take slot_bytes. It returns the
 * job's number in the engine. */
uint32_t drive_add(struct drive *drive, uint32_t dataset, uint32_t number, uint64_t slot_bytes);
/* drive_epoch has the jobs take an epoch, a batch each in turn. */
void drive_epoch(struct drive *drive, const uint32_t *jobs, uint32_t n_jobs, uint32_t epoch);

/* What the engine did and took in some epochs, in the thread's time and, if the kernel counts them, instructions. */
struct drive_work {
    double delivered, made;  /* samples and instances */
    double ns, instructions; /* instructions: 0 if they are not counted */
};

/* drive_work has the jobs take the epochs from `epoch` up to `end`, and tells what that was. */
void drive_work(struct drive *drive, const uint32_t *jobs, uint32_t n_jobs, uint32_t epoch, uint32_t end,
                struct drive_work *out);
/* drive_print_instructions prints how many instructions a delivered sample took, in JSON. */
void drive_print_instructions(const struct drive_work *work);

#endif
