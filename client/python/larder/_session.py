"""One connection to the daemon: the socket, the arena that came with it, and one job's batches.

The connection is the lease: what was delivered over it is the daemon's again as soon as it closes. It closes when the
last reference goes: the loader's, or that of a zero-copy batch. Sending is one datagram and never waits for an answer,
so a garbage collector's finaliser may release a batch in any thread at any time; receiving belongs to one thread.

    connect → register → ask, wait, receive, release … → close
"""

import errno
import fcntl
import mmap
import os
import select
import socket
import struct
import time
import weakref

import numpy as np

from . import _wire
from ._version import __version__
from .errors import DaemonGone, FormatError, IOFailure, LimitReached, NotPermitted, Timeout, from_code

PATH_MAX = 107  # bytes of a unix socket's path
HANDSHAKE_S = 30
CONNECT_RETRY_S = 0.01  # while the daemon's backlog is full: poll does not tell when there is room again
_SEAL_SHRINK = getattr(fcntl, "F_SEAL_SHRINK", 2)
_GET_SEALS = getattr(fcntl, "F_GET_SEALS", 1034)

_live = weakref.WeakSet()


def _forked():
    for session in list(_live):
        session.abandon()


# The child's copy of the socket would keep the parent's lease alive after the parent's end.
os.register_at_fork(after_in_child=_forked)


def default_path():
    """Where the daemon listens when nobody says otherwise; the same rule as common/socket_path.h."""
    given = os.environ.get("LARDER_SOCKET")
    if given:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return (runtime if runtime.startswith("/") else "/run") + "/larder/larder.sock"


def check_path(path):
    if not path:
        raise LimitReached("the socket's path is empty")
    if len(os.fsencode(path)) > PATH_MAX:
        raise LimitReached(f"the socket's path '{path}' has {len(os.fsencode(path))} bytes, and the system allows "
                           f"{PATH_MAX}: choose a shorter one, with LARDER_SOCKET for example")


def _connected(sock, path):
    """Tries to connect; false when the daemon has no room for one more that waits to be accepted."""
    try:
        sock.connect(path)
    except BlockingIOError:
        return False
    return True


