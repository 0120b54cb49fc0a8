/* dependent_priv.h: one round of dependent sampling (JOADER, NeurIPS 2022, sections 3 and 4).
 *
 * The paper's tree. Jobs 1 … n have remaining sets with |D1| ≤ … ≤ |Dn|. Let Sj = Dj ∩ … ∩ Dn, the suffix
 * intersections; they are nested, S1 ⊂ S2 ⊂ … ⊂ Sn = Dn. The tree's inner vertices hold Sj less the one above, its
 * leaves the differences Dj \ Sj. A walk stands at job j, with P the suffix intersection that it has left behind (at
 * the root P is empty), and every job i ≥ j has still to draw from Di' = Di \ P; I = Sj \ P is what these have in
 * common:
 *
 *   job j chooses I with probability |I| / |Dj'|; given that job i-1 chose I, job i does with |D(i-1)'| / |Di'|;
 *   those that chose I share one uniform draw from it; if job j did not, it draws alone from Dj' \ I = Dj \ Sj;
 *   the walk goes on with the jobs that are left and P = Sj.
 *
 * Each job's draw is uniform over Di. By induction over the jobs that are left: the conditional probabilities multiply
 * to P(i chooses I) = |I| / |Di'|, and then its draw is uniform in I; otherwise, whoever else is left, it is uniform
 * over Di' \ I by the claim for the rest of the walk. The mixture is uniform over Di'. For two jobs the draw is common
 * with probability |I|/|D1| · |D1|/|D2| = |I| / max(|D1|, |D2|), the most there can be; where sets are equal all
 * conditional probabilities are 1.
 *
 * What is different here. The paper materialises the vertices, so each insertion makes n intersections of bitmaps and
 * each round moves what was drawn between vertices; a round of some of the jobs does not fit its tree at all. Here a
 * vertex is never materialised: the sets themselves are asked.
 *
 *   A draw x uniform over Dj' lies in Sj with probability |I| / |Dj'|, and is uniform over I if it does, and over
 *   Dj' \ I if it does not: one draw and a membership test make the choice and the pick.
 *   A draw from Dj' = Dj \ P is a draw from Dj, repeated while it lies in P. Job j comes to this with probability
 *   |Dj'| / |Dj| and then repeats it |Dj| / |Dj'| times in the mean: one draw a job and round, whatever the sets.
 *   |D(i-1)'| / |Di'| without knowing |P|: u uniform below |Di|; u ≥ |D(i-1)| refuses; a draw z from D(i-1) outside P
 *   accepts; otherwise again. Accepting and refusing are as |D(i-1)| - |P| to |Di| - |D(i-1)|, as they should be.
 *
 * The mean is one draw, but where Dj \ P is tiny beside Dj the rare walk that comes there would repeat for ever. After
 * DEPENDENT_TRIES tries the suffix intersections are counted, block by block, once in that round: time linear in the
 * sets' bytes, after which the round's draws and choices come from exact counts. So insertion and deletion, the order
 * and partial rounds cost nothing here, and the distribution is the paper's, for any subset of jobs. */
#ifndef LARDER_SAMPLER_DEPENDENT_PRIV_H
#define LARDER_SAMPLER_DEPENDENT_PRIV_H

#include "sampler/remaining_priv.h"
#include "sampler/sampler.h"

#ifndef DEPENDENT_TRIES /* the tests set 0: always count */
#define DEPENDENT_TRIES 64
#endif

struct contender {
    unsigned job;
    struct remaining *set;
};

/* dependent_round draws for n jobs. They are ascending by remaining count, and none is empty. It returns the number of
 * picks; picks has room for n. Jobs that draw the same sample by chance come into one pick. The sets stay as they are:
 * the caller removes what was drawn. */
size_t dependent_round(struct rng *rng, const struct contender *jobs, unsigned n, struct pick *picks);

/* pick_of returns the pick of id. When there is none it adds one without jobs; picks has room for it. */
struct pick *pick_of(struct pick *picks, size_t *n_picks, sample_id id);

#endif
