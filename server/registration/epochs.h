/* epochs.h: what an epoch of a job is, where it is not the view with each sample once. */
#ifndef LARDER_SERVER_REGISTRATION_EPOCHS_H
#define LARDER_SERVER_REGISTRATION_EPOCHS_H

#include "server/registration/registration.h"

/* epochs_make makes the multiset that the registration asks for, if it asks for one, and reads the weights that came
 * with it. A guest has one if some sample is several times in its part. The dataset is open and the view selected. A
 * client's view's fingerprint then stands for the multiset too: what was taken of an epoch goes on with the same one
 * only. LARDER_EINVAL, LARDER_EFORMAT, LARDER_EIO, LARDER_ENOMEM,
 * LARDER_EGONE (the registration is unwanted). */
int epochs_make(struct registration *registration, struct error *err);

#endif
