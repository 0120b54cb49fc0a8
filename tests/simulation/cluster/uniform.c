/* uniform.c: whether draws are uniform over what is left, and homes are drawn in proportion.
 *
 * Between two looks at a job m samples were drawn, of T that were left, u of them of one kind. If each draw is uniform
 * over what is left, those of the kind are hypergeometric: of mean m p with p = u / T, and of variance
 * m p (1 - p) (T - m) / (T - 1), whatever was drawn before and whenever one looks. What was drawn less the mean is
 * added up over all looks and seeds, apart for each eighth of an epoch, so that what comes too early there and too late
 * elsewhere does not cancel out. The sum squared over its variance is chi-square of one degree of freedom. Two kinds
 * are looked at: what is elsewhere, among all; and what is at the first home, among all that is elsewhere. */
#include "tests/simulation/cluster/cluster.h"

#define VARIANCE_LEAST 30 /* below that no sum is near enough to normal */

static void add_draws(struct uniform *uniform, int kind, uint32_t window, uint64_t drawn, uint64_t total, uint64_t of,
                      uint64_t of_kind)
{
    if (total < 2)
        return;
    double share = (double)of / (double)total, m = (double)drawn;
    uniform->off[kind][window] += (double)of_kind - m * share;
    uniform->variance[kind][window] += m * share * (1 - share) * (double)(total - drawn) / (double)(total - 1);
}

static struct uniform_look look_at(const struct cluster *cluster, const struct trainer *trainer,
                                   const struct inside_share *share, const struct merge_status *parts, size_t n_parts)
{
    struct anchor_counts counts = fleet_received(cluster->fleet, trainer->job);
    struct uniform_look look = {.there = true,
                                .epoch = share->epoch,
                                .moved = counts.moved + counts.back,
                                .here = share->here,
                                .undrawn = share->undrawn};
    for (size_t i = 0; i < n_parts; i++) {
        if (parts[i].node < cluster->n_nodes)
            look.at_home[parts[i].node] += parts[i].left - parts[i].asked - parts[i].waiting;
    }
    return look;
}

/* by_homes tells whether the parts say of each sample that is not drawn where it is. They do not while an entry without
 * a place expects one. Runs where that is common are left out, since not every draw is as likely to find a place. */
static bool by_homes(const struct cluster *cluster, const struct uniform_look *look)
{
    uint64_t sum = 0;
    for (uint32_t node = 0; node < cluster->n_nodes; node++)
        sum += look->at_home[node];
    return !cluster->tight && sum == look->undrawn;
}

void uniform_look(struct cluster *cluster, struct trainer *trainer, const struct inside_share *share,
                  const struct merge_status *parts, size_t n_parts)
{
    const struct uniform_look before = trainer->look, now = look_at(cluster, trainer, share, parts, n_parts);
    uint64_t left = before.here + before.undrawn, left_now = now.here + now.undrawn;
    trainer->look = now;
    bool same = before.there && before.epoch == now.epoch && before.moved == now.moved;
    if (!same || left_now >= left || now.here > before.here || now.undrawn > before.undrawn)
        return;
    uint64_t draws = epochs_draws(cluster, trainer);
    uint32_t window = (uint32_t)(UNIFORM_WINDOWS * (draws > left ? draws - left : 0) / draws);
    uint64_t elsewhere = before.undrawn - now.undrawn;
    add_draws(&cluster->uniform, 0, window, left - left_now, left, before.undrawn, elsewhere);
    uint32_t first = 0;
    while (first < cluster->n_nodes && before.at_home[first] == 0)
        first++;
    if (first == cluster->n_nodes || !by_homes(cluster, &before) || !by_homes(cluster, &now))
        return;
    add_draws(&cluster->uniform, 1, window, elsewhere, before.undrawn, before.at_home[first],
              before.at_home[first] - now.at_home[first]);
}

void uniform_add(struct uniform *sum, const struct uniform *more)
{
    for (int kind = 0; kind < UNIFORM_KINDS; kind++) {
        for (int window = 0; window < UNIFORM_WINDOWS; window++) {
            sum->off[kind][window] += more->off[kind][window];
            sum->variance[kind][window] += more->variance[kind][window];
        }
    }
}

double uniform_chi_square(const struct uniform *sum)
{
    double chi_square = 0;
    for (int kind = 0; kind < UNIFORM_KINDS; kind++) {
        for (int window = 0; window < UNIFORM_WINDOWS; window++) {
            double off = sum->off[kind][window], variance = sum->variance[kind][window];
            if (variance < VARIANCE_LEAST)
                return -1;
            chi_square += off * off / variance;
        }
    }
    return chi_square;
}
