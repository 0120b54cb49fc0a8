/* ids.c: which ids the samples of datasets have, and which are free; see id_table in catalog_priv.h.
 *
 * A dataset that is alone shares ids with nobody. So its samples get ids without being identified, and stand in no
 * table until a second dataset comes: most daemons have one dataset, and a large one's identities take long to make and
 * much memory to keep.
 *
 * An id is free, in use (users > 0; its identity is in the table), retired (nobody uses it, and somebody may still hold
 * things under it), or taken (id_table_take_retired gave it out). The lowest free ones are given first, so that a
 * dataset's ids mostly ascend, and what is kept by id stays as short as it can. */
#include <stdlib.h>

#include "cache/catalog/catalog_priv.h"
#include "common/check.h"

#define ID_TABLE_MAGIC UINT32_C(0x69647461)

struct id_table {
    uint32_t magic;
    atomic_uint refs;     /* the catalog and its datasets */
    pthread_mutex_t lock; /* guards all below */
    struct identity_table identities;
    struct id_maker alone;      /* of a dataset that is alone; its identities are not in the table */
    const sample_id *alone_ids; /* its ids, borrowed; NULL: all identities are in the table */
    bool identifying;           /* its identities are being made: so it stays */
    pthread_cond_t identified;  /* no longer identifying */
    uint32_t *users;            /* datasets, by id; NULL while no identities are in the table */
    uint64_t *retired;          /* a bit an id */
    size_t users_cap, cap;      /* ids that users and retired have room for */
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
    CHECK(!table->alone_ids && !table->identifying);
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

/* Gives ids to a dataset that is alone. */
static int give_alone_locked(struct id_table *table, const struct id_maker *maker, sample_id *ids)
{
    int code = identity_numbers_reserve(&table->identities, maker->count);
    if (!code)
        code = reserve_retired_locked(table);
    if (code)
        return code;
    for (size_t i = 0; i < maker->count; i++)
        ids[i] = identity_take(&table->identities);
    table->alone = *maker;
    table->alone_ids = ids;
    return 0;
}

static int make_identities(const struct id_maker *maker, struct identity **out)
{
    *out = malloc(maker->count * sizeof **out);
    return *out ? maker->make(maker, *out) : LARDER_ENOMEM;
}

static void put_locked(struct id_table *table, const struct identity *identities)
{
    size_t count = table->alone.count;
    for (size_t i = 0; i < count; i++) {
        if (count - i > IDENTITY_AHEAD)
            identity_expect(&table->identities, identities[i + IDENTITY_AHEAD]);
        identity_put(&table->identities, table->alone_ids[i], identities[i]);
        table->users[table->alone_ids[i]] = 1;
    }
    table->alone_ids = NULL;
}

/* Puts the identities of a dataset that was alone into the table. They are not made under the lock, which the engine's
 * thread may wait for. */
static int identify_locked(struct id_table *table)
{
    while (table->identifying)
        pthread_cond_wait(&table->identified, &table->lock);
    if (!table->alone_ids)
        return 0;
    struct identity *identities;
    table->identifying = true;
    pthread_mutex_unlock(&table->lock);
    int code = make_identities(&table->alone, &identities); /* alone stays as it is while it is identified */
    pthread_mutex_lock(&table->lock);
    table->identifying = false;
    pthread_cond_broadcast(&table->identified);
    if (!code)
        code = identity_table_expand(&table->identities, table->alone.count);
    if (!code)
        code = reserve_users_locked(table);
    if (!code)
        put_locked(table, identities);
    free(identities);
    return code;
}

/* Identities that have no id yet get the lowest that are free. */
static int give_locked(struct id_table *table, const struct identity *identities, size_t count, sample_id *ids)
{
    int code = identity_table_reserve(&table->identities, count);
    if (!code)
        code = reserve_retired_locked(table);
    if (!code)
        code = reserve_users_locked(table);
    for (size_t i = 0; !code && i < count; i++) {
        if (count - i > IDENTITY_AHEAD)
            identity_expect(&table->identities, identities[i + IDENTITY_AHEAD]);
        ids[i] = identity_number(&table->identities, identities[i]);
        table->users[ids[i]]++;
    }
    return code;
}

int id_table_give(struct id_table *table, const struct id_maker *maker, sample_id *ids)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    struct identity *identities = NULL;
    pthread_mutex_lock(&table->lock);
    bool alone = !table->alone_ids && table->identities.used == 0;
    int code = alone ? give_alone_locked(table, maker, ids) : 0;
    pthread_mutex_unlock(&table->lock);
    if (alone)
        return code;
    code = make_identities(maker, &identities);
    pthread_mutex_lock(&table->lock);
    if (!code)
        code = identify_locked(table); /* the one that was alone, or one that came when all others had gone */
    if (!code)
        code = give_locked(table, identities, maker->count, ids);
    pthread_mutex_unlock(&table->lock);
    free(identities);
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

void id_table_drop(struct id_table *table, const sample_id *ids, size_t count)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    while (table->identifying && table->alone_ids == ids)
        pthread_cond_wait(&table->identified, &table->lock);
    bool alone = table->alone_ids == ids;
    for (size_t i = 0; i < count; i++) {
        CHECK(alone || (ids[i] < table->users_cap && table->users[ids[i]] > 0));
        if (!alone && --table->users[ids[i]] > 0)
            continue;
        if (!alone)
            identity_forget(&table->identities, ids[i]);
        retire_locked(table, ids[i]);
    }
    if (alone)
        table->alone_ids = NULL;
    if (table->identities.used == 0)
        empty_locked(table);
    pthread_mutex_unlock(&table->lock);
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

uint64_t id_table_bytes(struct id_table *table)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    const struct identity_table *identities = &table->identities;
    uint64_t bytes = identities->cap * sizeof *identities->identities +
                     identities->place_count * sizeof *identities->places + identities->spare_cap / 8 +
                     table->users_cap * sizeof *table->users + table->cap / 8;
    pthread_mutex_unlock(&table->lock);
    return bytes;
}

uint64_t id_table_used(struct id_table *table)
{
    CHECK_MAGIC(table, ID_TABLE_MAGIC);
    pthread_mutex_lock(&table->lock);
    uint64_t used = table->identities.used + (table->alone_ids ? table->alone.count : 0);
    pthread_mutex_unlock(&table->lock);
    return used;
}
