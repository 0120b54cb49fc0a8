/* page.h: the live page, which page.cmake makes C of when the daemon is built. */
#ifndef LARDER_SERVER_CONTROL_PAGE_H
#define LARDER_SERVER_CONTROL_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[]; /* page.html */
extern const size_t page_bytes;
/* The Content-Security-Policy that it is served with: nothing runs but the page's own script, known by its hash. */
extern const char page_policy[];

#endif
