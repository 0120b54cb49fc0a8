#include <stdarg.h>
#include <stdio.h>

#include "client/cli/cli.h"

int cli_say(bool json, json_t *as_json, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool failed = false;
    if (!json)
        failed = vprintf(format, args) < 0;
    else if (!as_json || json_dumpf(as_json, stdout, JSON_COMPACT | CLI_REALS) != 0 || putchar('\n') == EOF)
        failed = true;
    va_end(args);
    json_decref(as_json);
    if (!failed && fflush(stdout) == 0)
        return CLI_OK;
    fputs("larder: it is done, and the answer could not be written\n", stderr);
    return CLI_FAILED;
}
