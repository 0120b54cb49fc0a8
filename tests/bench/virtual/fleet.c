#include "tests/bench/virtual/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/bench/virtual/fleet_priv.h"

int fleet_create(const struct fleet_config *config, struct fleet **out, struct error *err)
{
    CHECK(config->n_nodes >= 1 && config->n_nodes <= FLEET_NODES_MAX);
    struct play probe;
    int code = play_create(config->engine, &probe, err); /* all nodes' are alike */
    if (code)
        return code;
    play_end(&probe);
    struct fleet *fleet = xcalloc(1, sizeof *fleet);
    fleet->config = *config;
    fleet->config.engine.home = true;
    fleet->now_ns = 1;
    fleet->agenda.row_bytes = sizeof(struct fleet_due);
    fleet->nodes = xcalloc(config->n_nodes, sizeof *fleet->nodes);
    for (uint32_t i = 0; i < config->n_nodes; i++)
        fleet_begin_node(fleet, i);
    *out = fleet;
    return 0;
}

void fleet_destroy(struct fleet *fleet)
{
    if (!fleet)
        return;
    for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
        struct fleet_node *node = &fleet->nodes[i];
        fleet_end_node(node);
        free(node->offset_of);
        free(node->expects);
        free(node->waiting);
    }
    while (fleet->agenda.length) {
        struct fleet_due due;
        agenda_take(&fleet->agenda, &due);
        if (due.message)
            fleet_free(due.message);
    }
    agenda_free(&fleet->agenda);
    free(fleet->instances);
    free(fleet->nodes);
    free(fleet);
}

/* ── jobs ── */

uint32_t fleet_add(struct fleet *fleet, const struct fleet_job_desc *desc)
{
    uint32_t number = 0;
    while (number < FLEET_JOBS_MAX && fleet->jobs[number].there)
        number++;
    CHECK(number < FLEET_JOBS_MAX && fleet->nodes[desc->node].lives);
    fleet->jobs_end = number < fleet->jobs_end ? fleet->jobs_end : number + 1;
    fleet->nodes[desc->node].play.now_ns = fleet->now_ns;
    return fleet_add_job(&fleet->nodes[desc->node], number, desc) ? UINT32_MAX : number;
}

void fleet_gone(struct fleet *fleet, uint32_t number)
{
    struct fleet_job *job = &fleet->jobs[number];
    CHECK(job->there);
    play_gone(&fleet->nodes[job->node].play, job->job, 0);
    anchor_end(job->anchor);
    fleet_carry_out(fleet, job);
    fleet_end_job(fleet, job);
    fleet_settle(fleet);
}

void fleet_next(struct fleet *fleet, uint32_t number, uint32_t epoch, uint32_t credits)
{
    struct fleet_job *job = &fleet->jobs[number];
    CHECK(job->there);
    play_next(&fleet->nodes[job->node].play, job->job, 0, epoch, credits);
    fleet_settle(fleet);
}

/* ── what arrives ── */

/* refuse answers a request to a daemon that is not there. */
static void refuse(struct fleet *fleet, const struct fleet_message *request)
{
    if (!request->serial)
        return;
    struct fleet_message *answer = fleet_message(&fleet->nodes[request->to], request->from, request->kind);
    answer->to_boot = request->from_boot;
    answer->serial = request->serial;
    answer->is_answer = answer->refused = true;
    fleet_send(fleet, answer);
}

static void arrives(struct fleet *fleet, struct fleet_message *message)
{
    struct fleet_node *to = &fleet->nodes[message->to];
    if (to->lives && to->stands) {
        to->waiting = xgrow(to->waiting, sizeof *to->waiting, &to->waiting_cap, to->n_waiting + 1);
        to->waiting[to->n_waiting++] = message;
        return;
    }
    bool lives = to->lives && (!message->is_answer || message->to_boot == to->boot);
    if (!lives && !message->is_answer)
        refuse(fleet, message);
    else if (lives && message->is_answer && message->refused)
        fleet_failed(to, message->serial, true);
    else if (lives && message->is_answer)
        fleet_answered(to, message);
    else if (lives)
        fleet_asked(to, message);
    fleet_free(message);
}

static void due_now(struct fleet *fleet)
{
    struct fleet_due due;
    agenda_take(&fleet->agenda, &due);
    struct fleet_node *node = &fleet->nodes[due.node];
    if (due.message) {
        arrives(fleet, due.message);
    } else if (node->lives && node->stands) { /* it finds out when it goes on */
        due.due.at_ns = fleet->now_ns + FLEET_STANDS_MS * FLEET_MS;
        agenda_put(&fleet->agenda, &due);
    } else if (node->lives) {
        fleet_failed(node, due.serial, false);
    }
}

/* ── time ── */

uint64_t fleet_now(const struct fleet *fleet)
{
    return fleet->now_ns;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* node_alarm returns when something is next to happen in the node by itself. */
static uint64_t node_alarm(const struct fleet_node *node)
{
    uint64_t alarm = least(agenda_next_ns(&node->play.later), guests_alarm(node->home.guests));
    return least(alarm, peers_alarm(&node->peers));
}

uint64_t fleet_alarm(const struct fleet *fleet)
{
    uint64_t alarm = agenda_next_ns(&fleet->agenda);
    for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
        const struct fleet_node *node = &fleet->nodes[i];
        if (node->lives && !node->stands)
            alarm = least(alarm, node_alarm(node));
    }
    for (uint32_t i = 0; i < fleet->jobs_end; i++) {
        const struct fleet_job *job = &fleet->jobs[i];
        if (job->there && !fleet->nodes[job->node].stands)
            alarm = least(alarm, anchor_alarm(job->anchor));
    }
    return alarm;
}

