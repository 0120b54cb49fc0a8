/* advice.h: follows what `larder explain` and `larder doctor` advise. */
#ifndef LARDER_TESTS_CONTROL_ADVICE_H
#define LARDER_TESTS_CONTROL_ADVICE_H

/* advice_follow checks of each setting that is advised that it is another value than the present one, and that larderd
 * takes both. */
void advice_follow(const char *change);

#endif
