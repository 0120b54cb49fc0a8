/* folder.c: a class's folder: whether it is one, its lock, its seed and size. `class` is a text of four lines. The file
 * `lock` has the same text, so that one damaged byte costs nothing. A later version must write both. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/random.h"

#define CLASS_NAME "class"
#define CLASS_TITLE "larder storage class"
#define CLASS_BYTES_MAX 256

static const char class_format[] = CLASS_TITLE "\nversion %u\nseed %016" PRIx64 "\nsize %" PRIu64 "\n";

static int fail(const char *path, int code, const char *what, struct error *err)
{
    struct shown shown;
    return error_set(err, code, "%s: %s", path_shown(path, &shown), what);
}

static int print_class(const struct folder *folder, char text[CLASS_BYTES_MAX])
{
    return snprintf(text, CLASS_BYTES_MAX, class_format, TIER_VERSION, folder->seed, folder->size_bytes);
}

/* parse_class takes exactly what print_class makes. */
static int parse_class(const char *path, const char *text, size_t len, struct folder *folder, struct error *err)
{
    struct folder said = {0};
    char again[CLASS_BYTES_MAX];
    unsigned version = 0;
    if (sscanf(text, CLASS_TITLE "\nversion %u", &version) != 1)
        return fail(path, LARDER_EINVAL, "its file `class` is not a storage class's", err);
    if (version != TIER_VERSION)
        return error_set(err, LARDER_EVERSION,
                         "%s: a storage class of version %u, and this is version %u: remove its files, or give "
                         "another folder",
                         path, version, TIER_VERSION);
    if (sscanf(text, CLASS_TITLE "\nversion %u\nseed %16" SCNx64 "\nsize %" SCNu64, &version, &said.seed,
               &said.size_bytes) != 3 ||
        print_class(&said, again) != (int)len || memcmp(text, again, len) != 0)
        return fail(path, LARDER_EFORMAT, "its file `class` is damaged: the next start of its daemon mends it", err);
    folder->seed = said.seed;
    folder->size_bytes = said.size_bytes;
    return 0;
}

int folder_read_class(const char *path, int dir_fd, struct folder *out, struct error *err)
{
    char text[CLASS_BYTES_MAX + 1];
    int fd = openat(dir_fd, CLASS_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return fail(path, LARDER_EINVAL, "no storage class is there", err);
    ssize_t got = fd < 0 ? -1 : read(fd, text, CLASS_BYTES_MAX);
    int number = errno;
    if (fd >= 0)
        close(fd);
    errno = number;
    if (got < 0)
        return file_error(err, path, "read its file `class`");
    text[got] = '\0';
    return parse_class(path, text, (size_t)got, out, err);
}

/* read_copy reads the text in the file `lock`. False: there is none, as in a class of an earlier release. */
static bool read_copy(int lock_fd, struct folder *out)
{
    char text[CLASS_BYTES_MAX + 1];
    struct error err;
    ssize_t got = lock_fd < 0 ? -1 : pread(lock_fd, text, CLASS_BYTES_MAX, 0); /* it returns -1 at once for a pipe */
    if (got < 0)
        return false;
    text[got] = '\0';
    return parse_class("", text, (size_t)got, out, &err) == 0;
}

static uint64_t make_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    return random_mix64(clock_now_ns() ^ random_mix64((uint64_t)getpid()));
}

static int write_class(const char *path, const struct folder *folder, struct error *err)
{
    char text[CLASS_BYTES_MAX], name[PATH_MAX];
    int len = print_class(folder, text);
    if (snprintf(name, sizeof name, "%s/" CLASS_NAME, path) >= (int)sizeof name)
        return fail(path, LARDER_EINVAL, "the path is too long", err);
    return file_replace(name, 0600, text, (size_t)len, err);
}

/* write_copy cannot replace the file in one step as file_replace does, because the lock is on this very file. If it is
 * killed, parse_class refuses the text that it leaves. */
static void write_copy(const char *path, const struct folder *folder)
{
    char text[CLASS_BYTES_MAX];
    int len = print_class(folder, text);
    if (ftruncate(folder->lock_fd, 0) || file_write_at(folder->lock_fd, text, (size_t)len, 0))
        log_warn("msg=\"a storage class has no copy of its file `class`\" path=\"%s\" err=\"%s\"", path,
                 strerror(errno));
}

/* ── whose folder it is ── */

/* The kinds of files that lie in a folder, judged by their names. */
struct inventory {
    /* it has at most the files of a class that was killed when it was made: a lock and a temporary file */
    bool bare;
    bool foreign; /* it has a file that no class has */
    bool named;   /* it has a file with the name of a segment or an index */
    bool proven;  /* it has a segment that begins with a record */
};

static bool begins_with_record(int dir_fd, const char *name)
{
    uint8_t header[RECORD_HEADER_BYTES];
    struct record record;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool good = fd >= 0 && file_read_at(fd, header, sizeof header, 0) == 0 && tier_header_parse(header, &record);
    if (fd >= 0)
        close(fd);
    return good;
}

static void look_at_name(int dir_fd, const char *name, struct inventory *out)
{
    size_t len = strlen(name);
    bool temporary = len > strlen(FILE_TEMPORARY) && strcmp(name + len - strlen(FILE_TEMPORARY), FILE_TEMPORARY) == 0;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lock") == 0 ||
        strcmp(name, "lost+found") == 0 || temporary)
        return;
    bool named = segment_is_named(name);
    out->bare = false;
    out->foreign = out->foreign || (strcmp(name, CLASS_NAME) != 0 && !named);
    out->named = out->named || named;
    out->proven = out->proven || (named && begins_with_record(dir_fd, name));
}

