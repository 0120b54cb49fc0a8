/* ids.c: which ids the samples of datasets have, and which are free; see id_table in catalog_priv.h.
 *
 * An id is free, in use (users > 0; its identity is in the table), retired (nobody uses it, and somebody may still hold
 * things under it), or taken (id_table_take_retired gave it out). The lowest free ones are given first, so that a
 * dataset's ids mostly ascend, and what is kept by id stays as short as it can.
 *
 * A file's identity is not that of a store's sample, which is its content. But a store may say which file each of its
 * samples was packed from, as that file was then. Where such a store and a dataset of these files are open, whichever
 * came later takes the ids of the other for samples of one content id. */
#include <stdlib.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"
#include "common/log.h"

#define ID_TABLE_MAGIC UINT32_C(0x69647461)

/* Who has ids. */
struct holder {
    struct holder *next;
    const sample_id *ids;
    size_t count;
    const struct source *source;
};

struct id_table {
    uint32_t magic;
    atomic_uint refs;     /* the catalog and its datasets */
    pthread_mutex_t lock; /* guards all below */
    struct identity_table identities;
    uint32_t *users;   /* datasets, by id */
    uint64_t *retired; /* a bit an id */
    size_t cap;        /* ids that both have room for */
    size_t n_retired;
    size_t retired_from; /* no word before it has a bit */
    struct holder *holders;
};

int id_table_create(struct id_table **out)
{
    struct id_table *table = calloc(1, sizeof *table);
    if (!table)
        return LARDER_ENOMEM;
    table->magic = ID_TABLE_MAGIC;
    atomic_init(&table->refs, 1);
    CHECK(pthread_mutex_init(&table->lock, NULL) == 0);
    *out = table;
    return 0;
}

struct id_table *id_table_ref(struct id_table *table)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    atomic_fetch_add_explicit(&table->refs, 1, memory_order_relaxed);
    return table;
}

void id_table_unref(struct id_table **pointer)
{
    struct id_table *table = *pointer;
    *pointer = NULL;
    if (!table)
        return;
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    /* acq_rel: whoever frees it sees what every other holder did before letting go. */
    if (atomic_fetch_sub_explicit(&table->refs, 1, memory_order_acq_rel) != 1)
        return;
    identity_table_free(&table->identities);
    free(table->users);
    free(table->retired);
    pthread_mutex_destroy(&table->lock);
    table->magic = 0;
    free(table);
}

/* Room for as many ids as there are identities. */
static int reserve_locked(struct id_table *table, size_t more)
{
    int code = identity_table_reserve(&table->identities, more);
    size_t cap = (table->identities.cap + 63) & ~(size_t)63;
    if (code || cap <= table->cap)
        return code;
    uint32_t *users = realloc(table->users, cap * sizeof *users);
    if (users)
        table->users = users;
    uint64_t *retired = users ? realloc(table->retired, cap / 64 * sizeof *retired) : NULL;
    if (!retired)
        return LARDER_ENOMEM;
    table->retired = retired;
    for (size_t id = table->cap; id < cap; id++)
        table->users[id] = 0;
    for (size_t word = table->cap / 64; word < cap / 64; word++)
        table->retired[word] = 0;
    table->cap = cap;
    return 0;
}

/* ── a store and the files that it was packed from ── */

/* The samples of a wish by their content ids. */
struct contents_map {
    struct identity_table numbers;
    uint32_t *samples; /* indices, by number */
    uint32_t count;
};

static void map_free(struct contents_map *map)
{
    identity_table_free(&map->numbers);
    free(map->samples);
}

static bool content_of(const struct source *source, size_t index, struct identity *out)
{
    if (!source->origins)
        return source_content_id(source, (uint32_t)index, SOURCE_ORIGIN_SEED, out);
    *out = source->origins[index];
    return out->low || out->high;
}

/* Of several samples of one content id the first one counts. */
static int map_contents(const struct id_wish *wish, struct contents_map *map)
{
    struct identity content;
    map->samples = malloc(wish->count * sizeof *map->samples);
    int code = map->samples ? identity_table_reserve(&map->numbers, wish->count) : LARDER_ENOMEM;
    for (size_t i = 0; !code && i < wish->count; i++) {
        if (content_of(wish->source, i, &content) && identity_number(&map->numbers, content) == map->count)
            map->samples[map->count++] = (uint32_t)i;
    }
    return code;
}

/* One knows what it was packed from, and the other one was not packed. */
static bool may_join(const struct source *a, const struct source *b)
{
    return (a->origins && !b->packing.packed) || (b->origins && !a->packing.packed);
}

static bool has_partner_locked(const struct id_table *table, const struct id_wish *wish)
{
    const struct holder *holder = wish->source ? table->holders : NULL;
    while (holder && !may_join(holder->source, wish->source))
        holder = holder->next;
    return holder != NULL;
}

/* Takes a holder's ids for the samples that have none and are of its contents. An id that the dataset has already is
 * not taken for another sample. */
