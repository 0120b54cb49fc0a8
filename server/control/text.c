#include "server/control/text.h"

#include <stdlib.h>

#include "common/check.h"

json_t *text_json(const char *bytes)
{
    json_t *json = bytes ? json_string(bytes) : json_null();
    if (json)
        return json;
    char *ascii = xstrdup(bytes); /* used if the bytes are not UTF-8 */
    for (char *at = ascii; *at; at++) {
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    }
    json = json_string(ascii);
    free(ascii);
    return json;
}
