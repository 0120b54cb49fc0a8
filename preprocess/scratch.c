#include "preprocess/scratch.h"

#include <stdlib.h>

#include "common/larder_err.h"

#define BLOCK_MIN_BYTES ((size_t)1 << 20)

struct scratch_block {
    struct scratch_block *next;
    size_t bytes; /* behind the header */
};

_Static_assert(sizeof(struct scratch_block) <= SCRATCH_ALIGN, "the header takes one aligned unit");

static uint8_t *block_memory(struct scratch_block *block)
{
    return (uint8_t *)block + SCRATCH_ALIGN;
}

void scratch_init(struct scratch *scratch, size_t max_bytes, struct scratch_budget *budget)
{
    *scratch = (struct scratch){.max_bytes = max_bytes, .budget = budget};
}

static void free_blocks(struct scratch *scratch)
{
    while (scratch->blocks) {
        struct scratch_block *next = scratch->blocks->next;
        free(scratch->blocks);
        scratch->blocks = next;
    }
    scratch->held_bytes = 0;
}

/* Gives the common part back, since the thread holds no more than it may keep. */
static void give_back(struct scratch *scratch)
{
    if (scratch->reserved_bytes)
        scratch_budget_give(scratch->budget, scratch->reserved_bytes);
    scratch->reserved_bytes = 0;
}

void scratch_free(struct scratch *scratch)
{
    free_blocks(scratch);
    give_back(scratch);
    scratch->used_bytes = scratch->taken_bytes = 0;
}

/* Counts bytes that are about to be held; false: the budget has no room for them. */
static bool hold(struct scratch *scratch, size_t bytes)
{
    size_t held = scratch->held_bytes + bytes;
    if (scratch->budget) {
        size_t allowed = scratch_budget_keep(scratch->budget) + scratch->reserved_bytes;
        if (held > allowed && !scratch_budget_try(scratch->budget, held - allowed, scratch->reserved_bytes > 0)) {
            scratch->refused_bytes = held;
            return false;
        }
        if (held > allowed)
            scratch->reserved_bytes += held - allowed;
    }
    scratch->held_bytes = held;
    return true;
}

static int add_block(struct scratch *scratch, size_t bytes)
{
    if (bytes < BLOCK_MIN_BYTES)
        bytes = BLOCK_MIN_BYTES;
    if (!hold(scratch, SCRATCH_ALIGN + bytes))
        return LARDER_ENOMEM;
    struct scratch_block *block = aligned_alloc(SCRATCH_ALIGN, SCRATCH_ALIGN + bytes);
    if (!block) {
        scratch->held_bytes -= SCRATCH_ALIGN + bytes;
        return LARDER_ENOMEM;
    }
    *block = (struct scratch_block){.next = scratch->blocks, .bytes = bytes};
    scratch->blocks = block;
    scratch->used_bytes = 0;
    return 0;
}

/* Room for bytes, in one piece. */
static int make_room(struct scratch *scratch, size_t bytes)
{
    if (bytes > scratch->max_bytes - scratch->taken_bytes)
        return LARDER_ENOMEM;
    return scratch->blocks && bytes <= scratch->blocks->bytes - scratch->used_bytes ? 0 : add_block(scratch, bytes);
}

static size_t aligned(size_t bytes)
{
    return (bytes + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
}

void *scratch_take(struct scratch *scratch, size_t bytes)
{
    if (bytes > scratch->max_bytes)
        return NULL;
    bytes = aligned(bytes);
    if (make_room(scratch, bytes))
        return NULL;
    void *memory = block_memory(scratch->blocks) + scratch->used_bytes;
    scratch->used_bytes += bytes;
    scratch->taken_bytes += bytes;
    return memory;
}

int scratch_image(struct scratch *scratch, uint32_t width, uint32_t height, struct image *out)
{
    size_t stride = aligned((size_t)width * IMAGE_CHANNELS);
    uint8_t *data = scratch_take(scratch, stride * ((size_t)height + IMAGE_SLACK_ROWS) + IMAGE_SLACK_BYTES);
    if (!data)
        return LARDER_ENOMEM;
    *out = (struct image){.data = data, .stride = stride, .width = width, .height = height};
    return 0;
}

int scratch_expect(struct scratch *scratch, size_t bytes)
{
    if (bytes > scratch->max_bytes || make_room(scratch, aligned(bytes)))
        return LARDER_ENOMEM;
    if (scratch->expected_bytes < scratch->taken_bytes + bytes)
        scratch->expected_bytes = scratch->taken_bytes + bytes;
    return 0;
}

int scratch_outside(struct scratch *scratch, size_t bytes)
{
    return hold(scratch, bytes) ? 0 : LARDER_ENOMEM;
}

/* Keeps one block for the next image, half as long again as this image needed, so that images of similar size need no
 * other. A failure shows at the next take. */
static void settle_blocks(struct scratch *scratch, size_t needed)
{
    size_t keep = scratch->budget ? scratch_budget_keep(scratch->budget) : SCRATCH_KEEP_BYTES;
    if (scratch->blocks && !scratch->blocks->next && scratch->held_bytes <= keep)
        return;
    free_blocks(scratch);
    size_t wanted = aligned(needed + needed / 2 + 1);
    if (needed && SCRATCH_ALIGN + wanted <= keep && SCRATCH_ALIGN + BLOCK_MIN_BYTES <= keep)
        (void)add_block(scratch, wanted);
}

void scratch_reset(struct scratch *scratch)
{
    size_t needed = scratch->taken_bytes > scratch->expected_bytes ? scratch->taken_bytes : scratch->expected_bytes;
    scratch->held_bytes = 0;
    for (const struct scratch_block *block = scratch->blocks; block; block = block->next)
        scratch->held_bytes += SCRATCH_ALIGN + block->bytes;
    scratch->used_bytes = scratch->taken_bytes = scratch->expected_bytes = 0;
    settle_blocks(scratch, needed);
    give_back(scratch);
}

enum scratch_verdict scratch_wait(struct scratch *scratch)
{
    size_t refused = scratch->refused_bytes;
    bool was_clean = scratch->clean;
    scratch->refused_bytes = 0;
    scratch->clean = false;
    if (!refused)
        return SCRATCH_FINE;
    size_t keep = scratch_budget_keep(scratch->budget), most = scratch_budget_most(scratch->budget);
    if (refused > most && (was_clean || refused - most > keep))
        return SCRATCH_NEVER;
    free_blocks(scratch);
    scratch->clean = true;
    size_t wanted = refused < most / 2 ? refused + refused / 2 : most; /* it may need more than it had asked for */
    if (wanted > keep) {
        scratch_budget_wait(scratch->budget, wanted - keep);
        scratch->reserved_bytes = wanted - keep;
    }
    return SCRATCH_AGAIN;
}
