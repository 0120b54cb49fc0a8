/* roots.c: the folders below which datasets must lie. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/config/config_priv.h"

enum { KEY_MAX = 32 };

static const struct config_row row = {
    .kind = CONFIG_FOLDER, .unit = "an absolute path", .min = 1, .max = CONFIG_ROOT_PATH_MAX};

int config_roots_apply(struct config *config, const struct doc_node *value, struct error *err)
{
    static const struct config_machine no_machine; /* no value here depends on it */
    if (doc_is_null(value))
        return 0;
    if (value->kind != DOC_SEQUENCE)
        return config_fail(err, LARDER_EINVAL, config->file, value->at, "roots",
                           "is a list of folders below which datasets must lie: write `[/a/folder, /another]`");
    if (value->n_children > CONFIG_ROOTS_MAX)
        return config_fail(err, LARDER_EINVAL, config->file, value->at, "roots",
                           "too many folders: at most %u are possible", CONFIG_ROOTS_MAX);
    if (value->n_children == 0)
        return 0;
    config->roots = xcalloc(value->n_children, sizeof *config->roots);
    config->n_roots = value->n_children;
    for (uint32_t i = 0; i < value->n_children; i++) {
        const struct doc_node *item = value->children[i];
        char key[KEY_MAX];
        struct error why;
        snprintf(key, sizeof key, "roots[%u]", i);
        config->roots[i].at = item->at;
        if (item->kind != DOC_SCALAR || doc_is_null(item))
            return config_fail(err, LARDER_EINVAL, config->file, item->at, key, "write one value (%s)", row.unit);
        int code = config_value_read(&config->roots[i].path, &row,
                                     (struct config_scalar){.text = item->text, .quoted = item->quoted}, &no_machine,
                                     &why);
        if (code)
            return config_fail(err, code, config->file, item->at, key, "%s", why.text);
    }
    return 0;
}

/* is_below tells whether a folder is `root` or lies below it. Both are resolved. */
static bool is_below(const char *folder, const char *root)
{
    size_t len = strlen(root);
    if (len == 1) /* all is below / */
        return true;
    return strncmp(folder, root, len) == 0 && (folder[len] == '/' || folder[len] == '\0');
}

bool config_roots_allow(const struct config *config, const char *resolved)
{
    char root[PATH_MAX];
    bool allowed = config->n_roots == 0;
    for (uint32_t i = 0; i < config->n_roots && !allowed; i++)
        allowed = realpath(config->roots[i].path, root) && is_below(resolved, root);
    return allowed;
}

void config_roots_tell(const struct config *config, char *buf, size_t cap)
{
    size_t len = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < config->n_roots && len < cap; i++)
        len += (size_t)snprintf(buf + len, cap - len, "%s%s", i ? ", " : "", config_shown(config->roots[i].path));
}

void config_roots_print(const struct config *config, FILE *out)
{
    if (config->n_roots)
        fputs("roots:\n", out);
    for (uint32_t i = 0; i < config->n_roots; i++) {
        fputs("  - ", out);
        config_text_print(config->roots[i].path, out);
        fputc('\n', out);
    }
}

void config_roots_free(struct config *config)
{
    for (uint32_t i = 0; i < config->n_roots; i++)
        free(config->roots[i].path);
    free(config->roots);
}
