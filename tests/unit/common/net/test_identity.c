/* test_identity.c: what is made can be read again and says what was asked for; what is no bundle, is not ours or lies
 * open to others is refused with a reason, and no file is ever written over. */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <cmocka.h>

#include "certs.h"
#include "common/check.h"
#include "common/net/identity.h"

#define DAY_S 86400

static char folder[] = "/tmp/larder-identity-XXXXXX";

static const char *at(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) && net_identity_found("c1", at("authority"), NULL) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void write_text(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(at(name), "w");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
    assert_int_equal(chmod(at(name), mode), 0);
}

static char *read_text(const char *name)
{
    gnutls_datum_t data = {0};
    CHECK(gnutls_load_file(at(name), &data) == 0);
    char *text = xcalloc(1, data.size + 1);
    memcpy(text, data.data, data.size);
    gnutls_free(data.data);
    return text;
}

static void check_certificate(const char *text)
{
    gnutls_datum_t data = {(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
    gnutls_x509_crt_t crt;
    char purpose[64];
    size_t size = sizeof purpose;
    unsigned usage = 0, bits = 0;
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_crt_import(crt, &data, GNUTLS_X509_FMT_PEM), 0);
    assert_int_equal(gnutls_x509_crt_get_pk_algorithm(crt, &bits), GNUTLS_PK_ECDSA);
    assert_int_equal(bits, 256);
    assert_int_equal(gnutls_x509_crt_get_ca_status(crt, NULL), 0);
    assert_int_equal(gnutls_x509_crt_get_key_usage(crt, &usage, NULL), 0);
    assert_int_equal(usage, GNUTLS_KEY_DIGITAL_SIGNATURE);
    assert_int_equal(gnutls_x509_crt_get_key_purpose_oid(crt, 0, purpose, &size, NULL), 0);
    assert_string_equal(purpose, GNUTLS_KP_TLS_WWW_SERVER);
    size = sizeof purpose;
    assert_int_equal(gnutls_x509_crt_get_key_purpose_oid(crt, 1, purpose, &size, NULL), 0);
    assert_string_equal(purpose, GNUTLS_KP_TLS_WWW_CLIENT);
    assert_true(gnutls_x509_crt_check_hostname(crt, "node-7.example"));
    assert_false(gnutls_x509_crt_check_hostname(crt, "node-8.example"));
    gnutls_x509_crt_deinit(crt);
}

/* A bundle is the node's alone, for both directions, as long as asked for and no longer than its authority. */
static void test_round(void **state)
{
    (void)state;
    struct error err = {0};
    struct net_identity identity;
    struct stat st;
    int64_t before_s = time(NULL);
    assert_int_equal(net_identity_issue(at("authority"), "node-7.example", 365, at("seven"), &err), 0);
    assert_int_equal(net_identity_load(at("seven"), &identity, &err), 0);
    assert_string_equal(identity.name, "node-7.example");
    assert_string_equal(identity.cluster, "c1");
    assert_in_range(identity.expires_s, before_s + 365L * DAY_S, time(NULL) + 365L * DAY_S);
    check_certificate(identity.text);
    assert_non_null(strstr(identity.text, "PRIVATE KEY"));
    assert_non_null(strstr(identity.ca, "BEGIN CERTIFICATE"));
    assert_null(strstr(identity.ca, "PRIVATE KEY"));
    assert_memory_not_equal(identity.ca, identity.text, 400);
    net_identity_clear(&identity);
    net_identity_clear(&identity);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(stat(at(i ? "seven" : "authority"), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    assert_int_equal(net_identity_issue(at("authority"), "n", 1000000, at("long"), &err), 0);
    assert_int_equal(net_identity_load(at("long"), &identity, &err), 0);
    assert_in_range(identity.expires_s, before_s + 19L * 365 * DAY_S, time(NULL) + 20L * 365 * DAY_S);
    net_identity_clear(&identity);
}

/* Two bundles of one name have different keys and serials; no file is written over, and no odd name is taken. */
static void test_making(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(net_identity_issue(at("authority"), "n", 1, at("one"), &err), 0);
    assert_int_equal(net_identity_issue(at("authority"), "n", 1, at("two"), &err), 0);
    char *one = read_text("one"), *two = read_text("two");
    assert_string_not_equal(strstr(one, "PRIVATE KEY"), strstr(two, "PRIVATE KEY"));
    assert_int_equal(net_identity_issue(at("authority"), "n", 1, at("one"), &err), LARDER_EBUSY);
    assert_int_equal(net_identity_found("c1", at("authority"), &err), LARDER_EBUSY);
    assert_non_null(strstr(err.text, "exists already"));
    free(two);
    two = read_text("one");
    assert_string_equal(one, two);
    free(one);
    free(two);
    char longest[NET_NAME_MAX + 2];
    memset(longest, 'n', sizeof longest);
    longest[NET_NAME_MAX + 1] = 0;
    const char *const wrong[] = {"", "a b", "a\nb", "a,CN=b", "caf\xc3\xa9", "*", "a/b", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(net_identity_found(wrong[i], at("wrong"), &err), LARDER_EINVAL);
        assert_int_equal(net_identity_issue(at("authority"), wrong[i], 1, at("wrong"), &err), LARDER_EINVAL);
    }
    longest[NET_NAME_MAX] = 0;
    assert_int_equal(net_identity_issue(at("authority"), longest, 1, at("longest"), &err), 0);
    struct net_identity identity;
    assert_int_equal(net_identity_load(at("longest"), &identity, &err), 0);
    assert_string_equal(identity.name, longest);
    net_identity_clear(&identity);
    assert_int_equal(net_identity_issue(at("longest"), "n", 1, at("wrong"), &err), LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "not an authority"));
    assert_int_equal(net_identity_issue(at("missing"), "n", 1, at("wrong"), &err), LARDER_ENOENT);
    assert_int_equal(net_identity_found("c1", at("missing/authority"), &err), LARDER_EIO);
}

static char *join(const char *a, const char *b)
{
    char *both = xcalloc(1, strlen(a) + strlen(b) + 1);
    strcat(strcpy(both, a), b);
    return both;
}

static void refused(const char *name, const char *text, int code, const char *why)
{
    struct net_identity identity = {.expires_s = 17};
    struct error err = {0};
    if (text)
        write_text(name, text, 0600);
    assert_int_equal(net_identity_load(at(name), &identity, &err), code);
    if (!strstr(err.text, why) || !strstr(err.text, name))
        fail_msg("%s: '%s' is not in '%s'", name, why, err.text);
    assert_int_equal(identity.expires_s, 17);
}

/* Files that lack a part, are cut short, or whose parts are not of one another, are refused. */
static void test_reading(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(net_identity_issue(at("authority"), "n", 1, at("good"), &err), 0);
    assert_int_equal(net_identity_issue(at("authority"), "n", 1, at("good2"), &err), 0);
    char *good = read_text("good"), *other = read_text("good2");
    char *second = strstr(good + 1, "-----BEGIN CERT"), *key = strstr(good, "-----BEGIN PRIV");
    assert_true(second && key && second < key);
    char *own = xcalloc(1, (size_t)(second - good) + 1);
    memcpy(own, good, (size_t)(second - good));
    char *lone = join(own, key), *mixed = join(own, strstr(other + 1, "-----BEGIN CERT"));
    refused("missing", NULL, LARDER_ENOENT, "No such file");
    refused("empty", "", LARDER_EFORMAT, "no certificate");
    refused("garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", LARDER_EFORMAT,
            "no certificate");
    refused("no-key", own, LARDER_EFORMAT, "no key");
    refused("no-authority", lone, LARDER_EFORMAT, "no certificate of an authority");
    refused("others-key", mixed, LARDER_EFORMAT, "its key is not that");
    refused("turned", second, LARDER_EFORMAT, "its key is not that");
    write_text("open", good, 0640);
    refused("open", NULL, LARDER_EPERM, "chmod 600");
    char *big = xcalloc(1, NET_IDENTITY_FILE_MAX + 2);
    memset(big, '\n', NET_IDENTITY_FILE_MAX + 1);
    refused("big", big, LARDER_EFORMAT, "is no file of certificates");
    refused(".", NULL, LARDER_EFORMAT, "is no file of certificates");
    for (size_t len = strlen(good) - 1; len > 2; len -= len > 20 ? 11 : 1) {
        struct net_identity identity;
        good[len] = 0;
        write_text("cut", good, 0600);
        if (net_identity_load(at("cut"), &identity, &err) == 0) {
            assert_non_null(strstr(key + 1, "\n-----E")); /* the key is whole, its closing line is not */
            net_identity_clear(&identity);
        }
    }
    free(big);
    free(good);
    free(other);
    free(own);
    free(lone);
    free(mixed);
}

/* Bundles made elsewhere are taken, and refused when they have expired or another authority signed them. */
static void test_elsewhere(void **state)
{
    (void)state;
    struct error err = {0};
    struct net_identity identity;
    certs_authority(folder, "ours");
    certs_authority(folder, "foreign");
    certs_issue(folder, "ours", "young", false);
    certs_issue(folder, "ours", "old", true);
    char *ours = read_text("ours.ca.pem"), *foreign = read_text("foreign.ca.pem");
    for (int i = 0; i < 3; i++) {
        char *crt = read_text(i == 1 ? "old.pem" : "young.pem"), *key = read_text(i == 1 ? "old.key" : "young.key");
        char *crt_key = join(key, crt), *bundle = join(crt_key, i == 2 ? foreign : ours);
        if (i == 0) {
            write_text("bundle", bundle, 0600);
            assert_int_equal(net_identity_load(at("bundle"), &identity, &err), 0);
            assert_string_equal(identity.name, "young");
            assert_string_equal(identity.cluster, "");
            net_identity_clear(&identity);
        } else {
            refused("bundle", bundle, LARDER_EFORMAT, i == 1 ? "expired" : "issuer");
        }
        free(crt);
        free(key);
        free(crt_key);
        free(bundle);
    }
    free(ours);
    free(foreign);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_making),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_elsewhere),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
