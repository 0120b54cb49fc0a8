/* pack_priv.h: a pack: its plan, its destination and its threads. */
#ifndef LARDER_CACHE_PACK_PACK_PRIV_H
#define LARDER_CACHE_PACK_PACK_PRIV_H

#include <pthread.h>

#include "cache/file.h"
#include "cache/pack/pack.h"
#include "cache/store/store.h"

/* The place of a chunk. */
struct layout_chunk {
    uint32_t segment;
    uint64_t offset, len_bytes; /* bytes in the segment's file */
};

/* The places of all chunks. */
struct layout {
    uint32_t sample_count, chunk_size, chunk_count, segment_count;
    uint32_t version; /* STORE_VERSION_…; if samples are rewritten, only the segments' chunks are known beforehand */
    struct layout_chunk *chunks;
    struct store_segment *segments;
};

/* layout.c */

/* layout_make gives every chunk its place, aligned and in order. A new segment begins once the last one holds
 * segment_bytes. The caller frees what *out holds by layout_free. LARDER_ELIMIT for a chunk past STORE_CHUNK_BYTES_MAX,
 * LARDER_ENOMEM. */
int layout_make(const struct dataset *dataset, const struct chunking *chunking, uint64_t segment_bytes,
                uint32_t version, struct layout *out, struct error *err);
void layout_free(struct layout *layout);
/* layout_chunk_samples returns the number of samples in a chunk. */
uint32_t layout_chunk_samples(const struct layout *layout, uint32_t chunk);
uint64_t layout_align(uint64_t offset); /* the first offset from this one on at which a chunk may begin */
/* layout_move gives a chunk another length, and its place after the chunk before it, whose place is final. With the
 * last one of a segment the length of its file is known. */
void layout_move(struct layout *layout, uint32_t chunk, uint64_t len_bytes);

uint32_t pack_version(const struct store_options *options);   /* STORE_VERSION_… of the store that they make */
struct packing pack_how(const struct store_options *options); /* the options as their store's index records them */
struct pack;
/* pack_plan returns a number for what would be packed and how: the pack's dataset, options and origin. Equal plans make
 * equal stores. LARDER_ENOMEM. */
int pack_plan(const struct pack *pack, uint64_t plan[2]);

/* dest.c */

/* pack_prepare makes dest, or finds it as a run of the same plan left it, and locks it. The caller closes *lock_fd,
 * whatever the call returns, unless it is -1. *finished says that the store is there already. */
int pack_prepare(const struct dataset *dataset, const char *dest, const uint64_t plan[2], int *lock_fd, bool *finished,
                 struct error *err);
/* pack_find_segment says whether a segment is there and finished: whole by its header, length and footer. Then it fills
 * the segment's `footer->count` entries. If samples are rewritten, the entries determine the layout. It removes a file
 * there that is no finished segment. */
int pack_find_segment(const char *dest, const struct store_footer *footer, struct layout *layout,
                      struct store_entry *entries, bool *finished, struct error *err);
/* pack_finish removes the file that marks dest as unfinished. */
void pack_finish(const char *dest);

/* threads.c */

/* One run of a pack. `lock` guards the fields that say so. The entries of a chunk belong to the thread that took it,
 * until the segment is finished. */
struct pack {
    const struct dataset *dataset;
    const struct store_options *options;
    const char *dest;
    /* The packed source, if planes come from it or are made of it and its images were not shrunk. Packing it gives what
     * packing its own source would, so samples keep the sizes and hashes that they had there. If others may write to
     * the packed source, samples keep only the sizes, since its hashes may be another image's. NULL: sizes and hashes
     * are those of the source's files. */
    const struct store *origin;
    struct chunking chunking;
    struct layout layout;
    uint64_t plan[2];
    struct store_entry *entries; /* indexed by position */
    bool notes_origins;          /* the store says which bytes its files had */
    bool *settled;               /* likewise: no write to the sample's file goes unseen from before it was read on */
    uint32_t *chunks_left;       /* chunks that are not written yet, by segment; lock */
    uint32_t *chunks_placed;     /* chunks whose place is final, by segment, where samples are rewritten; lock */
    pthread_mutex_t lock;
    pthread_cond_t placed;          /* a chunk's place became final, or a thread failed */
    pthread_cond_t progressed;      /* a thread ended */
    uint32_t next_chunk;            /* lock */
    uint32_t running;               /* threads at work; lock */
    bool stop;                      /* lock */
    struct error error;             /* the first one; lock */
    struct store_progress progress; /* lock */
};

/* origins.c: the word of a store for its files' bytes (cache/source/origins.h) */

bool pack_notes_origins(const struct pack *pack); /* whether the store is one that says that. It blocks. */
/* pack_write_origins writes what files had which bytes, if there are any that every write shows on (*noted), and
 * pack_name_store notes the finished store at their folder. */
int pack_write_origins(const struct pack *pack, bool *noted, struct error *err);
void pack_name_store(const struct pack *pack);

/* rewrite.c: rewriting of samples, whose lengths are known only afterwards. */

/* A chunk's samples, rewritten and one after another. */
struct rewritten {
    uint8_t *bytes; /* malloc'ed */
    size_t len_bytes, cap_bytes;
};
/* pack_rewrite_sample appends a sample that was read, and fills in its entry. It logs a sample that cannot be decoded.
 * It appends nothing for a sample whose planes are damaged, and says so in read->err: that sample counts as one that
 * cannot be read. LARDER_ELIMIT past STORE_CHUNK_BYTES_MAX, LARDER_ENOMEM, and the codes of rewriting. */
int pack_rewrite_sample(const struct pack *pack, struct sample_read *read, struct store_entry *entry,
                        struct rewritten *rewritten, struct error *err);
/* pack_count adds the outcomes of `count` samples, from a position on, to the progress. */
void pack_count(struct pack *pack, uint32_t first, uint32_t count);
/* pack_place waits until the places of the chunks before this one in its segment are final, and makes this one's so.
 * false: another thread failed. */
bool pack_place(struct pack *pack, uint32_t chunk, uint64_t len_bytes);
/* pack_place_entries does that for all chunks of a segment that is finished, from its entries. false: a file of these
 * has another length. The chunks then keep their lengths, which are those of the samples to be read. */
bool pack_place_entries(struct layout *layout, uint32_t segment, const struct store_entry *entries,
                        uint64_t file_bytes);

/* pack_run reads and writes every chunk that is left. It fails as store_pack does in reading and writing, and with
 * LARDER_EGONE when report (may be NULL) said stop. */
int pack_run(struct pack *pack, store_progress_fn *report, void *context, struct error *err);

static inline int pack_no_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory while packing");
}

#endif
