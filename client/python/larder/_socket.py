"""The daemon's socket and the descriptors that come and go over it: whom to trust, what may be mapped."""

import errno
import fcntl
import mmap
import os
import socket
import struct
import time

import numpy as np

from .errors import DaemonGone, FormatError, IOFailure, LimitReached, NotPermitted, Timeout

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)  # errors that say that none is free
CONNECT_RETRY_S = 0.01  # while the daemon's backlog is full: poll does not tell when there is room again
_SEAL_SHRINK = getattr(fcntl, "F_SEAL_SHRINK", 2)
_GET_SEALS = getattr(fcntl, "F_GET_SEALS", 1034)


def gone(path):
    """The error for a connection that has ended."""
    log = f"{path}.log" if os.path.exists(f"{path}.log") else ""  # of one that a script started
    error = DaemonGone(f"the daemon at {path} has gone away (its log{log and ', ' + log + ','} says why, unless it was "
                       "killed)")
    error.lost = True
    return error


def failure(error, text):
    """The error for an OSError: of descriptors, where none is free, and else IOFailure with the text."""
    if error.errno in NO_DESCRIPTOR:
        return no_descriptor(text)
    return IOFailure(f"{text}: {error.strerror or error}")


def no_descriptor(text):
    error = LimitReached(f"{text}: no file descriptor is free: raise the limit (ulimit -n), or close files")
    error._passing = True
    return error


# ── connecting ──

def connect(path, deadline, is_over):
    """A socket that is connected to a daemon that is to be trusted. is_over() says whether it is of no more use."""
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise failure(error, f"connecting to {path}") from error
    try:
        sock.setblocking(False)
        while not _connected(sock, path):
            if is_over():
                raise gone(path)
            if time.monotonic() >= deadline:
                raise Timeout(f"the daemon at {path} does not accept connections: it is busy or stopped. Its log "
                              "may say why; try again, or stop it and start another")
            time.sleep(CONNECT_RETRY_S)
        sock.setblocking(True)
        _check_peer(sock, path)
    except Timeout:  # which is an OSError too
        sock.close()
        raise
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        sock.close()
        error = DaemonGone(f"no daemon answers at {path}: start larderd, or point LARDER_SOCKET to the one to use")
        error._absent = True
        raise error from None
    except PermissionError:
        sock.close()
        raise NotPermitted(f"this user may not use the daemon's socket {path}") from None
    except OSError as error:
        sock.close()
        raise failure(error, f"connecting to {path}") from error
    except BaseException:
        sock.close()
        raise
    return sock


def _connected(sock, path):
    """Tries to connect; false when the daemon has no room for one more that waits to be accepted."""
    try:
        sock.connect(path)
    except BlockingIOError:
        return False
    return True


def _check_peer(sock, path):
    """Whoever may write to the socket's folder could answer there, and what comes from a daemon is trained on."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
    pid, uid, _ = struct.unpack("iII", credentials)
    if uid not in (os.geteuid(), 0):
        raise NotPermitted(f"the process that answers at {path} (pid {pid}) is user {uid}'s, and only a daemon of your "
                           f"own (user {os.geteuid()}) or root's is trusted: set LARDER_SOCKET to one")


# ── descriptors ──

def descriptors(control):
    """The descriptors in what recvmsg gave besides a message."""
    return [fd for level, kind, data in control if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS
            for fd in np.frombuffer(data[:len(data) // 4 * 4], np.intc).tolist()]


def map_arena(path, fd, arena_bytes):
    """The arena, read-only."""
    # A file that can shrink, or is smaller than promised, would end this process with SIGBUS.
    try:
        sealed = fcntl.fcntl(fd, _GET_SEALS) & _SEAL_SHRINK
    except OSError:
        sealed = 0
    if not sealed or arena_bytes == 0 or os.fstat(fd).st_size < arena_bytes:
        raise FormatError(f"the arena that the daemon at {path} passed is not sealed, or smaller than it says")
    try:
        mapping = mmap.mmap(fd, arena_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError as error:
        raise failure(error, f"mapping {arena_bytes} bytes of arena of the daemon at {path}") from error
    except (ValueError, OverflowError) as error:
        raise IOFailure(f"mapping {arena_bytes} bytes of arena of the daemon at {path}: {error}") from error
    return memoryview(mapping)


def file_of(data):
    """A descriptor from which the daemon can read the bytes. The caller closes it."""
    fd = -1
    try:
        fd = os.memfd_create("larder-register", os.MFD_CLOEXEC)
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise failure(error, f"{len(data)} bytes for the daemon could not be put into memory") from error
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise
    return fd


def bytes_of(path, fd, length, most):
    """`length` bytes of a descriptor that the daemon passed."""
    parts, at = [], 0
    try:
        while at < length <= most:
            parts.append(os.pread(fd, length - at, at))
            if not parts[-1]:
                break
            at += len(parts[-1])
    except OSError as error:
        raise IOFailure(f"reading the state that the daemon at {path} passed: {error.strerror}") from error
    if length > most or at < length:
        raise FormatError(f"the state that the daemon at {path} passed has not the {length} bytes that it says")
    return b"".join(parts)
