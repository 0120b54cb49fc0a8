/* identity.c: makes, writes and reads certificates. */
#include "common/net/identity.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/check.h"

#define DAY_S 86400
#define AUTHORITY_DAYS (20 * 365)
#define SERIAL_BYTES 16

/* ── files ── */

static int write_all(int fd, const char *text, size_t len_bytes)
{
    while (len_bytes > 0) {
        ssize_t wrote = write(fd, text, len_bytes);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -1;
        text += wrote;
        len_bytes -= (size_t)wrote;
    }
    return fsync(fd);
}

static int write_file(const char *path, const char *text, struct error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return error_set(err, LARDER_EBUSY, "%s exists already, and a key is never written over: remove it first",
                         path);
    if (fd < 0)
        return error_set(err, LARDER_EIO, "cannot make %s: %s", path, strerror(errno));
    int failed = write_all(fd, text, strlen(text)) != 0 ? errno : 0;
    if (close(fd) != 0 && !failed)
        failed = errno;
    if (!failed)
        return 0;
    unlink(path);
    return error_set(err, LARDER_EIO, "cannot write %s: %s", path, strerror(failed));
}

static int check_file(int fd, const char *path, size_t *len_bytes, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return error_set(err, LARDER_EIO, "cannot look at %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size > NET_IDENTITY_FILE_MAX)
        return error_set(err, LARDER_EFORMAT, "%s is no file of certificates", path);
    if (st.st_mode & 077)
        return error_set(err, LARDER_EPERM, "%s holds a key and others may read or write it: chmod 600 %s", path, path);
    *len_bytes = (size_t)st.st_size;
    return 0;
}

static void wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static int read_file(const char *path, char **out, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(err,
                         errno == ENOENT   ? LARDER_ENOENT
                         : errno == EACCES ? LARDER_EPERM
                                           : LARDER_EIO,
                         "cannot open %s: %s", path, strerror(errno));
    size_t len_bytes = 0, have = 0;
    char *text = NULL;
    int rc = check_file(fd, path, &len_bytes, err);
    if (rc == 0)
        text = xcalloc(1, len_bytes + 1);
    while (rc == 0 && have < len_bytes) {
        ssize_t got = read(fd, text + have, len_bytes - have);
        if (got == 0)
            break; /* it became shorter */
        if (got > 0)
            have += (size_t)got;
        else if (errno != EINTR)
            rc = error_set(err, LARDER_EIO, "cannot read %s: %s", path, strerror(errno));
    }
    close(fd);
    if (rc)
        wipe(text);
    else
        *out = text;
    return rc;
}

/* ── reading ── */

/* The certificates and the key of one file. */
struct pair {
    gnutls_x509_crt_t *chain; /* own one first */
    unsigned n_chain;
    gnutls_x509_privkey_t key;
};

static void clear_pair(struct pair *pair)
{
    for (unsigned i = 0; i < pair->n_chain; i++)
        gnutls_x509_crt_deinit(pair->chain[i]);
    gnutls_free(pair->chain);
    if (pair->key)
        gnutls_x509_privkey_deinit(pair->key);
}

/* Whether the key is that of the chain's first certificate. */
static bool fits(const struct pair *pair)
{
    unsigned char ids[2][64];
    size_t sizes[2] = {sizeof ids[0], sizeof ids[1]};
    return gnutls_x509_crt_get_key_id(pair->chain[0], GNUTLS_KEYID_USE_SHA256, ids[0], &sizes[0]) == 0 &&
           gnutls_x509_privkey_get_key_id(pair->key, GNUTLS_KEYID_USE_SHA256, ids[1], &sizes[1]) == 0 &&
           sizes[0] == sizes[1] && memcmp(ids[0], ids[1], sizes[0]) == 0;
}

/* On failure as well, the caller clears the pair. */
static int parse_pair(const char *text, const char *path, struct pair *pair, struct error *err)
{
    gnutls_datum_t data = {(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
    *pair = (struct pair){.n_chain = 0};
    int rc = gnutls_x509_crt_list_import2(&pair->chain, &pair->n_chain, &data, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        pair->n_chain = 0; /* it freed the list */
    if (rc < 0 || pair->n_chain == 0)
        return error_set(err, LARDER_EFORMAT, "%s has no certificate: %s", path, gnutls_strerror(rc));
    if (gnutls_x509_privkey_init(&pair->key) != 0)
        return error_set(err, LARDER_ENOMEM, "%s: no memory for a key", path);
    rc = gnutls_x509_privkey_import2(pair->key, &data, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN);
    if (rc != 0)
        return error_set(err, LARDER_EFORMAT, "%s has no key without a password: %s", path, gnutls_strerror(rc));
    if (!fits(pair))
        return error_set(err, LARDER_EFORMAT, "%s: its key is not that of its first certificate", path);
    return 0;
}

static int read_pair(const char *path, char **text, struct pair *pair, struct error *err)
{
    *pair = (struct pair){.n_chain = 0};
    int rc = read_file(path, text, err);
    return rc ? rc : parse_pair(*text, path, pair, err);
}

/* "" where there is none, or one that is too long or has a byte 0. */
static void subject_part(gnutls_x509_crt_t crt, const char *oid, char *out)
{
    size_t len_bytes = NET_NAME_MAX + 1;
    if (gnutls_x509_crt_get_dn_by_oid(crt, oid, 0, 0, out, &len_bytes) != 0 || strlen(out) != len_bytes)
        out[0] = 0;
}

/* ── making ── */

static int check_name(const char *what, const char *name, struct error *err)
{
    size_t len_bytes = strlen(name);
    bool good = len_bytes > 0 && len_bytes <= NET_NAME_MAX;
    for (size_t i = 0; good && i < len_bytes; i++)
        good = (name[i] & 0x80) == 0 && (isalnum((unsigned char)name[i]) || strchr("-_.", name[i]));
    return good ? 0
                : error_set(err, LARDER_EINVAL,
                            "a %s's name has 1 to %d letters, digits, '-', '_' and '.', and '%.80s' has not", what,
                            NET_NAME_MAX, name);
}

/* GnuTLS fails in what follows only where memory or random numbers fail, or a certificate that was read has not what
 * all have. */
static int failed(int rc, const char *path, struct error *err)
{
    return error_set(err, LARDER_EIO, "cannot make a certificate for %s: %s", path, gnutls_strerror(rc));
}

static int set_serial(gnutls_x509_crt_t crt)
{
    unsigned char serial[SERIAL_BYTES];
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial);
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40); /* positive, and of full length */
    return rc ? rc : gnutls_x509_crt_set_serial(crt, serial, sizeof serial);
}

/* A day earlier than now, for machines whose clocks are behind. */
static int set_times(gnutls_x509_crt_t crt, time_t until_s)
{
    int rc = gnutls_x509_crt_set_activation_time(crt, time(NULL) - DAY_S);
    return rc ? rc : gnutls_x509_crt_set_expiration_time(crt, until_s);
}

static int set_subject(gnutls_x509_crt_t crt, const char *cluster, const char *name)
{
    int rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, cluster,
                                           (unsigned)strlen(cluster));
    return rc ? rc : gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name));
}

