/* look.c: asks the daemon for its status, alone or with an earlier one that it remembers, so that there are rates to
 * tell. */
#include <time.h>

#include "client/cli/cli.h"

int cli_ask_field(struct cli_peer *peer, const char *op, const char *key, json_t **out, struct error *err)
{
    json_t *request = json_pack("{s:i,s:s}", "v", 1, "op", op), *answer = NULL;
    int rc = request ? cli_ask(peer, request, &answer, err) : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(request);
    if (rc)
        return rc;
    json_t *found = json_incref(json_object_get(answer, key));
    json_decref(answer);
    if (!json_is_object(found) && !json_is_array(found)) {
        json_decref(found);
        return error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does",
                         cli_peer_path(peer));
    }
    *out = found;
    return 0;
}

int cli_ask_status(struct cli_peer *peer, json_t **out, struct error *err)
{
    json_t *status = NULL;
    int rc = cli_ask_field(peer, "status", "status", &status, err);
    if (rc == 0 && !json_is_object(status)) {
        json_decref(status);
        return error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does",
                         cli_peer_path(peer));
    }
    if (rc == 0)
        *out = status;
    return rc;
}

int cli_ask_look(struct cli_peer *peer, struct cli_look *out, struct error *err)
{
    json_t *request = json_pack("{s:i,s:s,s:b}", "v", 1, "op", "status", "before", 1), *answer = NULL;
    *out = (struct cli_look){.before = NULL};
    int rc = request ? cli_ask(peer, request, &answer, err) : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(request);
    json_t *now = json_object_get(answer, "status"), *before = json_object_get(answer, "before");
    if (rc == 0 && !json_is_object(now))
        rc = error_set(err, LARDER_EFORMAT, "what listens at %s does not answer as larderd does", cli_peer_path(peer));
    if (rc == 0)
        *out = (struct cli_look){.before = json_is_object(before) ? json_incref(before) : NULL,
                                 .now = json_incref(now)};
    json_decref(answer);
    return rc;
}

void cli_sleep_ms(unsigned ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&left, NULL);
}

int cli_look(const char *socket, struct cli_look *out, struct error *err)
{
    struct cli_peer *peer = NULL;
    *out = (struct cli_look){.before = NULL};
    int rc = cli_connect(socket, &peer, err);
    if (rc == 0)
        rc = cli_ask_look(peer, out, err);
    cli_disconnect(peer);
    return rc;
}

void cli_look_clear(struct cli_look *look)
{
    json_decref(look->before);
    json_decref(look->now);
    *look = (struct cli_look){.before = NULL};
}
