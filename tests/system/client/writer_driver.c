/* writer_driver.c: writes samples through the C library, for the tests of the Writer and its bench.
 *
 *     larder_writer_driver DESTINATION WRITER SHARD_BYTES [CLASS …]    as its input says
 *     larder_writer_driver --rate DESTINATION COUNT BYTES              prints the CPU seconds of COUNT samples of BYTES
 *
 * Its input is lines: "add KEY LABEL LENGTH" and then so many bytes, KEY "-" for none and LABEL -1 for none; "flush";
 * "close"; "leave". Each, and the opening before them, is answered by a line "CODE DONE TEXT". */
#include <inttypes.h>
#include <larder/larder.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void answer(int code, const struct larder_writer *writer)
{
    printf("%s %" PRIu64 " %s\n", code ? larder_err_name(code) : "0", larder_writer_done(writer),
           code ? larder_writer_last_error(writer) : "");
    fflush(stdout);
}

/* add: false where the input is not of the form. */
static bool add(struct larder_writer *writer, const char *line)
{
    char key[8192];
    int64_t label;
    size_t len;
    if (sscanf(line, "add %8191s %" SCNd64 " %zu", key, &label, &len) != 3)
        return false;
    char *data = malloc(len + 1);
    bool read = data && fread(data, 1, len, stdin) == len;
    if (read)
        answer(larder_writer_add(writer, strcmp(key, "-") == 0 ? NULL : key, data, len, label), writer);
    free(data);
    return read;
}

static int drive(struct larder_writer *writer)
{
    char line[8300];
    while (fgets(line, sizeof line, stdin)) {
        bool right = true;
        if (strcmp(line, "flush\n") == 0)
            answer(larder_writer_flush(writer), writer);
        else if (strcmp(line, "close\n") == 0)
            answer(larder_writer_close(&writer), writer);
        else if (strcmp(line, "leave\n") == 0) {
            larder_writer_leave(&writer);
            answer(0, NULL);
        } else
            right = add(writer, line);
        if (!right) {
            fprintf(stderr, "not understood: %s", line);
            return 2;
        }
    }
    larder_writer_leave(&writer);
    return 0;
}

static double cpu_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

static int rate(const char *destination, uint64_t count, size_t len)
{
    struct larder_writer_options options;
    struct larder_writer *writer = NULL;
    char *data = calloc(1, len + 2);
    double began_s = cpu_s();
    larder_writer_options_init(&options);
    options.destination = destination;
    int rc = data ? larder_writer_open(&options, &writer) : LARDER_ENOMEM;
    if (rc == 0)
        memcpy(data, "\xff\xd8", 2);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "n01440764/n01440764_%" PRIu64 ".JPEG", i);
        rc = larder_writer_add(writer, key, data, len, (int64_t)(i % 1000));
    }
    if (rc == 0)
        rc = larder_writer_close(&writer);
    if (rc)
        fprintf(stderr, "%s %s\n", larder_err_name(rc), larder_writer_last_error(writer));
    printf("%.6f\n", cpu_s() - began_s);
    larder_writer_leave(&writer);
    free(data);
    return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--rate") == 0)
        return rate(argv[2], strtoull(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
    if (argc < 4)
        return 2;
    struct larder_writer_options options;
    struct larder_writer *writer = NULL;
    larder_writer_options_init(&options);
    options.destination = argv[1];
    options.writer = (uint32_t)strtoul(argv[2], NULL, 10);
    options.shard_bytes = strtoull(argv[3], NULL, 10);
    options.classes = (const char *const *)(argv + 4);
    options.n_classes = (uint32_t)(argc - 4);
    int rc = larder_writer_open(&options, &writer);
    answer(rc, writer);
    return rc ? 1 : drive(writer);
}
