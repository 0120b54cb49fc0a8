/* costs.h: what reading, decoding, preparing and training take in a scenario of `larder_bench sharing`, and a machine
 * that takes these times. All times are virtual. One thread uses it. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_COSTS_H
#define LARDER_TESTS_BENCH_VIRTUAL_COSTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { COSTS_TIERS_MAX = 4, COSTS_CORES_MAX = 1024 };

/* A medium that part of the samples lies on. It reads one file after the other. */
struct costs_tier {
    double part;    /* of the samples */
    double bytes_s; /* bytes a second */
    double file_s;  /* seconds for each file besides */
};

struct costs {
    bool there; /* the scenario says costs */
    uint32_t cores;
    double decode_s;          /* of a core, for a sample */
    double prepare_s;         /* of a core, for an instance, when its sample is decoded */
    double encoded_bytes;     /* of a sample */
    double decoded, prepared; /* bytes of a decoded form and of an instance, over encoded_bytes */
    struct costs_tier tiers[COSTS_TIERS_MAX];
    uint32_t n_tiers;
    uint32_t at_once; /* jobs that run at once; the others wait, in the order of the file; 0: all */
};

/* How a delivered sample was come by. */
enum costs_hit {
    COSTS_READ,     /* it was read for this */
    COSTS_ENCODED,  /* its encoded bytes were in memory since an earlier use */
    COSTS_DECODED,  /* its decoded form was in memory */
    COSTS_PREPARED, /* an instance was in memory that another delivery had made */
    COSTS_HITS,
};

/* A machine: its media and cores serve in the order of the calls. What has been done on it is counted. */
struct costs_machine {
    const struct costs *costs;
    uint64_t tier_free_ns[COSTS_TIERS_MAX], core_free_ns[COSTS_CORES_MAX];
    uint64_t reads, decodes, forms; /* forms: decoded forms that were made to be kept */
    double read_s, cpu_s;           /* that media and cores worked */
    double instances;               /* that memory had room for at the end, over the samples; the user sets it */
    uint64_t hits[COSTS_HITS];      /* by costs_hit; the user counts them */
    uint64_t makespan_ns;           /* the user sets it */
};

/* costs_read reads a sample, and costs_work keeps a core busy for so long. Both begin at now_ns at the earliest and
 * return when they end. place: of the sample among all, from 0 up to 1. */
uint64_t costs_read(struct costs_machine *machine, uint64_t now_ns, double place);
uint64_t costs_work(struct costs_machine *machine, uint64_t now_ns, double core_s);
/* costs_read_s returns the seconds that reading all samples takes, over the number of samples, if the media read at
 * once. */
double costs_read_s(const struct costs *costs);
uint64_t costs_ns(double s);

/* costs_report returns what a machine did and took, for the caller. */
json_t *costs_report(const struct costs_machine *machine);

#endif
