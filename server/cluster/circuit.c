/* circuit.c: the circuit of a pair of nodes. */
#include "server/cluster/circuit.h"

void circuit_answered(struct circuit *circuit)
{
    if (circuit->state == CIRCUIT_CLOSED)
        circuit->failures = 0;
}

static void open_for(struct circuit *circuit, uint64_t now_ns, uint64_t wait_ns)
{
    *circuit = (struct circuit){.state = CIRCUIT_OPEN, .wait_ns = wait_ns, .probe_at = now_ns + wait_ns};
}

void circuit_failed(struct circuit *circuit, uint64_t now_ns, bool refused)
{
    if (circuit->state == CIRCUIT_CLOSED && (refused || ++circuit->failures >= CIRCUIT_FAILURES))
        open_for(circuit, now_ns, CIRCUIT_WAIT_MIN_NS);
}

bool circuit_probe(struct circuit *circuit, uint64_t now_ns)
{
    if (circuit->state != CIRCUIT_OPEN || now_ns < circuit->probe_at)
        return false;
    circuit->state = CIRCUIT_HALF;
    return true;
}

void circuit_probed(struct circuit *circuit, uint64_t now_ns, bool answered)
{
    if (circuit->state != CIRCUIT_HALF)
        return;
    uint64_t wait_ns = 2 * circuit->wait_ns;
    if (answered)
        *circuit = (struct circuit){.state = CIRCUIT_CLOSED};
    else
        open_for(circuit, now_ns, wait_ns < CIRCUIT_WAIT_MAX_NS ? wait_ns : CIRCUIT_WAIT_MAX_NS);
}
