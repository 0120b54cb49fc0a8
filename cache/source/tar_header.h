/* tar_header.h: the headers of a tar archive, as Python's tarfile reads them, which webdataset does: ustar, GNU's long
 * names and pax. Pure.
 *
 * A member has a header of one block and then its body, up to a whole block. Headers of other kinds may stand before it
 * and say more of it: a longer name, another size. What the first of them says holds. */
#ifndef LARDER_CACHE_SOURCE_TAR_HEADER_H
#define LARDER_CACHE_SOURCE_TAR_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK_BYTES 512
#define TAR_NAME_MAX 4096         /* bytes of a member's name */
#define TAR_MORE_BYTES_MAX 65536u /* the longest body of a header that says more */

/* What a header is of. */
enum tar_type {
    TAR_FILE,   /* a file: its body is what it holds */
    TAR_OTHER,  /* a folder, a link, a device … */
    TAR_MORE,   /* its body says more of the member that follows */
    TAR_GLOBAL, /* its body says something of all members */
    TAR_END,    /* zeros: the archive ends */
};

/* Why an archive cannot be read on. */
enum tar_fault {
    TAR_SOUND,
    TAR_CUT,        /* it ends in the middle of a member */
    TAR_CHECKSUM,   /* no header, or a damaged one */
    TAR_NUMBER,     /* a header's size is no number */
    TAR_EXTENSION,  /* a header that says more is too long, or not of its form */
    TAR_LONG_NAME,  /* a name has more than TAR_NAME_MAX bytes */
    TAR_EMPTY,      /* it has no bytes */
    TAR_SPARSE,     /* a file with holes, whose bytes do not lie as they are */
    TAR_VOLUMES,    /* a part of an archive of several volumes */
    TAR_COMPRESSED, /* not an archive, but one that was compressed */
};
/* tar_fault_text returns what is to be said of a fault, and tar_is_refused whether it is no damage: the archive was
 * meant so. */
const char *tar_fault_text(enum tar_fault fault);
bool tar_is_refused(enum tar_fault fault);

/* A member, from the first header that says something of it on. Before that has_name and has_size are false. */
struct tar_member {
    enum tar_type type;
    uint64_t body_bytes;     /* of the header that was read last */
    uint64_t size;           /* of the member */
    bool has_name, has_size; /* headers before the member's own have said them */
    size_t name_len;
    char name[TAR_NAME_MAX + 1];
};

/* tar_header_read reads the member's next header. After TAR_MORE and TAR_GLOBAL its body goes to tar_more_read. After
 * TAR_FILE and TAR_OTHER the member is complete. On a fault the member is not to be used. */
enum tar_fault tar_header_read(struct tar_member *member, const uint8_t block[TAR_BLOCK_BYTES]);
/* tar_more_read reads the body (member->body_bytes ≤ TAR_MORE_BYTES_MAX) that the last header announced. `kind` is
 * that header's type flag. */
enum tar_fault tar_more_read(struct tar_member *member, uint8_t kind, const uint8_t *body);
/* tar_flag_of returns a header's type flag. */
static inline uint8_t tar_flag_of(const uint8_t block[TAR_BLOCK_BYTES])
{
    return block[156];
}

/* tar_body_blocks returns how many bytes a body of that size takes in the archive. */
static inline uint64_t tar_body_blocks(uint64_t bytes)
{
    return (bytes + TAR_BLOCK_BYTES - 1) & ~(uint64_t)(TAR_BLOCK_BYTES - 1);
}

/* tar_header_fits says whether a block can be the header of a file of that name and size. Names and sizes that other
 * headers must have said are taken on trust. */
bool tar_header_fits(const uint8_t block[TAR_BLOCK_BYTES], const char *name, uint64_t size);

#endif
