/* tree_entry.c: what an entry of a tree's folder is, and what is said when a folder cannot be read. See tree_priv.h. */
#include <dirent.h>
#include <string.h>

#include "cache/source/tree_priv.h"

/* ASCII only, whatever the locale: no other letter's lower case is one of these. */
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

const char *tree_extensions(const struct tree *tree)
{
    return tree->files == FILES_ALL ? "" : tree->files == FILES_SOUNDS ? SOUND_EXTENSIONS : IMAGE_EXTENSIONS;
}

const char *tree_noun(const struct tree *tree)
{
    return tree->files == FILES_ALL ? "file" : tree->files == FILES_SOUNDS ? "sound" : "image";
}

static bool has_extension(const char *name, const char *extensions)
{
    const char *dot = strrchr(name, '.');
    size_t len = dot ? strlen(dot) : 0;
    for (const char *known = extensions; len && *known; known += strspn(known, " ")) {
        size_t known_len = strcspn(known, " "), same = 0;
        while (same < len && same < known_len && lower(dot[same]) == known[same])
            same++;
        if (same == len && same == known_len)
            return true;
        known += known_len;
    }
    return false;
}

bool tree_is_sample(const struct tree *tree, const char *name)
{
    return tree->files == FILES_ALL ? *name != '.' : has_extension(name, tree_extensions(tree));
}

bool tree_is_folder(int dir_fd, const char *name, unsigned char type, struct stat *st, bool *looked)
{
    *looked = false;
    if (type != DT_LNK && type != DT_UNKNOWN)
        return type == DT_DIR;
    *looked = fstatat(dir_fd, name, st, 0) == 0;
    return *looked && S_ISDIR(st->st_mode);
}

int tree_folder_error(const struct tree *tree, const char *path, int number, struct error *err)
{
    struct shown root, below;
    return error_set(err, errno_code(number), "%s: cannot list the folder '%s': %s", path_shown(tree->root, &root),
                     path_shown(path, &below), strerror(number));
}

int tree_limit_error(const struct tree *tree, int code, struct error *err)
{
    struct shown root;
    return error_set(err, code, "%s: %s", path_shown(tree->root, &root),
                     code == LARDER_ELIMIT ? "more folders or files than one dataset may have"
                                           : "out of memory while indexing");
}

int tree_check_interrupted(const struct tree *tree, struct error *err)
{
    return interrupt_is_set(tree->interrupt) ? file_interrupted(tree->root, err) : 0;
}
