/* probe.c: `larder cluster probe`. It asks as a node of the cluster would, and needs no daemon of its own. */
#include "server/commands/probe.h"

#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/larder_err.h"
#include "common/net/client.h"
#include "common/net/identity.h"
#include "common/option.h"
#include "server/cluster/peer_wire.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { PROBE_MS = 5000, PROBE_BYTES_MAX = 1024, ANSWER_BYTES_MAX = 4096 };

struct probe_arguments {
    const char *cluster, *bundle, *address;
};

struct probe_answer {
    sem_t came;
    int code, status;
    char text[512]; /* text of the failure */
    size_t len_bytes;
    uint8_t bytes[ANSWER_BYTES_MAX];
};

static const char probe_usage[] =
    "usage: larder cluster probe --cluster NAME [--bundle FILE] HOST:PORT\n"
    "\n"
    "Asks the daemon that listens at HOST:PORT for other nodes, as one of them would.\n"
    "\n"
    "  --cluster NAME  the cluster's name, as in cluster.name of the configuration\n"
    "  --bundle FILE   this node's certificates and key, where the cluster has security: bundle\n"
    "exit status: 0 a node of the cluster answers, 1 none does, 2 wrong usage\n";

static int wrong_usage(const char *text)
{
    fprintf(stderr, "larder cluster probe: %s: see larder cluster probe --help\n", text);
    return EXIT_USAGE;
}

static int failed(const char *address, const char *text)
{
    fprintf(stderr, "larder cluster probe: %s: %s\n", address, text);
    return EXIT_FAILED;
}

static void done(void *arg, const struct net_result *result)
{
    struct probe_answer *answer = arg;
    answer->code = result->code;
    answer->status = result->status;
    answer->len_bytes = result->len_bytes;
    snprintf(answer->text, sizeof answer->text, "%s", result->code ? result->text : "");
    sem_post(&answer->came);
}

/* ask waits for the answer, or for what became of the request. */
static int ask(const struct net_request *request, struct probe_answer *answer, struct error *err)
{
    struct net_client *client = NULL;
    int rc = net_client_start(1, &client, err);
    if (rc == 0)
        rc = net_submit(client, request, NULL, err);
    while (rc == 0 && sem_wait(&answer->came) != 0)
        CHECK(errno == EINTR);
    net_client_stop(client);
    return rc;
}

static int tell(const struct probe_arguments *arguments, const struct probe_answer *answer, double ms)
{
    struct peer_message message;
    struct error err;
    if (answer->code)
        return failed(arguments->address, answer->text);
    if (answer->status == 400)
        return failed(arguments->address, "who answers there is of another cluster, or of another version of larder; "
                                          "its log says more");
    if (answer->status != 200 || peer_decode(answer->bytes, answer->len_bytes, &message, &err) ||
        message.type != PEER_ALIVE)
        return failed(arguments->address, "who answers there is no node of a cluster");
    printf("%s: a node of %s, larderd %.*s, %s, id ", arguments->address, arguments->cluster,
           (int)message.alive.version.len_bytes, (const char *)message.alive.version.data,
           message.alive.leaving ? "leaving" : "running");
    for (size_t i = 0; i < sizeof message.alive.node; i++)
        printf("%02x", message.alive.node[i]);
    printf(", guests %u, answered within %.1f ms\n", message.alive.guests, ms);
    return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
}

static int probe(const struct probe_arguments *arguments)
{
    struct peer_message message = {.type = PEER_PROBE,
                                   .cluster = XXH3_64bits(arguments->cluster, strlen(arguments->cluster))};
    struct probe_answer answer = {.code = 0};
    struct error err;
    char url[NET_URL_MAX];
    uint8_t body[PROBE_BYTES_MAX];
    size_t body_bytes = 0;
    const char *bundle = arguments->bundle;
    struct net_tls tls = {bundle, bundle, bundle, false};
    int len = snprintf(url, sizeof url, "%s://%s/1/probe", bundle ? "https" : "http", arguments->address);
    if ((size_t)len >= sizeof url)
        return wrong_usage("the address is too long");
    CHECK(peer_encode(&message, body, sizeof body, &body_bytes) == 0);
    CHECK(sem_init(&answer.came, 0, 0) == 0);
    struct net_request request = {.url = url,
                                  .tls = bundle ? &tls : NULL,
                                  .headers = {"Content-Type: application/x-larder"},
                                  .body = body,
                                  .body_bytes = body_bytes,
                                  .connect_ms = PROBE_MS,
                                  .whole_ms = PROBE_MS,
                                  .answer = answer.bytes,
                                  .answer_max = sizeof answer.bytes,
                                  .done = done,
                                  .arg = &answer};
    uint64_t began_ns = clock_now_ns();
    int rc = ask(&request, &answer, &err);
    sem_destroy(&answer.came);
    return rc ? failed(arguments->address, err.text)
              : tell(arguments, &answer, (double)(clock_now_ns() - began_ns) / (double)CLOCK_NS_PER_MS);
}

/* check_bundle says what is wrong with the bundle. */
static int check_bundle(const struct probe_arguments *arguments)
{
    struct net_identity identity = {.text = NULL};
    struct error err;
    int status = EXIT_DONE;
    if (!arguments->bundle)
        return EXIT_DONE;
    if (net_identity_load(arguments->bundle, &identity, &err)) {
        fprintf(stderr, "larder cluster probe: %s\n", err.text);
        status = EXIT_FAILED;
    } else if (identity.cluster[0] && strcmp(identity.cluster, arguments->cluster) != 0) {
        fprintf(stderr, "larder cluster probe: %s: it is of the cluster %s, not of %s\n", arguments->bundle,
                identity.cluster, arguments->cluster);
        status = EXIT_FAILED;
    }
    net_identity_clear(&identity);
    return status;
}

int probe_main(int argc, char **argv)
{
    struct probe_arguments arguments = {NULL, NULL, NULL};
    static const struct option known[] = {{"cluster", required_argument, NULL, 'c'},
                                          {"bundle", required_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    option_begin(argv, "larder cluster probe");
    for (int option; (option = option_next(argc, argv, known, NULL)) != -1;) {
        switch (option) {
        case 'c': arguments.cluster = optarg; break;
        case 'b': arguments.bundle = optarg; break;
        case 'h': fputs(probe_usage, stdout); return fflush(stdout) ? EXIT_FAILED : EXIT_DONE;
        default: return EXIT_USAGE;
        }
    }
    if (argc - optind != 1 || !strrchr(argv[optind], ':') || strpbrk(argv[optind], "/@?# "))
        return wrong_usage("one HOST:PORT is needed");
    if (!arguments.cluster || !*arguments.cluster)
        return wrong_usage("--cluster NAME is missing");
    arguments.address = argv[optind];
    int status = check_bundle(&arguments);
    return status ? status : probe(&arguments);
}
