/* jpeg_marks.h: where the MCUs of JPEGs begin, remembered from one time that a JPEG is decoded to the next.
 *
 * Without restart markers nothing says where a JPEG's lower rows begin, so all above a rectangle has to be read. What
 * was found out about it once holds for the same bytes as long as they are the same. So a JPEG is known by a hash of
 * all its bytes, wherever they came from.
 *
 * The memory is bounded. When it is full, a JPEG takes the place of others at random, and only now and then: where all
 * of them come round in turn, most of what is known would otherwise be gone before it is asked for. Any thread may call
 * all functions. They block for no longer than copying takes. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_MARKS_H
#define LARDER_PREPROCESS_DECODE_JPEG_MARKS_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/decode/jpeg_huffman.h"

struct jpeg_marks;

/* jpeg_marks_create makes an empty memory of at most `bytes`, or of 2 KiB, in which nothing fits. Who knows the seed
 * can make other bytes that have the key of a JPEG, so it is a random number. LARDER_ENOMEM. */
int jpeg_marks_create(uint64_t bytes, uint64_t seed, struct jpeg_marks **out);
void jpeg_marks_destroy(struct jpeg_marks *marks); /* accepts NULL */
/* jpeg_marks_bytes returns how much of it is in use. */
uint64_t jpeg_marks_bytes(struct jpeg_marks *marks);

struct jpeg_marks_key {
    uint64_t low, high;
};
/* jpeg_marks_key returns what a JPEG is known by: it depends on the seed. */
struct jpeg_marks_key jpeg_marks_key(const struct jpeg_marks *marks, const uint8_t *bytes, size_t len_bytes);

/* jpeg_marks_find copies the beginnings of a JPEG's first segments, at most `room` of them, to `to`, and returns how
 * many there are; 0: the JPEG is not known. */
uint32_t jpeg_marks_find(struct jpeg_marks *marks, struct jpeg_marks_key key, struct huffman_mark *to, uint32_t room);
/* jpeg_marks_keep remembers the first `count` of a JPEG's `room` segments, if it knew fewer. Borrows `from`. */
void jpeg_marks_keep(struct jpeg_marks *marks, struct jpeg_marks_key key, const struct huffman_mark *from,
                     uint32_t count, uint32_t room);

#endif
