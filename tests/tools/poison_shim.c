/* poison_shim.c: makes libjpeg die of some files, for LD_PRELOAD. A file that has the bytes "LARDER-POISON:" anywhere
 * says after them how: SEGV, ABRT, BUS, FPE, ILL, TRAP or STACK (it runs out of stack) by a fault of the thread, KILL
 * as if the system had no memory left, EXIT without a signal. SLOW: it does not die, and takes a few milliseconds
 * longer. Other files are decoded as always. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jpeglib.h>

static const char word[] = "LARDER-POISON:";

enum { SLOW_US = 4000 };

static volatile int zero;
static volatile char sink;

/* Deeper and deeper, until the stack has ended. */
__attribute__((noinline)) static int sink_deeper(int depth)
{
    volatile char room[16384];
    room[0] = (char)depth;
    return depth < 0 ? 0 : sink_deeper(depth + 1) + room[0];
}

/* What lies beyond the end of a mapped file cannot be read. */
static void read_beyond(void)
{
    int fd = memfd_create("empty", MFD_CLOEXEC);
    const char *beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (beyond != MAP_FAILED)
        sink = *beyond;
}

static void divide_by_zero(void)
{
#if defined __x86_64__ || defined __i386__
    sink = (char)(1000 / zero);
#else
    raise(SIGFPE); /* elsewhere the quotient is just 0 */
#endif
}

static void do_what_is_no_instruction(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_trap();
#else
    raise(SIGILL);
#endif
}

static void misbehave(const char *how)
{
    static char *volatile nowhere;
    if (strncmp(how, "SEGV", 4) == 0)
        *nowhere = 1;
    else if (strncmp(how, "ABRT", 4) == 0)
        abort();
    else if (strncmp(how, "BUS", 3) == 0)
        read_beyond();
    else if (strncmp(how, "FPE", 3) == 0)
        divide_by_zero();
    else if (strncmp(how, "ILL", 3) == 0)
        do_what_is_no_instruction();
    else if (strncmp(how, "TRAP", 4) == 0)
        raise(SIGTRAP);
    else if (strncmp(how, "STACK", 5) == 0)
        sink = (char)sink_deeper(zero);
    else if (strncmp(how, "EXIT", 4) == 0)
        _exit(1);
    else if (strncmp(how, "SLOW", 4) == 0)
        usleep(SLOW_US);
    else
        kill(getpid(), SIGKILL);
}

/* What the program calls instead of libjpeg's, which this calls in turn. */
int jpeg_read_header(j_decompress_ptr cinfo, boolean require_image)
{
    int (*real)(j_decompress_ptr, boolean);
    *(void **)&real = dlsym(RTLD_NEXT, "jpeg_read_header");
    const char *bytes = (const char *)cinfo->src->next_input_byte;
    size_t len_bytes = cinfo->src->bytes_in_buffer;
    const char *found = memmem(bytes, len_bytes, word, sizeof word - 1);
    if (found && found + sizeof word + 5 <= bytes + len_bytes)
        misbehave(found + sizeof word - 1);
    return real(cinfo, require_image);
}
