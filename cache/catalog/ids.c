/* ids.c: which ids the samples of datasets have, and which are free; see id_table in catalog_priv.h.
 *
 * A dataset that is alone shares ids with nobody. So its samples get ids without being identified, and stand in no
 * table until a second dataset comes: most daemons have one dataset, and a large one's identities take long to make and
 * much memory to keep.
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
    struct id_wish wish;
    const sample_id *ids; /* borrowed */
};

struct id_table {
    uint32_t magic;
    atomic_uint refs;     /* the catalog and its datasets */
    pthread_mutex_t lock; /* guards all below */
    struct identity_table identities;
    struct holder *holders;
    bool alone;                /* there is one holder, and its identities are not in the table */
    bool identifying;          /* they are being made: so the holder stays */
    pthread_cond_t identified; /* no longer identifying */
    uint32_t *users;           /* datasets, by id; NULL while there is at most one dataset */
    uint64_t *retired;         /* a bit an id */
    size_t users_cap, cap;     /* ids that users and retired have room for */
    size_t n_retired;
    size_t retired_from; /* no word before it has a bit */
};

int id_table_create(struct id_table **out)
{
    struct id_table *table = calloc(1, sizeof *table);
    if (!table)
        return LARDER_ENOMEM;
    table->magic = ID_TABLE_MAGIC;
    atomic_init(&table->refs, 1);
    CHECK(pthread_mutex_init(&table->lock, NULL) == 0);
    CHECK(pthread_cond_init(&table->identified, NULL) == 0);
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
    CHECK(!table->holders);
    identity_table_free(&table->identities);
    free(table->users);
    free(table->retired);
    pthread_cond_destroy(&table->identified);
    pthread_mutex_destroy(&table->lock);
    table->magic = 0;
    free(table);
}

/* Room in retired for as many ids as there are numbers. */
static int reserve_retired_locked(struct id_table *table)
{
    size_t cap = table->identities.spare_cap;
    if (cap <= table->cap)
        return 0;
    uint64_t *retired = realloc(table->retired, cap / 64 * sizeof *retired);
    if (!retired)
        return LARDER_ENOMEM;
    table->retired = retired;
    for (size_t word = table->cap / 64; word < cap / 64; word++)
        table->retired[word] = 0;
    table->cap = cap;
    return 0;
}

/* Room in users for all ids that retired has room for. */
static int reserve_users_locked(struct id_table *table)
{
    if (table->users_cap == table->cap)
        return 0;
    uint32_t *users = realloc(table->users, table->cap * sizeof *users);
    if (!users)
        return LARDER_ENOMEM;
    table->users = users;
    for (size_t id = table->users_cap; id < table->cap; id++)
        table->users[id] = 0;
    table->users_cap = table->cap;
    return 0;
}

/* ── a dataset that is alone ── */

static int give_alone_locked(struct id_table *table, size_t count, sample_id *ids)
{
    int code = identity_numbers_reserve(&table->identities, count);
    if (!code)
        code = reserve_retired_locked(table);
    for (size_t i = 0; !code && i < count; i++)
        ids[i] = identity_take(&table->identities);
    return code;
}

static void put_locked(struct id_table *table, const struct holder *holder, const struct identity *identities)
{
    size_t count = holder->wish.count;
    for (size_t i = 0; i < count; i++) {
        if (count - i > IDENTITY_AHEAD)
            identity_expect(&table->identities, identities[i + IDENTITY_AHEAD]);
        identity_put(&table->identities, holder->ids[i], identities[i]);
        table->users[holder->ids[i]] = 1;
    }
}

static int make_identities(const struct id_wish *wish, struct identity **out)
{
    *out = malloc(wish->count * sizeof **out);
    return *out ? wish->make(wish, *out) : LARDER_ENOMEM;
}

/* Puts the identities of a dataset that is alone into the table. They are not made under the lock, which the engine's
 * thread may wait for. */
static int identify_locked(struct id_table *table)
{
    while (table->identifying)
        pthread_cond_wait(&table->identified, &table->lock);
    if (!table->alone)
        return 0;
    const struct holder *holder = table->holders;
    struct identity *identities;
    table->identifying = true;
    pthread_mutex_unlock(&table->lock);
    int code = make_identities(&holder->wish, &identities);
    pthread_mutex_lock(&table->lock);
    table->identifying = false;
    pthread_cond_broadcast(&table->identified);
    if (!code)
        code = identity_table_expand(&table->identities, holder->wish.count);
    if (!code)
        code = reserve_users_locked(table);
    if (!code) {
        put_locked(table, holder, identities);
        table->alone = false;
    }
    free(identities);
    return code;
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
    const struct holder *holder = table->holders;
    while (holder && !may_join(holder->wish.source, wish->source))
        holder = holder->next;
    return holder != NULL;
}

/* Takes a holder's ids for the samples that have none and are of its contents. An id that the dataset has already is
 * not taken for another sample. */
