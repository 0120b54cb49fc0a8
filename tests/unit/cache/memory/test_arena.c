/* The arena: reserved by and by, shared, safe from everything a client could do to it, and given back. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/memory/arena.h"
#include "cache/memory/memory_free.h"

#define ARENA_BYTES ((uint64_t)1 << 20)

static struct arena *make_arena(uint64_t bytes)
{
    struct arena *arena = NULL;
    struct error err = {0};
    if (arena_create(bytes, "", &arena, &err))
        fail_msg("arena_create: %s", err.text);
    return arena;
}

static void reserve(struct arena *arena, uint64_t from, uint64_t to)
{
    uint64_t got = 0;
    struct error err = {0};
    if (arena_reserve(arena, from, to, &got, &err))
        fail_msg("arena_reserve: %s", err.text);
    assert_int_equal(got, to);
}

static uint64_t taken(const struct arena *arena)
{
    struct stat st;
    assert_int_equal(fstat(arena_fd(arena), &st), 0);
    assert_int_equal(st.st_size, arena_bytes(arena));
    return (uint64_t)st.st_blocks * 512;
}

/* No page is taken at creation, arena_reserve takes those that it is asked for, the size is rounded up to pages, and a
 * client's mapping shows what the daemon writes. */
static void test_reserved_and_shared(void **state)
{
    (void)state;
    struct arena *arena = make_arena(ARENA_BYTES - 5);
    assert_int_equal(arena_bytes(arena), ARENA_BYTES);
    assert_int_equal(taken(arena), 0);
    reserve(arena, 0, ARENA_BYTES / 4);
    assert_int_equal(taken(arena), ARENA_BYTES / 4);
    reserve(arena, ARENA_BYTES / 4, ARENA_BYTES);
    reserve(arena, 0, ARENA_BYTES / 2); /* again */
    assert_int_equal(taken(arena), ARENA_BYTES);
    char *client = mmap(NULL, ARENA_BYTES, PROT_READ, MAP_SHARED, arena_fd(arena), 0);
    assert_ptr_not_equal(client, MAP_FAILED);
    memset(arena_base(arena), 'x', ARENA_BYTES);
    assert_int_equal(client[0], 'x');
    assert_int_equal(client[ARENA_BYTES - 1], 'x');
    arena_destroy(arena);
    assert_int_equal(client[ARENA_BYTES / 2], 'x'); /* what a client has mapped outlives the daemon */
    munmap(client, ARENA_BYTES);
}

static void refused(int rc, const char *what)
{
    if (rc != -1 || (errno != EPERM && errno != EACCES && errno != EBADF && errno != EINVAL))
        fail_msg("%s: gave %d (errno %d), not a refusal", what, rc, errno);
}

static void attack(int fd, const char *kept)
{
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(errno, EACCES);
    assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 4096), MAP_FAILED);
    refused((int)pwrite(fd, "bad", 3, 0), "pwrite");
    refused(ftruncate(fd, 4096), "shrinking");
    refused(ftruncate(fd, ARENA_BYTES * 2), "growing");
    refused(fallocate(fd, 0, 0, ARENA_BYTES * 2), "growing by fallocate");
    refused(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), "punching a hole");
    refused(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), "adding a seal");
    void *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    refused(mprotect(map, 4096, PROT_READ | PROT_WRITE), "mprotect");
    refused(madvise(map, 4096, MADV_REMOVE), "MADV_REMOVE");
    assert_memory_equal(map, kept, 4);
    munmap(map, 4096);
}

/* reopen tries to open the descriptor's file for writing, as a user without rights, and exits with errno. */
static void reopen(int fd)
{
    char path[64];
    if (geteuid() == 0 && setuid(65534) != 0)
        _exit(errno);
    (void)prctl(PR_SET_DUMPABLE, 1); /* so that /proc/self is the new user's */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    _exit(open(path, O_RDWR | O_CLOEXEC) >= 0 ? 0 : errno);
}

/* Neither through the descriptor that a client is handed, nor through one it reopens from /proc, can anything be
 * changed, while the daemon goes on writing. */
static void test_client_cannot_write(void **state)
{
    (void)state;
    struct arena *arena = make_arena(ARENA_BYTES);
    memcpy(arena_base(arena), "kept", 4);
    attack(arena_fd(arena), "kept");
    memcpy(arena_base(arena), "next", 4);
    attack(arena_fd(arena), "next");
    int ended = 0;
    pid_t child = fork();
    if (child == 0)
        reopen(arena_fd(arena));
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == EACCES);
    arena_destroy(arena);
}

