#include "certs.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/check.h"

#define DAY_S 86400
#define PEM_MAX 8192

static void save(const char *folder, const char *name, const char *ending, const char *pem, size_t len_bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(pem, 1, len_bytes, file) == len_bytes && fclose(file) == 0);
}

static gnutls_datum_t load(const char *folder, const char *name, const char *ending)
{
    char path[512];
    gnutls_datum_t data;
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    CHECK(gnutls_load_file(path, &data) == 0);
    return data;
}

static gnutls_x509_privkey_t make_key(const char *folder, const char *name, const char *ending)
{
    gnutls_x509_privkey_t key;
    char pem[PEM_MAX];
    size_t len_bytes = sizeof pem;
    CHECK(gnutls_x509_privkey_init(&key) == 0);
    CHECK(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0) == 0);
    CHECK(gnutls_x509_privkey_export(key, GNUTLS_X509_FMT_PEM, pem, &len_bytes) == 0);
    save(folder, name, ending, pem, len_bytes);
    return key;
}

/* A certificate with all that both kinds need. */
static gnutls_x509_crt_t begin(gnutls_x509_privkey_t key, const char *name, const char *organisation, time_t end_s)
{
    gnutls_x509_crt_t crt;
    time_t now = time(NULL);
    static unsigned char serial;
    serial++;
    CHECK(gnutls_x509_crt_init(&crt) == 0 && gnutls_x509_crt_set_version(crt, 3) == 0);
    CHECK(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name, (unsigned)strlen(name)) == 0);
    if (organisation)
        CHECK(gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, organisation,
                                            (unsigned)strlen(organisation)) == 0);
    CHECK(gnutls_x509_crt_set_serial(crt, &serial, sizeof serial) == 0);
    CHECK(gnutls_x509_crt_set_activation_time(crt, now - 2 * DAY_S) == 0);
    CHECK(gnutls_x509_crt_set_expiration_time(crt, end_s) == 0);
    CHECK(gnutls_x509_crt_set_key(crt, key) == 0);
    return crt;
}

static void sign(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer, gnutls_x509_privkey_t key, const char *folder,
                 const char *name, const char *ending)
{
    char pem[PEM_MAX];
    size_t len_bytes = sizeof pem;
    CHECK(gnutls_x509_crt_sign2(crt, issuer, key, GNUTLS_DIG_SHA256, 0) == 0);
    CHECK(gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_PEM, pem, &len_bytes) == 0);
    save(folder, name, ending, pem, len_bytes);
}

void certs_authority(const char *folder, const char *name)
{
    gnutls_x509_privkey_t key = make_key(folder, name, ".ca.key");
    gnutls_x509_crt_t crt = begin(key, name, NULL, time(NULL) + DAY_S);
    CHECK(gnutls_x509_crt_set_basic_constraints(crt, 1, -1) == 0);
    CHECK(gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN) == 0);
    sign(crt, crt, key, folder, name, ".ca.pem");
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}

void certs_issue(const char *folder, const char *authority, const char *name, bool expired)
{
    certs_issue_as(folder, authority, name, &(struct certs_wish){.ends_in_s = expired ? -DAY_S : DAY_S});
}

void certs_issue_as(const char *folder, const char *authority, const char *name, const struct certs_wish *wish)
{
    static const char host[] = "node.invalid";
    gnutls_datum_t ca_pem = load(folder, authority, ".ca.pem"), ca_key_pem = load(folder, authority, ".ca.key");
    gnutls_x509_crt_t ca;
    gnutls_x509_privkey_t ca_key, key = make_key(folder, name, ".key");
    CHECK(gnutls_x509_crt_init(&ca) == 0 && gnutls_x509_crt_import(ca, &ca_pem, GNUTLS_X509_FMT_PEM) == 0);
    CHECK(gnutls_x509_privkey_init(&ca_key) == 0 &&
          gnutls_x509_privkey_import(ca_key, &ca_key_pem, GNUTLS_X509_FMT_PEM) == 0);
    gnutls_x509_crt_t crt = begin(key, name, wish->organisation, time(NULL) + wish->ends_in_s);
    CHECK(gnutls_x509_crt_set_basic_constraints(crt, 0, -1) == 0);
    CHECK(gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE) == 0);
    CHECK(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, host, sizeof host - 1, 0) == 0);
    if (wish->purpose)
        CHECK(gnutls_x509_crt_set_key_purpose_oid(crt, wish->purpose, 0) == 0);
    sign(crt, ca, ca_key, folder, name, ".pem");
    gnutls_free(ca_pem.data);
    gnutls_free(ca_key_pem.data);
    gnutls_x509_crt_deinit(ca);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(ca_key);
    gnutls_x509_privkey_deinit(key);
}
