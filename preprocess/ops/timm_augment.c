/* timm_augment.c: timm's RandAugment and AutoAugment: timm_rand_augment, timm_auto_augment. */
#include "preprocess/ops/op.h"
#include "preprocess/timm.h"

/* ── RandAugment ─────────────────────────────────────────────────────────────────────────────────────────────────── */

#define SET_MAX 15

struct rand_values {
    int32_t n_ops, set;
    double magnitude, p;
    struct timm_values how;
};

static const char *const set_names[] = {"standard", "increasing", "3a", "weights", "3aw", NULL};

/* A set of changes. Those with weights are drawn without being put back, the others with. */
struct set {
    uint32_t count;
    bool weighted;
    struct {
        enum timm_change change;
        double weight;
    } members[SET_MAX];
};

static const struct set sets[] = {
    {15,
     false,
     {{TIMM_AUTO_CONTRAST, 1},
      {TIMM_EQUALIZE, 1},
      {TIMM_INVERT, 1},
      {TIMM_ROTATE, 1},
      {TIMM_POSTERIZE, 1},
      {TIMM_SOLARIZE, 1},
      {TIMM_SOLARIZE_ADD, 1},
      {TIMM_COLOR, 1},
      {TIMM_CONTRAST, 1},
      {TIMM_BRIGHTNESS, 1},
      {TIMM_SHARPNESS, 1},
      {TIMM_SHEAR_X, 1},
      {TIMM_SHEAR_Y, 1},
      {TIMM_TRANSLATE_X_REL, 1},
      {TIMM_TRANSLATE_Y_REL, 1}}},
    {15,
     false,
     {{TIMM_AUTO_CONTRAST, 1},
      {TIMM_EQUALIZE, 1},
      {TIMM_INVERT, 1},
      {TIMM_ROTATE, 1},
      {TIMM_POSTERIZE_INCREASING, 1},
      {TIMM_SOLARIZE_INCREASING, 1},
      {TIMM_SOLARIZE_ADD, 1},
      {TIMM_COLOR_INCREASING, 1},
      {TIMM_CONTRAST_INCREASING, 1},
      {TIMM_BRIGHTNESS_INCREASING, 1},
      {TIMM_SHARPNESS_INCREASING, 1},
      {TIMM_SHEAR_X, 1},
      {TIMM_SHEAR_Y, 1},
      {TIMM_TRANSLATE_X_REL, 1},
      {TIMM_TRANSLATE_Y_REL, 1}}},
    {3, false, {{TIMM_SOLARIZE_INCREASING, 1}, {TIMM_DESATURATE, 1}, {TIMM_GAUSSIAN_BLUR, 1}}},
    {15,
     true,
     {{TIMM_ROTATE, 3},
      {TIMM_SHEAR_X, 2},
      {TIMM_SHEAR_Y, 2},
      {TIMM_TRANSLATE_X_REL, 1},
      {TIMM_TRANSLATE_Y_REL, 1},
      {TIMM_COLOR_INCREASING, 0.25},
      {TIMM_SHARPNESS_INCREASING, 0.25},
      {TIMM_AUTO_CONTRAST, 0.25},
      {TIMM_SOLARIZE_INCREASING, 0.05},
      {TIMM_SOLARIZE_ADD, 0.05},
      {TIMM_CONTRAST_INCREASING, 0.05},
      {TIMM_BRIGHTNESS_INCREASING, 0.05},
      {TIMM_EQUALIZE, 0.05},
      {TIMM_POSTERIZE_INCREASING, 0.05},
      {TIMM_INVERT, 0.05}}},
    {14,
     true,
     {{TIMM_SOLARIZE_INCREASING, 6},
      {TIMM_DESATURATE, 6},
      {TIMM_GAUSSIAN_BLUR, 6},
      {TIMM_ROTATE, 3},
      {TIMM_SHEAR_X, 2},
      {TIMM_SHEAR_Y, 2},
      {TIMM_POSTERIZE_INCREASING, 1},
      {TIMM_AUTO_CONTRAST, 1},
      {TIMM_COLOR_INCREASING, 1},
      {TIMM_SHARPNESS_INCREASING, 1},
      {TIMM_CONTRAST_INCREASING, 1},
      {TIMM_BRIGHTNESS_INCREASING, 1},
      {TIMM_EQUALIZE, 1},
      {TIMM_INVERT, 1}}},
};

