/* idset_serial.c: the serial form of id sets, little-endian throughout.
 *
 *   0   u32 magic "LIDS"    4  u16 version    6  u16 zero    8  u64 ids in all    16  u32 pages    20  u32 zero
 *   24  pages, ascending: u16 number, u8 kind, u8 zero, u32 n, then by kind
 *         1  n ids as u16, ascending
 *         2  n runs as u16 first, u16 last, ascending, with a gap between two
 *         3  the page's 1024 words; n is the number of ids
 *       the shortest kind, the lower number where two are as short
 *   end u64 XXH3 of all before
 *
 * The reader expands a page into words, writes these again, and compares: so nothing but the form that the writer makes
 * gets through, whatever lies it would tell. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "sampler/idset.h"

#define SERIAL_MAGIC UINT32_C(0x5344494c) /* "LIDS" */
#define SERIAL_VERSION 1
#define HEADER_BYTES 24
#define PAGE_HEADER_BYTES 8
#define PAGE_BYTES_MAX (PAGE_HEADER_BYTES + IDSET_PAGE_WORDS * 8)
#define CHECKSUM_BYTES 8

enum page_kind { PAGE_IDS = 1, PAGE_RUNS = 2, PAGE_WORDS = 3 };

static uint8_t *put(uint8_t *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint64_t get(const uint8_t *at, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

/* ── pages ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t count_ids(const uint64_t *words)
{
    uint32_t count = 0;
    for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++)
        count += (uint32_t)__builtin_popcountll(words[i]);
    return count;
}

/* A run begins at every bit whose lower neighbour is not set. */
static uint32_t count_runs(const uint64_t *words)
{
    uint32_t count = 0;
    uint64_t carry = 0;
    for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++) {
        count += (uint32_t)__builtin_popcountll(words[i] & ~(words[i] << 1 | carry));
        carry = words[i] >> 63;
    }
    return count;
}

static uint8_t *put_ids(uint8_t *at, const uint64_t *words)
{
    for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++)
        for (uint64_t word = words[i]; word; word &= word - 1)
            at = put(at, i * 64 + (unsigned)__builtin_ctzll(word), 2);
    return at;
}

static bool page_has(const uint64_t *words, uint32_t bit)
{
    return words[bit / 64] >> (bit % 64) & 1;
}

static uint8_t *put_runs(uint8_t *at, const uint64_t *words)
{
    for (uint32_t bit = 0; bit < 65536; bit++) {
        if (!page_has(words, bit))
            continue;
        at = put(at, bit, 2);
        while (bit < 65535 && page_has(words, bit + 1))
            bit++;
        at = put(at, bit, 2);
    }
    return at;
}

/* Writes a page, at most PAGE_BYTES_MAX bytes, and returns its end. */
static uint8_t *put_page(uint8_t *at, uint32_t page, const uint64_t *words)
{
    uint32_t n_ids = count_ids(words), n_runs = count_runs(words);
    enum page_kind kind = PAGE_IDS;
    size_t shortest = n_ids * (size_t)2;
    if (n_runs * (size_t)4 < shortest) {
        kind = PAGE_RUNS;
        shortest = n_runs * (size_t)4;
    }
    if (shortest > IDSET_PAGE_WORDS * sizeof *words)
        kind = PAGE_WORDS;
    at = put(at, page, 2);
    at = put(at, kind, 2);
    at = put(at, kind == PAGE_RUNS ? n_runs : n_ids, 4);
    if (kind == PAGE_IDS)
        return put_ids(at, words);
    if (kind == PAGE_RUNS)
        return put_runs(at, words);
    for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++)
        at = put(at, words[i], 8);
    return at;
}

/* Expands the page at `at`, of at most `left` bytes, and returns its length; 0 when it does not fit or leaves the page.
 * Other faults show when the page is written again. */
static size_t get_page(const uint8_t *at, size_t left, uint64_t *words)
{
    if (left < PAGE_HEADER_BYTES)
        return 0;
    uint64_t kind = get(at + 2, 2), n = get(at + 4, 4);
    uint64_t body = kind == PAGE_IDS ? n * 2 : kind == PAGE_RUNS ? n * 4 : IDSET_PAGE_WORDS * sizeof *words;
    at += PAGE_HEADER_BYTES;
    left -= PAGE_HEADER_BYTES;
    if (kind < PAGE_IDS || kind > PAGE_WORDS || n == 0 || n > 65536 || body > left)
        return 0;
    memset(words, 0, IDSET_PAGE_WORDS * sizeof *words);
    if (kind == PAGE_WORDS)
        for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++)
            words[i] = get(at + i * 8, 8);
    for (uint64_t i = 0; kind == PAGE_IDS && i < n; i++) {
        uint64_t bit = get(at + i * 2, 2);
        words[bit / 64] |= UINT64_C(1) << (bit % 64);
    }
    uint64_t next = 0;
    for (uint64_t i = 0; kind == PAGE_RUNS && i < n; i++) {
        uint64_t first = get(at + i * 4, 2), last = get(at + i * 4 + 2, 2);
        if (first < next || last < first) /* so that no bit is set twice: n runs cost 65536 steps at most */
            return 0;
        for (next = last + 1; first < next; first++)
            words[first / 64] |= UINT64_C(1) << (first % 64);
    }
    return PAGE_HEADER_BYTES + (size_t)body;
}

