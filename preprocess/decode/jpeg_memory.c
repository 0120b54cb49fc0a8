#include "preprocess/decode/jpeg_memory.h"

#include <string.h>

#include <jerror.h>

/* Rows are padded to this, as libjpeg-turbo's own manager does for its vector code. */
#define ROW_ALIGN 64

struct jvirt_sarray_control {
    struct jvirt_sarray_control *next;
    JSAMPARRAY rows;
    JDIMENSION samples_per_row, n_rows;
    boolean zero;
};

struct jvirt_barray_control {
    struct jvirt_barray_control *next;
    JBLOCKARRAY rows;
    JDIMENSION blocks_per_row, n_rows;
    boolean zero;
    int component; /* libjpeg requests them in the order of the components */
};

static struct jpeg_memory *memory_of(j_common_ptr cinfo)
{
    return (struct jpeg_memory *)cinfo->mem;
}

static void *take(j_common_ptr cinfo, int pool, size_t bytes)
{
    struct jpeg_memory *memory = memory_of(cinfo);
    void *taken = NULL;
    if (pool != JPOOL_PERMANENT) {
        taken = scratch_take(memory->scratch, bytes);
    } else if (bytes <= sizeof memory->tables - memory->tables_used) {
        taken = memory->tables + memory->tables_used;
        memory->tables_used += (bytes + SCRATCH_ALIGN - 1) & ~(size_t)(SCRATCH_ALIGN - 1);
        if (memory->tables_used > sizeof memory->tables)
            memory->tables_used = sizeof memory->tables;
    }
    if (!taken)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    return taken;
}

/* An array of row pointers into one piece. */
static void *take_rows(j_common_ptr cinfo, int pool, size_t row_bytes, JDIMENSION n_rows)
{
    row_bytes = (row_bytes + ROW_ALIGN - 1) & ~(size_t)(ROW_ALIGN - 1);
    void **rows = take(cinfo, pool, n_rows * sizeof *rows);
    uint8_t *data = take(cinfo, pool, row_bytes * n_rows);
    for (JDIMENSION i = 0; i < n_rows; i++)
        rows[i] = data + row_bytes * i;
    return rows;
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool, JDIMENSION samples_per_row, JDIMENSION n_rows)
{
    return take_rows(cinfo, pool, (size_t)samples_per_row * sizeof(JSAMPLE), n_rows);
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool, JDIMENSION blocks_per_row, JDIMENSION n_rows)
{
    return take_rows(cinfo, pool, (size_t)blocks_per_row * sizeof(JBLOCK), n_rows);
}

static jvirt_sarray_ptr request_virt_sarray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION samples_per_row,
                                            JDIMENSION n_rows, JDIMENSION max_access)
{
    (void)max_access;
    struct jpeg_memory *memory = memory_of(cinfo);
    struct jvirt_sarray_control *array = take(cinfo, pool, sizeof *array);
    *array = (struct jvirt_sarray_control){memory->sample_arrays, NULL, samples_per_row, n_rows, zero};
    memory->sample_arrays = array;
    return array;
}

/* Of what comes from rows, it holds a row of MCUs: libjpeg asks for more only where it smooths. */
static jvirt_barray_ptr request_virt_barray(j_common_ptr cinfo, int pool, boolean zero, JDIMENSION blocks_per_row,
                                            JDIMENSION n_rows, JDIMENSION max_access)
{
    (void)max_access;
    struct jpeg_memory *memory = memory_of(cinfo);
    struct jvirt_barray_control *array = take(cinfo, pool, sizeof *array);
    int component = memory->n_block_arrays++;
    if (memory->rows)
        n_rows = (JDIMENSION)((j_decompress_ptr)cinfo)->comp_info[component].v_samp_factor;
    *array = (struct jvirt_barray_control){memory->block_arrays, NULL, blocks_per_row, n_rows, zero, component};
    memory->block_arrays = array;
    return array;
}