static const struct arg rand_args[] = {
    {.name = "num_ops",
     .type = ARG_INTEGER,
     .offset = offsetof(struct rand_values, n_ops),
     .initial = "2",
     .min = 0,
     .max = PLAN_CHOICES},
    {.name = "magnitude",
     .type = ARG_NUMBER,
     .offset = offsetof(struct rand_values, magnitude),
     .initial = "10",
     .min = 0,
     .max = 100},
    {.name = "prob",
     .type = ARG_NUMBER,
     .offset = offsetof(struct rand_values, p),
     .initial = "0.5",
     .min = 0,
     .max = 1},
    {.name = "transforms",
     .type = ARG_CHOICE,
     .offset = offsetof(struct rand_values, set),
     .initial = "\"standard\"",
     .choices = set_names},
    TIMM_ARGS(rand_values, how, "0"),
    {0},
};

static int check_rand(void *values, struct error *err)
{
    const struct rand_values *v = values;
    const struct set *set = &sets[v->set];
    if (set->weighted && (uint32_t)v->n_ops > set->count)
        return error_set(err, LARDER_EINVAL, "num_ops must be at most %u with transforms \"%s\", not %d", set->count,
                         set_names[v->set], v->n_ops);
    return 0;
}

/* A member that `taken`, a set of bits, does not have. */
static uint32_t draw_member(const struct set *set, uint32_t taken, struct rng *rng)
{
    double sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < set->count; i++)
        sum += taken >> i & 1 ? 0 : set->members[i].weight;
    double at = random_unit(rng) * sum;
    for (uint32_t i = 0; i < set->count; i++) {
        if (taken >> i & 1)
            continue;
        last = i;
        at -= set->members[i].weight;
        if (at < 0)
            break;
    }
    return last;
}

static int plan_rand(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct rand_values *v = values;
    const struct set *set = &sets[v->set];
    uint32_t taken = 0;
    for (int32_t i = 0; i < v->n_ops; i++) {
        uint32_t member = draw_member(set, taken, rng);
        taken |= set->weighted ? 1u << member : 0;
        timm_draw(&v->how, set->members[member].change, v->magnitude, v->p, rng, &p->choice[i], &p->real[i]);
    }
    return 0;
}

static int apply_rand(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                      struct scratch *scratch)
{
    (void)out;
    const struct rand_values *v = values;
    int rc = 0;
    for (int32_t i = 0; i < v->n_ops && rc == 0; i++)
        rc = timm_apply(&v->how, p->choice[i], p->real[i], in, scratch);
    return rc;
}

const struct op_kind op_timm_rand_augment = {
    .name = "timm_rand_augment",
    .python = "TimmRandAugment",
    .text = "timm's RandAugment: `num_ops` random changes of a set (`standard`, `increasing`, `3a`, `weights`, `3aw`), "
            "each with probability `prob`, of a strength about `magnitude`.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = rand_args,
    .values_bytes = sizeof(struct rand_values),
    .check = check_rand,
    .plan = plan_rand,
    .apply = apply_rand,
};

/* ── AutoAugment ─────────────────────────────────────────────────────────────────────────────────────────────────── */

#define STEPS 2
#define PAIRS_MAX 25

struct auto_values {
    int32_t policy;
    struct timm_values how;
};

static const char *const policy_names[] = {"v0", "v0r", "original", "originalr", "3a", NULL};

static const struct arg auto_args[] = {
    {.name = "policy",
     .type = ARG_CHOICE,
     .offset = offsetof(struct auto_values, policy),
     .initial = "\"v0\"",
     .choices = policy_names},
    TIMM_ARGS(auto_values, how, "0"),
    {0},
};

/* A change, in how many of ten cases it is made, and its magnitude. The second of a pair may be TIMM_NOTHING. */
struct step {
    int8_t change, tenths, magnitude;
};