static int set_key(const struct pair *pair)
{
    unsigned char id[64];
    size_t size = sizeof id;
    int rc = gnutls_x509_crt_set_key(pair->chain[0], pair->key);
    if (rc == 0)
        rc = gnutls_x509_crt_get_key_id(pair->chain[0], 0, id, &size);
    return rc ? rc : gnutls_x509_crt_set_subject_key_id(pair->chain[0], id, size);
}

/* A certificate with a new key, without what it may be used for, and not signed. */
static int begin(struct pair *pair, const char *cluster, const char *name, time_t until_s)
{
    *pair = (struct pair){.chain = gnutls_calloc(1, sizeof *pair->chain)};
    CHECK(pair->chain);
    int rc = gnutls_x509_crt_init(&pair->chain[0]);
    if (rc)
        return rc;
    pair->n_chain = 1;
    rc = gnutls_x509_privkey_init(&pair->key);
    if (rc == 0)
        rc = gnutls_x509_privkey_generate(pair->key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                          0);
    if (rc == 0)
        rc = gnutls_x509_crt_set_version(pair->chain[0], 3);
    if (rc == 0)
        rc = set_serial(pair->chain[0]);
    if (rc == 0)
        rc = set_times(pair->chain[0], until_s);
    if (rc == 0)
        rc = set_subject(pair->chain[0], cluster, name);
    return rc ? rc : set_key(pair);
}

static int allow_signing(gnutls_x509_crt_t crt)
{
    int rc = gnutls_x509_crt_set_basic_constraints(crt, 1, 0); /* no authorities below it */
    return rc ? rc : gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
}

static int allow_talking(gnutls_x509_crt_t crt, const char *node)
{
    int rc = gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    if (rc == 0)
        rc = gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc == 0)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (rc == 0)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    return rc ? rc : gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, node, (unsigned)strlen(node), 0);
}

static int sign(gnutls_x509_crt_t crt, const struct pair *authority)
{
    unsigned char id[64];
    size_t size = sizeof id;
    int rc = gnutls_x509_crt_get_subject_key_id(authority->chain[0], id, &size, NULL);
    if (rc == 0)
        rc = gnutls_x509_crt_set_authority_key_id(crt, id, size);
    return rc ? rc : gnutls_x509_crt_sign2(crt, authority->chain[0], authority->key, GNUTLS_DIG_SHA256, 0);
}

/* ── as PEM ── */

/* Appends to *text, which grows, and takes over the bytes. */
static void append(char **text, gnutls_datum_t *pem)
{
    size_t old = *text ? strlen(*text) : 0;
    char *longer = xcalloc(1, old + pem->size + 1);
    if (old)
        memcpy(longer, *text, old);
    memcpy(longer + old, pem->data, pem->size);
    gnutls_memset(pem->data, 0, pem->size);
    gnutls_free(pem->data);
    wipe(*text);
    *text = longer;
}

