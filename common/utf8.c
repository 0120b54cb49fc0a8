#include "common/utf8.h"

size_t utf8_length(const unsigned char *text)
{
    unsigned char lead = text[0];
    size_t len = lead < 0x80                   ? 1
                 : lead >= 0xc2 && lead < 0xe0 ? 2
                 : lead >= 0xe0 && lead < 0xf0 ? 3
                 : lead >= 0xf0 && lead < 0xf5 ? 4
                                               : 0;
    for (size_t i = 1; i < len; i++) {
        if ((text[i] & 0xc0) != 0x80) /* also ends at the NUL */
            return 0;
    }
    bool bad = (lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] >= 0xa0) || /* overlong; surrogates */
               (lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] >= 0x90);
    return bad ? 0 : len;
}

bool utf8_printable(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        size_t len = utf8_length(at);
        bool control = *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0);
        if (len == 0 || control)
            return false;
        at += len;
    }
    return true;
}
