/* circuit.h: whether a node asks a certain other one. A node has a circuit for each peer. One that opens says nothing
 * about the peer to anybody else. Pure; the time comes in.
 *
 *   CLOSED ── a refused connection, or CIRCUIT_FAILURES failures in a row ──▶ OPEN
 *   OPEN ── after 1, 2, 4 … 30 seconds: one probe ──▶ HALF
 *   HALF ── the probe is answered ──▶ CLOSED; it is not ──▶ OPEN */
#ifndef LARDER_SERVER_CLUSTER_CIRCUIT_H
#define LARDER_SERVER_CLUSTER_CIRCUIT_H

#include <stdbool.h>
#include <stdint.h>

#define CIRCUIT_FAILURES 3
#define CIRCUIT_WAIT_MIN_NS UINT64_C(1000000000)
#define CIRCUIT_WAIT_MAX_NS UINT64_C(30000000000)

enum circuit_state { CIRCUIT_CLOSED, CIRCUIT_OPEN, CIRCUIT_HALF };

/* A zeroed circuit is closed. */
struct circuit {
    enum circuit_state state;
    uint32_t failures;          /* failures in a row; CLOSED only */
    uint64_t wait_ns, probe_at; /* OPEN: how long it waits, and until when */
};

/* circuit_answered tells of a right answer to anything but the circuit's probe, and circuit_failed of one that did not
 * come in time, or was wrong. refused: there was no connection. Both count in CLOSED alone: later they are about what
 * was asked before the circuit opened. */
void circuit_answered(struct circuit *circuit);
void circuit_failed(struct circuit *circuit, uint64_t now_ns, bool refused);
/* circuit_probe says whether a probe is to be sent now. If so the circuit is HALF until its result is told. */
bool circuit_probe(struct circuit *circuit, uint64_t now_ns);
/* circuit_probed tells of the result of this probe. It alone closes the circuit, or has it wait twice as long. */
void circuit_probed(struct circuit *circuit, uint64_t now_ns, bool answered);

#endif
