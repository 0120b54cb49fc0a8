#include "real_daemon.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/check.h"

static const char *larderd, *make_images;

int real_arguments(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s LARDERD MAKE_IMAGES\n", argv[0]);
        return 2;
    }
    larderd = argv[1];
    make_images = argv[2];
    if (access(larderd, X_OK) == 0 && access(make_images, X_OK) == 0)
        return 0;
    printf("%s or %s was not built: skipped\n", larderd, make_images);
    return 77;
}

const char *real_larderd(void)
{
    return larderd;
}

pid_t real_spawn(const char *const *arguments)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive the test, or the thread that starts it */
        execv(arguments[0], (char *const *)(uintptr_t)arguments);
        fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
        _exit(127);
    }
    return child;
}

void real_run(const char *const *arguments)
{
    int status;
    pid_t child = real_spawn(arguments);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void real_make(struct real *real, uint32_t samples, uint32_t classes)
{
    memset(real, 0, sizeof *real);
    strcpy(real->folder, "/tmp/larder-system-client-XXXXXX");
    CHECK(mkdtemp(real->folder));
    snprintf(real->dataset, sizeof real->dataset, "%s/images", real->folder);
    snprintf(real->socket, sizeof real->socket, "%s/larder.sock", real->folder);
    snprintf(real->config, sizeof real->config, "%s/larder.yaml", real->folder);
    FILE *file = fopen(real->config, "w");
    CHECK(file);
    fprintf(file,
            "memory:\n  arena: 32MiB\n  encoded: 16MiB\n"
            "metrics:\n  port: 0\ncatalog:\n  checkpoint: %s\n",
            real->folder);
    CHECK(fclose(file) == 0);
    char count[16], in_classes[16];
    snprintf(count, sizeof count, "%u", samples);
    snprintf(in_classes, sizeof in_classes, "%u", classes);
    real_run((const char *[]){make_images, real->dataset, count, in_classes, "80", "60", NULL});
}

void real_start(struct real *real)
{
    int ends[2];
    char ready[16], byte;
    CHECK(pipe(ends) == 0);
    snprintf(ready, sizeof ready, "%d", ends[1]);
    real->pid = real_spawn(
        (const char *[]){larderd, "--config", real->config, "--socket", real->socket, "--ready-fd", ready, NULL});
    close(ends[1]);
    ssize_t got = read(ends[0], &byte, 1); /* ends with the daemon, should it not get ready */
    close(ends[0]);
    CHECK(got == 1);
}

static int end(struct real *real, int number)
{
    int status = 0;
    if (real->pid) {
        kill(real->pid, number);
        CHECK(waitpid(real->pid, &status, 0) == real->pid);
    }
    real->pid = 0;
    return status;
}

void real_kill(struct real *real)
{
    end(real, SIGKILL);
}

int real_stop(struct real *real)
{
    return end(real, SIGTERM);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

void real_remove(struct real *real)
{
    CHECK(nftw(real->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}