static int append_crt(char **text, gnutls_x509_crt_t crt)
{
    gnutls_datum_t pem = {0};
    int rc = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &pem);
    if (rc == 0)
        append(text, &pem);
    return rc;
}

static int append_key(char **text, gnutls_x509_privkey_t key)
{
    gnutls_datum_t pem = {0};
    int rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &pem);
    if (rc == 0)
        append(text, &pem);
    return rc;
}

/* Writes the pair's certificate, the authority's (NULL: none) and the key. */
static int write_pair(const struct pair *pair, const struct pair *authority, const char *path, struct error *err)
{
    char *text = NULL;
    int rc = append_crt(&text, pair->chain[0]);
    if (rc == 0 && authority)
        rc = append_crt(&text, authority->chain[0]);
    if (rc == 0)
        rc = append_key(&text, pair->key);
    rc = rc ? failed(rc, path, err) : write_file(path, text, err);
    wipe(text);
    return rc;
}

/* ── the contract ── */

int net_identity_found(const char *cluster, const char *path, struct error *err)
{
    struct pair pair;
    int rc = check_name("cluster", cluster, err);
    if (rc)
        return rc;
    rc = begin(&pair, cluster, "larder authority", time(NULL) + (time_t)AUTHORITY_DAYS * DAY_S);
    if (rc == 0)
        rc = allow_signing(pair.chain[0]);
    if (rc == 0)
        rc = sign(pair.chain[0], &pair);
    rc = rc ? failed(rc, path, err) : write_pair(&pair, NULL, path, err);
    clear_pair(&pair);
    return rc;
}

static int issue(const struct pair *authority, const char *node, uint32_t days, const char *path, struct error *err)
{
    char cluster[NET_NAME_MAX + 1] = "";
    struct pair pair;
    time_t last_s = gnutls_x509_crt_get_expiration_time(authority->chain[0]);
    time_t until_s = time(NULL) + (time_t)days * DAY_S;
    subject_part(authority->chain[0], GNUTLS_OID_X520_ORGANIZATION_NAME, cluster);
    int rc = begin(&pair, cluster, node, until_s < last_s ? until_s : last_s);
    if (rc == 0)
        rc = allow_talking(pair.chain[0], node);
    if (rc == 0)
        rc = sign(pair.chain[0], authority);
    rc = rc ? failed(rc, path, err) : write_pair(&pair, authority, path, err);
    clear_pair(&pair);
    return rc;
}

int net_identity_issue(const char *authority_path, const char *node, uint32_t days, const char *path, struct error *err)
{
    struct pair authority;
    char *text = NULL;
    int rc = check_name("node", node, err);
    if (rc)
        return rc;
    rc = read_pair(authority_path, &text, &authority, err);
    if (rc == 0 && gnutls_x509_crt_get_ca_status(authority.chain[0], NULL) <= 0)
        rc = error_set(err, LARDER_EFORMAT,
                       "%s is a node's bundle, not an authority: give the file made with the cluster", authority_path);
    if (rc == 0)
        rc = issue(&authority, node, days, path, err);
    clear_pair(&authority);
    wipe(text);
    return rc;
}

static int check_signed(const struct pair *pair, const char *path, struct error *err)
{
    unsigned status = 0;
    if (pair->n_chain < 2)
        return error_set(err, LARDER_EFORMAT, "%s has no certificate of an authority after the node's own", path);
    int rc = gnutls_x509_crt_verify(pair->chain[0], pair->chain + 1, (int)pair->n_chain - 1, 0, &status);
    if (rc == 0 && status == 0)
        return 0;
    gnutls_datum_t text = {0};
    if (rc == 0 && gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0) != 0)
        text.data = NULL;
    rc = error_set(err, LARDER_EFORMAT, "%s: %s", path, text.data ? (const char *)text.data : gnutls_strerror(rc));
    gnutls_free(text.data);
    return rc;
}

int net_identity_load(const char *path, struct net_identity *out, struct error *err)
{
    struct pair pair;
    struct net_identity identity = {.text = NULL};
    int rc = read_pair(path, &identity.text, &pair, err);
    if (rc == 0)
        rc = check_signed(&pair, path, err);
    for (unsigned i = 1; rc == 0 && i < pair.n_chain; i++)
        if (append_crt(&identity.ca, pair.chain[i]) != 0)
            rc = error_set(err, LARDER_ENOMEM, "%s: no memory for a certificate", path);
    if (rc == 0) {
        subject_part(pair.chain[0], GNUTLS_OID_X520_COMMON_NAME, identity.name);
        subject_part(pair.chain[0], GNUTLS_OID_X520_ORGANIZATION_NAME, identity.cluster);
        identity.expires_s = gnutls_x509_crt_get_expiration_time(pair.chain[0]);
        *out = identity;
    } else {
        net_identity_clear(&identity);
    }
    clear_pair(&pair);
    return rc;
}

void net_identity_clear(struct net_identity *identity)
{
    wipe(identity->text);
    free(identity->ca);
    *identity = (struct net_identity){.text = NULL};
}
