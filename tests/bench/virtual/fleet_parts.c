/* fleet_parts.c: a node's anchors and guests: what they ask for, and what comes of it. */
#include "common/check.h"
#include "tests/bench/virtual/fleet_priv.h"

/* ── anchors ── */

/* begin_message makes a message to a peer of the job's node. */
static struct fleet_message *begin_message(struct fleet *fleet, const struct fleet_job *job, uint32_t peer,
                                           enum fleet_kind kind)
{
    struct fleet_node *node = &fleet->nodes[job->node];
    return fleet_message(node, fleet_node(node->peers.all[peer].id), kind);
}

static void send_attach(struct fleet *fleet, struct fleet_job *job, struct anchor_action *action)
{
    struct fleet_node *node = &fleet->nodes[job->node];
    struct fleet_message *message = begin_message(fleet, job, action->peer, FLEET_ATTACH);
    struct guests_event *ask = &message->ask;
    ask->type = GUESTS_ATTACH;
    ask->attach.term = action->term;
    ask->attach.again = action->attach.again;
    ask->attach.predecessor = action->attach.predecessor;
    ask->attach.key = (struct guests_key){.boot = node->boot, .job = (uint32_t)job->serial};
    fleet_id(node->no, ask->attach.key.anchor);
    message->ids = action->attach.ids;
    message->together = job->multiset && multiset_is_together(job->multiset);
    message->pipeline = job->pipeline;
    message->family = job->family;
    struct fleet_sent *sent = fleet_request(node, message, MERGE_ANSWER_MS);
    sent->request = action->request;
    sent->job = (uint32_t)(job - fleet->jobs);
    sent->job_serial = job->serial;
    fleet->counts.attaches++;
    fleet_send(fleet, message);
}

static void send_next(struct fleet *fleet, struct fleet_job *job, const struct anchor_action *action)
{
    struct fleet_node *node = &fleet->nodes[job->node];
    struct fleet_message *message = begin_message(fleet, job, action->peer, FLEET_NEXT);
    message->ask = (struct guests_event){.type = GUESTS_NEXT, .guest = action->guest};
    message->ask.next.term = action->term;
    message->ask.next.seq = action->next.seq;
    message->ask.next.acked = action->next.acked;
    message->ask.next.more = action->next.more;
    message->ask.next.n = action->next.n;
    message->ask.next.wait_ms = action->next.wait_ms;
    struct fleet_sent *sent = fleet_request(node, message, action->next.wait_ms + MERGE_ANSWER_MS);
    sent->request = action->request;
    sent->job = (uint32_t)(job - fleet->jobs);
    sent->job_serial = job->serial;
    sent->n = action->next.n;
    for (uint32_t i = 0; i < sent->n; i++)
        sent->tasks[i] = action->next.tasks[i];
    fleet->counts.nexts++;
    fleet_send(fleet, message);
}

static void send_detach(struct fleet *fleet, const struct fleet_job *job, const struct anchor_action *action)
{
    struct fleet_message *message = begin_message(fleet, job, action->peer, FLEET_DETACH);
    message->ask = (struct guests_event){.type = GUESTS_DETACH, .guest = action->guest};
    message->ask.detach.term = action->term;
    fleet_send(fleet, message);
}

static void cancel(struct fleet *fleet, const struct fleet_job *job, uint64_t request)
{
    struct fleet_node *node = &fleet->nodes[job->node];
    for (uint32_t i = 0; i < FLEET_SENT_MAX; i++) {
        struct fleet_sent *sent = &node->sent[i];
        if (sent->serial && sent->kind != FLEET_PROBE && sent->job_serial == job->serial && sent->request == request)
            *sent = (struct fleet_sent){0};
    }
}

static bool spoils(const struct fleet *fleet, enum fleet_spoil what, void *thing)
{
    return fleet->config.hooks.spoils && fleet->config.hooks.spoils(fleet->config.hooks.ctx, what, thing);
}

/* tell_expects tells anchors what their engine expects. It comes before anything arrives at that engine, because an
 * arrival changes what entries expect. */
static bool tell_expects(struct fleet_node *node)
{
    struct fleet *fleet = node->fleet;
    bool any = node->n_expects > 0;
    for (size_t i = 0; i < node->n_expects; i++) {
        const struct fleet_expect *expect = &node->expects[i];
        struct fleet_job *job = &fleet->jobs[expect->job];
        if (job->there)
            anchor_expect(job->anchor, fleet->now_ns, expect->task, expect->id, expect->ahead);
    }
    node->n_expects = 0;
    return any;
}