class Session:
    """A connection. `info` is the daemon's answer to the registration, `classes` the dataset's class names."""

    def __init__(self, path, timeout_s=HANDSHAKE_S):
        """Connects and takes the arena over. Raises DaemonGone where nobody listens."""
        check_path(path)
        self.path = path
        self.pid = os.getpid()
        self.info = None
        self.classes = []
        self.arena = None      # the mapping as uint8, read-only
        self.epoch = -1        # the epoch that batches are asked of
        self.ended = -1        # the last epoch whose last batch has come
        self.outstanding = 0   # batches asked for and not yet received
        self.held = set()      # batches that zero-copy views hold
        self._unsent = []      # releases that found the socket full
        self._batch_size = 0
        self._inbox = bytearray(_wire.REPLY_MAX)
        self._seq = 0
        self._leaving = False  # closes when the last zero-copy batch is released
        deadline = time.monotonic() + timeout_s
        self._sock = self._connect(path, deadline)
        _live.add(self)
        try:
            self._check_peer()
            self._greet(deadline)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _connect(path, deadline):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            sock.setblocking(False)
            while not _connected(sock, path):
                if time.monotonic() >= deadline:
                    raise Timeout(f"the daemon at {path} does not accept connections: it is busy or stopped. Its log "
                                  "may say why; try again, or stop it and start another")
                time.sleep(CONNECT_RETRY_S)
            sock.setblocking(True)
        except Timeout:  # which is an OSError too
            sock.close()
            raise
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            sock.close()
            raise DaemonGone(f"no daemon answers at {path}: start larderd, or point LARDER_SOCKET to the one to use"
                             ) from None
        except PermissionError:
            sock.close()
            raise NotPermitted(f"this user may not use the daemon's socket {path}") from None
        except OSError as error:
            sock.close()
            raise IOFailure(f"connecting to {path}: {error.strerror}") from error
        except BaseException:
            sock.close()
            raise
        return sock

    def _check_peer(self):
        """Whoever may write to the socket's folder could answer there, and what comes from a daemon is trained on."""
        credentials = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        pid, uid, _ = struct.unpack("iII", credentials)
        if uid not in (os.geteuid(), 0):
            raise NotPermitted(f"the process that answers at {self.path} (pid {pid}) is user {uid}'s, and only a "
                               f"daemon of your own (user {os.geteuid()}) or root's is trusted: set LARDER_SOCKET to "
                               "one")

    def _greet(self, deadline):
        self._send(_wire.hello(self._next_seq(), self.pid, b"python/" + __version__.encode()))
        self._wait(deadline, "the daemon's greeting")
        fds = []
        try:
            message = self._receive_into(fds)
            kind, _, welcome = _wire.decode(message)
            if kind == _wire.ERROR:
                raise from_code(welcome.code, welcome.text)
            if kind != _wire.WELCOME or len(fds) != 1:
                raise FormatError(f"the daemon at {self.path} did not greet with its arena")
            self._map(fds[0], welcome.arena_bytes)
        finally:
            for fd in fds:
                os.close(fd)

    def _map(self, fd, arena_bytes):
        # A file that can shrink, or is smaller than promised, would end this process with SIGBUS.
        try:
            sealed = fcntl.fcntl(fd, _GET_SEALS) & _SEAL_SHRINK
        except OSError:
            sealed = 0
        if not sealed or arena_bytes == 0 or os.fstat(fd).st_size < arena_bytes:
            raise FormatError(f"the arena that the daemon at {self.path} passed is not sealed, or smaller than it says")
        try:
            mapping = mmap.mmap(fd, arena_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
        except (OSError, ValueError, OverflowError) as error:
            raise IOFailure(f"mapping {arena_bytes} bytes of arena of the daemon at {self.path}: {error}") from error
        self.arena = np.frombuffer(mapping, np.uint8)

    def register(self, job, timeout_s=None):
        """Registers the job and fetches the class names. Blocks while the daemon indexes the dataset."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.info = self._ask_for(_wire.register(self._next_seq(), job), _wire.REGISTERED, deadline)
        self._batch_size = job.batch_size
        self._check_info()
        total = self.info.n_classes
        while len(self.classes) < total:
            page = self._ask_for(_wire.classes_get(self._next_seq(), len(self.classes)), _wire.CLASSES, deadline)
            if page.first != len(self.classes) or page.count == 0 or page.total != total:
                raise FormatError(f"the daemon at {self.path} sent class names out of order")
            self.classes += page.names

    def _check_info(self):
        info = self.info
        pixels = info.height * info.width * info.channels * np.dtype(_wire.DTYPES[info.dtype]).itemsize
        if info.height and (info.sample_bytes != pixels or not 0 < pixels <= self.arena.size):
            raise FormatError(f"the daemon at {self.path} says that a sample has {info.sample_bytes} bytes, which does "
                              f"not fit its shape of {info.height} x {info.width} x {info.channels} or the arena")
        if info.held_max < 1:
            raise FormatError(f"the daemon at {self.path} allows this job no batch at all")

    # ── batches ──

    def begin(self, epoch):
        """From here on batches of `epoch` are asked for; what was still to come of an earlier one is dropped."""
        self.epoch = epoch
        self.outstanding = 0

    def ask(self, prefetch):
        """Tops the batches that are on their way up to `prefetch`, as far as the held ones leave room."""
        while self._unsent:
            self._send(_wire.release(self._unsent.pop()))
        room = self.info.held_max - len(self.held)
        missing = min(prefetch, room, _wire.CREDITS_MAX) - self.outstanding
        if missing > 0:
            self._send(_wire.next_batches(self.epoch, missing))
            self.outstanding += missing

    def wait(self, timeout_s):
        """Waits until a message is there. An exception from here (Ctrl-C) loses nothing."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._wait(deadline, "a batch")

    def receive(self):
        """The next batch of the running epoch; None when the message was something else. Does not wait."""
        kind, _, batch = _wire.decode(self._receive_into([]))
        if kind == _wire.ERROR:
            raise from_code(batch.code, batch.text)
        if kind == _wire.TURNS:  # decoding has checked it, and this session keeps no record of turns
            return None
        if kind != _wire.BATCH:
            raise FormatError(f"the daemon at {self.path} sent a message of type {kind} where batches were expected")
        if batch.epoch != self.epoch:
            self.release(batch.batch)
            return None
        self._check(batch)
        self.outstanding -= 1
        if batch.last:
            self.ended = batch.epoch
        return batch

    def next_is_empty(self):
        """Whether the message that is there is a batch without samples; it stays there."""
        try:
            size = self._sock.recv_into(self._inbox, 0, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False
        if size == 0:
            return False
        kind, _, batch = _wire.decode(memoryview(self._inbox)[:size])
        return kind == _wire.BATCH and batch.entries.size == 0

    def _check(self, batch):
        offset, length = batch.entries["offset"], batch.entries["len_bytes"]
        if batch.entries.size == 0:
            return
        if batch.entries.size > self._batch_size:
            raise FormatError(f"the daemon at {self.path} sent a batch of {batch.entries.size} where "
                              f"{self._batch_size} is the job's batch size")
        if self.info.height and not (length == self.info.sample_bytes).all():
            raise FormatError(f"the daemon at {self.path} sent a batch whose samples are not of the registered size")
        room = np.uint64(self.arena.size)
        # A length beyond the arena makes its difference wrap around; the first comparison has refused it then.
        if not ((length <= room) & (offset <= room - length)).all():
            raise FormatError(f"the daemon at {self.path} sent a batch that reaches beyond its arena")

    def check_lease(self):
        """After the bytes of a batch were read, or before they are handed out: raises where the daemon has ended the
        connection, which it does before it gives their place to others. Does not wait."""
        poller = select.poll()
        if self._sock is not None:
            poller.register(self._sock.fileno(), 0)  # a hang-up is told unasked, whatever lies unread before it
            if not poller.poll(0):
                return
            self._raise_last_words()
        raise self._gone()

    def release(self, batch):
        """Gives a batch's slots back; any thread. Never waits, and never fails: where the daemon is gone there is
        nothing left to give back."""
        self.held.discard(batch)
        if self._leaving and not self.held:
            self.close()
        sock = self._sock
        if sock is None or self.pid != os.getpid():
            return
        try:
            sock.send(_wire.release(batch), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._unsent.append(batch)
        except OSError:
            pass

    # ── messages ──

    def _next_seq(self):
        self._seq += 1
        return self._seq

    def _gone(self):
        return DaemonGone(f"the daemon at {self.path} has gone away; its log says why. Start it and iterate again")

    def _send(self, message):
        if self._sock is None:
            raise self._gone()
        try:
            self._sock.send(message, socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF):
                # What the daemon said before it hung up explains more than the broken pipe.
                self._raise_last_words()
                raise self._gone() from None
            raise IOFailure(f"sending to the daemon at {self.path}: {error.strerror}") from error

    def _raise_last_words(self):
        while self._sock is not None and self._readable(0):
            try:
                kind, _, message = _wire.decode(self._receive_into([]))
            except DaemonGone:
                return
            if kind == _wire.ERROR:
                raise from_code(message.code, message.text)

    def _readable(self, wait_s):
        poller = select.poll()
        poller.register(self._sock.fileno(), select.POLLIN)
        return bool(poller.poll(None if wait_s is None else max(0, wait_s) * 1000))

    def _wait(self, deadline, what):
        if self._sock is None:
            raise self._gone()
        if not self._readable(None if deadline is None else deadline - time.monotonic()):
            raise Timeout(f"{what} did not come in time from the daemon at {self.path}")

    def _receive_into(self, fds):
        """One message into the inbox, as a view that the next call overwrites; file descriptors go to `fds`."""
        sock = self._sock
        if sock is None:  # a signal's handler has closed it
            raise self._gone()
        try:
            ancillary = socket.CMSG_SPACE(16)
            size, control, flags, _ = sock.recvmsg_into(
                [self._inbox], ancillary, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            raise Timeout(f"no message from the daemon at {self.path}") from None
        except OSError:
            raise self._gone() from None
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.extend(np.frombuffer(data[:len(data) // 4 * 4], np.intc).tolist())
        if size == 0:
            raise self._gone()
        if flags & socket.MSG_TRUNC:
            raise FormatError(f"the daemon at {self.path} sent a message longer than {_wire.REPLY_MAX} bytes")
        return memoryview(self._inbox)[:size]

    def _ask_for(self, request, kind_wanted, deadline):
        self._send(request)
        self._wait(deadline, "an answer")
        kind, seq, fields = _wire.decode(self._receive_into([]))
        if kind == _wire.ERROR:
            raise from_code(fields.code, fields.text)
        if kind != kind_wanted or seq != self._seq:
            raise FormatError(f"the daemon at {self.path} answered something that was not asked")
        return fields

    # ── the end ──

    @property
    def usable(self):
        return self._sock is not None and self.pid == os.getpid()

    def close(self):
        """Says goodbye and closes; everything held is the daemon's again."""
        if self.usable:
            try:
                self._sock.send(_wire.bye(), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            except OSError:
                pass
        self.abandon()

    def leave(self):
        """Closes as soon as no zero-copy batch is held: the connection is the lease of those that are."""
        self._leaving = True
        if not self.held:
            self.close()

    def interrupt(self):
        """Ends what another thread waits for; any thread. The connection is of no more use then."""
        sock = self._sock
        if sock is not None and self.usable:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def abandon(self):
        """Closes without a word: after a fork, the connection is the parent's."""
        sock, self._sock = self._sock, None
        if sock is not None:
            sock.close()

    def __del__(self):
        try:
            if getattr(self, "_sock", None) is not None:
                self.close()
        except Exception:  # at the interpreter's end the modules used here may be gone already
            pass
