#include "common/error.h"

#include <stdio.h>
#include <string.h>

const char *larder_err_name(int code)
{
    static const char *const names[] = {"OK",     "EINVAL",   "ENOMEM", "EIO",      "ENOENT",    "EFORMAT",
                                        "EQUOTA", "EBUSY",    "EPERM",  "EGONE",    "EVERSION",  "ESAMPLE",
                                        "ELIMIT", "ETIMEOUT", "EEND",   "ECHANGED", "ECANCELLED"};
    int index = -code;
    return index >= 0 && index < (int)(sizeof names / sizeof *names) ? names[index] : "E?";
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, args);
        va_end(args);
        err->code = code;
    }
    return code;
}

int error_prefix(struct error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len < 0 || len >= (int)sizeof text - 3)
        return err->code;
    snprintf(text + len, sizeof text - (size_t)len, ": %.*s", (int)(sizeof text - (size_t)len - 3), err->text);
    memcpy(err->text, text, sizeof text);
    return err->code;
}