struct policy {
    uint32_t count;
    struct step pairs[PAIRS_MAX][STEPS];
};

/* Policies v0 and v0r, original and originalr, 3a. Those with an r have posterising that takes more away at a higher
 * magnitude, and the same pairs otherwise. */
static const struct policy policies[] = {
    {25,
     {
         {{TIMM_EQUALIZE, 8, 1}, {TIMM_SHEAR_Y, 8, 4}},
         {{TIMM_COLOR, 4, 9}, {TIMM_EQUALIZE, 6, 3}},
         {{TIMM_COLOR, 4, 1}, {TIMM_ROTATE, 6, 8}},
         {{TIMM_SOLARIZE, 8, 3}, {TIMM_EQUALIZE, 4, 7}},
         {{TIMM_SOLARIZE, 4, 2}, {TIMM_SOLARIZE, 6, 2}},
         {{TIMM_COLOR, 2, 0}, {TIMM_EQUALIZE, 8, 8}},
         {{TIMM_EQUALIZE, 4, 8}, {TIMM_SOLARIZE_ADD, 8, 3}},
         {{TIMM_SHEAR_X, 2, 9}, {TIMM_ROTATE, 6, 8}},
         {{TIMM_COLOR, 6, 1}, {TIMM_EQUALIZE, 10, 2}},
         {{TIMM_INVERT, 4, 9}, {TIMM_ROTATE, 6, 0}},
         {{TIMM_EQUALIZE, 10, 9}, {TIMM_SHEAR_Y, 6, 3}},
         {{TIMM_COLOR, 4, 7}, {TIMM_EQUALIZE, 6, 0}},
         {{TIMM_POSTERIZE, 4, 6}, {TIMM_AUTO_CONTRAST, 4, 7}},
         {{TIMM_SOLARIZE, 6, 8}, {TIMM_COLOR, 6, 9}},
         {{TIMM_SOLARIZE, 2, 4}, {TIMM_ROTATE, 8, 9}},
         {{TIMM_ROTATE, 10, 7}, {TIMM_TRANSLATE_Y_REL, 8, 9}},
         {{TIMM_SHEAR_X, 0, 0}, {TIMM_SOLARIZE, 8, 4}},
         {{TIMM_SHEAR_Y, 8, 0}, {TIMM_COLOR, 6, 4}},
         {{TIMM_COLOR, 10, 0}, {TIMM_ROTATE, 6, 2}},
         {{TIMM_EQUALIZE, 8, 4}, {TIMM_EQUALIZE, 0, 8}},
         {{TIMM_EQUALIZE, 10, 4}, {TIMM_AUTO_CONTRAST, 6, 2}},
         {{TIMM_SHEAR_Y, 4, 7}, {TIMM_SOLARIZE_ADD, 6, 7}},
         {{TIMM_POSTERIZE, 8, 2}, {TIMM_SOLARIZE, 6, 10}},
         {{TIMM_SOLARIZE, 6, 8}, {TIMM_EQUALIZE, 6, 1}},
         {{TIMM_COLOR, 8, 6}, {TIMM_ROTATE, 4, 5}},
     }},
    {25,
     {
         {{TIMM_POSTERIZE_ORIGINAL, 4, 8}, {TIMM_ROTATE, 6, 9}},
         {{TIMM_SOLARIZE, 6, 5}, {TIMM_AUTO_CONTRAST, 6, 5}},
         {{TIMM_EQUALIZE, 8, 8}, {TIMM_EQUALIZE, 6, 3}},
         {{TIMM_POSTERIZE_ORIGINAL, 6, 7}, {TIMM_POSTERIZE_ORIGINAL, 6, 6}},
         {{TIMM_EQUALIZE, 4, 7}, {TIMM_SOLARIZE, 2, 4}},
         {{TIMM_EQUALIZE, 4, 4}, {TIMM_ROTATE, 8, 8}},
         {{TIMM_SOLARIZE, 6, 3}, {TIMM_EQUALIZE, 6, 7}},
         {{TIMM_POSTERIZE_ORIGINAL, 8, 5}, {TIMM_EQUALIZE, 10, 2}},
         {{TIMM_ROTATE, 2, 3}, {TIMM_SOLARIZE, 6, 8}},
         {{TIMM_EQUALIZE, 6, 8}, {TIMM_POSTERIZE_ORIGINAL, 4, 6}},
         {{TIMM_ROTATE, 8, 8}, {TIMM_COLOR, 4, 0}},
         {{TIMM_ROTATE, 4, 9}, {TIMM_EQUALIZE, 6, 2}},
         {{TIMM_EQUALIZE, 0, 7}, {TIMM_EQUALIZE, 8, 8}},
         {{TIMM_INVERT, 6, 4}, {TIMM_EQUALIZE, 10, 8}},
         {{TIMM_COLOR, 6, 4}, {TIMM_CONTRAST, 10, 8}},
         {{TIMM_ROTATE, 8, 8}, {TIMM_COLOR, 10, 2}},
         {{TIMM_COLOR, 8, 8}, {TIMM_SOLARIZE, 8, 7}},
         {{TIMM_SHARPNESS, 4, 7}, {TIMM_INVERT, 6, 8}},
         {{TIMM_SHEAR_X, 6, 5}, {TIMM_EQUALIZE, 10, 9}},
         {{TIMM_COLOR, 4, 0}, {TIMM_EQUALIZE, 6, 3}},
         {{TIMM_EQUALIZE, 4, 7}, {TIMM_SOLARIZE, 2, 4}},
         {{TIMM_SOLARIZE, 6, 5}, {TIMM_AUTO_CONTRAST, 6, 5}},
         {{TIMM_INVERT, 6, 4}, {TIMM_EQUALIZE, 10, 8}},
         {{TIMM_COLOR, 6, 4}, {TIMM_CONTRAST, 10, 8}},
         {{TIMM_EQUALIZE, 8, 8}, {TIMM_EQUALIZE, 6, 3}},
     }},
    {3,
     {
         {{TIMM_SOLARIZE, 10, 5}, {TIMM_NOTHING, 0, 0}},
         {{TIMM_DESATURATE, 10, 10}, {TIMM_NOTHING, 0, 0}},
         {{TIMM_GAUSSIAN_BLUR_RAND, 10, 10}, {TIMM_NOTHING, 0, 0}},
     }},
};

