#include "server/discovery/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static bool is_host(const char *from, const char *to)
{
    bool literal = *from == '[';
    if (literal && (to - from < 4 || to[-1] != ']'))
        return false;
    from += literal;
    to -= literal;
    for (const char *at = from; at < to; at++) {
        bool plain = (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        bool special = literal ? *at == ':' || *at == '.' : *at == '-' || *at == '.' || *at == '_';
        if (!plain && !special)
            return false;
    }
    return to > from && to - from < SLURM_HOST_MAX;
}

int hosts_check(const char *address, struct error *err)
{
    const char *colon = strrchr(address, ':');
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    unsigned long port = digits >= 1 && digits <= 5 ? strtoul(colon + 1, NULL, 10) : 0;
    if (!colon || colon[1 + digits] || port == 0 || port > UINT16_MAX || !is_host(address, colon))
        return error_set(err, LARDER_EINVAL, "cluster.nodes: '%.128s' is no address: write HOST:PORT", address);
    return 0;
}

static int add(struct slurm_hosts *out, size_t *cap, const char *address, struct error *err)
{
    if (out->count == SLURM_HOSTS_MAX)
        return error_set(err, LARDER_ELIMIT, "cluster.nodes has more than %d addresses", SLURM_HOSTS_MAX);
    out->names = xgrow(out->names, sizeof *out->names, cap, out->count + 1);
    out->names[out->count++] = xstrdup(address);
    return 0;
}

static int add_slurm(struct slurm_hosts *out, size_t *cap, const char *slurm_list, uint16_t port, struct error *err)
{
    struct slurm_hosts hosts;
    char address[SLURM_HOST_MAX + 8];
    if (!slurm_list)
        return error_set(err, LARDER_EINVAL,
                         "cluster.nodes: `slurm` needs SLURM_JOB_NODELIST: start the daemon in a job of Slurm's, or "
                         "name the nodes");
    int rc = slurm_expand(slurm_list, &hosts, err);
    if (rc)
        return error_prefix(err, rc, "SLURM_JOB_NODELIST");
    for (uint32_t i = 0; rc == 0 && i < hosts.count; i++) {
        snprintf(address, sizeof address, "%s:%u", hosts.names[i], port);
        rc = add(out, cap, address, err);
    }
    slurm_free(&hosts);
    return rc;
}

int hosts_list(const char *const *entries, size_t count, const char *slurm_list, uint16_t port, struct slurm_hosts *out,
               struct error *err)
{
    struct slurm_hosts hosts = {0};
    size_t cap = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (strcmp(entries[i], "slurm") == 0)
            rc = add_slurm(&hosts, &cap, slurm_list, port, err);
        else if ((rc = hosts_check(entries[i], err)) == 0)
            rc = add(&hosts, &cap, entries[i], err);
    }
    if (rc)
        slurm_free(&hosts);
    else
        *out = hosts;
    return rc;
}
