/* resume_scene.h: a run of three ranks that is played, stopped, and gone on with. */
#ifndef LARDER_TESTS_UNIT_SERVER_ENGINE_RESUME_SCENE_H
#define LARDER_TESTS_UNIT_SERVER_ENGINE_RESUME_SCENE_H

#include "tests/play/restart.h"

#define MANY 64 /* batches: more than an epoch has */

enum { SAMPLES = 60, BATCH = 4, WORLD = 3, ORDERS = 3 };

extern const enum shuffle_mode orders[ORDERS];

struct run *new_run(enum shuffle_mode shuffle);
/* played gives a run whose ranks have had so many batches of epoch 0 each, and more are on their way. */
struct run *played(enum shuffle_mode shuffle, uint32_t batches);
/* count_rank adds the turns of the first `batches` batches of epoch 0 of one rank. A repeat, which is nobody's turn,
 * may come before the last batches: what is ready goes out. */
void count_rank(const struct run *run, uint32_t rank, uint32_t batches, uint32_t times[RUN_IDS_MAX]);
void assert_each_once(const uint32_t times[RUN_IDS_MAX]);
void refused(const struct run *run, int code, const char *text);

#endif
