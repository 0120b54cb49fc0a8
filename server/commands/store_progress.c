#include "server/commands/store_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"

#define LINE_MAX_BYTES 256
#define BAR_MAX 40
#define BAR_MIN 8
#define PLAIN_NS (5 * CLOCK_NS_PER_S) /* between lines when there is no terminal */
#define RATE_NS CLOCK_NS_PER_S        /* before this time a rate would be a guess */

void progress_view_start(struct progress_view *view, const char *verb, bool quiet)
{
    uint64_t now_ns = clock_now_ns();
    *view = (struct progress_view){
        .verb = verb, .quiet = quiet, .terminal = isatty(STDERR_FILENO) == 1, .start_ns = now_ns, .shown_ns = now_ns};
}

double progress_view_seconds(const struct progress_view *view)
{
    return (double)(clock_now_ns() - view->start_ns) / (double)CLOCK_NS_PER_S;
}

/* This writes "840 of 2000 samples, 56.1 of 120.3 MiB", and once the rate is known "85.0 MiB/s, 0:12 left". */
static void describe(const struct progress_view *view, uint64_t now_ns, uint64_t resumed_bytes,
                     char text[LINE_MAX_BYTES])
{
    const struct store_progress *progress = &view->last;
    double mib = 1 << 20, elapsed_s = (double)(now_ns - view->start_ns) / (double)CLOCK_NS_PER_S;
    int len = snprintf(text, LINE_MAX_BYTES, "%" PRIu64 " of %" PRIu64 " samples, %.1f of %.1f MiB",
                       progress->samples_done, progress->samples_total, (double)progress->bytes_done / mib,
                       (double)progress->bytes_total / mib);
    if (now_ns - view->start_ns < RATE_NS || progress->bytes_done <= resumed_bytes)
        return;
    double rate = (double)(progress->bytes_done - resumed_bytes) / elapsed_s;
    double left_s = (double)(progress->bytes_total - progress->bytes_done) / rate;
    unsigned long left = left_s < 1e9 ? (unsigned long)left_s : 1000000000;
    snprintf(text + len, LINE_MAX_BYTES - (size_t)len, ", %.1f MiB/s, %lu:%02lu left", rate / mib, left / 60,
             left % 60);
}

/* The bar is as wide as the terminal allows. A line that is too long is cut off, because a line that wraps cannot be
 * redrawn. */
static void draw_bar(struct progress_view *view, unsigned percent, const char *text)
{
    struct winsize window;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    char line[LINE_MAX_BYTES + BAR_MAX + 32], bar[BAR_MAX + 1];
    int room = columns - (int)strlen(view->verb) - (int)strlen(text) - 12; /* " 100 % [" "] " and the last column */
    int width = room > BAR_MAX ? BAR_MAX : room;
    int len;
    if (width >= BAR_MIN) {
        int filled = (int)percent * width / 100;
        memset(bar, '.', (size_t)width);
        memset(bar, '#', (size_t)filled);
        bar[width] = '\0';
        len = snprintf(line, sizeof line, "%s %3u %% [%s] %s", view->verb, percent, bar, text);
    } else {
        len = snprintf(line, sizeof line, "%s %3u %% %s", view->verb, percent, text);
    }
    fprintf(stderr, "\r%.*s\033[K", len < columns ? len : columns - 1, line);
    view->bar_drawn = true;
}

void progress_view_show(struct progress_view *view, const struct store_progress *progress)
{
    uint64_t now_ns = clock_now_ns();
    view->last = *progress;
    if (view->quiet || (!view->terminal && now_ns - view->shown_ns < PLAIN_NS))
        return;
    uint64_t total = progress->samples_total, done = progress->samples_done;
    double resumed = total ? (double)progress->samples_resumed / (double)total : 0;
    uint64_t resumed_bytes = (uint64_t)((double)progress->bytes_total * resumed);
    unsigned percent = total ? (unsigned)(done * 100 / total) : 100;
    char text[LINE_MAX_BYTES];
    view->shown_ns = now_ns;
    describe(view, now_ns, resumed_bytes, text);
    if (view->terminal)
        draw_bar(view, percent, text);
    else
        fprintf(stderr, "%s: %u %%, %s\n", view->verb, percent, text);
}

void progress_view_clear(struct progress_view *view)
{
    if (view->bar_drawn)
        fputs("\r\033[K", stderr);
    view->bar_drawn = false;
}
