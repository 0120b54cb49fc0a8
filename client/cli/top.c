/* top.c: `larder top`: the daemon and its jobs, drawn again and again on the terminal's other screen. However it ends
 * (q, Ctrl-C, a signal, the daemon's end), it leaves the terminal as it was. If the output is no terminal, it writes
 * one plain frame. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "client/cli/cells.h"
#include "client/cli/cli.h"
#include "client/cli/line.h"

#define OTHER_SCREEN "\033[?1049h\033[?25l"
#define FIRST_SCREEN "\033[?25h\033[?1049l"

static volatile sig_atomic_t ended; /* the signal that ends it */

static void on_signal(int number)
{
    ended = number;
}

struct screen {
    struct termios before;
    bool keys; /* standard input is a terminal too, and `before` is how it was */
};

static void enter(struct screen *screen)
{
    struct sigaction action = {.sa_handler = on_signal};
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL); /* without SA_RESTART: it ends what waits */
    screen->keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->keys) {
        struct termios quiet = screen->before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    fputs(OTHER_SCREEN, stdout);
}

static void leave(const struct screen *screen)
{
    fputs(FIRST_SCREEN, stdout);
    fflush(stdout);
    if (screen->keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* goes_on waits until the next frame is due; false: the user quits. */
static bool goes_on(const struct screen *screen, unsigned interval_ms)
{
    struct pollfd keys = {.fd = screen->keys ? STDIN_FILENO : -1, .events = POLLIN};
    char key = 0;
    if (poll(&keys, 1, (int)interval_ms) > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
        return false;
    return !ended;
}

static void print_frame(const struct cli_look *look, bool color, FILE *out)
{
    char *text = NULL;
    size_t len = 0;
    FILE *whole = open_memstream(&text, &len);
    if (whole)
        cli_status_print(look->now, look->before, whole);
    if (!whole || fclose(whole) != 0)
        return;
    char *jobs = strstr(text, "\n\n"); /* the status's text before its own table of jobs */
    char *none = strstr(text, "\nno jobs\n");
    if (jobs || none)
        (jobs ? jobs : none)[1] = '\0';
    fputs(text, out);
    fputc('\n', out);
    cli_jobs_print(look->now, look->before, color, out);
    free(text);
}

/* draw writes the frame in as many lines and columns as the terminal has. Sequences that colour take no column. */
static void draw(const char *frame)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    unsigned row = 1, column = 0;
    bool sequence = false;
    fputs("\033[H", stdout);
    for (; *frame && row <= size.ws_row; frame++) {
        sequence = sequence || *frame == '\033';
        bool shown = sequence || ((unsigned char)*frame & 0xc0) == 0x80 || column++ < size.ws_col;
        if (*frame == '\n') {
            fputs("\033[K", stdout);
            fputs(row++ < size.ws_row ? "\r\n" : "", stdout);
            column = 0;
        } else if (shown && column <= size.ws_col) {
            putchar(*frame);
        }
        sequence = sequence && *frame != 'm';
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static int show(const struct cli_look *look, bool color)
{
    char *frame = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&frame, &len);
    if (!out)
        return CLI_FAILED;
    print_frame(look, color, out);
    if (fclose(out) == 0)
        draw(frame);
    free(frame);
    return CLI_OK;
}

static bool wants_color(void)
{
    const char *off = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(off && *off) && !(terminal && strcmp(terminal, "dumb") == 0);
}

static int watch(struct cli_peer *peer, unsigned interval_ms, struct error *err)
{
    struct screen screen;
    struct cli_look look = {.before = NULL};
    enter(&screen);
    int rc = cli_ask_look(peer, &look, err);
    while (rc == 0) {
        show(&look, wants_color());
        if (!goes_on(&screen, interval_ms))
            break;
        json_decref(look.before);
        look.before = look.now;
        look.now = NULL;
        rc = cli_ask_status(peer, &look.now, err);
    }
    cli_look_clear(&look);
    leave(&screen);
    return ended ? 0 : rc;
}

int cli_top(const struct cli_line *line)
{
    struct cli_peer *peer = NULL;
    struct cli_look look;
    struct error err;
    const char *terminal = getenv("TERM");
    if (line->json || !isatty(STDOUT_FILENO) || (terminal && strcmp(terminal, "dumb") == 0)) {
        if (cli_look(line->socket, &look, &err))
            return cli_fail(&err);
        if (line->json)
            json_dumpf(look.now, stdout, CLI_JSON);
        else
            print_frame(&look, false, stdout);
        if (line->json)
            putchar('\n');
        cli_look_clear(&look);
        return fflush(stdout) || ferror(stdout) ? CLI_FAILED : CLI_OK;
    }
    int rc = cli_connect(line->socket, &peer, &err);
    if (rc == 0)
        rc = watch(peer, line->interval_ms, &err);
    cli_disconnect(peer);
    return rc ? cli_fail(&err) : CLI_OK;
}
