/* masks_cell.h: reads the masks of a sample that a column has in JSON, as COCO writes them. Pure. */
#ifndef LARDER_CACHE_SOURCE_MASKS_CELL_H
#define LARDER_CACHE_SOURCE_MASKS_CELL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct json_t;

/* masks_cell_read makes the bytes of a part (sample_masks.h) of a list with one value a mask: a list of polygons,
 * [[x, y, x, y, …], …], or {"size": [height, width], "counts": …}, whose counts are a list of lengths or pycocotools'
 * text. The caller frees *out. LARDER_EFORMAT and LARDER_ELIMIT with a text that names the mask, from 0; LARDER_ENOMEM.
 */
int masks_cell_read(const struct json_t *list, uint8_t **out, size_t *len_bytes, struct error *err);

#endif