/* ── sets ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct writer {
    uint8_t *bytes, *at;
    uint32_t n_pages;
};

static void count_page(void *context, uint32_t page, const uint64_t *words)
{
    (void)page;
    (void)words;
    ++*(uint32_t *)context;
}

static void write_page(void *context, uint32_t page, const uint64_t *words)
{
    struct writer *writer = context;
    writer->at = put_page(writer->at, page, words);
    writer->n_pages++;
}

int idset_write(const struct idset *set, uint8_t **bytes, size_t *len_bytes)
{
    uint32_t n_pages = 0;
    if (idset_each_page(set, count_page, &n_pages))
        return LARDER_ENOMEM;
    struct writer writer = {.bytes = malloc(HEADER_BYTES + (size_t)n_pages * PAGE_BYTES_MAX + CHECKSUM_BYTES)};
    if (writer.bytes == NULL)
        return LARDER_ENOMEM;
    writer.at = writer.bytes + HEADER_BYTES;
    if (idset_each_page(set, write_page, &writer)) {
        free(writer.bytes);
        return LARDER_ENOMEM;
    }
    uint8_t *at = put(writer.bytes, SERIAL_MAGIC, 4);
    at = put(at, SERIAL_VERSION, 4);
    at = put(at, idset_count(set), 8);
    put(at, writer.n_pages, 8);
    size_t len = (size_t)(writer.at - writer.bytes);
    put(writer.at, XXH3_64bits(writer.bytes, len), CHECKSUM_BYTES);
    *len_bytes = len + CHECKSUM_BYTES;
    uint8_t *fitted = realloc(writer.bytes, *len_bytes);
    *bytes = fitted ? fitted : writer.bytes;
    return 0;
}

static int check_header(const uint8_t *bytes, size_t len_bytes, struct error *err)
{
    if (len_bytes < HEADER_BYTES + CHECKSUM_BYTES || get(bytes, 4) != SERIAL_MAGIC)
        return error_set(err, LARDER_EFORMAT, "id set: %zu bytes do not begin with its header", len_bytes);
    if (get(bytes + 4, 2) != SERIAL_VERSION)
        return error_set(err, LARDER_EVERSION, "id set: version %" PRIu64 ", this program reads %d", get(bytes + 4, 2),
                         SERIAL_VERSION);
    size_t len = len_bytes - CHECKSUM_BYTES;
    if (get(bytes + len, CHECKSUM_BYTES) != XXH3_64bits(bytes, len))
        return error_set(err, LARDER_EFORMAT, "id set: its checksum is wrong: it was cut off or changed");
    if (get(bytes + 6, 2) || get(bytes + 16, 8) > 65536)
        return error_set(err, LARDER_EFORMAT, "id set: its header has fields out of their ranges");
    return 0;
}

/* Reads one page: expands it, compares it with the writer's form, and adds it. *used: its bytes. */
static int read_page(const uint8_t *at, size_t left, int64_t *last_page, struct idset *set, size_t *used)
{
    uint64_t words[IDSET_PAGE_WORDS];
    uint8_t again[PAGE_BYTES_MAX];
    *used = get_page(at, left, words);
    uint32_t page = *used ? (uint32_t)get(at, 2) : 0;
    if (*used == 0 || (int64_t)page <= *last_page || *used > sizeof again ||
        (size_t)(put_page(again, page, words) - again) != *used || memcmp(again, at, *used) != 0)
        return LARDER_EFORMAT;
    sample_id ids[4096];
    size_t n_ids = 0;
    for (unsigned i = 0; i < IDSET_PAGE_WORDS; i++) {
        for (uint64_t word = words[i]; word; word &= word - 1)
            ids[n_ids++] = page * 65536 + i * 64 + (unsigned)__builtin_ctzll(word);
        if (n_ids > sizeof ids / sizeof *ids - 64 || i + 1 == IDSET_PAGE_WORDS) {
            idset_add_many(set, ids, n_ids);
            n_ids = 0;
        }
    }
    *last_page = page;
    return 0;
}

int idset_read(const uint8_t *bytes, size_t len_bytes, struct idset **out, struct error *err)
{
    int rc = check_header(bytes, len_bytes, err);
    if (rc)
        return rc;
    struct idset *set;
    if (idset_create(&set))
        return error_set(err, LARDER_ENOMEM, "id set: no memory");
    size_t at = HEADER_BYTES, end = len_bytes - CHECKSUM_BYTES;
    int64_t last_page = -1;
    uint64_t n_pages = get(bytes + 16, 8);
    for (uint64_t i = 0; i < n_pages && rc == 0; i++) {
        size_t used;
        rc = read_page(bytes + at, end - at, &last_page, set, &used);
        if (rc)
            error_set(err, rc, "id set: page %" PRIu64 " at byte %zu is not as it is written", i, at);
        else
            at += used;
    }
    if (rc == 0 && (at != end || idset_count(set) != get(bytes + 8, 8)))
        rc = error_set(err, LARDER_EFORMAT, "id set: its length or number of ids is not what its header says");
    if (rc)
        idset_destroy(set);
    else
        *out = set;
    return rc;
}
