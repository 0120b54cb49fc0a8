/* real.h: real numbers as text, with the fewest digits that read back as the same number: 0.08, and not
 * 0.080000000000000002. Pure. */
#ifndef LARDER_COMMON_REAL_H
#define LARDER_COMMON_REAL_H

#define REAL_BYTES 32

/* real_text writes a finite number into buf and returns it. */
const char *real_text(double value, char buf[REAL_BYTES]);
/* real_shorten shortens, in place, the real numbers of a text of JSON. What is in quotes stays. */
void real_shorten(char *json);

#endif
