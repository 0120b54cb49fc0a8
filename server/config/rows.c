/* rows.c: the settings of table.h, a row each. */
#include "common/log.h"
#include "common/socket_path.h"
#include "server/config/config_priv.h"

const struct config_row config_rows[CONFIG_SETTINGS] = {
#define SETTING(kind_, field_, section_, key_, initial_, unit_, min_, max_, help_) \
    [SETTING_##field_] = {.kind = CONFIG_##kind_,                                  \
                          .offset = offsetof(struct config, field_),               \
                          .section = section_,                                     \
                          .key = key_,                                             \
                          .key_path = section_ "." key_,                           \
                          .initial = initial_,                                     \
                          .unit = unit_,                                           \
                          .help = help_,                                           \
                          .min = min_,                                             \
                          .max = max_},
#include "server/config/table.h"
#undef SETTING
};

/* The choices are written in the order of these enums. */
_Static_assert(LOG_ERROR == 0 && LOG_DEBUG == 3, "log.level lists enum log_level");
_Static_assert(CONFIG_SOCKET_PATH_MAX + sizeof ".control" == SOCKET_PATH_MAX, "the control socket's path fits");
