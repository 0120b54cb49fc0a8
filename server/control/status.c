#include "server/control/status.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"

#define LOOKED_AT_S 2 /* a client that has held a batch for as long is looked at */

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

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static size_t cluster_bytes(const struct status_cluster *cluster)
{
    size_t bytes = cluster ? sizeof *cluster + text_bytes(cluster->name) : 0;
    for (size_t i = 0; cluster && i < cluster->n_nodes; i++)
        bytes += sizeof *cluster->nodes + text_bytes(cluster->nodes[i].name) + text_bytes(cluster->nodes[i].url);
    for (size_t i = 0; cluster && i < cluster->n_jobs; i++)
        bytes += sizeof *cluster->jobs + cluster->jobs[i].n_parts * sizeof *cluster->jobs->parts;
    return bytes;
}

size_t status_bytes(const struct daemon_status *status)
{
    size_t bytes = sizeof *status + cluster_bytes(status->cluster);
    for (size_t i = 0; i < status->n_jobs; i++) {
        const struct status_job *job = &status->jobs[i];
        bytes += sizeof *job + text_bytes(job->client) + text_bytes(job->dataset) + text_bytes(job->pipeline) +
                 job->n_queues * (sizeof *job->queues + sizeof *job->governed + sizeof *job->clients) +
                 job->n_givers * sizeof *job->givers;
    }
    return bytes;
}

void status_clear(struct daemon_status *status)
{
    for (size_t i = 0; i < status->n_jobs; i++) {
        free(status->jobs[i].client);
        free(status->jobs[i].dataset);
        free(status->jobs[i].pipeline);
        free(status->jobs[i].queues);
        free(status->jobs[i].governed);
        free(status->jobs[i].clients);
        free(status->jobs[i].givers);
    }
    free(status->jobs);
    free_cluster(status->cluster);
    memset(status, 0, sizeof *status);
}

/* state_of returns what the kernel says of a process; NULL: it does not say. */
static const char *state_of(uint32_t pid)
{
    char path[32], line[256] = "";
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
        return "gone";
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
    FILE *file = fopen(path, "re"); /* pid (name) state …; the name may have anything in it */
    if (!file)
        return NULL;
    const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    char state = '\0';
    bool found = name_end && sscanf(name_end, ") %c", &state) == 1;
    fclose(file);
    return !found ? NULL : strchr("Tt", state) ? "stopped" : strchr("ZXx", state) ? "gone" : "runs";
}

void status_read_clients(struct daemon_status *status)
{
    for (size_t i = 0; i < status->n_jobs; i++) {
        const struct status_job *job = &status->jobs[i];
        for (size_t rank = 0; rank < job->n_queues; rank++) {
            const struct engine_queue_status *queue = &job->queues[rank];
            bool moves = queue->delivery.leased_batches && queue->delivery.lease_s < LOOKED_AT_S;
            if (queue->attached && job->clients[rank].pid && !moves)
                job->clients[rank].state = state_of(job->clients[rank].pid);
        }
    }
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
