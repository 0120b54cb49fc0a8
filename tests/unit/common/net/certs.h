/* certs.h: certificates for tests, made anew in each run. */
#ifndef LARDER_TESTS_CERTS_H
#define LARDER_TESTS_CERTS_H

#include <stdbool.h>

/* certs_authority writes FOLDER/NAME.ca.pem and FOLDER/NAME.ca.key. */
void certs_authority(const char *folder, const char *name);
/* certs_issue writes FOLDER/NAME.pem and FOLDER/NAME.key, signed by that authority, for the host "node.invalid"; an
 * expired one ended a day ago. */
void certs_issue(const char *folder, const char *authority, const char *name, bool expired);

struct certs_wish {
    long ends_in_s;
    const char *organisation; /* NULL: none */
    const char *purpose;      /* an extended key usage's OID; NULL: none, which is for all */
};
void certs_issue_as(const char *folder, const char *authority, const char *name, const struct certs_wish *wish);

#endif
