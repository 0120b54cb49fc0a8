/* pixels.c: pixels as binary PNM. See pixels.h. */
#include "cache/source/pixels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/larder_err.h"

#define CHANNELS_MAX 3

/* Reads a side of an image, or its number of channels, and passes the "x" behind it. */
static bool take_side(const char **text, uint32_t *out)
{
    const char *at = *text;
    uint32_t value = 0;
    while (*at >= '0' && *at <= '9' && value <= PIXELS_SIDE_MAX)
        value = value * 10 + (uint32_t)(*at++ - '0');
    if (at == *text || value == 0 || value > PIXELS_SIDE_MAX || (*at && (*at != 'x' || !at[1])))
        return false;
    *text = at + (*at == 'x');
    *out = value;
    return true;
}

static bool is_channels(uint32_t side)
{
    return side == 1 || side == CHANNELS_MAX;
}

bool pixels_parse(const char *text, struct pixels *out)
{
    uint32_t sides[3];
    int count = 0;
    while (count < 3 && (count == 0 || *text)) {
        if (!take_side(&text, &sides[count++]))
            return false;
    }
    if (*text || count < 2)
        return false;
    if (count == 2)
        *out = (struct pixels){.height = sides[0], .width = sides[1], .channels = 1};
    else if (is_channels(sides[2]))
        *out = (struct pixels){.height = sides[0], .width = sides[1], .channels = sides[2]};
    else if (is_channels(sides[0]))
        *out = (struct pixels){
            .height = sides[1], .width = sides[2], .channels = sides[0], .planar = sides[0] == CHANNELS_MAX};
    else
        return false;
    return true;
}

bool pixels_fit(const struct pixels *pixels)
{
    bool sides = pixels->width - 1 < PIXELS_SIDE_MAX && pixels->height - 1 < PIXELS_SIDE_MAX;
    return pixels->channels == 0 ||
           (sides && is_channels(pixels->channels) && (!pixels->planar || pixels->channels == CHANNELS_MAX));
}

uint64_t pixels_bytes(const struct pixels *pixels)
{
    return (uint64_t)pixels->width * pixels->height * pixels->channels;
}

uint32_t pixels_head(const struct pixels *pixels, uint8_t *out)
{
    int len = snprintf((char *)out, PIXELS_HEAD_MAX, "P%d\n%u %u\n255\n", pixels->channels == 1 ? 5 : 6, pixels->width,
                       pixels->height);
    return (uint32_t)len;
}

int pixels_settle(const struct pixels *pixels, uint8_t *bytes)
{
    if (!pixels->planar)
        return 0;
    size_t plane = (size_t)pixels->width * pixels->height;
    uint8_t *planes = malloc(plane * CHANNELS_MAX);
    if (!planes)
        return LARDER_ENOMEM;
    memcpy(planes, bytes, plane * CHANNELS_MAX);
    for (size_t i = 0; i < plane; i++) {
        for (size_t c = 0; c < CHANNELS_MAX; c++)
            bytes[i * CHANNELS_MAX + c] = planes[c * plane + i];
    }
    free(planes);
    return 0;
}
