#include "server/workers/crash.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
enum { SIGNALS = sizeof signals / sizeof *signals };

enum { STACK_BYTES_MIN = 16384 };

static struct sigaction before[SIGNALS]; /* written while no thread is watched */
static _Thread_local struct poison_record *watched;

/* is_own tells a fault, or what the process has sent itself (abort), from what somebody else has sent. */
static bool is_own(const siginfo_t *info)
{
    return info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
}

/* comes_again says whether the signal comes again by itself when the handler returns, because the thread then repeats
 * the instruction that raised it. A core dump then shows exactly that. */
static bool comes_again(int number, const siginfo_t *info)
{
    return info->si_code > 0 && number != SIGTRAP && !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

/* All calls in here are async-signal-safe. When the record cannot be written to (somebody has cut its file short), the
 * kernel ends the process, for all these signals are blocked meanwhile. */
static void on_crash(int number, siginfo_t *info, void *context)
{
    struct poison_record *record = watched;
    (void)context;
    if (record && is_own(info) && atomic_load_explicit(&record->state, memory_order_relaxed) != POISON_FREE) {
        record->signal = (uint32_t)number;
        atomic_store_explicit(&record->state, POISON_CRASHED, memory_order_release);
    }
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i] == number)
            sigaction(number, &before[i], NULL);
    }
    if (!comes_again(number, info))
        raise(number); /* comes when the handler returns: it is blocked until then */
}

void crash_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    for (int i = 0; i < SIGNALS; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &action, &before[i]);
}

void crash_unwatch(void)
{
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &before[i], NULL);
}

void crash_thread_begin(struct poison_record *record, struct crash_stack *stack)
{
    stack_t present = {0};
    long usual = sysconf(_SC_SIGSTKSZ); /* grows with what the kernel saves of the processor's state */
    *stack = (struct crash_stack){.bytes = usual > STACK_BYTES_MIN ? (size_t)usual : STACK_BYTES_MIN};
    watched = record;
    if (sigaltstack(NULL, &present) != 0 || !(present.ss_flags & SS_DISABLE))
        return;
    void *base = mmap(NULL, stack->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return;
    stack->base = base;
    sigaltstack(&(stack_t){.ss_sp = base, .ss_size = stack->bytes}, NULL);
}

void crash_thread_end(struct crash_stack *stack)
{
    watched = NULL;
    if (!stack->base)
        return;
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(stack->base, stack->bytes);
    stack->base = NULL;
}