static uint32_t join_locked(const struct holder *holder, const struct contents_map *map, uint64_t *taken,
                            sample_id *ids)
{
    uint32_t joined = 0;
    for (size_t i = 0; i < holder->count; i++) {
        struct identity content;
        uint32_t number = content_of(holder->source, i, &content) ? identity_find(&map->numbers, content) : SAMPLE_NONE;
        if (number == SAMPLE_NONE || ids[map->samples[number]] != SAMPLE_NONE)
            continue;
        sample_id id = holder->ids[i];
        uint64_t bit = UINT64_C(1) << (id % 64);
        if (taken[id / 64] & bit)
            continue;
        taken[id / 64] |= bit;
        ids[map->samples[number]] = id;
        joined++;
    }
    return joined;
}

/* Gives the samples the ids that their identities have, then those of their contents; SAMPLE_NONE to the others. */
static int find_locked(struct id_table *table, const struct id_wish *wish, const struct contents_map *map,
                       sample_id *ids)
{
    uint64_t *taken = calloc(table->cap / 64, sizeof *taken);
    if (!taken)
        return LARDER_ENOMEM;
    for (size_t i = 0; i < wish->count; i++) {
        ids[i] = identity_find(&table->identities, wish->identities[i]);
        if (ids[i] != SAMPLE_NONE)
            taken[ids[i] / 64] |= UINT64_C(1) << (ids[i] % 64);
    }
    for (const struct holder *holder = table->holders; holder; holder = holder->next) {
        uint32_t joined = may_join(holder->source, wish->source) ? join_locked(holder, map, taken, ids) : 0;
        if (joined)
            log_info("msg=\"samples are shared between a store and the files that it was packed from\" source=\"%s\" "
                     "with=\"%s\" shared=%u samples=%zu",
                     wish->source->index.text, holder->source->index.text, joined, wish->count);
    }
    free(taken);
    return 0;
}

/* Identities that have no id yet get the lowest that are free. */
static void give_locked(struct id_table *table, const struct id_wish *wish, bool found, sample_id *ids)
{
    for (size_t i = 0; i < wish->count; i++) {
        if (wish->count - i > IDENTITY_AHEAD)
            identity_expect(&table->identities, wish->identities[i + IDENTITY_AHEAD]);
        if (!found || ids[i] == SAMPLE_NONE)
            ids[i] = identity_number(&table->identities, wish->identities[i]);
        table->users[ids[i]]++;
    }
}

int id_table_give(struct id_table *table, const struct id_wish *wish, sample_id *ids)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    struct contents_map map = {0};
    struct holder *holder = wish->source ? malloc(sizeof *holder) : NULL;
    int code = wish->source && !holder ? LARDER_ENOMEM : 0;
    pthread_mutex_lock(&table->lock);
    bool joins = has_partner_locked(table, wish);
    if (!code && joins) { /* not under the lock, which the engine's thread may wait for */
        pthread_mutex_unlock(&table->lock);
        code = map_contents(wish, &map);
        pthread_mutex_lock(&table->lock);
    }
    if (!code)
        code = reserve_locked(table, wish->count);
    if (!code && joins)
        code = find_locked(table, wish, &map, ids);
    if (!code) {
        give_locked(table, wish, joins, ids);
        if (holder) {
            *holder = (struct holder){table->holders, ids, wish->count, wish->source};
            table->holders = holder;
            holder = NULL;
        }
    }
    pthread_mutex_unlock(&table->lock);
    free(holder);
    map_free(&map);
    return code;
}

static void retire_locked(struct id_table *table, sample_id id)
{
    size_t word = id / 64;
    table->retired[word] |= UINT64_C(1) << (id % 64);
    table->retired_from = table->n_retired == 0 || word < table->retired_from ? word : table->retired_from;
    table->n_retired++;
}

void id_table_drop(struct id_table *table, const sample_id *ids, size_t count)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    struct holder **at = &table->holders, *gone = NULL;
    while (*at && (*at)->ids != ids)
        at = &(*at)->next;
    if (*at) {
        gone = *at;
        *at = gone->next;
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(ids[i] < table->cap && table->users[ids[i]] > 0);
        if (--table->users[ids[i]] > 0)
            continue;
        identity_forget(&table->identities, ids[i]);
        retire_locked(table, ids[i]);
    }
    pthread_mutex_unlock(&table->lock);
    free(gone);
}

uint32_t id_table_take_retired(struct id_table *table, sample_id *ids, uint32_t most)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    uint32_t n = 0;
    pthread_mutex_lock(&table->lock);
    while (n < most && table->n_retired > 0) {
        uint64_t *word = &table->retired[table->retired_from];
        if (!*word) {
            table->retired_from++;
            continue;
        }
        ids[n++] = (sample_id)(table->retired_from * 64 + (unsigned)__builtin_ctzll(*word));
        *word &= *word - 1;
        table->n_retired--;
    }
    pthread_mutex_unlock(&table->lock);
    return n;
}

void id_table_settle(struct id_table *table, const sample_id *ids, uint32_t count, bool forgotten)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(ids[i] < table->cap && table->users[ids[i]] == 0);
        if (forgotten)
            identity_release(&table->identities, ids[i]);
        else
            retire_locked(table, ids[i]);
    }
    pthread_mutex_unlock(&table->lock);
}

uint64_t id_table_used(struct id_table *table)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    uint64_t used = table->identities.used;
    pthread_mutex_unlock(&table->lock);
    return used;
}
