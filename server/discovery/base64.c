#include "server/discovery/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len_bytes)
{
    const uint8_t *from = data;
    char *text = xmalloc((len_bytes + 2) / 3 * 4 + 1), *at = text;
    for (size_t i = 0; i < len_bytes; i += 3) {
        size_t left = len_bytes - i;
        uint32_t bits = (uint32_t)from[i] << 16;
        bits |= left > 1 ? (uint32_t)from[i + 1] << 8 : 0;
        bits |= left > 2 ? from[i + 2] : 0;
        *at++ = digits[bits >> 18];
        *at++ = digits[bits >> 12 & 63];
        *at++ = left > 1 ? digits[bits >> 6 & 63] : '=';
        *at++ = left > 2 ? digits[bits & 63] : '=';
    }
    *at = 0;
    return text;
}

static int digit_of(char c)
{
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

int base64_decode(const char *text, size_t len, char **out, size_t *len_bytes)
{
    if (len % 4)
        return LARDER_EFORMAT;
    size_t padding = len > 0 ? (size_t)(text[len - 1] == '=') + (text[len - 1] == '=' && text[len - 2] == '=') : 0;
    char *data = xmalloc(len / 4 * 3 + 1);
    size_t n = 0, end = len / 4 * 3 - padding;
    for (size_t i = 0; i < len; i += 4) {
        uint32_t bits = 0;
        for (size_t j = 0; j < 4; j++) {
            int digit = i + j >= len - padding ? 0 : digit_of(text[i + j]);
            if (digit < 0) {
                free(data);
                return LARDER_EFORMAT;
            }
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int shift = 16; shift >= 0 && n < end; shift -= 8)
            data[n++] = (char)(bits >> shift);
    }
    data[n] = 0;
    *out = data;
    *len_bytes = n;
    return 0;
}
