/* scenario_priv.h: drawing a scenario (scenario*.c only). What was added later is drawn with a key of its own, so
 * that the scenarios of all seeds stay what they were but for it. */
#ifndef LARDER_SIMULATION_SCENARIO_PRIV_H
#define LARDER_SIMULATION_SCENARIO_PRIV_H

#include "tests/simulation/scenario.h"

#define KEY_SCENARIO UINT64_C(0x5ce7a210)
#define KEY_RANKS UINT64_C(0x3a9c5)
#define KEY_WEIGHTS UINT64_C(0x3e167)
#define KEY_RAW UINT64_C(0x2a90)
#define KEY_AHEAD UINT64_C(0xa4ead)
#define KEY_HABITS UINT64_C(0x4ab17)
#define KEY_REPEATABLE UINT64_C(0x2e9ea7)
#define KEY_ORDERS UINT64_C(0x02de25)
#define KEY_ENDS UINT64_C(0xe4d5)
#define KEY_SCATTER UINT64_C(0x5ca77e2)
#define KEY_TIGHT UINT64_C(0x719487)
#define KEY_FORGET UINT64_C(0xf0c607)
#define KEY_UNFIT UINT64_C(0x0f17)
#define KEY_SWEEP UINT64_C(0x53ee9)
#define KEY_RECORDS UINT64_C(0x4ec04d)
#define KEY_OUTAGES UINT64_C(0x0074a6e5)
#define KEY_RESTARTS UINT64_C(0x4e57a475)
#define KEY_GROWTH UINT64_C(0x94034a)
#define KEY_LENT UINT64_C(0x1e47)
#define KEY_REACH UINT64_C(0x2eac4)
#define KEY_EVICTIONS UINT64_C(0xe71c7)
#define KEY_SIZED UINT64_C(0x512ed)
#define KEY_MULTISETS UINT64_C(0x3017153)

enum mood {
    MOOD_PLAIN,
    MOOD_CROWDED, /* more jobs than there are places for */
    MOOD_PIECES, /* slots of many sizes in an arena that is all promised, and clients that stop: free space in pieces */
    MOOD_SCATTERED, /* small slots of clients that stop, all over the arena, before others come that need large ones */
    MOOD_TIGHT,     /* as MOOD_PIECES, and no more room than jobs are sure of; clients hold what they may */
};

static inline bool has_pieces(enum mood mood)
{
    return mood == MOOD_PIECES || mood == MOOD_SCATTERED || mood == MOOD_TIGHT;
}

static inline uint64_t between(struct rng *rng, uint64_t low, uint64_t high)
{
    return low + random_below(rng, high - low + 1);
}

static inline bool chance(struct rng *rng, unsigned percent)
{
    return random_below(rng, 100) < percent;
}

/* scenario_data.c */
struct latency scenario_draw_latency(struct rng *rng, uint64_t mean_max_ns);
void scenario_draw_samples(struct scenario *sc, struct rng *rng, enum mood mood);
void scenario_draw_dataset(struct scenario *sc, struct scenario_dataset *dataset, struct rng *rng);
void scenario_draw_unfit(struct scenario *sc); /* samples that one pipeline can make nothing of and another can */
void scenario_draw_chunks(struct scenario *sc, struct rng *rng); /* and how picks are redirected among these */
void scenario_draw_raw(struct scenario *sc);                     /* maybe a pipeline that gives files as they are */
void scenario_draw_sized(struct scenario *sc);                   /* which pipelines' samples differ in length */
void scenario_draw_repeatable(struct scenario *sc);              /* maybe pipelines that draw nothing at random */
void scenario_draw_troubles(struct scenario *sc); /* sources that do not answer, samples that are others by now */

/* scenario_clients.c */
void scenario_draw_job(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng,
                       enum mood mood);
void scenario_draw_behaviour(struct client_plan *plan, struct rng *rng, uint64_t join_spread_ns, bool calm);
void scenario_draw_ranks(struct scenario *sc, enum mood mood); /* makes clients of its own */
void scenario_draw_weights(struct scenario *sc);
void scenario_draw_ends(struct scenario *sc);
void scenario_draw_habits(struct scenario *sc);    /* makes clients of its own */
void scenario_draw_multisets(struct scenario *sc); /* after all clients are there */
/* The same job: views of its own. */
void scenario_copy_plan(const struct client_plan *from, struct client_plan *to);
void scenario_scatter(const struct scenario *sc, struct client_plan *plan, uint32_t index, struct rng *rng);

/* scenario_restarts.c: after all clients are there, so that the scenarios without it stay what they were. */
void scenario_draw_restarts(struct scenario *sc, enum mood mood); /* makes clients of its own */

#endif
