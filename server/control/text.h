/* text.h: a text as JSON. Texts that are not UTF-8 come out with '?' for each wrong byte. Any thread. */
#ifndef LARDER_SERVER_CONTROL_TEXT_H
#define LARDER_SERVER_CONTROL_TEXT_H

#include <jansson.h>

/* text_json gives a JSON text, or JSON's null for NULL. NULL: out of memory. */
json_t *text_json(const char *bytes);

#endif