static void arrive(struct fleet *fleet, struct fleet_job *job, const struct anchor_action *action)
{
    bool set[2] = {false, false};
    tell_expects(&fleet->nodes[job->node]);
    play_event(&fleet->nodes[job->node].play, (struct engine_event){.type = ENGINE_ARRIVED,
                                                                    .arrived = {.task = action->arrive.task,
                                                                                .id = action->arrive.sample.id,
                                                                                .reason = action->arrive.sample.reason,
                                                                                .bytes = action->arrive.sample.bytes,
                                                                                .taken = &set[0],
                                                                                .over = &set[1]}});
    fleet->counts.received += set[0];
    fleet->counts.refused += !set[0] && action->arrive.sample.id != SAMPLE_NONE;
    spoils(fleet, FLEET_SPOIL_TAKEN, set);
    anchor_arrived(job->anchor, fleet->now_ns, action, set[0], set[1]);
}

static void back(struct fleet *fleet, const struct fleet_job *job, const struct anchor_action *action)
{
    play_event(&fleet->nodes[job->node].play,
               (struct engine_event){.type = ENGINE_BACK, .back = {job->job, action->epoch, action->back}});
    idset_destroy(action->back);
}

void fleet_spread(struct fleet *fleet, uint32_t number)
{
    struct fleet_job *job = &fleet->jobs[number];
    struct play *play = &fleet->nodes[job->node].play;
    struct idset *homes = NULL;
    struct bag *moved = NULL;
    CHECK(job->there);
    anchor_set_lone(job->anchor, false);
    if (!anchor_is_lone(job->anchor))
        return;
    CHECK(anchor_homes(job->anchor, &homes) == 0);
    play_event(play, (struct engine_event){.type = ENGINE_AWAY,
                                           .away = {job->job, anchor_epoch(job->anchor), homes, &moved}});
    idset_destroy(homes);
    if (moved && spoils(fleet, FLEET_SPOIL_AWAY, moved)) {
        CHECK(bag_ids(moved, &homes) == 0);
        play_event(play,
                   (struct engine_event){.type = ENGINE_BACK, .back = {job->job, anchor_epoch(job->anchor), homes}});
        idset_destroy(homes);
    }
    if (moved)
        anchor_away(job->anchor, fleet->now_ns, moved);
    fleet_settle(fleet);
}

void fleet_set_lone(struct fleet *fleet, uint32_t number, bool lone)
{
    CHECK(fleet->jobs[number].there);
    anchor_set_lone(fleet->jobs[number].anchor, lone);
}

static void leave_out(const struct anchor_action *action)
{
    if (action->type == ANCHOR_ATTACH)
        bag_destroy(action->attach.ids);
    else if (action->type == ANCHOR_BACK)
        idset_destroy(action->back);
}

void fleet_carry_out(struct fleet *fleet, struct fleet_job *job)
{
    uint32_t rounds = 0;
    for (struct anchor_action action; job->there && !fleet->stuck && anchor_take(job->anchor, &action);) {
        fleet->stuck = ++rounds == FLEET_ROUNDS_MAX;
        if (spoils(fleet, FLEET_SPOIL_ACTION, &action)) {
            leave_out(&action);
            continue;
        }
        switch (action.type) {
        case ANCHOR_ATTACH: send_attach(fleet, job, &action); break;
        case ANCHOR_NEXT: send_next(fleet, job, &action); break;
        case ANCHOR_CANCEL: cancel(fleet, job, action.request); break;
        case ANCHOR_DETACH: send_detach(fleet, job, &action); break;
        case ANCHOR_LEFT: break;
        case ANCHOR_ARRIVE: arrive(fleet, job, &action); break;
        case ANCHOR_BACK: back(fleet, job, &action); break;
        }
    }
}

void fleet_tell_anchor(struct fleet *fleet, struct fleet_job *job, struct merge_event event)
{
    event.now_ns = fleet->now_ns;
    anchor_step(job->anchor, &event);
    fleet_carry_out(fleet, job);
}

/* ── guests ── */

static void put_samples(struct fleet_node *node, const struct guests_action *action, struct fleet_message *answer)
{
    answer->last = action->answer.last;
    answer->n_samples = action->answer.n_samples;
    for (uint32_t i = 0; i < action->answer.n_samples; i++) {
        const struct guests_sample *sample = &action->answer.samples[i];
        answer->samples[i] = (struct merge_sample){sample->id, sample->reason, (uint32_t)sample->bytes};
        answer->instances[i] = sample->reason ? FLEET_NO_INSTANCE : node->slots[sample->offset / FLEET_SLOT_BYTES];
    }
    node->given += action->answer.n_samples;
}

