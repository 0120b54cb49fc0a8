/* table.h: every setting of larderd, once. Included by config.h and config.c, with SETTING defined.
 *
 *   SETTING(kind, field, section, key, default, unit, min, max, help)
 *
 * The default is written as a file would write it, and read by the same code. Kinds, and what min and max bound:
 *   BOOL     true or false
 *   COUNT    a whole number: its value
 *   WIDTH    a whole number, half (CONFIG_WIDTH_HALF) or off (0)
 *   BYTES    a size with a unit, or a percentage of the machine's memory: the bytes
 *   SHARE    a percentage: its value; the field holds 0 … 1
 *   BAD      auto, a whole number, or a percentage: the number
 *   CHOICE   one word of those the unit column lists, in the order of the enum they stand for
 *   PATH     an absolute path, or auto; none too where min is 0: its length in bytes
 *   ADDRESS  a loopback address
 *   TEXT     any text without control characters: its length in bytes
 *   LIST     a list of such texts: their number
 * configs/larder.yaml is made from this table (larderd check --example); a test compares the two. */
SETTING(PATH, socket_path, "socket", "path", "auto", "absolute path or auto", 1, CONFIG_SOCKET_PATH_MAX,
        "Where training scripts connect. auto: $LARDER_SOCKET, else larder/larder.sock in $XDG_RUNTIME_DIR, else in "
        "/run, else in /tmp/larder-UID, the first that this user can use (docs/reference/install.md). The control "
        "socket is the same path with .control at its end.")
SETTING(BYTES, samples_bytes, "memory", "samples", "35%", "size or % of memory", 2 * CONFIG_MIB, CONFIG_MEMORY_MAX,
        "Memory for samples in all forms. Prepared ones begin with five sevenths of it, and room moves to what saves "
        "more of what jobs wait for, preparing or reading. A percentage is of the machine's memory or the cgroup's "
        "limit, whichever is less; the default is also never more than 70 % of what is free at the start. Where it is "
        "not set it is what memory.arena and memory.encoded say together.")
SETTING(BYTES, arena_bytes, "memory", "arena", "25%", "size or % of memory", 1 * CONFIG_MIB, CONFIG_MEMORY_MAX,
        "The most of memory.samples for prepared samples, shared with the training scripts. It is reserved by need. "
        "The default is five sevenths of memory.samples.")
SETTING(BYTES, encoded_bytes, "memory", "encoded", "35%", "size or % of memory", 1 * CONFIG_MIB, CONFIG_MEMORY_MAX,
        "The most of memory.samples for samples as they lie on disk (encoded) and decoded ones, loads in flight and "
        "the bookkeeping of prepared samples (256 bytes each) included. They always have what memory.arena leaves. The "
        "default is all. When it has room for all that jobs of one pipeline want, each file is read once for all "
        "epochs.")
SETTING(CHOICE, decoded, "memory", "decoded", "auto", "auto|never", 0, 1,
        "Whether samples may stand in encoded memory decoded, so that they are not decoded again for each epoch. auto: "
        "in what is free of encoded memory, and will not be needed soon for samples as they lie on disk.")
SETTING(BYTES, scratch_bytes, "memory", "scratch", "10%", "size or % of memory", CONFIG_SCRATCH_MIN, CONFIG_MEMORY_MAX,
        "Memory that all worker threads together decode and augment in. An image that needs more than is free waits "
        "for others to be done; one that needs more than about three quarters of it counts as a bad sample. 100 "
        "megapixels take 0.3 to 1 GiB, and the most that limits.pixels allows by default, 179, take 0.6 to 1.8 GiB. A "
        "32nd is for remembering where parts of JPEGs begin, so that crops decode faster from the second epoch on.")
SETTING(COUNT, linger_s, "memory", "linger", "60", "seconds", 0, 31536000,
        "How long prepared samples stay in memory that no job has needed, so that the next trial finds them. Where the "
        "machine is short of memory they go at once. 0: they do not stay.")
SETTING(COUNT, workers, "threads", "workers", "0", "threads", 0, CONFIG_THREADS_MAX,
        "Threads that decode and augment. 0: as many as there are processor cores for the daemon, by its affinity and "
        "its control group's quota.")
