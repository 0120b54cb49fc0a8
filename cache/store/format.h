/* format.h: a store's index and segments as bytes (docs/internals/store-format.md). All functions are pure. */
#ifndef LARDER_CACHE_STORE_FORMAT_H
#define LARDER_CACHE_STORE_FORMAT_H

#include "cache/source/chunking.h"
#include "cache/source/identity.h"
#include "cache/source/index.h"
#include "cache/source/samples.h"

#define STORE_VERSION_PLAIN 1     /* samples as they were */
#define STORE_VERSION_REWRITTEN 2 /* samples may have been rewritten, with the same pixels */
#define STORE_VERSION_SHRUNK 3    /* samples may have been shrunk */
#define STORE_VERSION_PLANES 4    /* samples may be in bit planes, and may have been shrunk */
#define STORE_INDEX_NAME "index.larder"
#define STORE_UNFINISHED_NAME "unfinished.larder"
#define STORE_SEGMENT_FORMAT "segment-%05u.larder"
#define STORE_NAME_MAX 32
#define STORE_HEADER_BYTES 40  /* length of a segment's header */
#define STORE_ALIGN 4096u      /* chunks begin at multiples of it */
#define STORE_FOOTER_BYTES 72u /* length of a segment's footer, without its entries */
#define STORE_SEGMENT_MAX (UINT64_C(1) << 40)
#define STORE_CHUNK_BYTES_MAX (UINT64_C(1) << 30)
#define STORE_INDEX_BYTES_MAX (UINT64_C(1) << 38)
#define STORE_SIDE_MAX 65500 /* the most pixels a side that images are shrunk to */

/* How a sample's bytes were changed. */
#define STORE_FORM_SHRUNK 1u
#define STORE_FORM_RESTART_ROWS 2u
#define STORE_FORM_UNDECODED 4u /* it was to be shrunk, or a JPEG again, and cannot be decoded: it is as it was */
#define STORE_FORM_PLANES 8u    /* its coefficients are in bit planes; it has no restart rows then */

/* The time of an index_sample whose identity is made of the content's hash, in place of device and inode. No file has
 * this time. A store with rewritten samples has another, so that none of its samples is taken for one with the
 * original's bytes. One with shrunk samples has a third. There the hash is that of the stored bytes, which tell how far
 * they were shrunk. A store with planes has a time of its own for each of these two, since the bytes are others
 * again. */
#define STORE_MTIME INDEX_MTIME_STORED
#define STORE_MTIME_REWRITTEN (INT64_MIN + 1)
#define STORE_MTIME_SHRUNK (INT64_MIN + 2)
#define STORE_MTIME_PLANES (INT64_MIN + 3)
#define STORE_MTIME_PLANES_SHRUNK (INT64_MIN + 4)

struct store_segment {
    uint32_t first_chunk, chunk_count;
    uint64_t file_bytes;
};

/* A dataset's store, besides the samples. Immutable. */
struct store {
    uint64_t plan[2]; /* identifies the source and the options; the same in the index and in every segment */
    uint64_t seed;
    uint32_t version; /* STORE_VERSION_… */
    uint32_t segment_count;
    struct store_segment *segments;
    uint64_t *offsets;          /* offset in the segment's file, by index */
    struct identity *hashes;    /* XXH3-128 of the bytes that were packed, by index */
    struct identity *checksums; /* checksum of the stored bytes, by index; version 1: hashes */
    uint64_t *source_bytes;     /* length of the bytes that were packed, by index; version 1: NULL */
    uint8_t *forms;             /* STORE_FORM_…, by index; NULL before version 3 */
    struct packing packing;
    uint64_t index_device, index_inode, index_size; /* the index file's; they tell whether it was replaced */
    int64_t index_mtime_ns;
    bool foreign;   /* others than this user and root may write to it, so it shares its samples with no other store */
    uint64_t owner; /* the user that the index file belongs to */
};

/* A sample as a segment's footer has it. */
struct store_entry {
    struct identity hash;
    struct identity checksum; /* checksum of the stored bytes */
    uint64_t size;            /* length of the stored bytes */
    uint64_t source_bytes;
    uint32_t flags; /* INDEX_UNREACHABLE: it could not be read when it was packed */
    uint32_t form;  /* STORE_FORM_…; in a footer from version 3 on */
};

void store_free(struct store *store); /* frees what it holds, not itself */
/* store_footer_bytes returns the length of a segment's footer, from its number of samples and the store's version.
 * store_segment_samples returns the number of samples in a segment. */
uint64_t store_footer_bytes(uint32_t samples, uint32_t version);
uint32_t store_segment_samples(const struct store_segment *segment, uint32_t chunk_size, uint32_t sample_count);

/* store_index_parse reads an index's bytes. `index` gets strings, classes and samples (with the time that
 * STORE_MTIME says, and neither device nor inode), `chunking` the chunks, `store` the rest. It checks every number:
 * positions are a permutation, samples lie in their segment in slot order without overlap, chunks are at most
 * STORE_CHUNK_BYTES_MAX. On failure all three are empty. LARDER_EFORMAT, LARDER_EVERSION, LARDER_ENOMEM. */
int store_index_parse(const uint8_t *bytes, size_t len_bytes, struct index *index, struct chunking *chunking,
                      struct store *store, struct error *err);
/* store_index_encode returns an index in memory that the caller frees. The store's hashes are those of the index's
 * samples. From version 3 on it writes max_side, quality, restart_rows and planes of the packing. LARDER_ENOMEM. */
int store_index_encode(const struct index *index, const struct chunking *chunking, const struct store *store,
                       uint8_t **bytes, size_t *len_bytes);

/* store_header_put writes the front of a segment, STORE_HEADER_BYTES. store_header_check returns a static text that
 * says what is wrong with it, or NULL. */
void store_header_put(uint8_t *bytes, const uint64_t plan[2], uint32_t version, uint32_t number);
const char *store_header_check(const uint8_t *bytes, const uint64_t plan[2], uint32_t version, uint32_t number);

/* store_footer_put writes the footer of a segment: the entries of its `count` samples in order of their positions, in
 * store_footer_bytes. store_footer_parse fills the entries, and checks that the footer is this plan's and this
 * segment's. LARDER_EFORMAT, LARDER_EVERSION. */
struct store_footer {
    uint64_t plan[2];
    uint32_t version, number, count;
};
void store_footer_put(uint8_t *bytes, const struct store_footer *footer, const struct store_entry *entries);
int store_footer_parse(const uint8_t *bytes, size_t len_bytes, const struct store_footer *footer,
                       struct store_entry *entries, struct error *err);

/* store_segment_of returns the segment that a chunk lies in. */
uint32_t store_segment_of(const struct store *store, uint32_t chunk);
void store_segment_name(uint32_t number, char name[STORE_NAME_MAX]);

#endif
