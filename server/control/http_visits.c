/* http_visits.c: bounds the connections. There are few places, and anybody on the machine may take them. So each
 * connection has a limited time for its whole request, however it spreads its bytes, and the oldest one that is not
 * done makes room for a newcomer. */
#include <stddef.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "server/control/http_priv.h"

#define VISITS_MAX (HTTP_CONNECTIONS_MAX + HTTP_CONNECTIONS_SPARE)

/* end shuts a connection down. The library then closes it, when it reads or writes and finds it ended. One that waits
 * must be resumed before. */
static void end(struct visit *visit)
{
    visit->ended = true;
    shutdown(visit->fd, SHUT_RDWR);
}

static bool goes_before(const struct visit *visit, const struct visit *other)
{
    if (visit->answered != other->answered)
        return !visit->answered;
    return visit->since_ns < other->since_ns;
}

static void make_room(struct visits *visits, const struct visit *newcomer)
{
    struct visit *first = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &visits->all[i];
        if (!visit->used || visit->ended)
            continue;
        count++;
        if (visit != newcomer && (!first || goes_before(visit, first)))
            first = visit;
    }
    if (first && count > HTTP_CONNECTIONS_MAX)
        end(first);
}

struct visit *visits_begin(struct visits *visits, int fd)
{
    for (uint32_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &visits->all[i];
        if (visit->used)
            continue;
        *visit = (struct visit){.used = true, .fd = fd};
        visit_asks(visit);
        make_room(visits, visit);
        return visit;
    }
    shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void begin_phase(struct visit *visit, bool answered, uint64_t limit_s)
{
    if (!visit)
        return;
    visit->answered = answered;
    visit->waited = false;
    visit->since_ns = clock_now_ns();
    visit->deadline_ns = visit->since_ns + limit_s * CLOCK_NS_PER_S;
}

void visit_asks(struct visit *visit)
{
    begin_phase(visit, false, HTTP_REQUEST_S);
}

void visit_is_answered(struct visit *visit)
{
    begin_phase(visit, true, HTTP_ANSWER_S);
}

void visit_waits(struct visit *visit, struct MHD_Connection *connection)
{
    visit->waits = connection;
    visit->deadline_ns = clock_now_ns() + HTTP_ANSWER_S * CLOCK_NS_PER_S;
}

struct MHD_Connection *visits_next_waiting(struct visits *visits, bool due)
{
    for (uint32_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &visits->all[i];
        struct MHD_Connection *connection = visit->used ? visit->waits : NULL;
        if (!connection || !(due || visit->ended))
            continue;
        visit->waits = NULL;
        visit->waited = true;
        return connection;
    }
    return NULL;
}

bool visits_wait(const struct visits *visits)
{
    bool some = false;
    for (uint32_t i = 0; i < VISITS_MAX; i++)
        some |= visits->all[i].used && visits->all[i].waits && !visits->all[i].ended;
    return some;
}

void visit_is_over(struct visit *visit)
{
    if (visit)
        visit->used = false;
}

void visits_end_late(struct visits *visits, uint64_t now_ns)
{
    for (uint32_t i = 0; i < VISITS_MAX; i++) {
        struct visit *visit = &visits->all[i];
        if (visit->used && !visit->ended && visit->deadline_ns <= now_ns)
            end(visit);
    }
}

uint64_t visits_next_deadline(const struct visits *visits)
{
    uint64_t next = UINT64_MAX;
    for (uint32_t i = 0; i < VISITS_MAX; i++) {
        const struct visit *visit = &visits->all[i];
        if (visit->used && visit->ended && visit->waits)
            return 0;
        if (visit->used && !visit->ended && visit->deadline_ns < next)
            next = visit->deadline_ns;
    }
    return next;
}
