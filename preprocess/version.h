/* version.h: which image libraries do the decoding. */
#ifndef LARDER_PREPROCESS_VERSION_H
#define LARDER_PREPROCESS_VERSION_H

#define PREPARE_VERSION_BYTES 32

/* prepare_decoders returns their names and versions: "libjpeg-turbo 2.1.5, libpng 1.6.39, libtiff 4.5.0, libwebp
 * 1.2.4". Of libjpeg-turbo and libtiff it is what was built with, of the others what runs. Static. Any thread. */
const char *prepare_decoders(void);
/* prepare_tiff_version loads libtiff and writes the version that runs, or "none". Any thread. */
void prepare_tiff_version(char out[PREPARE_VERSION_BYTES]);

#endif
