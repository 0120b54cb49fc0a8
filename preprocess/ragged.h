/* ragged.h: samples that differ in size while they are made: their fields lie one behind the other, in the order in
 * which their sizes are known, and the head of the slot says where (layout.h). Pure. */
#ifndef LARDER_PREPROCESS_RAGGED_H
#define LARDER_PREPROCESS_RAGGED_H

#include "preprocess/prepare.h"

/* ragged_begin empties the slot of an output whose pipeline is ragged. */
void ragged_begin(struct prepare_output *output);
/* ragged_image finds room for a field that is an image or a mask of this size, and writes the head. *dst is set to
 * where the field begins. A field that has room keeps it. LARDER_EQUOTA: the sample takes more than the pipeline
 * says. */
int ragged_image(struct prepare_output *output, uint32_t field, struct image_size size, void **dst, struct error *err);
/* ragged_rows does the same for a field of `count` rows, or of so many masks of this size. */
int ragged_rows(struct prepare_output *output, uint32_t field, uint32_t count, struct image_size size, void **dst,
                struct error *err);

#endif
