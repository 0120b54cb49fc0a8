#include "preprocess/version.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>

#include "preprocess/decode/libtiff.h"

#define TEXT_OF(macro) TEXT_OF_TOKENS(macro)
#define TEXT_OF_TOKENS(tokens) #tokens

static char decoders[128];

/* write_tiff writes the version that libtiff says in several lines. */
static void write_tiff(const char *said, char *out, size_t len)
{
    static const char before[] = "Version ";
    const char *version = strstr(said, before);
    version = version ? version + sizeof before - 1 : "unknown";
    snprintf(out, len, "%.*s", (int)strcspn(version, "\n"), version);
}

static void write_decoders(void)
{
    char tiff[PREPARE_VERSION_BYTES];
    unsigned webp = (unsigned)WebPGetDecoderVersion();
    write_tiff(TIFFLIB_VERSION_STR, tiff, sizeof tiff);
    snprintf(decoders, sizeof decoders, "libjpeg-turbo %s, libpng %s, libtiff %s, libwebp %u.%u.%u",
             TEXT_OF(LIBJPEG_TURBO_VERSION), png_get_libpng_ver(NULL), tiff, webp >> 16, webp >> 8 & 255, webp & 255);
}

const char *prepare_decoders(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_decoders);
    return decoders;
}

void prepare_tiff_version(char out[PREPARE_VERSION_BYTES])
{
    struct error err;
    write_tiff(libtiff_load(&err) ? "Version none" : libtiff.GetVersion(), out, PREPARE_VERSION_BYTES);
}
