/* ending.h: ends a process that storage keeps from ending. A thread that waits for a mount which does not answer cannot
 * be joined. Any thread that reads or writes files may be one, even the main one. The next daemon copes with all that a
 * killed daemon leaves, so the process is then simply ended.
 *
 *   running ──SIGTERM is not read──▶ bounded ──ENDING_LIMIT_S──▶ the process ends
 *      └──ending_begin──▶ bounded ──ending_over──▶ (the owner goes on alone) */
#ifndef LARDER_SERVER_ENDING_H
#define LARDER_SERVER_ENDING_H

#define ENDING_LIMIT_S 5

struct ending;

/* ending_create starts the thread that bounds the end. signals is a signalfd, borrowed, which the owner reads: one that
 * it leaves unread for ENDING_LIMIT_S shows that the owner hangs. late is called in that thread, before the process
 * ends with status 0; it may not wait for anything. All descriptors are closed then, also where a thread in the kernel
 * keeps the process from going away: sockets and locks are free for the next daemon. NULL: no thread can be had, and
 * the end has no bound. */
struct ending *ending_create(int signals, void (*late)(void *ctx), void *ctx);
/* ending_begin says that the owner begins to stop. */
void ending_begin(struct ending *ending);
/* ending_over says that nothing is left that could hang, and frees it. It does not come back once late was called.
 * Both accept NULL. */
void ending_over(struct ending *ending);

#endif
