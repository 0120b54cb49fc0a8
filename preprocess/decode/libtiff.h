/* libtiff.h: libtiff's functions, loaded when a TIFF is read first. */
#ifndef LARDER_PREPROCESS_DECODE_LIBTIFF_H
#define LARDER_PREPROCESS_DECODE_LIBTIFF_H

#include <tiffio.h>

#include "common/library.h"

#define LIBTIFF_FUNCTIONS(X)                  \
    X(TIFF, OpenOptionsAlloc)                 \
    X(TIFF, OpenOptionsSetMaxSingleMemAlloc)  \
    X(TIFF, OpenOptionsSetErrorHandlerExtR)   \
    X(TIFF, OpenOptionsSetWarningHandlerExtR) \
    X(TIFF, OpenOptionsFree)                  \
    X(TIFF, ClientOpenExt)                    \
    X(TIFF, Close)                            \
    X(TIFF, GetField)                         \
    X(TIFF, GetFieldDefaulted)                \
    X(TIFF, SetField)                         \
    X(TIFF, IsTiled)                          \
    X(TIFF, TileRowSize64)                    \
    X(TIFF, ScanlineSize64)                   \
    X(TIFF, ComputeTile)                      \
    X(TIFF, ComputeStrip)                     \
    X(TIFF, ReadEncodedTile)                  \
    X(TIFF, ReadEncodedStrip)                 \
    X(TIFF, GetVersion)

/* libtiff.GetField is TIFFGetField, and so on. */
struct libtiff {
    LIBTIFF_FUNCTIONS(LIBRARY_POINTER)
};
extern struct libtiff libtiff; /* set once libtiff_load returned 0 */

/* libtiff_load is library_load for libtiff. */
int libtiff_load(struct error *err);

#endif
