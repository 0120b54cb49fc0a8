/* where.c: says of the settings that a text names where they stand, so that an error which asks for another value says
 * where that is given. Pure. */
#include <ctype.h>
#include <string.h>

#include "server/config/config_priv.h"

enum { TOLD_MAX = 2, FILE_SHOWN = 120, PLACES_BYTES = 2 * (FILE_SHOWN + 80) };

/* is_named_at tells whether the key at this place of the text is the whole of a word. */
static bool is_named_at(const char *text, const char *at, size_t len)
{
    bool begins = at == text || !(isalnum((unsigned char)at[-1]) || strchr("._-/", at[-1]));
    bool goes_on = isalnum((unsigned char)at[len]) || at[len] == '_' || (at[len] == '.' && isalpha(at[len + 1]));
    return begins && !goes_on;
}

/* named_first returns the setting that the text names first, and moves *text behind its name; NULL: it names none. */
static const struct config_row *named_first(const char *whole, const char **text)
{
    const struct config_row *first = NULL;
    const char *place = NULL;
    for (size_t i = 0; i < CONFIG_SETTINGS; i++) {
        const char *key = config_rows[i].key_path, *at = strstr(*text, key);
        while (at && !is_named_at(whole, at, strlen(key)))
            at = strstr(at + 1, key);
        if (at && (!place || at < place)) {
            first = &config_rows[i];
            place = at;
        }
    }
    if (first)
        *text = place + strlen(first->key_path);
    return first;
}

void config_place(const struct config *config, const char *key, char *buf, size_t cap)
{
    const char *file = config->settings_file, *cut = "";
    enum config_setting setting = 0;
    while (setting < CONFIG_SETTINGS && strcmp(config_rows[setting].key_path, key) != 0)
        setting++;
    buf[0] = '\0';
    if (setting == CONFIG_SETTINGS)
        return;
    if (file && strlen(file) > FILE_SHOWN) {
        file += strlen(file) - FILE_SHOWN + 3;
        cut = "...";
    }
    if (config->source[setting] == CONFIG_FROM_COMMAND_LINE)
        snprintf(buf, cap, "on larderd's command line");
    else if (!file)
        snprintf(buf, cap, "larderd was started without a settings file, give it one with --config");
    else if (config->source[setting] == CONFIG_FROM_FILE)
        snprintf(buf, cap, "in %s%s:%u", cut, file, config->mark[setting].line);
    else
        snprintf(buf, cap, "in %s%s (%s, default %s)", cut, file, config->file ? "not set there" : "no such file yet",
                 config_rows[setting].initial);
}

void config_tell_places(const struct config *config, const char *text, char *buf, size_t cap)
{
    const struct config_row *told[TOLD_MAX];
    char places[PLACES_BYTES] = "", place[FILE_SHOWN + 80];
    const char *rest = text;
    size_t n = 0, len = 0, all = strlen(text);
    while (config && n < TOLD_MAX && (told[n] = named_first(text, &rest))) {
        bool again = n > 0 && told[n] == told[0];
        config_place(config, told[n]->key_path, place, sizeof place);
        if (!again && (config->settings_file || n == 0))
            len += (size_t)snprintf(places + len, sizeof places - len, "%s%s: %s", n ? "; " : " (", told[n]->key_path,
                                    place);
        n += !again;
    }
    if (len)
        snprintf(places + len, sizeof places - len, ")");
    len = strlen(places);
    if (all + len < cap)
        snprintf(buf, cap, "%s%s", text, places);
    else
        snprintf(buf, cap, "%.*s...%s", (int)(cap - len - 4), text, places);
}
