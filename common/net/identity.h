/* identity.h: the certificates of a cluster: one authority, and a bundle for each node, all of them ECDSA on P-256.
 *
 * The cluster's name is the organisation (O) of every certificate, the node's name the common name and a DNS name. A
 * node's bundle is one PEM file: its certificate, the authority's, and the node's key. The authority's own file holds
 * its certificate and its key; only who issues bundles needs it. Both have mode 0600. */
#ifndef LARDER_COMMON_NET_IDENTITY_H
#define LARDER_COMMON_NET_IDENTITY_H

#include <stdint.h>

#include "common/error.h"

#define NET_NAME_MAX 64                   /* bytes of a cluster's or a node's name, as X.520 has it */
#define NET_IDENTITY_FILE_MAX (256 << 10) /* bytes of a bundle */

/* A bundle, read and found good. */
struct net_identity {
    /* For net_serve_options: cert and key are the file's text. A client's net_tls is given the file's path three times
     * instead. */
    char *text;
    char *ca;                       /* all certificates of the file but the first, as PEM */
    char name[NET_NAME_MAX + 1];    /* the node's */
    char cluster[NET_NAME_MAX + 1]; /* "": the certificate names none */
    int64_t expires_s;              /* since the epoch */
};

/* net_identity_found makes an authority for the cluster and writes its file, which must not exist. It is valid for 20
 * years. LARDER_EINVAL (a name is of letters, digits, '-', '_' and '.'), LARDER_EBUSY (the file exists), LARDER_EIO. */
int net_identity_found(const char *cluster, const char *path, struct error *err);
/* net_identity_issue writes a bundle for a node, valid for at most `days` days, into a file that must not exist. Its
 * errors are those of net_identity_found, and those of net_identity_load for the authority's file. */
int net_identity_issue(const char *authority_path, const char *node, uint32_t days, const char *path,
                       struct error *err);
/* net_identity_load reads a bundle, made here or elsewhere, whose first certificate is the node's own. LARDER_ENOENT,
 * LARDER_EIO; LARDER_EPERM (the group or others may read or write it), LARDER_EFORMAT (what it must have is missing or
 * does not fit together; the certificate has expired, or is not the CA's). */
int net_identity_load(const char *path, struct net_identity *out, struct error *err);
/* net_identity_clear frees the texts and wipes the key. Accepts one that is all zero. */
void net_identity_clear(struct net_identity *identity);

#endif
