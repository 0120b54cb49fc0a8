/* classes.h: whether a class still has a sample that a job can train on. A class is what the dataset itself says: a
 * class folder, also of the folder that a store was packed from, or the labels in shards. */
#ifndef LARDER_SERVER_REGISTRATION_CLASSES_H
#define LARDER_SERVER_REGISTRATION_CLASSES_H

#include <stdbool.h>

#include "common/types.h"

struct idset;

/* classes_is_left is an engine_config.class_is_left; `dataset` is a struct dataset. Its steps are those to the nearest
 * good sample of the class, or all samples where there is none. */
bool classes_is_left(const void *dataset, sample_id id, const struct idset *view, const struct idset *bad);

#endif
