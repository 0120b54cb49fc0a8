#include "preprocess/version.h"

#include <vips/vips.h>

const char *prepare_library_version(void)
{
    return vips_version_string();
}