static struct inventory look_around(int dir_fd)
{
    struct inventory out = {.bare = true};
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        look_at_name(dir_fd, entry->d_name, &out);
    if (dir)
        closedir(dir);
    else
        out = (struct inventory){.foreign = true};
    return out;
}

static int take_lock(const char *path, struct folder *folder, struct error *err)
{
    folder->lock_fd = openat(folder->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock_fd < 0)
        return file_error(err, path, "make its file `lock`");
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return fail(path, LARDER_EBUSY, "another daemon uses this storage class: give each daemon a folder of its own",
                    err);
    return file_error(err, path, "lock it");
}

bool folder_is_locked(int dir_fd)
{
    int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

/* is_damage tells whether folder_read_class's code means a damaged class, and not another version or a disk that does
 * not answer. If the copy is of this version, another version in `class` is damage too. */
static bool is_damage(int code, bool copied)
{
    return code == LARDER_EINVAL || code == LARDER_EFORMAT || (code == LARDER_EVERSION && copied);
}

/* begin_anew makes the class an empty one: without its seed nothing can be found of what it had. */
static void begin_anew(const char *path, struct folder *folder, const struct error *why)
{
    uint32_t *numbers = NULL;
    size_t count = 0;
    folder->seed = make_seed();
    if (look_around(folder->dir_fd).bare)
        return; /* it is new */
    if (segment_numbers(folder->dir_fd, false, &numbers, &count))
        count = 0; /* segments that stay are scanned, but their records are useless */
    for (size_t i = 0; i < count; i++)
        (void)segment_remove(folder->dir_fd, numbers[i]);
    free(numbers);
    log_error("msg=\"a storage class begins anew: its file `class` is damaged, and without it nothing can be found of "
              "what the class had; it fills again from the source\" path=\"%s\" segments=%zu err=\"%s\"",
              path, count, why->text);
}

/* describe finds the class's seed, or begins it anew, and writes what is not there as it should be. The caller has the
 * lock. */
static int describe(const char *path, uint64_t size_bytes, struct folder *folder, struct error *err)
{
    struct folder copy = {0};
    struct error why = {0};
    int code = folder_read_class(path, folder->dir_fd, folder, &why);
    bool copied = read_copy(folder->lock_fd, &copy), same = copied && !code && copy.seed == folder->seed;
    if (code && !is_damage(code, copied)) {
        *err = why;
        return code;
    }
    if (code && copied) {
        folder->seed = copy.seed;
        log_error("msg=\"the file `class` of a storage class is mended from its copy\" path=\"%s\" err=\"%s\"", path,
                  why.text);
    } else if (code || (copied && !same)) {
        if (!code)
            error_set(&why, LARDER_EFORMAT, "%s: its files `class` and `lock` have two seeds", path);
        begin_anew(path, folder, &why);
    }
    if (code || !same || folder->size_bytes != size_bytes) {
        folder->size_bytes = size_bytes;
        code = write_class(path, folder, err);
    }
    if (!code && !same)
        write_copy(path, folder);
    return code;
}

/* is_trusted tells whether nobody but this user and root can put files into the folder. */
static bool is_trusted(int dir_fd)
{
    struct stat st;
    return fstat(dir_fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* recognise refuses a folder that is no storage class before anything is made in it. If `class` is damaged or gone, the
 * other files decide. A copy of it or a record proves a class. Names alone do if no foreign file is there. */
static int recognise(const char *path, uint64_t size_bytes, const struct folder *folder, struct error *err)
{
    struct folder said = {0};
    int code = folder_read_class(path, folder->dir_fd, &said, err);
    int lock_fd = code ? openat(folder->dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    bool copied = read_copy(lock_fd, &said);
    struct inventory has = look_around(folder->dir_fd);
    bool own = code == LARDER_EFORMAT || copied || has.proven || (!has.foreign && (has.named || lock_fd >= 0));
    if (lock_fd >= 0)
        close(lock_fd);
    if (!is_damage(code, copied) || (size_bytes && has.bare) || (own && !has.bare))
        return is_damage(code, copied) ? 0 : code;
    return size_bytes ? fail(path, LARDER_EINVAL, "is neither empty nor a storage class: give an empty folder", err)
                      : code;
}

int folder_open_class(const char *path, uint64_t size_bytes, struct folder *out, struct error *err)
{
    struct folder folder = {.dir_fd = -1, .lock_fd = -1};
    if (size_bytes && mkdir(path, 0700) && errno != EEXIST)
        return file_error(err, path, "make the folder");
    folder.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.dir_fd < 0)
        return file_error(err, path, "open it");
    int code = recognise(path, size_bytes, &folder, err);
    if (!code && size_bytes && !is_trusted(folder.dir_fd))
        code = fail(path, LARDER_EPERM,
                    "others could change what samples are: a storage class needs a folder of the daemon's own user "
                    "that nobody else may write to (chmod go-w, chown)",
                    err);
    if (!code)
        code = take_lock(path, &folder, err);
    if (!code && size_bytes)
        code = describe(path, size_bytes, &folder, err);
    if (code) {
        folder_close(&folder);
        return code;
    }
    *out = folder;
    return 0;
}

void folder_close(struct folder *folder)
{
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    if (folder->dir_fd >= 0)
        close(folder->dir_fd);
    folder->dir_fd = folder->lock_fd = -1;
}
