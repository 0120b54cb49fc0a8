#include "server/registration/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"

struct deal_ranks ranks_here(const struct registration *registration)
{
    const struct registration_asked *asked = &registration->asked;
    return (struct deal_ranks){.world_size = asked->all_ranks ? asked->all_ranks : asked->world_size,
                               .first = asked->first_rank,
                               .n_ranks = asked->world_size,
                               .drop_last = asked->flags & WIRE_DROP_LAST};
}

/* A long name is cut at the end of a character. */
char *ranks_job_name(const struct wire_register *wire)
{
    char ranks[64] = "";
    struct wire_text given = wire->name;
    int len = 0;
    uint32_t last = wire->local_first + wire->local_world_size - 1;
    if (given.len_bytes > 0 && wire->local_world_size > 0 && wire->local_world_size < wire->world_size)
        len = snprintf(ranks, sizeof ranks, " [%u-%u/%u]", wire->local_first, last, wire->world_size);
    if (given.len_bytes > WIRE_NAME_MAX - (uint32_t)len) /* names that begin alike stay apart */
        len = snprintf(ranks, sizeof ranks, "~%08x [%u-%u/%u]", (uint32_t)XXH3_64bits(given.data, given.len_bytes),
                       wire->local_first, last, wire->world_size);
    if (given.len_bytes > WIRE_NAME_MAX - (uint32_t)len)
        given.len_bytes = WIRE_NAME_MAX - (uint32_t)len;
    while (given.len_bytes > 0 && given.len_bytes < wire->name.len_bytes &&
           ((unsigned char)given.data[given.len_bytes] & 0xc0) == 0x80)
        given.len_bytes--;
    char *name = xmalloc((size_t)given.len_bytes + (size_t)len + 1);
    memcpy(name, given.data, given.len_bytes);
    memcpy(name + given.len_bytes, ranks, (size_t)len + 1);
    return name;
}

bool ranks_clash(const struct registration *a, const struct registration *b)
{
    struct deal_ranks x = ranks_here(a), y = ranks_here(b);
    bool parts = a->asked.all_ranks && b->asked.all_ranks && x.world_size == y.world_size;
    bool same = x.first == y.first && x.n_ranks == y.n_ranks;
    if (!parts || same || x.first + x.n_ranks <= y.first || y.first + y.n_ranks <= x.first)
        return false;
    size_t len = (size_t)(strrchr(a->name, '[') - a->name); /* the ranks begin here */
    return len == (size_t)(strrchr(b->name, '[') - b->name) && memcmp(a->name, b->name, len) == 0;
}

/* The name of a part ends with the ranks that are here. */
uint64_t ranks_training(const struct registration *registration)
{
    uint64_t parts[] = {registration->asked.all_ranks, registration->asked.seed, 0};
    const char *name = registration->name, *ranks = registration->asked.all_ranks ? strrchr(name, '[') : NULL;
    parts[2] = XXH3_64bits(name, ranks ? (size_t)(ranks - name) : strlen(name));
    return XXH3_64bits(parts, sizeof parts) | 1;
}

uint64_t ranks_rule(const struct registration *registration)
{
    return registration->asked.at_home ? UINT64_C(1) + registration->asked.mix : 0;
}

/* name_samples makes a set of samples of that of their numbers in the view. */
static int name_samples(const struct registration *reg, struct idset **set)
{
    uint32_t count = (uint32_t)idset_count(*set);
    sample_id *ids = malloc((count + (size_t)1) * sizeof *ids);
    struct idset *named = NULL;
    int code = ids ? idset_create(&named) : LARDER_ENOMEM;
    if (!code) {
        idset_to_array(*set, ids);
        for (uint32_t i = 0; i < count; i++)
            ids[i] = reg->found.selection->view.order[ids[i]];
        idset_add_many(named, ids, count);
        idset_destroy(*set);
        *set = named;
    }
    free(ids);
    return code;
}

int ranks_stay_home(struct registration *registration)
{
    struct registration_found *found = &registration->found;
    struct deal_ranks ranks = ranks_here(registration);
    deal_at_home(found->deal, 0);
    int code = deal_share(found->deal, registration->asked.seed, 0, NULL, &ranks, &found->home);
    if (!code && found->multiset)
        code = name_samples(registration, &found->home);
    deal_at_home(found->deal, registration->asked.mix);
    return code;
}

int ranks_share(const void *registration, uint32_t epoch, const struct idset *gone, struct idset **out)
{
    const struct registration *reg = registration;
    struct deal_ranks ranks = ranks_here(reg);
    return deal_share(reg->found.deal, reg->asked.seed, epoch, gone, &ranks, out);
}

int ranks_draws(const void *registration, uint32_t epoch, uint32_t *counts)
{
    const struct registration *reg = registration;
    struct deal_ranks ranks = ranks_here(reg);
    return deal_draws(reg->found.deal, reg->asked.seed, epoch, &ranks, counts);
}
