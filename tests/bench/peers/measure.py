"""Processor time of everything that works for a measurement, and what is made of several measurements."""

import os
import statistics

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    """(parent, seconds of its own, seconds of the children that it has waited for), or None where it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may hold spaces and brackets
    except (FileNotFoundError, ProcessLookupError):
        return None
    utime, stime, cutime, cstime = (int(field) * TICK_S for field in fields[11:15])
    return int(fields[1]), utime + stime, cutime + cstime


def below_s(root):
    """Processor seconds of all that process `root` has started: what descends from it, and what has ended. Not its
    own. What has ended must have been waited for by its parent, which shells, Python and torch do."""
    stats = {int(name): stat_of(name) for name in os.listdir("/proc") if name.isdigit()}
    stats = {pid: stat for pid, stat in stats.items() if stat}
    children = {}
    for pid, (parent, _, _) in stats.items():
        children.setdefault(parent, []).append(pid)
    total, todo = stats[root][2], list(children.get(root, ()))
    while todo:
        pid = todo.pop()
        total += stats[pid][1] + stats[pid][2]
        todo += children.get(pid, ())
    return total


def lost_and_twice(indices, count):
    """Of one epoch of a dataset of `count` samples: how many never came, and how many came again."""
    distinct = len(set(indices))
    return count - distinct, len(indices) - distinct


def median_of(rows, key):
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else None
