/* driver.c: a fuzz target as an ordinary test, for compilers without libFuzzer: every seed of the target as it is, then
 * seeded mutations of them. A child does the work and shares its position with the parent, so that a crash of any kind,
 * a sanitizer's included, or a hang, is reported with the numbers that repeat it: input N depends on (seed, N) alone.
 *
 *   TARGET [--seed N] [--runs N] [--only N] [--max-len BYTES]     LARDER_SEED and LARDER_FUZZ_RUNS set the same
 *   TARGET --write-seeds DIR      writes the target's seeds as files, for libFuzzer
 *   TARGET FILE…                  feeds these files */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"
#include "tests/fuzz/fuzz.h"

#define SEEDS_MAX 256
#define INPUT_SECONDS_MAX 60 /* for one input; sanitizers on a busy machine are slow */

struct seed {
    uint8_t *data;
    size_t len;
};

struct plan {
    uint64_t seed, runs, only;
    bool has_only;
    size_t max_len;
    size_t n_seeds;
    struct seed seeds[SEEDS_MAX];
};

static void feed(const uint8_t *data, size_t len)
{
    uint8_t *copy = xmalloc(len);
    memcpy(copy, data, len);
    alarm(INPUT_SECONDS_MAX);
    LLVMFuzzerTestOneInput(copy, len);
    alarm(0);
    free(copy);
}

static void feed_number(const struct plan *plan, uint64_t n, uint8_t *buf)
{
    if (n < plan->n_seeds) {
        feed(plan->seeds[n].data, plan->seeds[n].len);
        return;
    }
    struct rng rng;
    random_seed_keys(&rng, plan->seed, n, 0, 0);
    const struct seed *from = &plan->seeds[random_below(&rng, plan->n_seeds)];
    const struct seed *other = &plan->seeds[random_below(&rng, plan->n_seeds)];
    memcpy(buf, from->data, from->len);
    feed(buf, fuzz_mutate(&rng, buf, from->len, plan->max_len, other->data, other->len));
}

static void load_seeds(struct plan *plan)
{
    uint8_t *buf = xmalloc(plan->max_len);
    size_t len;
    while (plan->n_seeds < SEEDS_MAX && (len = fuzz_seed(plan->n_seeds, buf, plan->max_len)) > 0) {
        CHECK(len <= plan->max_len);
        uint8_t *data = memcpy(xmalloc(len), buf, len);
        plan->seeds[plan->n_seeds++] = (struct seed){.data = data, .len = len};
    }
    free(buf);
    CHECK(plan->n_seeds > 0);
}

static void free_seeds(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_seeds; i++)
        free(plan->seeds[i].data);
}

static int write_seeds(const struct plan *plan, const char *folder)
{
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        perror(folder);
        return 1;
    }
    for (size_t i = 0; i < plan->n_seeds; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/seed-%03zu", folder, i);
        FILE *file = fopen(path, "wb");
        bool ok = file && fwrite(plan->seeds[i].data, 1, plan->seeds[i].len, file) == plan->seeds[i].len;
        if (file)
            ok = fclose(file) == 0 && ok;
        if (!ok) {
            perror(path);
            return 1;
        }
    }
    return 0;
}

static int feed_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t cap = (size_t)1 << 26;
    uint8_t *buf = xmalloc(cap);
    size_t len = fread(buf, 1, cap, file);
    fclose(file);
    feed(buf, len);
    free(buf);
    printf("%s: %zu bytes, no failure\n", path, len);
    return 0;
}

static int run_all(struct plan *plan, const char *program)
{
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    _Atomic uint64_t *position = mmap(NULL, sizeof *position, PROT_READ | PROT_WRITE, shared, -1, 0);
    CHECK(position != MAP_FAILED);
    uint64_t first = plan->has_only ? plan->only : 0;
    uint64_t end = plan->has_only ? plan->only + 1 : plan->n_seeds + plan->runs;
    printf("seed %" PRIu64 ": %zu inputs of the target's own and %" PRIu64 " mutations\n", plan->seed, plan->n_seeds,
           plan->runs);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        uint8_t *buf = xmalloc(plan->max_len);
        for (uint64_t n = first; n < end; n++) {
            atomic_store_explicit(position, n, memory_order_relaxed); /* read by the parent after waitpid */
            feed_number(plan, n, buf);
        }
        free(buf);
        free_seeds(plan);
        exit(0); /* not _exit: a leak sanitizer looks at exit */
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    uint64_t at = atomic_load(position);
    fprintf(stderr,
            "failed (%s %d) at input %" PRIu64 "; repeat with: %s --seed %" PRIu64 " --max-len %zu --only %" PRIu64
            "\n",
            WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), at,
            program, plan->seed, plan->max_len, at);
    return 1;
}

static uint64_t number_of(const char *text, uint64_t otherwise)
{
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

int main(int argc, char **argv)
{
    struct plan plan = {.seed = number_of(getenv("LARDER_SEED"), 1), .runs = 20000, .max_len = 65536};
    const char *folder = NULL;
    int arg = 1;
    for (; arg + 1 < argc && strncmp(argv[arg], "--", 2) == 0; arg += 2) {
        const char *name = argv[arg], *value = argv[arg + 1];
        if (strcmp(name, "--seed") == 0)
            plan.seed = number_of(value, 1);
        else if (strcmp(name, "--runs") == 0)
            plan.runs = number_of(value, 0);
        else if (strcmp(name, "--max-len") == 0)
            plan.max_len = (size_t)number_of(value, 65536);
        else if (strcmp(name, "--only") == 0)
            plan.only = number_of(value, 0), plan.has_only = true;
        else if (strcmp(name, "--write-seeds") == 0)
            folder = value;
        else
            break;
    }
    plan.runs = number_of(getenv("LARDER_FUZZ_RUNS"), plan.runs);
    int rc = 0;
    if (arg < argc && strncmp(argv[arg], "--", 2) == 0) {
        fprintf(stderr, "%s: unknown option, or one without a value\n", argv[arg]);
        return 2;
    }
    if (arg < argc) {
        for (; arg < argc && rc == 0; arg++)
            rc = feed_file(argv[arg]);
        return rc;
    }
    load_seeds(&plan);
    rc = folder ? write_seeds(&plan, folder) : run_all(&plan, argv[0]);
    free_seeds(&plan);
    return rc;
}
