/* commands.h: the commands of this folder. Both take argv, with the command's name in argv[0]. They print results to
 * stdout and errors to stderr. They return the exit status: 0, 1 (failed) or 2 (wrong usage). */
#ifndef LARDER_PREPROCESS_COMMANDS_H
#define LARDER_PREPROCESS_COMMANDS_H

/* The pipeline that they run without --pipeline. */
#define DEFAULT_PIPELINE "[{\"random_resized_crop\": {\"size\": 224}}, \"random_horizontal_flip\"]"

/* prepare_bench_main is `larder bench prepare DIR [--pipeline SPEC] [--seconds S] [--threads N] [--restart-rows N]
 * [--planes]`. It prints as JSON the rate of one thread (or N) with DIR's images in memory, and where the time goes. It
 * alternates with plain libjpeg-turbo, which decodes the regions of the same crops; with --restart-rows also with the
 * same JPEGs, rewritten with a restart marker after every N MCUs, and with --planes with the same in bit planes. */
int prepare_bench_main(int argc, char **argv);

/* prepare_main is `larder prepare FILE [--pipeline SPEC] --out PNG [--seed N] [--grid N]`. It writes what a job
 * would get of FILE, or a contact sheet of N draws. */
int prepare_main(int argc, char **argv);

#endif
