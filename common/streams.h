/* streams.h: the standard streams of a program. */
#ifndef LARDER_COMMON_STREAMS_H
#define LARDER_COMMON_STREAMS_H

/* streams_fill gives those of descriptors 0, 1 and 2 that are closed something that takes and gives nothing. Otherwise
 * the next file that the program opens would get the number, and with it what is meant for standard output or error. To
 * be called before anything is opened. */
void streams_fill(void);

#endif
