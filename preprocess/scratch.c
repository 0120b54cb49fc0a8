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

void scratch_init(struct scratch *scratch, size_t max_bytes)
{
    *scratch = (struct scratch){.max_bytes = max_bytes};
}

static void free_blocks(struct scratch *scratch)
{
    while (scratch->blocks) {
        struct scratch_block *next = scratch->blocks->next;
        free(scratch->blocks);
        scratch->blocks = next;
    }
}

void scratch_free(struct scratch *scratch)
{
    free_blocks(scratch);
    scratch->used_bytes = scratch->taken_bytes = 0;
}

static int add_block(struct scratch *scratch, size_t bytes)
{
    if (bytes < BLOCK_MIN_BYTES)
        bytes = BLOCK_MIN_BYTES;
    struct scratch_block *block = aligned_alloc(SCRATCH_ALIGN, SCRATCH_ALIGN + bytes);
    if (!block)
        return LARDER_ENOMEM;
    *block = (struct scratch_block){.next = scratch->blocks, .bytes = bytes};
    scratch->blocks = block;
    scratch->used_bytes = 0;
    return 0;
}

void *scratch_take(struct scratch *scratch, size_t bytes)
{
    if (bytes > scratch->max_bytes)
        return NULL;
    bytes = (bytes + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
    if (bytes > scratch->max_bytes - scratch->taken_bytes)
        return NULL;
    if ((!scratch->blocks || bytes > scratch->blocks->bytes - scratch->used_bytes) && add_block(scratch, bytes))
        return NULL;
    void *memory = block_memory(scratch->blocks) + scratch->used_bytes;
    scratch->used_bytes += bytes;
    scratch->taken_bytes += bytes;
    return memory;
}

int scratch_image(struct scratch *scratch, uint32_t width, uint32_t height, struct image *out)
{
    size_t stride = ((size_t)width * IMAGE_CHANNELS + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
    uint8_t *data = scratch_take(scratch, stride * height + IMAGE_SLACK_BYTES);
    if (!data)
        return LARDER_ENOMEM;
    *out = (struct image){.data = data, .stride = stride, .width = width, .height = height};
    return 0;
}

void scratch_reset(struct scratch *scratch)
{
    size_t taken = scratch->taken_bytes;
    bool several = scratch->blocks && scratch->blocks->next;
    scratch->used_bytes = scratch->taken_bytes = 0;
    if (!several && (!scratch->blocks || scratch->blocks->bytes <= SCRATCH_KEEP_BYTES))
        return;
    free_blocks(scratch);
    /* Half as much again, so that images of like size settle at once. A failure here shows at the next take. */
    size_t wanted = (taken + taken / 2 + SCRATCH_ALIGN) & ~(size_t)(SCRATCH_ALIGN - 1);
    if (wanted <= SCRATCH_KEEP_BYTES)
        (void)add_block(scratch, wanted);
}