static void set_time(struct fleet *fleet, uint64_t now_ns)
{
    fleet->now_ns = now_ns > fleet->now_ns ? now_ns : fleet->now_ns;
    for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
        struct fleet_node *node = &fleet->nodes[i];
        if (node->lives && !node->stands)
            play_until(&node->play, fleet->now_ns);
    }
}

void fleet_until(struct fleet *fleet, uint64_t until_ns)
{
    uint32_t rounds = 0;
    fleet_settle(fleet);
    for (uint64_t alarm; !fleet->stuck && (alarm = fleet_alarm(fleet)) <= until_ns;) {
        rounds = alarm > fleet->now_ns ? 0 : rounds + 1;
        fleet->stuck = fleet->stuck || rounds == FLEET_ROUNDS_MAX;
        set_time(fleet, alarm);
        if (agenda_next_ns(&fleet->agenda) <= fleet->now_ns)
            due_now(fleet);
        fleet_settle(fleet);
    }
    set_time(fleet, until_ns);
    fleet_settle(fleet);
}

/* ── nodes ── */

void fleet_see(struct fleet *fleet, uint32_t node, const struct members_view *view)
{
    peers_see(&fleet->nodes[node].peers, view);
}

void fleet_forget(struct fleet *fleet, uint32_t node, const uint8_t id[MAP_NODE_ID_BYTES])
{
    peers_forget(&fleet->nodes[node].peers, id);
}

void fleet_kill(struct fleet *fleet, uint32_t node)
{
    fleet_end_node(&fleet->nodes[node]);
}

void fleet_start(struct fleet *fleet, uint32_t node)
{
    CHECK(!fleet->nodes[node].lives);
    fleet_begin_node(fleet, node);
}

void fleet_stop(struct fleet *fleet, uint32_t node)
{
    fleet->nodes[node].stands = true;
}

void fleet_go(struct fleet *fleet, uint32_t no)
{
    struct fleet_node *node = &fleet->nodes[no];
    struct fleet_message **waiting = node->waiting;
    size_t count = node->n_waiting;
    node->waiting = NULL;
    node->n_waiting = node->waiting_cap = 0;
    node->stands = false;
    if (node->lives)
        play_until(&node->play, fleet->now_ns);
    for (size_t i = 0; i < count; i++)
        arrives(fleet, waiting[i]);
    free(waiting);
    fleet_settle(fleet);
}

bool fleet_stuck(const struct fleet *fleet)
{
    return fleet->stuck;
}

bool fleet_lives(const struct fleet *fleet, uint32_t node)
{
    return fleet->nodes[node].lives;
}

uint64_t fleet_boot(const struct fleet *fleet, uint32_t node)
{
    return fleet->nodes[node].boot;
}

/* ── what has come of it ── */

void fleet_check(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
        if (fleet->nodes[i].lives)
            engine_check(fleet->nodes[i].play.engine);
    }
}

sample_id fleet_instance_sample(const struct fleet *fleet, uint64_t instance)
{
    CHECK(instance < fleet->n_instances);
    return fleet->instances[instance];
}

struct fleet_counts fleet_counts(const struct fleet *fleet)
{
    struct fleet_counts counts = fleet->counts;
    for (uint32_t i = 0; i < fleet->jobs_end; i++) {
        if (!fleet->jobs[i].there)
            continue;
        counts.moved += anchor_counts(fleet->jobs[i].anchor).moved;
        counts.back += anchor_counts(fleet->jobs[i].anchor).back;
    }
    for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
        uint64_t given = fleet->nodes[i].given;
        counts.most_of_a_node = given > counts.most_of_a_node ? given : counts.most_of_a_node;
    }
    return counts;
}

uint32_t fleet_guests(const struct fleet *fleet, uint32_t node)
{
    return fleet->nodes[node].lives ? guests_count(fleet->nodes[node].home.guests) : 0;
}

const struct peers *fleet_peers(const struct fleet *fleet, uint32_t node)
{
    return &fleet->nodes[node].peers;
}

const struct engine *fleet_engine(const struct fleet *fleet, uint32_t node)
{
    return fleet->nodes[node].play.engine;
}

void fleet_share(const struct fleet *fleet, uint32_t number, struct inside_share *out)
{
    const struct fleet_job *job = &fleet->jobs[number];
    CHECK(job->there);
    inside_share(fleet->nodes[job->node].play.engine, job->job, out);
}

size_t fleet_parts(const struct fleet *fleet, uint32_t number, struct merge_status *out, size_t max)
{
    const struct fleet_job *job = &fleet->jobs[number];
    CHECK(job->there);
    size_t count = anchor_statuses(job->anchor, out, max);
    for (size_t i = 0; i < count && i < max; i++)
        out[i].node = fleet_node(fleet->nodes[job->node].peers.all[out[i].node].id);
    return count;
}

struct anchor_counts fleet_received(const struct fleet *fleet, uint32_t number)
{
    CHECK(fleet->jobs[number].there);
    return anchor_counts(fleet->jobs[number].anchor);
}