static void put_file(const char *root, const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static uint64_t cgroup_bytes(const char *root)
{
    struct memory_free left;
    struct error err;
    assert_int_equal(memory_free_read(root, &left, &err), 0);
    assert_int_equal(left.machine_bytes, 1000u * 1024);
    return left.cgroup_bytes;
}

/* The tightest limit of the process's cgroup and its ancestors counts, page cache is free memory, and both cgroup
 * versions are read; where the named cgroup is not visible (a container), the mount's root stands for it. */
static void test_memory_free(void **state)
{
    (void)state;
    char root[] = "/tmp/larder-memory-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    struct memory_free left;
    struct error err = {0};
    assert_int_equal(memory_free_read(root, &left, &err), LARDER_EIO);
    put_file(root, "/proc/meminfo", "MemTotal:  2000 kB\nMemAvailable:    1000 kB\n");
    assert_int_equal(cgroup_bytes(root), UINT64_MAX);

    put_file(root, "/proc/self/cgroup", "0::/a/b\n");
    put_file(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    put_file(root, "/sys/fs/cgroup/a/b/memory.current", "100\n");
    assert_int_equal(cgroup_bytes(root), UINT64_MAX);
    put_file(root, "/sys/fs/cgroup/a/memory.max", "10000\n");
    put_file(root, "/sys/fs/cgroup/a/memory.current", "9000\n");
    put_file(root, "/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 4000\ninactive_file 200\nactive_file 300\n");
    assert_int_equal(cgroup_bytes(root), 1500);

    put_file(root, "/proc/self/cgroup", "5:cpu,memory:/docker/unseen\n1:cpu:/x\n0::/\n");
    put_file(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n");
    put_file(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "650\n");
    assert_int_equal(cgroup_bytes(root), 50);
    put_file(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "800\n");
    assert_int_equal(cgroup_bytes(root), 0);

    static const char huge_pages[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    assert_false(memory_shared_huge_pages(root));
    put_file(root, huge_pages, "always within_size advise [never] deny force\n");
    assert_false(memory_shared_huge_pages(root));
    put_file(root, huge_pages, "always within_size [advise] never deny force\n");
    assert_true(memory_shared_huge_pages(root));
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

/* How long tasks have waited for memory: the figure of the machine, or that of the process's own cgroup where it is
 * more. */
static void test_memory_stalled(void **state)
{
    (void)state;
    char root[] = "/tmp/larder-memory-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    assert_int_equal(memory_stalled_us(root), 0);
    put_file(root, "/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=700\nfull avg10=0 total=5\n");
    assert_int_equal(memory_stalled_us(root), 700);
    put_file(root, "/proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
    assert_int_equal(memory_stalled_us(root), 700);
    put_file(root, "/sys/fs/cgroup/a/b/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=900\n");
    assert_int_equal(memory_stalled_us(root), 900);
    put_file(root, "/sys/fs/cgroup/a/b/memory.pressure", "nothing that is known\n");
    assert_int_equal(memory_stalled_us(root), 700);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

/* What does not fit is refused before it is taken, with what was needed, what there is, and the setting to lower; what
 * was taken stays, and the rest can be had later. A size that no arena has is refused at once. */
static void test_too_large(void **state)
{
    (void)state;
    char root[] = "/tmp/larder-memory-XXXXXX", command[64];
    assert_non_null(mkdtemp(root));
    put_file(root, "/proc/meminfo", "MemAvailable:    204800 kB\n"); /* 200 MiB, and 64 stay free */
    struct arena *arena = NULL;
    struct error err = {0};
    uint64_t got = 0, step = (uint64_t)64 << 20;
    assert_int_equal(arena_create(4 * step, root, &arena, &err), 0);
    assert_int_equal(arena_reserve(arena, 0, step, &got, &err), 0);
    put_file(root, "/proc/meminfo", "MemAvailable:    102400 kB\n");
    assert_int_equal(arena_reserve(arena, step, 3 * step, &got, &err), LARDER_ENOMEM);
    assert_int_equal(got, step);
    assert_int_equal(taken(arena), step);
    assert_non_null(strstr(err.text, "64 MiB more"));
    assert_non_null(strstr(err.text, "100 MiB"));
    assert_non_null(strstr(err.text, "memory.arena"));
    put_file(root, "/proc/meminfo", "MemAvailable:    204800 kB\n");
    assert_int_equal(arena_reserve(arena, step, 2 * step, &got, &err), 0);
    arena_destroy(arena);
    arena = NULL;
    assert_int_equal(arena_create(UINT64_MAX, "", &arena, &err), LARDER_EINVAL);
    assert_int_equal(arena_create(0, "", &arena, &err), LARDER_EINVAL);
    assert_null(arena);
    arena_destroy(NULL);
    snprintf(command, sizeof command, "rm -rf %s", root);
    assert_int_equal(system(command), 0);
}

/* What is returned is nobody's memory any more, although a client has it mapped, and reads zeros from it. What lies
 * beside it stays, to the byte. It can be had again. */
static void test_returned(void **state)
{
    (void)state;
    struct arena *arena = make_arena(ARENA_BYTES);
    struct error err;
    char *base = arena_base(arena);
    reserve(arena, 0, ARENA_BYTES);
    memset(base, 'x', ARENA_BYTES);
    char *client = mmap(NULL, ARENA_BYTES, PROT_READ, MAP_SHARED, arena_fd(arena), 0);
    assert_ptr_not_equal(client, MAP_FAILED);
    assert_int_equal(arena_return(arena, 4097, 8191, &err), 0); /* no whole page */
    assert_int_equal(taken(arena), ARENA_BYTES);
    assert_int_equal(arena_return(arena, 4095, ARENA_BYTES - 4095, &err), 0);
    assert_int_equal(taken(arena), 8192);
    assert_int_equal(client[4095], 'x');
    assert_int_equal(client[ARENA_BYTES - 4096], 'x');
    assert_int_equal(client[4096], 0); /* this takes a page */
    assert_int_equal(arena_return(arena, 0, ARENA_BYTES, &err), 0);
    assert_int_equal(arena_return(arena, 0, ARENA_BYTES, &err), 0); /* again */
    assert_int_equal(taken(arena), 0);
    reserve(arena, 100, ARENA_BYTES);
    assert_int_equal(taken(arena), ARENA_BYTES);
    memcpy(base, "next", 4);
    assert_memory_equal(client, "next", 4);
    attack(arena_fd(arena), "next");
    munmap(client, ARENA_BYTES);
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reserved_and_shared), cmocka_unit_test(test_client_cannot_write),
        cmocka_unit_test(test_too_large),           cmocka_unit_test(test_returned),
        cmocka_unit_test(test_memory_free),         cmocka_unit_test(test_memory_stalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
