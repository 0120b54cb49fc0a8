/* encoded_bars.c: whether a read may begin: there must be room for it, and its source must leave room for others.
 *
 * A source that is slow, or never answers, keeps what it has in flight. So one source may have as much in flight as is
 * left for all others: half of all when it is the only one, a third when two have as much as they may. Then whoever
 * comes later finds room, however many sources are silent already. What is in flight is memory that nobody can use, and
 * a second's reads are enough for any source to have no pause. So beyond an eighth of what others leave, a source
 * begins a read only while it has less in flight than it brought in the last second. A source that was silent for long
 * brought nothing. A source with nothing in flight may read as soon as there is any room. */
#include "server/engine/chunks.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"

/* for_reads returns the bytes of memory that reads may have, beside what is kept. What is lent of the arena's budget is
 * for what nobody pins: no read may keep it from instances that jobs cannot do without. */
static uint64_t for_reads(const struct encoded_store *store)
{
    uint64_t most = encoded_most(store), kept = store->next.known ? 0 : store->kept_bytes; /* there, it makes way */
    uint64_t left = most > kept ? most - kept : 0, own = store->env->config.encoded_bytes;
    return left < own ? left : own;
}

/* busy_bytes returns what is pinned of these bytes. What is kept and pinned is not: it stays when it is pinned no
 * more. */
static uint64_t busy_bytes(const struct encoded_store *store)
{
    uint64_t stays = store->next.known ? 0 : store->kept_pinned_bytes; /* as read: a form may take less */
    return store->pinned_bytes > stays ? store->pinned_bytes - stays : 0;
}

/* left_by_others returns the bytes that reads may have, less what is in flight from other datasets. */
static uint64_t left_by_others(const struct encoded_store *store, const struct flight *flight)
{
    uint64_t others = store->loading_bytes - (flight ? flight->bytes : 0), all = for_reads(store);
    return all > others ? all - others : 0;
}

bool encoded_share_for_read(const struct encoded_store *store, const void *dataset, uint32_t samples, uint64_t bytes)
{
    const struct flight *flight = encoded_flight(store, dataset);
    if (!flight)
        return true;
    uint32_t loads_left = store->env->config.inflight_loads - (store->loading - flight->loads);
    uint64_t left = left_by_others(store, flight), all = flight->bytes + bytes;
    bool soon = (double)flight->bytes < encoded_flight_brings(store, flight);
    return flight->loads + samples <= loads_left / 2 && all <= left / 2 && (soon || all <= left / SLOW_PART);
}

/* chunk_samples returns how many samples a read of the sample's chunk may bring. */
static uint32_t chunk_samples(const struct encoded_store *store, sample_id id)
{
    const struct group *group = chunks_group(store->chunks, id);
    return group ? group->chunk_samples : 1;
}

/* read_bytes returns what the chunk can bring, or half of what other sources leave of memory if that is less. Otherwise
 * each sample that is through would make room for a read of one sample, as soon as the look-ahead needs more than there
 * is. */
static uint64_t read_bytes(const struct encoded_store *store, const struct job *job, sample_id id, uint64_t bytes)
{
    uint64_t most = left_by_others(store, encoded_flight(store, job->terms.dataset)) / 2, all = bytes;
    if (job->terms.redirected && chunks_group(store->chunks, id))
        all = (store->slab.taken ? encoded_mean_bytes(store) : bytes) * chunk_samples(store, id);
    all = all > most ? most : all;
    return all > bytes ? all : bytes;
}

/* A read that is cut short leaves its chunk to be read again. And room that small reads leave only allows small reads.
 * But what others have in flight may stay there for ever, so a source with nothing in flight reads what it can. */
enum encoded_bar encoded_bar_to_read(const struct encoded_store *store, uint32_t no, sample_id id, uint64_t bytes)
{
    const struct job *job = job_at(store->jobs, no);
    uint32_t samples = chunk_samples(store, id);
    uint64_t all = read_bytes(store, job, id, bytes);
    bool first = !encoded_flight(store, job->terms.dataset);
    if (!first && store->loading + samples > store->env->config.inflight_loads)
        return ENCODED_NO_ROOM;
    if (!encoded_share_for_read(store, job->terms.dataset, samples, all))
        return ENCODED_NO_SHARE;
    return store->pinned_bytes == 0 || busy_bytes(store) + all <= for_reads(store) ? ENCODED_FREE_TO_READ
                                                                                   : ENCODED_NO_ROOM;
}
