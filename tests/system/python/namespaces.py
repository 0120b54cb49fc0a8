"""Nodes with a network namespace each, on a bridge that only they see.

The program that wants them runs itself again in a namespace of its own, where it may make a bridge without being root
of the machine: `ready` does that. Nothing of it is left when the processes have ended."""

import os
import subprocess
import sys

_INSIDE = "LARDER_IN_NAMESPACE"
_NET = "10.251.0"


def can():
    """Whether a process may have a network of its own here."""
    try:
        done = subprocess.run(["unshare", *_user(), "-n", "ip", "link", "set", "lo", "up"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    except OSError:
        return False
    return done.returncode == 0


def _user():
    return [] if os.geteuid() == 0 else ["-Ur"]


def ready():
    """Goes on in a namespace of this program's own: it starts anew there, unless it is there."""
    if os.environ.get(_INSIDE) != str(os.getpid()):
        os.environ[_INSIDE] = str(os.getpid())  # stays: unshare and Python take this process's place
        os.execvp("unshare", ["unshare", *_user(), "-n", sys.executable, *sys.argv])


def _ip(*words, inside=()):
    subprocess.run([*inside, "ip", *words], check=True)


class Network:
    """A namespace for each node, with an address on the bridge. `enter(node)` begins a command that runs there."""

    def __init__(self, nodes):
        self._holders = []
        _ip("link", "set", "lo", "up")
        _ip("link", "add", "larder", "type", "bridge")
        _ip("link", "set", "larder", "up")
        for node in range(nodes):
            self._add(node)

    def _add(self, node):
        holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)  # it ends with this process
        self._holders.append(holder)
        holder.stdout.readline()  # its namespace is there
        _ip("link", "add", f"node{node}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip("link", "set", f"node{node}", "master", "larder", "up")
        inside = self.enter(node)
        _ip("link", "set", "lo", "up", inside=inside)
        _ip("address", "add", f"{self.address(node)}/24", "dev", "eth0", inside=inside)
        _ip("link", "set", "eth0", "up", inside=inside)

    @staticmethod
    def address(node):
        return f"{_NET}.{node + 1}"

    def enter(self, node):
        return ["nsenter", "-t", str(self._holders[node].pid), "-n"]

    def close(self):
        for holder in self._holders:
            holder.communicate()
