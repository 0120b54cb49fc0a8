/* metrics.h: the table of what Larder counts, and its text form.
 *
 * common/metrics_table.h declares each metric once: name, type, unit, help, labels. A snapshot is a growing list of
 * values for these metrics, filled by one thread; metrics_render writes Prometheus text format 0.0.4 (escaped label
 * values, HELP and TYPE once a metric, samples of one metric together). Counters end in _total, units stand last before
 * it (larder_job_stall_seconds_total). A histogram's buckets are those of common/histogram.h. Labels have bounded
 * cardinality: at most JOBS_MAX jobs and their queues. */
#ifndef LARDER_COMMON_METRICS_H
#define LARDER_COMMON_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"
#include "common/larder_err.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

#define METRIC_LABELS_MAX 4

enum metric_id {
#define METRIC(id, type, name, help, ...) METRIC_##id,
#include "common/metrics_table.h"
#undef METRIC
    METRIC_COUNT
};

struct metric_info {
    const char *name;
    const char *help;
    enum metric_type type;
    const char *labels[METRIC_LABELS_MAX]; /* NULL-terminated unless full */
};

const struct metric_info *metric_info(enum metric_id id);

struct metrics; /* a snapshot */

int metrics_create(struct metrics **out);
void metrics_destroy(struct metrics *metrics); /* accepts NULL */
/* metrics_put adds one value. label_values has as many texts as the table names labels, in its order; they are
 * copied. */
void metrics_put(struct metrics *metrics, enum metric_id id, double value, const char *const *label_values);
/* metrics_put_histogram does the same with a histogram, which is copied. */
void metrics_put_histogram(struct metrics *metrics, enum metric_id id, const struct histogram *histogram,
                           const char *const *label_values);
/* metrics_render returns the text, which the caller frees; NULL when memory runs out. */
char *metrics_render(const struct metrics *metrics, size_t *len_bytes);

#endif
