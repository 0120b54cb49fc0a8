"""What the daemon tells of a job on its control socket: nng's REQ/REP protocol over a unix socket, as far as it is
needed for one question. Training needs none of it, and whatever goes wrong here is no error: then nothing is known."""

import json
import os
import socket
import struct
import time

WAIT_S = 0.5
ANSWER_MAX = 16 << 20

_HELLO = struct.Struct(">4sHH")
_SP = b"\0SP\0"
_REQ, _REP = 0x30, 0x31
_HEAD = struct.Struct(">BQI")  # 1: a message; its length; the request's number
_NUMBER = 0x80000001
_PEER = struct.Struct("3i")


def jobs(path):
    """The daemon's jobs, as `larder jobs --json` shows them, by name; None where it does not tell."""
    try:
        return {job["name"]: job for job in _answer(path, "jobs")["jobs"]}
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def status(path):
    """What `larder status --json` shows; None where the daemon does not tell."""
    try:
        return _answer(path, "status")["status"]
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _answer(path, what):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as peer:
        return json.loads(_ask(peer, path + ".control", json.dumps({"v": 1, "op": what}).encode()))


def _ask(peer, path, request):
    deadline = time.monotonic() + WAIT_S
    peer.settimeout(WAIT_S)
    peer.connect(path)
    _, user, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (0, os.geteuid()):
        raise OSError("another user's")
    peer.sendall(_HELLO.pack(_SP, _REQ, 0) + _HEAD.pack(1, len(request) + 4, _NUMBER) + request)
    if _HELLO.unpack(_take(peer, _HELLO.size, deadline)) != (_SP, _REP, 0):
        raise ValueError("no nng")
    kind, length, number = _HEAD.unpack(_take(peer, _HEAD.size, deadline))
    if kind != 1 or number != _NUMBER or not 4 <= length <= ANSWER_MAX:
        raise ValueError("no answer")
    return _take(peer, length - 4, deadline)


def _take(peer, length, deadline):
    parts = []
    while length:
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        part = peer.recv(min(length, 1 << 20))
        if not part:
            raise OSError("the connection has ended")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