static void show_given(struct fleet_node *node, struct fleet_message *answer, uint64_t guest, uint64_t seq)
{
    const struct fleet_hooks *hooks = &node->fleet->config.hooks;
    struct fleet_given given = {.home = node->no,
                                .boot = node->boot,
                                .guest = guest,
                                .seq = seq,
                                .last = answer->last,
                                .n_samples = answer->n_samples,
                                .samples = answer->samples,
                                .instances = answer->instances};
    spoils(node->fleet, FLEET_SPOIL_GIVEN, &given);
    answer->last = given.last;
    if (hooks->gives)
        hooks->gives(hooks->ctx, &given);
}

/* Requests are numbered by their sender and its serial. */
static void send_answer(void *ctx, const struct guests_action *action)
{
    struct fleet_node *node = ctx;
    uint32_t to = (uint32_t)(action->request >> 48);
    uint64_t serial = action->request & ((UINT64_C(1) << 48) - 1);
    if (serial == 0)
        return; /* a DETACH */
    struct fleet_message *answer = fleet_message(node, to, FLEET_NEXT);
    answer->is_answer = true;
    answer->serial = serial;
    answer->answer = action->answer.kind;
    answer->guest = action->guest;
    answer->seq = action->answer.seq;
    if (action->answer.kind == GUESTS_BATCH_IS)
        put_samples(node, action, answer);
    if (action->answer.kind == GUESTS_BATCH_IS)
        show_given(node, answer, action->guest, answer->seq);
    fleet_send(node->fleet, answer);
}

static uint64_t now_ns(void *ctx)
{
    const struct fleet_node *node = ctx;
    return node->fleet->now_ns;
}

static void add_guest(void *ctx, const struct guests_action *action)
{
    fleet_add_guest(ctx, action);
}

static bool is_guests(void *ctx, uint32_t job)
{
    const struct fleet_node *node = ctx;
    return node->guest_at[job];
}

static void tell_engine(void *ctx, const struct guests_action *action)
{
    struct fleet_node *node = ctx;
    if (action->type == GUESTS_ASK)
        play_next(&node->play, action->job, 0, 0, action->credits);
    else if (action->type == GUESTS_RELEASE)
        play_release(&node->play, action->job, 0, action->batch);
    else
        play_gone(&node->play, action->job, 0);
}

static struct home_means means_of(struct fleet_node *node)
{
    return (struct home_means){node, now_ns, send_answer, add_guest, is_guests, tell_engine};
}

void fleet_leave(struct fleet *fleet, uint32_t no)
{
    struct fleet_node *node = &fleet->nodes[no];
    const struct home_means means = means_of(node);
    CHECK(node->lives && !node->stands);
    home_tell(&node->home, &means, (struct guests_event){.type = GUESTS_LEAVE});
}

/* ── messages ── */

void fleet_asked(struct fleet_node *node, struct fleet_message *message)
{
    if (message->kind == FLEET_PROBE) {
        struct fleet_message *alive = fleet_message(node, message->from, FLEET_PROBE);
        alive->is_answer = true;
        alive->serial = message->serial;
        fleet_send(node->fleet, alive);
        return;
    }
    struct guests_event event = message->ask;
    event.request = message->serial ? message->serial | (uint64_t)message->from << 48 : 0;
    if (event.type == GUESTS_ATTACH) {
        event.attach.count = bag_count(message->ids);
        spoils(node->fleet, FLEET_SPOIL_FAMILY, &message->family);
        node->attaching = message;
    }
    const struct fleet_hooks *hooks = &node->fleet->config.hooks;
    spoils(node->fleet, FLEET_SPOIL_ASKED, &event);
    if (hooks->asked)
        hooks->asked(hooks->ctx, node->no, node->boot, &event);
    const struct home_means means = means_of(node);
    home_tell(&node->home, &means, event);
    node->attaching = NULL;
}

/* take_samples puts what came into the slots that the request had. */
static void take_samples(struct fleet_node *node, const struct fleet_sent *sent, const struct fleet_message *message)
{
    uint32_t count = message->n_samples < sent->n ? message->n_samples : sent->n;
    for (uint32_t i = 0; i < count; i++)
        node->slots[node->offset_of[sent->tasks[i]] / FLEET_SLOT_BYTES] = message->instances[i];
    node->fleet->counts.carried += message->n_samples;
}

static struct fleet_job *job_of(struct fleet *fleet, const struct fleet_sent *sent)
{
    struct fleet_job *job = &fleet->jobs[sent->job];
    return job->there && job->serial == sent->job_serial ? job : NULL;
}

static void heard(struct fleet_node *node, const struct fleet_sent *sent, bool answered, bool refused)
{
    struct fleet *fleet = node->fleet;
    const struct fleet_hooks *hooks = &fleet->config.hooks;
    uint8_t id[MAP_NODE_ID_BYTES];
    fleet_id(sent->to, id);
    uint32_t number = peers_number(&node->peers, id);
    if (sent->kind == FLEET_PROBE)
        peers_probed(&node->peers, number, fleet->now_ns, answered);
    else if (answered)
        peers_answered(&node->peers, number);
    else
        peers_failed(&node->peers, number, fleet->now_ns, refused);
    if (hooks->heard)
        hooks->heard(hooks->ctx, node->no, sent->to, sent->kind == FLEET_PROBE, answered);
}