static uint32_t join_locked(const struct holder *holder, const struct contents_map *map, uint64_t *taken,
                            sample_id *ids)
{
    uint32_t joined = 0;
    for (size_t i = 0; i < holder->wish.count; i++) {
        struct identity content;
        uint32_t number = content_of(holder->wish.source, i, &content) ? identity_find(&map->numbers, content)
                                                                       : SAMPLE_NONE;
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

/* What is known of a dataset that wants ids while others have some. */
struct wanted {
    struct identity *identities;
    bool joins; /* a store and its files: there is a map */
    struct contents_map map;
};

/* Gives the samples the ids that their identities have, then those of their contents; SAMPLE_NONE to the others. */
static int find_locked(struct id_table *table, const struct id_wish *wish, const struct wanted *wanted, sample_id *ids)
{
    uint64_t *taken = calloc(table->cap / 64, sizeof *taken);
    if (!taken)
        return LARDER_ENOMEM;
    for (size_t i = 0; i < wish->count; i++) {
        ids[i] = identity_find(&table->identities, wanted->identities[i]);
        if (ids[i] != SAMPLE_NONE)
            taken[ids[i] / 64] |= UINT64_C(1) << (ids[i] % 64);
    }
    for (const struct holder *holder = table->holders; holder; holder = holder->next) {
        uint32_t joined = may_join(holder->wish.source, wish->source) ? join_locked(holder, &wanted->map, taken, ids)
                                                                      : 0;
        if (joined)
            log_info("msg=\"samples are shared between a store and the files that it was packed from\" source=\"%s\" "
                     "with=\"%s\" shared=%u samples=%zu",
                     wish->source->index.text, holder->wish.source->index.text, joined, wish->count);
    }
    free(taken);
    return 0;
}

/* Identities that have no id yet get the lowest that are free. */
static int give_locked(struct id_table *table, const struct id_wish *wish, const struct wanted *wanted, sample_id *ids)
{
    int code = identity_table_reserve(&table->identities, wish->count);
    if (!code)
        code = reserve_retired_locked(table);
    if (!code)
        code = reserve_users_locked(table);
    if (!code && wanted->joins)
        code = find_locked(table, wish, wanted, ids);
    for (size_t i = 0; !code && i < wish->count; i++) {
        if (wish->count - i > IDENTITY_AHEAD)
            identity_expect(&table->identities, wanted->identities[i + IDENTITY_AHEAD]);
        if (!wanted->joins || ids[i] == SAMPLE_NONE)
            ids[i] = identity_number(&table->identities, wanted->identities[i]);
        table->users[ids[i]]++;
    }
    return code;
}

/* Gives ids to a dataset that is not alone. It lets the lock go while it makes what it need not have the lock for. */
static int give_beside_locked(struct id_table *table, const struct id_wish *wish, sample_id *ids)
{
    struct wanted wanted = {0};
    pthread_mutex_unlock(&table->lock);
    int code = make_identities(wish, &wanted.identities);
    pthread_mutex_lock(&table->lock);
    if (!code)
        code = identify_locked(table);
    wanted.joins = !code && has_partner_locked(table, wish);
    if (wanted.joins) {
        pthread_mutex_unlock(&table->lock);
        code = map_contents(wish, &wanted.map);
        pthread_mutex_lock(&table->lock);
        if (!code)
            code = identify_locked(table); /* of one that came when all others had gone */
    }
    if (!code)
        code = give_locked(table, wish, &wanted, ids);
    free(wanted.identities);
    map_free(&wanted.map);
    return code;
}

int id_table_give(struct id_table *table, const struct id_wish *wish, sample_id *ids)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    struct holder *holder = malloc(sizeof *holder);
    if (!holder)
        return LARDER_ENOMEM;
    pthread_mutex_lock(&table->lock);
    bool alone = !table->holders;
    int code = alone ? give_alone_locked(table, wish->count, ids) : give_beside_locked(table, wish, ids);
    if (!code) {
        *holder = (struct holder){table->holders, *wish, ids};
        table->holders = holder;
        table->alone = alone;
        holder = NULL;
    }
    pthread_mutex_unlock(&table->lock);
    free(holder);
    return code;
}

static void retire_locked(struct id_table *table, sample_id id)
{
    size_t word = id / 64;
    table->retired[word] |= UINT64_C(1) << (id % 64);
    table->retired_from = table->n_retired == 0 || word < table->retired_from ? word : table->retired_from;
    table->n_retired++;
}

/* Gives back what only identities take. */
static void empty_locked(struct id_table *table)
{
    identity_table_empty(&table->identities);
    free(table->users);
    table->users = NULL;
    table->users_cap = 0;
}

/* Takes the holder of these ids out of the list. */
static struct holder *remove_locked(struct id_table *table, const sample_id *ids)
{
    struct holder **at = &table->holders;
    while (*at && (*at)->ids != ids)
        at = &(*at)->next;
    CHECK(*at);
    struct holder *holder = *at;
    *at = holder->next;
    return holder;
}

void id_table_drop(struct id_table *table, const sample_id *ids, size_t count)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    while (table->identifying && table->holders->ids == ids)
        pthread_cond_wait(&table->identified, &table->lock);
    struct holder *holder = remove_locked(table, ids);
    bool alone = table->alone;
    for (size_t i = 0; i < count; i++) {
        CHECK(alone || (ids[i] < table->users_cap && table->users[ids[i]] > 0));
        if (!alone && --table->users[ids[i]] > 0)
            continue;
        if (!alone)
            identity_forget(&table->identities, ids[i]);
        retire_locked(table, ids[i]);
    }
    table->alone = false;
    if (!table->holders)
        empty_locked(table);
    pthread_mutex_unlock(&table->lock);
    free(holder);
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
        CHECK(ids[i] < table->cap && (ids[i] >= table->users_cap || table->users[ids[i]] == 0));
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
    uint64_t used = table->identities.used + (table->alone ? table->holders->wish.count : 0);
    pthread_mutex_unlock(&table->lock);
    return used;
}
