#include "server/control/status.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"

const char *const status_levels[ENGINE_LEVELS] = {
    [ENGINE_FROM_PREPARED] = "prepared", [ENGINE_FROM_ENCODED] = "encoded", [ENGINE_FROM_READ] = "read"};
const char *const status_stalls[ENGINE_STALLS] = {[ENGINE_STALL_LOAD] = "load",
                                                  [ENGINE_STALL_PREPARE] = "prepare",
                                                  [ENGINE_STALL_ROOM] = "room",
                                                  [ENGINE_STALL_RANK] = "rank"};

const char *const status_node_states[STATUS_NODE_STATES] = {[STATUS_NODE_UNKNOWN] = "UNKNOWN",
                                                            [STATUS_NODE_UP] = "UP",
                                                            [STATUS_NODE_LEAVING] = "LEAVING",
                                                            [STATUS_NODE_LOST] = "LOST"};

static void free_cluster(struct status_cluster *cluster)
{
    if (!cluster)
        return;
    for (size_t i = 0; i < cluster->n_nodes; i++) {
        free(cluster->nodes[i].name);
        free(cluster->nodes[i].url);
    }
    for (size_t i = 0; i < cluster->n_jobs; i++)
        free(cluster->jobs[i].parts);
    free(cluster->nodes);
    free(cluster->jobs);
    free(cluster->name);
    free(cluster);
}

void status_clear(struct daemon_status *status)
{
    for (size_t i = 0; i < status->n_jobs; i++) {
        free(status->jobs[i].client);
        free(status->jobs[i].dataset);
        free(status->jobs[i].pipeline);
        free(status->jobs[i].queues);
        free(status->jobs[i].governed);
        free(status->jobs[i].givers);
    }
    free(status->jobs);
    free_cluster(status->cluster);
    memset(status, 0, sizeof *status);
}

static double timeval_s(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* count_fds returns how many descriptors this process has open; 0: not known. */
static uint32_t count_fds(void)
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    for (const struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count ? count - 1 : 0; /* one of them was the folder's */
}

void status_read_process(struct status_process *process)
{
    struct rusage usage;
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re"); /* size resident …, in pages */
    if (file && fscanf(file, "%*u %" SCNu64, &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    process->rss_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        process->cpu_s = timeval_s(usage.ru_utime) + timeval_s(usage.ru_stime);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process->max_fds = limit.rlim_cur < UINT32_MAX ? (uint32_t)limit.rlim_cur : UINT32_MAX;
    process->open_fds = count_fds();
    process->pid = (uint32_t)getpid();
    process->time_s = (double)clock_now_ns() / (double)CLOCK_NS_PER_S;
}
