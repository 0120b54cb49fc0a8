/* serve_peer.c: whether the other side's certificate is believed, and what it says. */
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/net/serve_priv.h"

#define NAME_MAX_BYTES 256

void serve_identity_clear(struct serve_identity *identity)
{
    for (size_t i = 0; i <= NET_PEER_NAMES_MAX; i++)
        free(identity->texts[i]);
    *identity = (struct serve_identity){.expires_s = 0};
}

/* A name with a byte 0 in it would be cut short, and be another one. */
static char *copy_name(const char *name, size_t len_bytes)
{
    return len_bytes == 0 || strlen(name) != len_bytes ? NULL : xstrdup(name);
}

static char *part_of_subject(gnutls_x509_crt_t crt, const char *oid)
{
    char text[NAME_MAX_BYTES] = "";
    size_t len_bytes = sizeof text;
    return gnutls_x509_crt_get_dn_by_oid(crt, oid, 0, 0, text, &len_bytes) == 0 ? copy_name(text, len_bytes) : NULL;
}

static char *dns_name(gnutls_x509_crt_t crt, unsigned at)
{
    char text[NAME_MAX_BYTES] = "";
    size_t len_bytes = sizeof text - 1;
    int kind = gnutls_x509_crt_get_subject_alt_name(crt, at, text, &len_bytes, NULL);
    if (kind != GNUTLS_SAN_DNSNAME)
        return NULL;
    text[len_bytes] = 0;
    return copy_name(text, len_bytes);
}

static void read_names(gnutls_x509_crt_t crt, struct serve_identity *identity)
{
    enum { SAN_LOOKED_AT = 64 };
    size_t n = 0;
    identity->peer.cluster = identity->texts[NET_PEER_NAMES_MAX] = part_of_subject(crt,
                                                                                   GNUTLS_OID_X520_ORGANIZATION_NAME);
    identity->texts[n] = part_of_subject(crt, GNUTLS_OID_X520_COMMON_NAME);
    n += identity->texts[n] != NULL;
    for (unsigned at = 0; at < SAN_LOOKED_AT && n < NET_PEER_NAMES_MAX; at++) {
        identity->texts[n] = dns_name(crt, at);
        n += identity->texts[n] != NULL;
    }
    for (size_t i = 0; i < n; i++)
        identity->peer.names[i] = identity->texts[i];
    identity->expires_s = gnutls_x509_crt_get_expiration_time(crt);
}

/* The purpose keeps a certificate that is for servers alone from asking. One that names no purpose is for all. */
static bool is_signed(gnutls_session_t session, char *why)
{
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned status = 0;
    int rc = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
    gnutls_datum_t text = {0};
    if (rc == 0 && status == 0)
        return true;
    if (rc == 0 && gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) != 0)
        text.data = NULL;
    snprintf(why, SERVE_WHY_MAX, "%s", text.data ? (const char *)text.data : gnutls_strerror(rc));
    for (size_t len = strlen(why); len > 0 && why[len - 1] == ' '; len--)
        why[len - 1] = 0;
    gnutls_free(text.data);
    return false;
}

static bool is_of_cluster(const struct serve_identity *identity, const char *cluster, char *why)
{
    const char *theirs = identity->peer.cluster;
    if (!cluster || (theirs && strcmp(theirs, cluster) == 0))
        return true;
    snprintf(why, SERVE_WHY_MAX, "The certificate is of cluster '%s', this is '%s'", theirs ? theirs : "", cluster);
    return false;
}

bool serve_believe(gnutls_session_t session, const char *cluster, struct serve_identity *identity, char *why, char *who)
{
    unsigned n = 0;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);
    gnutls_x509_crt_t crt = NULL;
    size_t who_bytes = SERVE_WHY_MAX;
    bool believed = false;
    who[0] = 0;
    if (!chain || n == 0) {
        snprintf(why, SERVE_WHY_MAX, "It shows no certificate");
        return false;
    }
    if (gnutls_x509_crt_init(&crt) != 0 || gnutls_x509_crt_import(crt, &chain[0], GNUTLS_X509_FMT_DER) != 0) {
        snprintf(why, SERVE_WHY_MAX, "The certificate cannot be read");
    } else {
        if (gnutls_x509_crt_get_dn(crt, who, &who_bytes) != 0)
            who[0] = 0;
        if (is_signed(session, why)) {
            read_names(crt, identity);
            believed = is_of_cluster(identity, cluster, why);
        }
    }
    if (!believed)
        serve_identity_clear(identity);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    return believed;
}
