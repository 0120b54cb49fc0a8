#!/bin/sh
# Eight scripts at once on one folder. The first that comes starts the daemon; all of them share what it prepares.
#
#   sweep.sh FOLDER [arguments of train_numpy.py]
here=$(dirname "$0")
pids=
for number in 1 2 3 4 5 6 7 8; do
    "${PYTHON:-python3}" "$here/train_numpy.py" "$@" &
    pids="$pids $!"
done
failed=0
for pid in $pids; do
    wait "$pid" || failed=1
done
exit $failed
