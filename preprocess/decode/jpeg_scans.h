/* jpeg_scans.h: the coefficients of a progressive JPEG, a row of MCUs at a time.
 *
 * A progressive JPEG has a coefficient's bits in several scans. All scans are read side by side, each as far as the row
 * that is wanted, so that no more than one row of coefficients is in memory. libjpeg reads scan after scan, and needs
 * memory for all of them.
 *
 * For JPEGs of one or three components whose scans complete all coefficients: what else libjpeg would smooth. Anything
 * unusual or wrong makes a function return false. The caller then decodes the ordinary way, which finds out what is
 * wrong. So does what libjpeg repairs: what is read here, libjpeg reads without a warning, and it is the same. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_SCANS_H
#define LARDER_PREPROCESS_DECODE_JPEG_SCANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/jpeg_progressive.h"

#define JPEG_SCANS_MAX 40
#define JPEG_SCANS_PARTS 3 /* components of a JPEG */

/* A scan, and how far it was read. */
struct jpeg_scan {
    struct progressive_scan read;
    uint32_t components[MAX_COMPS_IN_SCAN]; /* of the parts of its MCUs */
    bool skipped;                           /* nobody needs it */
    uint32_t interval, left;                /* MCUs of a segment, and of the one at hand that are not read yet */
    uint64_t behind;                        /* MCUs of the segments that follow */
    uint32_t segment;
    const uint8_t *at; /* behind the segment, where its marker is */
};

/* A component, and its blocks in the row at hand. */
struct jpeg_scans_part {
    uint32_t wide, high;   /* blocks of an MCU */
    uint32_t across, down; /* blocks of the component */
    bool flat;             /* no more than its DC coefficients is needed */
    JBLOCKARRAY rows;      /* borrowed */
    uint64_t *masks;       /* of `high` rows of MCUs' blocks (jpeg_progressive.h) */
    int8_t bits[DCTSIZE2]; /* of each coefficient, in zigzag, the lowest that was read; -1: none */
};

/* A code as a DHT segment defines it. */
struct jpeg_scans_code {
    bool defined;
    uint8_t counts[HUFFMAN_LONGEST + 1], values[256];
    struct huffman *made; /* NULL: no scan needed it yet */
};

struct jpeg_scans {
    uint32_t per_row, n_rows; /* MCUs, and rows of them */
    uint32_t next;            /* the row that will be read next */
    uint32_t n_parts, n_scans;
    struct jpeg_scans_part parts[JPEG_SCANS_PARTS];
    struct jpeg_scan *scans;
    const uint8_t *end; /* behind the file */

    /* While the scans are looked for: what the segments before them define. */
    struct jpeg_scans_code codes[2][NUM_HUFF_TBLS]; /* for DC and AC coefficients */
    uint32_t interval;
};

/* jpeg_scans_fit says whether a JPEG, whose header was read, may be read this way. */
bool jpeg_scans_fit(const struct jpeg_decompress_struct *cinfo);
/* jpeg_scans_begin finds all scans, and begins with each. Memory is cinfo's, and errors of that are libjpeg's. It
 * borrows the source's bytes. If it succeeds, components have the
 * quantisation tables that libjpeg would give them. */
bool jpeg_scans_begin(struct jpeg_scans *scans, struct jpeg_decompress_struct *cinfo);
/* jpeg_scans_load reads the columns of MCUs from `first` on of a row. Rows come from above to below; those between are
 * read too, but stored nowhere. */
bool jpeg_scans_load(struct jpeg_scans *scans, uint32_t row, uint32_t first, uint32_t count);
/* jpeg_scans_finish reads what is left, for damage that libjpeg would find in it. */
bool jpeg_scans_finish(struct jpeg_scans *scans);
/* jpeg_scans_bytes: memory that jpeg_scans_begin takes. */
size_t jpeg_scans_bytes(const struct jpeg_decompress_struct *cinfo);

#endif