static void realize_virt_arrays(j_common_ptr cinfo)
{
    struct jpeg_memory *memory = memory_of(cinfo);
    for (struct jvirt_sarray_control *array = memory->sample_arrays; array; array = array->next) {
        if (array->rows)
            continue;
        array->rows = alloc_sarray(cinfo, JPOOL_IMAGE, array->samples_per_row, array->n_rows);
        for (JDIMENSION i = 0; array->zero && i < array->n_rows; i++)
            memset(array->rows[i], 0, (size_t)array->samples_per_row * sizeof(JSAMPLE));
    }
    for (struct jvirt_barray_control *array = memory->block_arrays; array; array = array->next) {
        if (array->rows)
            continue;
        array->rows = alloc_barray(cinfo, JPOOL_IMAGE, array->blocks_per_row, array->n_rows);
        if (memory->rows) {
            jpeg_rows_place(memory->rows, array->component, array->rows);
            continue;
        }
        for (JDIMENSION i = 0; array->zero && i < array->n_rows; i++)
            memset(array->rows[i], 0, (size_t)array->blocks_per_row * sizeof(JBLOCK));
    }
}

static JSAMPARRAY access_virt_sarray(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION start_row,
                                     JDIMENSION n_rows, boolean writable)
{
    (void)writable;
    if (!array->rows || start_row > array->n_rows || n_rows > array->n_rows - start_row)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + start_row;
}

/* The row of MCUs that an array's rows belong to is read for all components when the first of them asks for it. */
static void load_row(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start_row, JDIMENSION n_rows)
{
    struct jpeg_memory *memory = memory_of(cinfo);
    if (!array->rows || n_rows != array->n_rows || start_row % n_rows != 0)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    uint32_t row = start_row / n_rows;
    if (memory->loaded_row == (uint64_t)row + 1)
        return;
    if (!jpeg_rows_load(memory->rows, row))
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    memory->loaded_row = (uint64_t)row + 1;
}

static JBLOCKARRAY access_virt_barray(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION start_row,
                                      JDIMENSION n_rows, boolean writable)
{
    (void)writable;
    struct jpeg_memory *memory = memory_of(cinfo);
    if (memory->rows) {
        load_row(cinfo, array, start_row, n_rows);
        return array->rows;
    }
    if (!array->rows || start_row > array->n_rows || n_rows > array->n_rows - start_row)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + start_row;
}

/* The scratch memory itself goes when its owner resets it. */
static void free_pool(j_common_ptr cinfo, int pool)
{
    struct jpeg_memory *memory = memory_of(cinfo);
    if (pool == JPOOL_IMAGE) {
        memory->sample_arrays = NULL;
        memory->block_arrays = NULL;
        memory->n_block_arrays = 0;
    }
}

static void self_destruct(j_common_ptr cinfo)
{
    free_pool(cinfo, JPOOL_IMAGE);
}

void jpeg_memory_install(struct jpeg_memory *memory, j_decompress_ptr cinfo)
{
    memory->original = cinfo->mem;
    memory->manager = (struct jpeg_memory_mgr){
        .alloc_small = take,
        .alloc_large = take,
        .alloc_sarray = alloc_sarray,
        .alloc_barray = alloc_barray,
        .request_virt_sarray = request_virt_sarray,
        .request_virt_barray = request_virt_barray,
        .realize_virt_arrays = realize_virt_arrays,
        .access_virt_sarray = access_virt_sarray,
        .access_virt_barray = access_virt_barray,
        .free_pool = free_pool,
        .self_destruct = self_destruct,
        .max_memory_to_use = cinfo->mem->max_memory_to_use,
        .max_alloc_chunk = cinfo->mem->max_alloc_chunk,
    };
    cinfo->mem = &memory->manager;
}

void jpeg_memory_remove(struct jpeg_memory *memory, j_decompress_ptr cinfo)
{
    cinfo->mem = memory->original;
}

void jpeg_memory_begin(struct jpeg_memory *memory, j_decompress_ptr cinfo, struct scratch *scratch)
{
    for (int i = 0; i < NUM_QUANT_TBLS; i++)
        cinfo->quant_tbl_ptrs[i] = NULL;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        cinfo->dc_huff_tbl_ptrs[i] = cinfo->ac_huff_tbl_ptrs[i] = NULL;
    memory->tables_used = 0;
    memory->scratch = scratch;
    memory->sample_arrays = NULL;
    memory->block_arrays = NULL;
    memory->n_block_arrays = 0;
    memory->rows = NULL;
}

void jpeg_memory_rows(struct jpeg_memory *memory, struct jpeg_rows *rows)
{
    memory->rows = rows;
    memory->loaded_row = 0;
}

JBLOCKARRAY jpeg_memory_blocks(const struct jpeg_memory *memory, int component)
{
    for (const struct jvirt_barray_control *array = memory->block_arrays; array; array = array->next) {
        if (array->component == component)
            return array->rows;
    }
    return NULL;
}