SETTING(COUNT, loaders, "threads", "loaders", "8", "threads", 1, CONFIG_THREADS_MAX,
        "With the workers, how many reads each source may have at once. More help where single reads are slow (network "
        "file systems, hard disks). Each source has as many of its own.")
SETTING(WIDTH, redirect_width, "redirect", "width", "half", "slots, half or off", 0, CONFIG_WIDTH_MAX,
        "How many neighbouring slots of the chunks that share a place in memory may stand for each other, so that "
        "samples are prepared, and chunks read, fewer times (docs/internals/sharing.md). half: half a chunk, 8 to 128. "
        "Narrower mixes more and reads more; 1 is the papers' rule; off or 0 switches redirection off.")
SETTING(COUNT, jobs_max, "limits", "jobs", "256", "jobs", 1, JOBS_MAX,
        "Jobs that may be registered at once. A further one is refused.")
SETTING(COUNT, pixels_max, "limits", "pixels", "178956970", "pixels", 1, UINT64_C(10000000000),
        "Most pixels of an image; a larger one counts as a bad sample. The default is Pillow's own limit.")
SETTING(COUNT, scans_max, "limits", "scans", "100", "scans", 1, 10000,
        "Most scans of a progressive JPEG; one with more counts as a bad sample.")
SETTING(COUNT, rank_timeout_s, "limits", "rank_timeout", "300", "seconds", 0, 31536000,
        "How long the ranks of a data-parallel job wait for one that never came or went away, before they get an "
        "error. 0: for ever.")
SETTING(COUNT, source_wait_s, "limits", "source_wait", "60", "seconds", 0, 31536000,
        "How long a job waits for storage that does not answer (a folder or mount that is away, EIO, ESTALE, EACCES, "
        "no memory) before it fails. Meanwhile its reads are tried again. 0: it fails at once.")
SETTING(BAD, bad_max, "limits", "bad", "auto", "auto, samples or % of the view", 0, UINT64_C(4294967295),
        "More bad samples in an epoch fail a job that skips or replaces them. auto: 100, or 1 % of its view where that "
        "is more. Whatever is set, never more than a tenth of its view, nor all samples of a class.")
SETTING(BYTES, columns_bytes, "limits", "columns", "1GiB", "size or % of memory", 1 * CONFIG_MIB, CONFIG_MEMORY_MAX,
        "The most memory for a dataset's columns that scripts ask for: labels, keys, captions, other columns of lists. "
        "They are made once for all jobs, and kept while one has the dataset.")
SETTING(BYTES, catalogs_bytes, "limits", "catalogs", "50%", "size or % of memory", 1 * CONFIG_MIB, CONFIG_MEMORY_MAX,
        "The most memory for what is known of all datasets' samples: their paths, and 20 to 70 bytes a sample beside "
        "these. A job whose dataset would take more is refused. Several datasets take up to 50 bytes a sample besides.")
SETTING(COUNT, idle_exit_s, "limits", "idle_exit", "0", "seconds", 0, 31536000,
        "Stop when no client has been connected for so long. 0: never.")
SETTING(
    CHOICE, log_level, "log", "level", "info", "error|warn|info|debug", 0, 3,
    "What is written to standard error. Lines that clients or files can cause at will are limited, each kind in the "
    "whole daemon: errors and warnings to 10 a second, others to 50; held_back= counts the rest. Where standard error "
    "takes nothing the daemon goes on, drops lines, and says how many (dropped=) once it takes some again.")
SETTING(BOOL, metrics_enabled, "metrics", "enabled", "true", "true or false", 0, 1,
        "Serve the live page, /metrics, /-/healthy, /-/ready and /api/v1/ over HTTP. There each user of this machine "
        "can read the jobs' names and the paths of their datasets: metrics.socket keeps them to your own user.")
SETTING(ADDRESS, metrics_address, "metrics", "address", "127.0.0.1", "loopback address", 1, 45,
        "Address of the HTTP endpoint. Loopback only: it has no access control, and each local user reaches it.")
SETTING(COUNT, metrics_port, "metrics", "port", "9450", "port", 0, 65535, "Port of the HTTP endpoint. 0: off.")
SETTING(PATH, metrics_socket, "metrics", "socket", "none", "absolute path, auto or none", 0, CONFIG_SOCKET_PATH_MAX + 8,
        "A unix socket for the HTTP endpoint, in place of address and port: its own user alone (and root) may connect "
        "(curl --unix-socket PATH http://localhost/metrics). auto: socket.path with .metrics at its end.")
