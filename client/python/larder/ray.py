"""Larder on a Ray cluster: a daemon on each node, and all of them one Larder cluster. It needs ray.

    ray.init()
    with larder.ray.Daemons():
        tune.Tuner(train).fit()

    def train(config):  # in a worker of Ray Tune, Ray Train or a task
        loader = larder.Loader("/data/train", [larder.RandomResizedCrop(224)], 64, socket=larder.ray.socket())

An actor on each node, which takes no processor from Ray, starts the daemon there, and another one where it dies:
Loaders wait for that, and go on. The daemons end with the block, with the driver, and with their nodes. They talk over
TLS, with certificates that the driver makes for them. Settings for them are those of larderd, as a dictionary.
"""

import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket as _socket
import subprocess
import tempfile
import threading

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ._autostart import find_daemon
from .errors import DaemonGone, InvalidArgument, NotFound

_NAMESPACE = "larder"
_PAUSE_S = 1        # before a daemon that died is started again
_START_S = 60       # for a daemon to listen
_STOP_S = 60        # for one to end: a node of a cluster gives others the rest of their epochs first, for 30 s at most
_PR_SET_PDEATHSIG = 1
_NOT_BETTER = (2, 3)  # exit statuses that starting again does not change
_PLAIN = re.compile(r"[\w./%+-]+")
_libc = ctypes.CDLL(None)


def socket(name="larder"):
    """The path of the socket of this node's daemon, for a Loader in a worker."""
    node = ray.get_runtime_context().get_node_id()
    try:
        actor = ray.get_actor(_actor_of(name, node), _NAMESPACE)
    except ValueError:
        raise NotFound(f"no daemon named {name!r} is on this node of the Ray cluster: larder.ray.Daemons() starts one "
                       "on each node, for as long as it is open; update() adds nodes that came later") from None
    return ray.get(actor.socket.remote())


class Daemons:
    """The daemons of a Ray cluster. `settings` are larderd's, such as {"memory": {"arena": "8GiB"}}. With `share` they
    prepare each sample once for the jobs of all nodes; without, each is alone."""

    def __init__(self, settings=None, *, name="larder", share=True):
        settings = {"metrics": {"socket": "auto"}, **(settings or {})}
        if "cluster" in settings or "socket" in settings:
            raise InvalidArgument("larder.ray sets the sections cluster and socket itself: leave them out")
        self._settings, self._name, self._share = settings, name, share
        self._actors, self._addresses = {}, {}  # by node
        self._authority = None
        try:
            self.update()
        except BaseException:
            self.close()
            raise

    def update(self):
        """Starts daemons on nodes that have come since; gives how many."""
        new = [node for node in _nodes() if node not in self._actors]
        for node in new:
            self._actors[node] = _Node.options(
                name=_actor_of(self._name, node), namespace=_NAMESPACE,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote()
        self._addresses.update(zip(new, ray.get([self._actors[node].address.remote() for node in new])))
        ray.get([self._actors[node].start.remote(self._settings_of(node), self._bundle(node)) for node in new])
        return len(new)

    def sockets(self):
        """The path of each node's socket, by the node's id."""
        return {node: ray.get(actor.socket.remote()) for node, actor in self._actors.items()}

    def close(self):
        """Ends the daemons."""
        actors, self._actors = list(self._actors.values()), {}
        try:
            ray.wait([actor.stop.remote() for actor in actors], num_returns=len(actors), timeout=2 * _STOP_S)
        finally:
            for actor in actors:
                ray.kill(actor)
            if self._authority:
                shutil.rmtree(os.path.dirname(self._authority), ignore_errors=True)
                self._authority = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _settings_of(self, node):
        if not self._share:
            return self._settings
        address = self._addresses[node]
        return {**self._settings, "cluster": {"name": self._name, "node": _name_of(node), "listen": address,
                                              "advertise": address, "nodes": sorted(self._addresses.values())}}

    def _bundle(self, node):
        """The node's certificate and key, signed by an authority of these daemons alone."""
        if not self._share:
            return None
        if not self._authority:
            self._authority = os.path.join(tempfile.mkdtemp(prefix="larder-ray-"), "authority.pem")
            _keygen("--cluster", self._name, "--authority", self._authority)
        path = os.path.join(os.path.dirname(self._authority), _name_of(node))
        _keygen("--authority", self._authority, "--node", _name_of(node), path)
        with open(path, encoding="ascii") as file:
            return file.read()


def _yaml(value):
    """In YAML words such as auto stand without quotes; everything else may be as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def _nodes():
    return [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def _actor_of(name, node):
    return f"larderd-{name}-{node}"


def _name_of(node):
    return "ray-" + node[:16]


def _daemon():
    program = find_daemon()
    if not program:
        raise DaemonGone("no larderd was found on a node of the Ray cluster: `pip install larderd` brings one there; "
                         "or set LARDERD to it, or put it in PATH")
    return program


def _keygen(*words):
    done = subprocess.run([_daemon(), "cluster", "keygen", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    if done.returncode:
        raise DaemonGone(f"no certificates for the daemons of a Ray cluster: {done.stdout.strip()}")


def _end_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@ray.remote(num_cpus=0)
class _Node:
    """One node's daemon. A thread starts it, waits for its end, and starts it again."""

    def __init__(self):
        self._folder = tempfile.mkdtemp(prefix="larder-ray-")
        self._path = os.path.join(self._folder, "larder.sock")
        self._process, self._thread = None, None
        self._stopping, self._told = threading.Event(), threading.Event()
        self._fault = None

    def address(self):
        """Where this node's daemon will listen for the others."""
        host = ray.util.get_node_ip_address()
        with _socket.socket(_socket.AF_INET6 if ":" in host else _socket.AF_INET) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def socket(self):
        return self._path

    def start(self, settings, bundle):
        """Returns when scripts are served."""
        if bundle:
            settings["cluster"]["bundle"] = os.path.join(self._folder, "bundle.pem")
            with open(os.open(settings["cluster"]["bundle"], os.O_WRONLY | os.O_CREAT, 0o600), "w",
                      encoding="ascii") as file:
                file.write(bundle)
        with open(os.path.join(self._folder, "larder.yaml"), "w", encoding="utf-8") as file:
            file.write(_yaml(settings))
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        self._told.wait(_START_S)
        if self._fault or not self._told.is_set():
            raise DaemonGone(f"larderd does not start on {ray.util.get_node_ip_address()}: "
                             f"{self._fault or 'it does not listen'}")

    def stop(self):
        self._stopping.set()
        if self._process:
            self._process.send_signal(signal.SIGTERM)
        if self._thread:
            self._thread.join(_STOP_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _keep(self):
        while not self._stopping.is_set():
            status, ready = self._run()
            if not ready and not self._told.is_set() or status in _NOT_BETTER:
                with open(self._path + ".log", encoding="utf-8", errors="replace") as log:
                    self._fault = log.read()[-2000:].strip() or f"exit status {status}"
                self._told.set()
                return
            self._stopping.wait(_PAUSE_S)

    def _run(self):
        """(its exit status, whether it has served scripts)"""
        near, far = os.pipe()
        with open(self._path + ".log", "ab") as log:
            self._process = subprocess.Popen(
                [_daemon(), "--config", os.path.join(self._folder, "larder.yaml"), "--socket", self._path,
                 "--ready-fd", str(far)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(far,), cwd="/",
                preexec_fn=_end_with_parent)
        os.close(far)
        select.select([near], [], [], _START_S)
        ready = bool(os.read(near, 1)) if select.select([near], [], [], 0)[0] else False
        os.close(near)
        if ready:
            self._told.set()
        return self._process.wait(), ready
