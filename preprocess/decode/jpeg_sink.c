#include "preprocess/decode/jpeg_sink.h"

#include <stdlib.h>

#include <jerror.h>

#define FIRST_BYTES ((size_t)64 << 10)

static struct jpeg_sink *sink_of(j_compress_ptr cinfo)
{
    return (struct jpeg_sink *)cinfo->dest;
}

/* Makes room behind the first `used` bytes. */
static void grow(j_compress_ptr cinfo, size_t used)
{
    struct jpeg_sink *sink = sink_of(cinfo);
    size_t cap = used ? used * 2 : FIRST_BYTES;
    uint8_t *bytes = realloc(sink->bytes, cap);
    if (!bytes)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    sink->bytes = bytes;
    sink->cap_bytes = cap;
    sink->manager.next_output_byte = bytes + used;
    sink->manager.free_in_buffer = cap - used;
}

static void init_destination(j_compress_ptr cinfo)
{
    grow(cinfo, 0);
}

/* libjpeg calls this when all room is used, whatever the manager says is left. */
static boolean empty_output_buffer(j_compress_ptr cinfo)
{
    grow(cinfo, sink_of(cinfo)->cap_bytes);
    return TRUE;
}

static void term_destination(j_compress_ptr cinfo)
{
    struct jpeg_sink *sink = sink_of(cinfo);
    sink->len_bytes = sink->cap_bytes - sink->manager.free_in_buffer;
}

void jpeg_sink_begin(struct jpeg_sink *sink, j_compress_ptr cinfo)
{
    *sink = (struct jpeg_sink){.manager = {.init_destination = init_destination,
                                           .empty_output_buffer = empty_output_buffer,
                                           .term_destination = term_destination}};
    cinfo->dest = &sink->manager;
}
