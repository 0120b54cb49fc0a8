/* look_kinds.h: what `larder look` says of datasets that are more than images with a label each. */
#ifndef LARDER_SERVER_COMMANDS_LOOK_KINDS_H
#define LARDER_SERVER_COMMANDS_LOOK_KINDS_H

#include "cache/catalog/catalog.h"

/* look_at_sounds prints what the clips are, of some that lie at equal distances, which it reads; and the list of
 * operators to begin with. */
void look_at_sounds(const struct dataset *dataset);

/* look_for_masks prints the `parts=` of a Loader, where the dataset is two folders whose files go together and one of
 * them has masks: PNGs that are the smaller files. */
void look_for_masks(const struct dataset *dataset);

#endif
