/* poison.c: `larder poison`: the samples that daemons died of. It asks the running daemon. If none runs, it reads and
 * changes the file that the last one left (common/poison.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "common/poison.h"
#include "common/poison_file.h"
#include "common/socket_file.h"
#include "common/socket_path.h"

/* ── without a daemon ── */

/* find_file returns the path of the file. LARDER_EBUSY: a daemon has it, which holds the lock beside its socket. */
static int find_file(const char *socket, char path[POISON_PATH_BYTES], struct error *err)
{
    char session[SOCKET_PATH_MAX], lock[SOCKET_PATH_MAX + sizeof ".lock"];
    int rc = socket ? socket_path_check(socket, err) : socket_path_default(session, sizeof session, err);
    if (rc)
        return rc;
    socket = socket ? socket : session;
    poison_file_path(socket, path);
    snprintf(lock, sizeof lock, "%s.lock", socket);
    int fd = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : socket_file_error(err, "opening the lock file", lock);
    if (flock(fd, LOCK_SH | LOCK_NB) != 0)
        rc = error_set(err, LARDER_EBUSY,
                       "a daemon has %s and does not answer on its control socket: does it start, or has its "
                       "configuration control.enabled: false?",
                       socket);
    close(fd);
    return rc;
}

static json_t *row_of(const struct poison_note *note)
{
    char file[POISON_NAME_BYTES], id[POISON_HEX_BYTES];
    poison_shown(note->name, file);
    poison_hex(note->id, id);
    return json_pack("{s:s,s:s,s:I,s:I,s:s?,s:s}", "file", file, "id", id, "crashes", (json_int_t)note->crashes,
                     "deaths", (json_int_t)note->deaths, "signal", poison_signal(note->signal), "verdict",
                     poison_verdict(note));
}

/* read_rows reads the rows that the next daemon will know. */
static int read_rows(const char *socket, json_t **rows, struct error *err)
{
    char path[POISON_PATH_BYTES];
    void *bytes = NULL;
    size_t len_bytes = 0;
    struct poison_notes notes = {0};
    struct poison_death death;
    int rc = find_file(socket, path, err);
    if (rc)
        return rc;
    rc = poison_file_load(path, &bytes, &len_bytes, err);
    bool none = rc == LARDER_ENOENT;
    if (rc == 0)
        rc = poison_learn(bytes, len_bytes, &notes, &death, err);
    if (rc == 0 || none) {
        *rows = json_array();
        for (size_t i = 0; i < notes.count; i++)
            json_array_append_new(*rows, row_of(&notes.all[i]));
    }
    poison_notes_free(&notes);
    free(bytes);
    return none ? 0 : rc;
}

/* clear_records frees all records that match `sample`. It returns their number, or -1 with errno. */
static long clear_records(int fd, const char *bytes, size_t len_bytes, const char *sample)
{
    long cleared = 0;
    struct poison_record record;
    for (size_t at = POISON_FILE_BYTES(0); at + sizeof record <= len_bytes; at += sizeof record) {
        memcpy(&record, bytes + at, sizeof record);
        record.name[sizeof record.name - 1] = '\0';
        if (atomic_load(&record.state) == POISON_FREE || !poison_means(sample, record.id, record.name))
            continue;
        atomic_uint none = POISON_FREE;
        if (pwrite(fd, &none, sizeof none, (off_t)(at + offsetof(struct poison_record, state))) != sizeof none)
            return -1;
        cleared++;
    }
    return cleared;
}

static int clear_file(const char *path, const char *sample, struct error *err)
{
    void *bytes = NULL;
    size_t len_bytes = 0;
    struct poison_notes notes = {0};
    struct poison_death death;
    int rc = poison_file_load(path, &bytes, &len_bytes, err);
    if (rc == 0)
        rc = poison_learn(bytes, len_bytes, &notes, &death, err);
    int fd = rc ? -1 : open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (rc == 0 && fd < 0)
        rc = socket_file_error(err, "opening", path);
    long cleared = rc ? 0 : clear_records(fd, bytes, len_bytes, sample);
    if (cleared < 0)
        rc = socket_file_error(err, "writing to", path);
    if (fd >= 0)
        close(fd);
    free(bytes);
    poison_notes_free(&notes);
    if (rc == LARDER_ENOENT || (rc == 0 && sample && cleared == 0))
        return sample ? error_set(err, LARDER_ENOENT,
                                  "no sample is noted as '%.300s': `larder poison list` has their names", sample)
                      : 0;
    return rc;
}

/* ── either way ── */

static int ask_rows(const char *socket, json_t **rows, struct error *err)
{
    struct cli_peer *peer = NULL;
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", "poison"), *answer = NULL;
    int rc = cli_connect(socket, &peer, err);
    if (rc == 0)
        rc = cli_ask(peer, request, &answer, err);
    json_t *told = json_object_get(answer, "poison");
    if (rc == 0 && !json_is_array(told))
        rc = error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does", cli_peer_path(peer));
    if (rc == 0)
        *rows = json_incref(told);
    cli_disconnect(peer);
    json_decref(request);
    json_decref(answer);
    return rc;
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "-";
}

/* print_rows writes those of one verdict. Their texts have no control characters. */
static void print_rows(const json_t *rows, const char *verdict)
{
    size_t i;
    const json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        if (strcmp(text_of(row, "verdict"), verdict) == 0)
            printf("%-9s  %7lld  %6lld  %-7s  %s\n", verdict,
                   (long long)json_integer_value(json_object_get(row, "crashes")),
                   (long long)json_integer_value(json_object_get(row, "deaths")), text_of(row, "signal"),
                   text_of(row, "file"));
    }
}

int cli_poison_list(const char *socket, bool json)
{
    struct error err;
    json_t *rows = NULL;
    int rc = ask_rows(socket, &rows, &err);
    if (rc == LARDER_EGONE)
        rc = read_rows(socket, &rows, &err);
    if (rc)
        return cli_fail(&err);
    if (json) {
        json_dumpf(rows, stdout, CLI_JSON);
        putchar('\n');
    } else if (json_array_size(rows) == 0) {
        puts("no samples are noted");
    } else {
        puts("VERDICT    CRASHES  DEATHS  SIGNAL   FILE");
        print_rows(rows, "poisonous");
        print_rows(rows, "crashed");
        print_rows(rows, "suspect");
    }
    json_decref(rows);
    return fflush(stdout) ? CLI_FAILED : CLI_OK;
}

static int ask_clear(const char *socket, json_t *request, struct error *err)
{
    struct cli_peer *peer = NULL;
    int rc = cli_connect(socket, &peer, err);
    if (rc == 0)
        rc = cli_ask_change(peer, json_incref(request), err);
    cli_disconnect(peer);
    return rc;
}

int cli_poison_clear(const char *socket, const char *sample, bool json)
{
    struct error err;
    char path[POISON_PATH_BYTES];
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", "poison_clear");
    int rc = sample && json_object_set_new(request, "sample", json_string(sample)) != 0
                 ? error_set(&err, LARDER_EINVAL, "the name is not UTF-8: give what `larder poison list` shows")
                 : ask_clear(socket, request, &err);
    json_decref(request);
    if (rc == LARDER_EGONE && (rc = find_file(socket, path, &err)) == 0) {
        rc = clear_file(path, sample, &err);
        if (rc == 0 && find_file(socket, path, &err) != 0)
            rc = error_set(&err, LARDER_EBUSY, "a daemon has started meanwhile: clear once more");
    }
    if (rc)
        return cli_fail(&err);
    return cli_say(json, json_pack("{s:s?}", "cleared", sample), "cleared %s\n", sample ? sample : "all");
}
