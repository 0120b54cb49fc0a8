/* jpeg_memory.h: libjpeg's memory manager, on a worker's scratch memory.
 *
 * Without it, libjpeg calls malloc for an image's memory and frees it afterwards. With this manager it takes the memory
 * from the image's scratch, which is bounded, needs no call to malloc, and is empty again when the image is done.
 * Tables that libjpeg would keep from one image to the next (JPOOL_PERMANENT) have a small fixed place. One thread.
 *
 * Arrays of coefficients are virtual to libjpeg: it asks for their rows when it needs them. After jpeg_memory_rows they
 * hold one row of MCUs, which is read from the file (jpeg_rows.h) when it is asked for. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_MEMORY_H
#define LARDER_PREPROCESS_DECODE_JPEG_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/jpeg_rows.h"
#include "preprocess/scratch.h"

#define JPEG_TABLES_BYTES 16384 /* 4 quantisation tables and 8 Huffman tables take under 4 KiB */

struct jpeg_memory {
    struct jpeg_memory_mgr manager;   /* the first field, because libjpeg hands it back as cinfo->mem */
    struct jpeg_memory_mgr *original; /* frees what jpeg_create_decompress took */
    struct scratch *scratch;          /* the scratch of the image at hand; borrowed */
    struct jvirt_sarray_control *sample_arrays;
    struct jvirt_barray_control *block_arrays;
    int n_block_arrays;
    struct jpeg_rows *rows; /* borrowed; NULL: arrays of coefficients are whole */
    uint64_t loaded_row;    /* the row of `rows` that was read last, counted from 1; 0: none yet */
    size_t tables_used;
    _Alignas(SCRATCH_ALIGN) uint8_t tables[JPEG_TABLES_BYTES];
};

/* jpeg_memory_install replaces cinfo's manager; jpeg_memory_remove puts the original back, before jpeg_destroy. */
void jpeg_memory_install(struct jpeg_memory *memory, j_decompress_ptr cinfo);
void jpeg_memory_remove(struct jpeg_memory *memory, j_decompress_ptr cinfo);
/* jpeg_memory_begin says where the next image's memory comes from, and forgets the tables of the last one. */
void jpeg_memory_begin(struct jpeg_memory *memory, j_decompress_ptr cinfo, struct scratch *scratch);
/* jpeg_memory_rows says that the coefficients of this image come from rows, which jpeg_rows_begin or
 * jpeg_rows_begin_planes was called for. It is called before jpeg_start_decompress, in buffered-image mode. libjpeg
 * reports a row that cannot be read as JERR_BAD_VIRTUAL_ACCESS. */
void jpeg_memory_rows(struct jpeg_memory *memory, struct jpeg_rows *rows);
/* jpeg_memory_blocks returns where a component's coefficients of a row of MCUs are then, as many rows of blocks as an
 * MCU is high. Borrowed; NULL: libjpeg has not asked for them. */
JBLOCKARRAY jpeg_memory_blocks(const struct jpeg_memory *memory, int component);

#endif
