#include "preprocess/scratch_budget.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "common/random.h"
#include "preprocess/decode/jpeg_marks.h"
#include "preprocess/scratch.h"

#define BUDGET_MAGIC UINT32_C(0x73627564)
#define MARKS_PART 32 /* what is remembered of JPEGs takes at most this part of the budget */
#define KEEP_PART 4   /* threads together keep at most this part of it between images */

struct scratch_budget {
    uint32_t magic;
    size_t keep_bytes, common_bytes; /* immutable */
    uint64_t bytes;                  /* immutable */
    struct jpeg_marks *marks;        /* immutable; owned */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    size_t taken_bytes;         /* taken from the common part */
    uint64_t next_ticket, turn; /* the queue: tickets in [turn, next_ticket) wait */
};

/* A number that nobody outside can know: samples may be anybody's. */
static uint64_t secret_number(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
        return number;
    return random_mix64(clock_now_ns());
}

int scratch_budget_create(uint64_t bytes, uint32_t threads, struct scratch_budget **out)
{
    CHECK(threads >= 1);
    struct scratch_budget *budget = calloc(1, sizeof *budget);
    if (!budget || jpeg_marks_create(bytes / MARKS_PART, secret_number(), &budget->marks)) {
        free(budget);
        return LARDER_ENOMEM;
    }
    budget->magic = BUDGET_MAGIC;
    budget->bytes = bytes;
    uint64_t keep = bytes / KEEP_PART / threads, most = SIZE_MAX / 2;
    budget->keep_bytes = keep < SCRATCH_KEEP_BYTES ? (size_t)keep : SCRATCH_KEEP_BYTES;
    uint64_t common = bytes - bytes / MARKS_PART - (uint64_t)budget->keep_bytes * threads;
    budget->common_bytes = (size_t)(common < most ? common : most);
    CHECK(pthread_mutex_init(&budget->lock, NULL) == 0 && pthread_cond_init(&budget->changed, NULL) == 0);
    *out = budget;
    return 0;
}

void scratch_budget_destroy(struct scratch_budget *budget)
{
    if (!budget)
        return;
    CHECK_MAGIC(budget, BUDGET_MAGIC);
    CHECK(budget->taken_bytes == 0 && budget->turn == budget->next_ticket);
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->lock);
    jpeg_marks_destroy(budget->marks);
    budget->magic = 0;
    free(budget);
}

struct jpeg_marks *scratch_budget_marks(const struct scratch_budget *budget)
{
    return budget->marks;
}

size_t scratch_budget_keep(const struct scratch_budget *budget)
{
    return budget->keep_bytes;
}

size_t scratch_budget_most(const struct scratch_budget *budget)
{
    return budget->keep_bytes + budget->common_bytes;
}

bool scratch_budget_try(struct scratch_budget *budget, size_t bytes, bool holds)
{
    CHECK_MAGIC(budget, BUDGET_MAGIC);
    pthread_mutex_lock(&budget->lock);
    bool passes = holds || budget->turn == budget->next_ticket;
    bool fits = passes && bytes <= budget->common_bytes - budget->taken_bytes;
    if (fits)
        budget->taken_bytes += bytes;
    pthread_mutex_unlock(&budget->lock);
    return fits;
}

void scratch_budget_wait(struct scratch_budget *budget, size_t bytes)
{
    CHECK_MAGIC(budget, BUDGET_MAGIC);
    CHECK(bytes <= budget->common_bytes);
    pthread_mutex_lock(&budget->lock);
    uint64_t ticket = budget->next_ticket++;
    while (budget->turn != ticket || bytes > budget->common_bytes - budget->taken_bytes)
        pthread_cond_wait(&budget->changed, &budget->lock);
    budget->taken_bytes += bytes;
    budget->turn++;
    pthread_cond_broadcast(&budget->changed); /* there may be room for the next in line as well */
    pthread_mutex_unlock(&budget->lock);
}

void scratch_budget_give(struct scratch_budget *budget, size_t bytes)
{
    CHECK_MAGIC(budget, BUDGET_MAGIC);
    pthread_mutex_lock(&budget->lock);
    CHECK(bytes <= budget->taken_bytes);
    budget->taken_bytes -= bytes;
    if (budget->turn != budget->next_ticket)
        pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->lock);
}

void scratch_budget_stats(struct scratch_budget *budget, struct scratch_budget_stats *out)
{
    CHECK_MAGIC(budget, BUDGET_MAGIC);
    pthread_mutex_lock(&budget->lock);
    *out = (struct scratch_budget_stats){.budget_bytes = budget->bytes,
                                         .used_bytes = budget->bytes - budget->common_bytes + budget->taken_bytes,
                                         .waiting = (uint32_t)(budget->next_ticket - budget->turn),
                                         .waits = budget->next_ticket};
    pthread_mutex_unlock(&budget->lock);
}
