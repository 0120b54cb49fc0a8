/* wants.h: which trainings of the cluster want which preparation of a dataset, as far as this node has heard. Daemons
 * tell each other of their own jobs again and again; what was not told again for WANTS_NS is forgotten. All ranks of a
 * training are one, at whatever nodes they are. Pure; one thread owns it. */
#ifndef LARDER_SERVER_CLUSTER_WANTS_H
#define LARDER_SERVER_CLUSTER_WANTS_H

#include <stdbool.h>
#include <stdint.h>

#define WANTS_MAX 1024 /* of more, those that were told longest ago are forgotten */
#define WANTS_NS UINT64_C(30000000000)
#define WANTS_AGAIN_NS UINT64_C(10000000000) /* time after which a daemon tells again */

struct wants {
    struct wants_row {
        uint64_t training, preparation, told_ns;
        bool used;
    } rows[WANTS_MAX];
};

/* wants_hear notes that the training wants the preparation. True: this is new. Both are hashes. */
bool wants_hear(struct wants *wants, uint64_t training, uint64_t preparation, uint64_t now_ns);
/* wants_end forgets the training. */
void wants_end(struct wants *wants, uint64_t training);
/* wants_count returns how many trainings want the preparation, this one included whether it was told of or not. */
uint32_t wants_count(const struct wants *wants, uint64_t training, uint64_t preparation, uint64_t now_ns);

/* wants_pays tells whether homes should give to a training over several nodes that is one of `trainings` of its
 * preparation. If each node prepares what its own ranks get, that costs prepare_s a sample. At homes each sample is
 * prepared once for all, and sent. Both in seconds of one core, for one sample; prepare_s 0: not known yet. */
bool wants_pays(uint32_t trainings, double prepare_s, double transport_s);

#endif
