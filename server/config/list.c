/* list.c: settings that are lists of texts. */
#include <stdlib.h>

#include "common/check.h"
#include "server/config/config_priv.h"

uint32_t config_list_count(const struct config_text *list)
{
    uint32_t count = 0;
    while (list && list[count].text)
        count++;
    return count;
}

struct config_text *config_list_copy(const struct config_text *list)
{
    uint32_t count = config_list_count(list);
    struct config_text *copy = count ? xcalloc(count + 1u, sizeof *copy) : NULL;
    for (uint32_t i = 0; i < count; i++)
        copy[i] = (struct config_text){.text = xstrdup(list[i].text), .at = list[i].at};
    return copy;
}

void config_list_free(struct config_text *list)
{
    uint32_t count = config_list_count(list);
    for (uint32_t i = 0; i < count; i++)
        free(list[i].text);
    free(list);
}
