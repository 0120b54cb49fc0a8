/* version.h: which image libraries do the decoding. */
#ifndef LARDER_PREPROCESS_VERSION_H
#define LARDER_PREPROCESS_VERSION_H

/* prepare_decoders returns their names and versions, as they run where they can say so: "libjpeg-turbo 2.1.5, libpng
 * 1.6.39, libtiff 4.5.0, libwebp 1.2.4". Static. Any thread. */
const char *prepare_decoders(void);

#endif