static void show_taken(struct fleet *fleet, const struct fleet_message *message)
{
    const struct fleet_hooks *hooks = &fleet->config.hooks;
    if (hooks->takes_batch)
        hooks->takes_batch(hooks->ctx, message->from, message->from_boot, message->guest, message->seq);
}

void fleet_answered(struct fleet_node *node, const struct fleet_message *message)
{
    static const enum merge_event_type types[] = {
        [GUESTS_ATTACHED] = MERGE_ATTACHED, [GUESTS_IS_REFUSED] = MERGE_REFUSED, [GUESTS_STALE] = MERGE_STALE,
        [GUESTS_BATCH_IS] = MERGE_BATCH,    [GUESTS_EMPTY] = MERGE_EMPTY,        [GUESTS_IS_GONE] = MERGE_GONE,
        [GUESTS_DONE] = MERGE_GONE};
    struct fleet_sent *found = fleet_sent_at(node, message->serial);
    if (!found)
        return;
    struct fleet_sent sent = *found;
    *found = (struct fleet_sent){0};
    heard(node, &sent, true, false);
    struct fleet_job *job = sent.kind == FLEET_PROBE ? NULL : job_of(node->fleet, &sent);
    if (!job)
        return;
    struct merge_event event = {.type = types[message->answer], .request = sent.request};
    if (event.type == MERGE_BATCH) {
        take_samples(node, &sent, message);
        event.batch.last = message->last;
        event.batch.count = message->n_samples;
        event.batch.samples = message->samples;
        show_taken(node->fleet, message);
    } else if (event.type == MERGE_ATTACHED) {
        event.guest = message->guest;
    }
    spoils(node->fleet, FLEET_SPOIL_ANSWER, &event);
    fleet_tell_anchor(node->fleet, job, event);
}

void fleet_failed(struct fleet_node *node, uint64_t serial, bool refused)
{
    struct fleet_sent *found = fleet_sent_at(node, serial);
    if (!found)
        return;
    struct fleet_sent sent = *found;
    *found = (struct fleet_sent){0};
    heard(node, &sent, false, refused);
    struct fleet_job *job = sent.kind == FLEET_PROBE ? NULL : job_of(node->fleet, &sent);
    if (job)
        fleet_tell_anchor(node->fleet, job,
                          (struct merge_event){.type = MERGE_FAILED, .request = sent.request, .refused = refused});
}

/* ── at one moment ── */

static bool settle_node(struct fleet_node *node)
{
    bool any = tell_expects(node);
    const struct home_means means = means_of(node);
    any = home_go_on(&node->home, &means) || any;
    for (uint32_t peer; (peer = peers_probe(&node->peers, node->fleet->now_ns)) != PEER_UNKNOWN;)
        fleet_probe(node->fleet, node->no, fleet_node(node->peers.all[peer].id));
    return any;
}

static void tell_lack(struct fleet *fleet, struct fleet_job *job)
{
    const struct engine *engine = fleet->nodes[job->node].play.engine;
    anchor_lacks(job->anchor, fleet->now_ns, engine_lacks(engine, job->job), engine_prepare_s(engine, job->job));
    fleet_carry_out(fleet, job);
}

void fleet_settle(struct fleet *fleet)
{
    uint32_t rounds = 0;
    for (bool more = true; more && !fleet->stuck;) {
        more = false;
        fleet->stuck = ++rounds == FLEET_ROUNDS_MAX;
        for (uint32_t i = 0; i < fleet->config.n_nodes; i++) {
            if (fleet->nodes[i].lives && !fleet->nodes[i].stands)
                more = settle_node(&fleet->nodes[i]) || more;
        }
        for (uint32_t i = 0; i < fleet->jobs_end; i++) {
            struct fleet_job *job = &fleet->jobs[i];
            if (!job->there || fleet->nodes[job->node].stands)
                continue;
            fleet_carry_out(fleet, job); /* what an epoch's begin asked for */
            if (anchor_alarm(job->anchor) <= fleet->now_ns)
                fleet_tell_anchor(fleet, job, (struct merge_event){.type = MERGE_TICK});
            tell_lack(fleet, job);
        }
        for (uint32_t i = 0; i < fleet->config.n_nodes; i++) { /* an anchor's action may have its engine expect more */
            const struct fleet_node *node = &fleet->nodes[i];
            more = more || (node->lives && !node->stands && (node->n_expects || node->home.n_notes));
        }
    }
}
