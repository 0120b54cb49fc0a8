/* encoded_figures.h: the figures of encoded memory, all chosen by measurement. docs/internals/measured/sharing.md says
 * what happens without each.
 *
 * Most save reads of a chunk rather than bytes, at the price of how far a chunk's samples are spread over an epoch.
 * That is worth something where a read begins with a wait: on disks that seek, at object storage, for packed stores. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_FIGURES_H
#define LARDER_SERVER_ENGINE_ENCODED_FIGURES_H

enum {
    /* What stays over epochs is at least 1/20 of a dataset: less is not worth it. */
    KEPT_PART = 20,
    /* The chunks that do not stay have memory for at least 8 chunks, so that they can be shuffled. */
    REST_CHUNKS = 8,
    /* A source may have 1/8 of what others leave in flight, however slow it is. */
    SLOW_PART = 8,
    /* Eviction for jobs out of step fills at most 2 stocks of a fiber, divided among them. */
    SHARED_STOCKS = 2
};

/* The chunks that do not stay have memory for 1/12 of themselves, so that jobs share them. At homes they need .16,
 * because jobs of several nodes take samples by the bundle. */
static const double REST_PART = 1.0 / 12, REST_PART_HOME = 0.16;
/* Reads ahead fill .9 of the budget for jobs in step, .85 for jobs half an epoch apart, and between these for jobs less
 * far apart. The rest is for reads on demand. Known orders take no more than what reads ahead for jobs in step
 * leave. */
static const double AHEAD_SHARE = 0.9, AHEAD_SHARE_APART = 0.85;
/* A read ahead brings at least half of what views have in a chunk; for jobs half an epoch apart at least
 * READ_PART_APART of it. */
static const double AHEAD_LEAST = 0.5;
/* One read brings a job at most .6 of what its view has in a chunk: two visits bring all, with some to spare. */
static const double READ_PART = 0.6;
/* For jobs out of step a read brings more, because they spread a chunk's samples more than one job alone: .8, or as
 * much as the slowest job's speed allows. */
static const double READ_PART_APART = 0.8;
/* Jobs are alike whose speeds, or whose positions in half an epoch, differ by at most .1. */
static const double ALIKE = 0.1;

/* A source may begin a read beyond its SLOW_PART while it has less in flight than it brings in a second. */
static const double FLIGHT_NS = 1e9;

/* Of decoded forms. */
enum {
    /* A form is made where 2 more preparations are expected: making it takes as long as the first of them saves. */
    FORM_USES_LEAST = 2
};
/* A grant is 3 times what the mean of forms takes. With 1.5 times, one photograph in eight had no form until its second
 * preparation. */
static const double FORM_GRANT_MORE = 3;

#endif
