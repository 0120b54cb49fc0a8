/* etcd_lease.c: this node's lease and key. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/discovery/etcd_priv.h"

static void tell_lease(struct etcd *etcd, enum members_event_type type)
{
    etcd_tell_members(etcd, &(struct members_event){.type = type}, NULL);
}

static void tell_registered(struct etcd *etcd, bool granted)
{
    etcd->wants_register = false;
    tell_lease(etcd, granted ? MEMBERS_LEASE_GRANTED : MEMBERS_LEASE_FAILED);
    etcd_lease_next(etcd);
}

void etcd_lease_refuse(struct etcd *etcd)
{
    if (etcd->wants_register && !etcd->lease_op.busy)
        tell_registered(etcd, false);
}

/* ── register: a lease, then the key ── */

static void grant(struct etcd *etcd);

static void key_put(struct etcd *etcd, const struct etcd_answer *answer)
{
    if (answer && answer->code == ETCD_NOT_FOUND && !etcd->granted_anew)
        grant(etcd);
    else
        tell_registered(etcd, answer && answer->code == 0);
}

static void put_key(struct etcd *etcd)
{
    struct etcd_bytes key = {etcd->self_key, strlen(etcd->self_key)};
    struct etcd_bytes value = {etcd->self_value, strlen(etcd->self_value)};
    etcd_ask(etcd, &etcd->lease_op, "kv/put", etcd_ask_put(key, value, etcd->lease), key_put);
}

static void granted(struct etcd *etcd, const struct etcd_answer *answer)
{
    if (!answer || answer->code || answer->id == 0) {
        tell_registered(etcd, false);
        return;
    }
    etcd->lease = answer->id;
    put_key(etcd);
}

static void grant(struct etcd *etcd)
{
    etcd->lease = 0;
    etcd->granted_anew = true;
    etcd_ask(etcd, &etcd->lease_op, "lease/grant", etcd_ask_grant(etcd->lease_s), granted);
}

/* ── the others ── */

/* An answer without a time to live says that the lease is dead. */
static void kept(struct etcd *etcd, const struct etcd_answer *answer)
{
    bool alive = answer && answer->code == 0 && answer->ttl > 0, dead = answer && answer->code == 0 && !alive;
    etcd->lease = dead ? 0 : etcd->lease;
    tell_lease(etcd, alive ? MEMBERS_LEASE_GRANTED : dead ? MEMBERS_LEASE_LOST : MEMBERS_LEASE_FAILED);
    etcd_lease_next(etcd);
}

static void left(struct etcd *etcd, const struct etcd_answer *answer)
{
    (void)answer; /* a lease that etcd does not take back now expires by itself */
    etcd->lease = 0;
    etcd_tell(etcd, &(struct discovery_event){.type = DISCOVERY_LEFT});
}

void etcd_lease_next(struct etcd *etcd)
{
    if (etcd->lease_op.busy)
        return;
    if (etcd->leaves == ETCD_LEAVES_NEXT) {
        etcd->leaves = ETCD_LEFT;
        if (etcd->lease)
            etcd_ask(etcd, &etcd->lease_op, "lease/revoke", etcd_ask_lease(etcd->lease), left);
        else
            left(etcd, NULL);
    } else if (etcd->leaves) {
        return; /* a key put now would outlive this node */
    } else if (etcd->wants_register && etcd->format == ETCD_FORMAT_OURS) {
        etcd->granted_anew = false;
        if (etcd->lease)
            put_key(etcd);
        else
            grant(etcd);
    } else if (etcd->wants_keepalive) {
        etcd->wants_keepalive = false;
        if (etcd->lease)
            etcd_ask(etcd, &etcd->lease_op, "lease/keepalive", etcd_ask_lease(etcd->lease), kept);
        else
            tell_lease(etcd, MEMBERS_LEASE_LOST);
    }
}
