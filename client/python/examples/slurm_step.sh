#!/bin/bash
# Runs a command in a step of Slurm, with one daemon for all tasks of the job on this node:
#
#   srun --ntasks-per-node=4 slurm_step.sh python3 train.py …
#
# The first task starts the daemon and waits until it listens, and the others find it. It ends with the step, or when it
# has been idle for five minutes. Its socket has the job's number in its path: on a shared node each job has a daemon of
# its own, within the job's memory and processors.
#
# LARDER_CONFIG  settings for the daemon
# LARDER_BUNDLES with several nodes, a folder with a bundle for each host, HOST.pem, as `larder cluster keygen` makes
#                them for a cluster named slurm: the daemons of the job's nodes then prepare each sample once for all
set -eu
: "${SLURM_JOB_ID:?slurm_step.sh runs in a job of Slurm}"
folder=/tmp/larder-$(id -u)-slurm-$SLURM_JOB_ID
export LARDER_SOCKET=$folder/larder.sock

settings() {
    if [[ -n ${LARDER_CONFIG-} ]]; then
        cat "$LARDER_CONFIG"
    else
        echo "metrics: {socket: auto}"
    fi
    if [[ -n ${LARDER_BUNDLES-} ]]; then
        local host port=$((10000 + SLURM_JOB_ID % 10000)) # the same on all nodes of the job, another for other jobs
        host=${SLURMD_NODENAME:-$(hostname -s)}
        echo "cluster: {name: slurm, node: $host, discovery: slurm, listen: \"0.0.0.0:$port\"," \
            "advertise: \"$host:$port\", bundle: $LARDER_BUNDLES/$host.pem}"
    fi
}

start() {
    local ready
    settings >"$folder/larder.yaml"
    exec {ready}< <(exec setsid "${LARDERD:-larderd}" --config "$folder/larder.yaml" --socket "$LARDER_SOCKET" \
        --idle-exit 300 --ready-fd 1 2>>"$folder/log" 9>&-)
    read -r -n 1 -u "$ready" || {
        echo "slurm_step.sh: no daemon: $(tail -n 3 "$folder/log")" >&2
        exit 1
    }
}

mkdir -p -m 700 "$folder"
exec 9>"$folder/lock"
flock 9
"${LARDER:-larder}" ping >/dev/null 2>&1 || start
exec 9>&-
exec "$@"
