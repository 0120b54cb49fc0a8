#include "common/thread.h"

#include <signal.h>
#include <stdio.h>

int thread_start(pthread_t *out, const char *name, void *(*run)(void *arg), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return rc;
    char shown[16];
    snprintf(shown, sizeof shown, "%s", name);
    pthread_setname_np(thread, shown);
    *out = thread;
    return 0;
}
