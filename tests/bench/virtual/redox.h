/* redox.h: the rule of Redox and Brand, by which nodes share the reads of one training, simulated: which chunk is read
 * when, and which sample goes to whom. It counts. It holds no bytes and takes no time.
 *
 * The words are the papers'. A file is a sample; a chunk is called physical where it has to be told from a virtual one.
 * Each node is the home of a part of the dataset's chunks. It groups them by chunks_a_virtual: such a group has one
 * virtual chunk in memory, with one slot for each place in a chunk. Who asks for any file that has its place at a slot
 * gets the one that lies there. Only where none does is a chunk of the group read, and it fills all empty slots.
 * redox.c has algorithm 1, redox_home.c 2 and 3, and redox_window.c, for the files of other nodes, 4 to 6. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_REDOX_H
#define LARDER_TESTS_BENCH_VIRTUAL_REDOX_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REDOX_NODES_MAX = 16,
    REDOX_CHUNK_MAX = 64, /* a word has a bit for each slot of a virtual chunk */
    REDOX_SAMPLES_MAX = 20000000,
    REDOX_WINDOW_MAX = 1 << 20,
};

struct redox_settings {
    uint32_t nodes, samples, chunk; /* chunk: samples in one */
    uint32_t chunks_a_virtual;
    /* How many of a node's next requests to a home are looked at when it asks, the one at hand included, and how many
     * samples it holds ahead at most. window 0: none is sent ahead. */
    uint32_t window, room;
    bool fills_most; /* The chunk that fills most slots is read; else any that has the wanted slot. */
    uint64_t seed;
};

struct redox_result {
    double loads;    /* reads of a chunk in the epoch */
    double remote;   /* the part of all samples whose home is another node */
    double requests; /* between nodes, for each of these */
    double spread;   /* of a chunk's samples over the order in which all nodes get them, which take turns (spread.h) */
    double peak;     /* samples in memory of all nodes at most, as a part of all samples */
};

/* redox_play plays one epoch from empty memory to empty memory. Every sample is delivered exactly once, or the program
 * ends. False: the settings are out of bounds, or `samples` is no multiple of nodes · chunk · chunks_a_virtual. */
bool redox_play(const struct redox_settings *settings, struct redox_result *out);

/* redox_mean returns the mean over n_seeds plays, with seeds from settings->seed on. */
bool redox_mean(const struct redox_settings *settings, uint32_t n_seeds, struct redox_result *out);

/* A row of Redox's table 6, three nodes on ImageNet-1k: 1,281,167 files in 20,018 chunks, two thirds of them remote. */
struct redox_row {
    const char *name;
    bool ahead, fills_most;
    double misses, requests; /* as printed, in 100,000 */
};
enum { REDOX_ROWS = 4 };
extern const struct redox_row redox_table[REDOX_ROWS];

/* The printed figures in the terms of redox_result: of a chunk, and of a remote sample. */
double redox_row_loads(const struct redox_row *row);
double redox_row_requests(const struct redox_row *row);
/* redox_off returns by what part a figure is above what was printed, below it if negative. */
double redox_off(double figure, double printed);
/* redox_row_settings returns the settings that reproduce a row. The paper says neither chunks_a_virtual nor the window:
 * the first is fitted by the two rows without prefetch, the second by the last one. */
struct redox_settings redox_row_settings(const struct redox_row *row, uint64_t seed);

#endif
