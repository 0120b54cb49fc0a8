#include "preprocess/version.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <tiffio.h>
#include <webp/decode.h>

#define TEXT_OF(macro) TEXT_OF_TOKENS(macro)
#define TEXT_OF_TOKENS(tokens) #tokens

static char decoders[128];

static void write_decoders(void)
{
    static const char before[] = "Version "; /* libtiff says more, in several lines */
    const char *tiff = strstr(TIFFGetVersion(), before);
    unsigned webp = (unsigned)WebPGetDecoderVersion();
    tiff = tiff ? tiff + sizeof before - 1 : "unknown";
    snprintf(decoders, sizeof decoders, "libjpeg-turbo %s, libpng %s, libtiff %.*s, libwebp %u.%u.%u",
             TEXT_OF(LIBJPEG_TURBO_VERSION), png_get_libpng_ver(NULL), (int)strcspn(tiff, "\n"), tiff, webp >> 16,
             webp >> 8 & 255, webp & 255);
}

const char *prepare_decoders(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_decoders);
    return decoders;
}