static const struct {
    const struct policy *policy;
    bool increasing;
} named_policies[] = {
    {&policies[0], false}, {&policies[0], true}, {&policies[1], false}, {&policies[1], true}, {&policies[2], false}};

static enum timm_change change_of(const struct step *step, bool increasing)
{
    bool posterizes = step->change == TIMM_POSTERIZE || step->change == TIMM_POSTERIZE_ORIGINAL;
    return posterizes && increasing ? TIMM_POSTERIZE_INCREASING : (enum timm_change)step->change;
}

static int plan_auto(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct auto_values *v = values;
    const struct policy *policy = named_policies[v->policy].policy;
    const struct step *pair = policy->pairs[random_below(rng, policy->count)];
    for (int i = 0; i < STEPS; i++) {
        p->choice[i] = TIMM_NOTHING;
        if (pair[i].change != TIMM_NOTHING)
            timm_draw(&v->how, change_of(&pair[i], named_policies[v->policy].increasing), pair[i].magnitude,
                      pair[i].tenths / 10.0, rng, &p->choice[i], &p->real[i]);
    }
    return 0;
}

static int apply_auto(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                      struct scratch *scratch)
{
    (void)out;
    const struct auto_values *v = values;
    int rc = 0;
    for (int i = 0; i < STEPS && rc == 0; i++)
        rc = timm_apply(&v->how, p->choice[i], p->real[i], in, scratch);
    return rc;
}

const struct op_kind op_timm_auto_augment = {
    .name = "timm_auto_augment",
    .python = "TimmAutoAugment",
    .text = "timm's AutoAugment, by a `policy`: `v0`, `v0r`, `original`, `originalr`, or `3a`, which is 3-Augment.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = auto_args,
    .values_bytes = sizeof(struct auto_values),
    .plan = plan_auto,
    .apply = apply_auto,
};
