/* store_rewrite.h: what `larder pack --max-side --restart-rows --planes` makes of a sample. */
#ifndef LARDER_SERVER_COMMANDS_STORE_REWRITE_H
#define LARDER_SERVER_COMMANDS_STORE_REWRITE_H

#include "cache/pack/pack.h"

/* store_rewrite is a store_rewrite_fn. With max_side, an image that is larger becomes a smaller JPEG, and prepare_init
 * has been called. With restart_rows, every JPEG gets restart markers that can get them. With planes, such a JPEG is
 * written in bit planes if it can be. Without it, a sample in planes becomes the JPEG again that it was. One whose
 * planes are broken stays. */
int store_rewrite(const struct store_options *options, const uint8_t *bytes, size_t len_bytes, struct store_made *made,
                  struct error *err);

#endif
