/* change.c: requests that change something. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/cli.h"
#include "common/clock.h"

#define END_S 60 /* a daemon of much memory takes a while to free it */

int cli_ask_change(struct cli_peer *peer, json_t *request, struct error *err)
{
    uint64_t random[2];
    char id[40];
    json_t *answer = NULL;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        random[0] = random[1] = clock_now_ns();
    snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    int rc = json_object_set_new(request, "id", json_string(id)) == 0 ? cli_ask(peer, request, &answer, err)
                                                                      : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(request);
    json_decref(answer);
    return rc;
}

int cli_change(const char *socket, json_t *request)
{
    struct cli_peer *peer = NULL;
    struct error err;
    if (!request)
        error_set(&err, LARDER_EINVAL, "the job's name is not UTF-8");
    int rc = request ? cli_connect(socket, &peer, &err) : LARDER_EINVAL;
    if (rc == 0)
        rc = cli_ask_change(peer, request, &err);
    else
        json_decref(request);
    cli_disconnect(peer);
    return rc ? cli_fail(&err) : CLI_OK;
}

/* await_end waits until the process, a pidfd, has ended. */
static int await_end(const struct cli_peer *peer, int process, struct error *err)
{
    struct pollfd fd = {.fd = process, .events = POLLIN};
    int n = poll(&fd, 1, END_S * 1000);
    if (n < 0)
        return error_set(err, LARDER_EIO, "waiting for the end of the daemon at %s: %s", cli_peer_path(peer),
                         strerror(errno));
    if (n == 0)
        return error_set(err, LARDER_ETIMEOUT,
                         "the daemon at %s stops, and has not ended within %d s: its log says more; the next one waits "
                         "for its end",
                         cli_peer_path(peer), END_S);
    return 0;
}

int cli_hand_over(const char *socket, bool json)
{
    struct cli_peer *peer = NULL;
    struct error err;
    int process = -1;
    int rc = cli_connect(socket, &peer, &err);
    if (rc == 0) {
        process = cli_peer_process(peer); /* while it lives, and nobody else can have its number */
        rc = cli_ask_change(peer, json_pack("{s:i,s:s}", "v", 1, "op", "hand_over"), &err);
    }
    if (rc == 0 && process >= 0)
        rc = await_end(peer, process, &err);
    bool gone = process >= 0;
    if (gone)
        close(process);
    cli_disconnect(peer);
    if (rc)
        return cli_fail(&err);
    return cli_say(json, json_pack("{s:b}", "gone", gone), "%s; its jobs wait for the next one\n",
                   gone ? "the daemon has gone" : "the daemon stops, which cannot be watched from here");
}
