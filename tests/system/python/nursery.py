"""Training scripts without what each would take to begin: one process has imported what all of them do, and each is a
fork of it. A fifth of a second of a processor is saved for each, and more than two where torch is imported.

    nursery.py DESCRIPTOR MODULE …

DESCRIPTOR is a socket that brings what each script needs, and the modules are imported once. The process has no
connection to a daemon, no thread and no dataset of its own, so that a script is as it would be without it: its own
environment, folder, output and end."""

import atexit
import concurrent.futures
import functools
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys

LONGEST = 1 << 20  # bytes that tell of a script
NUMBER = 8  # bytes of each number that is told of it


class Born:
    """The process of a program in Python, its path and its arguments, as of subprocess.Popen. `modules` are those that
    are imported for it."""

    def __init__(self, words, environment, modules=("larder.loader",)):
        (out, out_far), (errors, errors_far), (self._told, told_far) = (os.pipe() for _ in range(3))
        needs = json.dumps([words, environment, os.getcwd()]).encode()
        socket.send_fds(_nursery(modules, environment.get("OMP_NUM_THREADS")), [needs], [out_far, errors_far, told_far])
        for far in (out_far, errors_far, told_far):
            os.close(far)
        self.stdout, self.stderr = open(out), open(errors)
        self.returncode = None
        self.pid = self._number()

    def __del__(self):
        os.close(self._told)

    def _number(self):
        """What is told next: the process's number, and then how it ended."""
        told = os.read(self._told, NUMBER)
        if len(told) < NUMBER:
            raise AssertionError("the process that starts scripts is gone: what it said is on standard error")
        return int.from_bytes(told, "little", signed=True)

    def wait(self, limit_s=None):
        if self.returncode is None:
            if not select.select([self._told], [], [], limit_s)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), limit_s)
            self.returncode = self._number()
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """All that it says, and its errors, when it has ended. It is killed where that takes too long."""
        with concurrent.futures.ThreadPoolExecutor(2) as readers:
            said = [readers.submit(file.read) for file in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
        self.stdout.close()
        self.stderr.close()
        return tuple(text.result() for text in said)


@functools.lru_cache(None)
def _nursery(modules, threads):
    """The socket of one of this process's nurseries, which ends when it is closed. torch looks when it is imported how
    many threads it may have."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here = os.path.abspath(__file__)
    package = os.path.join(os.path.dirname(here), "..", "..", "..", "client", "python")
    environment = dict(os.environ, PYTHONPATH=os.path.normpath(package))
    if threads:
        environment["OMP_NUM_THREADS"] = threads
    process = subprocess.Popen([sys.executable, "-B", here, str(far.fileno()), *modules], pass_fds=[far.fileno()],
                               env=environment)
    far.close()
    atexit.register(process.wait)
    atexit.register(near.close)  # this comes first
    return near


def _begin(link):
    """Returns in each script's process alone, which another one waits for."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        needs, descriptors, _, _ = socket.recv_fds(link, LONGEST, 3)
        if not needs:
            os._exit(0)
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    link.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *outputs, told = descriptors
    pid = os.fork()
    if pid:
        for descriptor in outputs:
            os.close(descriptor)
        os.write(told, pid.to_bytes(NUMBER, "little"))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(told, code.to_bytes(NUMBER, "little", signed=True))
        os._exit(0)
    os.close(told)
    for number, descriptor in enumerate(outputs, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv, environment, folder = json.loads(needs)
    sys.path[0] = os.path.dirname(sys.argv[0])
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    _begin(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_path(sys.argv[0], run_name="__main__")
