/* commands.h: the parts of the `larder` command line tool that are about preprocessing. Both take argv with argv[0]
 * being the command's name, print to stdout (results) and stderr (errors), and give the exit code: 0; 1 failed; 2 wrong
 * usage. */
#ifndef LARDER_PREPROCESS_COMMANDS_H
#define LARDER_PREPROCESS_COMMANDS_H

/* What they do without --pipeline. */
#define DEFAULT_PIPELINE "[{\"random_resized_crop\": {\"size\": 224}}, \"random_horizontal_flip\"]"

/* larder bench prepare DIR [--pipeline SPEC] [--seconds S] [--threads N]: the rate of one thread (or N) with DIR's
 * images in memory, alternating with plain libjpeg-turbo regional decoding of the same crops; JSON. */
int prepare_bench_main(int argc, char **argv);

/* larder prepare FILE [--pipeline SPEC] --out PNG [--seed N] [--grid N]: writes what a job would get of FILE, or a
 * contact sheet of N draws. */
int prepare_main(int argc, char **argv);

#endif
