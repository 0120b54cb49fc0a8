/* log_key.c: see log_key.h. */
#include "cache/source/log_key.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What names in a log look like; a 0 stands for any digit. */
#define SHARD "000000-000000000000.tar/"
#define UNNAMED "./@000000000000."

static bool begins_like(const char *text, const char *form)
{
    for (; *form; form++, text++) {
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form)
            return false;
    }
    return true;
}

const char *log_key(const char *key, uint32_t number, char buf[LOG_KEY_BYTES])
{
    if (!begins_like(key, SHARD))
        return key;
    const char *given = key + strlen(SHARD), *ending = given + strlen(UNNAMED) - 1;
    if (!begins_like(given, UNNAMED))
        return given;
    snprintf(buf, LOG_KEY_BYTES, "%012" PRIu32 "%s", number, ending);
    return buf;
}
