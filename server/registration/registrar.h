/* registrar.h: the registrar resolves a client's request into a job that the engine can take. It opens the dataset
 * (which may mean indexing a million files), parses the pipeline and evaluates the subset.
 *
 * The registrar has a few threads of its own, so that neither the engine nor the session waits, nor one job for another
 * job's indexing. A few further threads serve sources that were opened before, so that these never wait behind new
 * ones, and as many make columns. Each registration comes out by the owner's callback, resolved or refused. One that
 * nobody waits for any more ends soon, however far it is, so that it does not delay others. */
#ifndef LARDER_SERVER_REGISTRATION_REGISTRAR_H
#define LARDER_SERVER_REGISTRATION_REGISTRAR_H

#include "cache/catalog/catalog.h"
#include "server/config/config.h"
#include "server/registration/registration.h"

struct registrar;
struct watch;

#define REGISTRAR_THREADS 12

/* The means of a registrar. All are borrowed and outlive it. */
struct registrar_means {
    struct catalog *catalog;
    const struct config *config;
    /* takes a registration back, which is its owner's from then on; called by any thread, and not with a lock held */
    void (*done)(void *ctx, struct registration *registration);
    void *ctx;
    struct watch *watch; /* it takes REGISTRAR_THREADS of the watch's threads; NULL: nothing is watched */
};

/* registrar_create starts the threads. The caller destroys the registrar. LARDER_ELIMIT: no more threads can be
 * started. */
int registrar_create(const struct registrar_means *means, struct registrar **out, struct error *err);
/* registrar_submit takes the registration over. LARDER_ELIMIT: too many are waiting, or the registrar has stopped, and
 * the registration stays the caller's. Any thread. */
int registrar_submit(struct registrar *registrar, struct registration *registration);
/* registrar_abandon says that a client has gone. If its registration is waiting, it comes out as refused at once; if a
 * thread is working on it, it comes out as soon as that thread notices. A client without a registration is no error.
 * Any thread. */
void registrar_abandon(struct registrar *registrar, uint64_t client);
/* registrar_stop ends the threads and waits for them. Registrations that they work on end early, and those that still
 * wait come out as refused. */
void registrar_stop(struct registrar *registrar);
void registrar_destroy(struct registrar *registrar); /* stops first; accepts NULL */

#endif