SETTING(BOOL, control_enabled, "control", "enabled", "true", "true or false", 0, 1,
        "Answer `larder status` and `larder cancel` on the control socket.")
SETTING(PATH, checkpoint_dir, "catalog", "checkpoint", "auto", "absolute path, auto or none", 0, 4095,
        "Folder that keeps dataset indices between runs. auto: $CACHE_DIRECTORY where systemd has set it for larderd, "
        "else $XDG_CACHE_HOME/larder, else /var/cache/larder for root, else ~/.cache/larder. none: keep none, index "
        "again at each start.")
SETTING(SHARE, job_quota_share, "jobs", "quota", "50%", "% of the arena", 1, 100,
        "The most of the arena that one job may pin.")
SETTING(TEXT, cluster_name, "cluster", "name", "\"\"", "letters, digits, - _ and ., or nothing", 0, CONFIG_NAME_MAX,
        "The cluster's name (docs/reference/cluster.md). Nodes of one name share. Without a name the daemon is alone.")
SETTING(TEXT, cluster_node, "cluster", "node", "\"\"", "letters, digits, - _ and ., or nothing", 0, CONFIG_NAME_MAX,
        "This node's name, another for each node. Without one: the host's name.")
SETTING(
    CHOICE, cluster_discovery, "cluster", "discovery", "static", "static|slurm|dns|etcd", 0, 3,
    "How nodes find each other. static: by the list cluster.nodes, alone until another answers. slurm: the nodes of "
    "the job of Slurm that the daemon runs in. dns: all addresses of the one name in cluster.nodes. etcd: by keys "
    "in the etcd of cluster.etcd.")
SETTING(LIST, cluster_etcd, "cluster", "etcd", "[]", "URLs such as https://etcd-0:2379", 0, CONFIG_CLUSTER_ETCD_MAX,
        "The endpoints of etcd, for discovery: etcd.")
SETTING(LIST, cluster_nodes, "cluster", "nodes", "[]", "HOST:PORT each", 0, CONFIG_CLUSTER_NODES_MAX,
        "Where the nodes listen, for discovery: static. The list may be the same on each, with itself in it. For "
        "discovery: dns it is one NAME:PORT.")
SETTING(TEXT, cluster_listen, "cluster", "listen", "0.0.0.0:9451", "ADDRESS:PORT", 1, CONFIG_HOST_PORT_MAX,
        "Where this node listens for the others. An IPv6 address stands in brackets: [::]:9451.")
SETTING(TEXT, cluster_advertise, "cluster", "advertise", "\"\"", "HOST:PORT or nothing", 0, CONFIG_HOST_PORT_MAX,
        "Where the others reach this node. Without one: the host's name, with the port of cluster.listen.")
SETTING(CHOICE, cluster_security, "cluster", "security", "bundle", "bundle|none", 0, 1,
        "bundle: nodes talk over TLS, and each shows a certificate of the cluster's authority. none: anybody who "
        "reaches cluster.listen can ask for samples.")
SETTING(PATH, cluster_bundle, "cluster", "bundle", "none", "absolute path or none", 0, 4095,
        "This node's certificates and key, for security: bundle. `larder cluster keygen` makes it.")
SETTING(CHOICE, cluster_spread, "cluster", "spread", "auto", "auto|always|never", 0, 2,
        "Whether other nodes give samples to trainings with ranks on several nodes. auto: while another training wants "
        "the same preparation, and preparing costs more than the transport.")
SETTING(BOOL, cluster_insecure, "cluster", "insecure", "false", "true or false", 0, 1,
        "Allows security: none on an address that other machines reach.")
SETTING(COUNT, cluster_lease_s, "cluster", "lease", "15", "seconds", 2, 3600,
        "How long etcd keeps this node's key after it was last heard of, for discovery: etcd.")
SETTING(PATH, memory_root, "debug", "memory_root", "none", "absolute path or none", 0, 4095,
        "For tests: a folder that stands for the root of /proc and /sys where they tell how much memory is free.")
SETTING(COUNT, load_delay_ms, "debug", "load_delay", "0", "milliseconds", 0, 60000,
        "For tests: every read takes so much longer, as from slow storage.")
