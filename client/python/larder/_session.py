"""One connection to the daemon: the socket, the arena that came with it, and one job's batches.

The connection is the lease: what was delivered over it is the daemon's again as soon as it closes. It closes when the
last reference goes: the loader's, or that of a zero-copy batch. Sending is one datagram and never waits for an answer,
so a garbage collector's finaliser may release a batch in any thread at any time; receiving belongs to one thread.

    connect → register → ask, wait, receive, release … → close

What comes while something else is waited for is kept, in its order.
"""

import collections
import errno
import os
import select
import socket
import time

import numpy as np

from . import _columns, _layout, _process, _record, _wire
from ._options import not_here
from ._socket import bytes_of, connect, descriptors, file_of, gone, map_arena, no_descriptor
from ._socket_path import check_path
from ._version import __version__
from .errors import (DaemonGone, FormatError, IOFailure, JobCancelled, LarderError, NotFound, Timeout, VersionMismatch,
                     from_code)
from .transforms import in_python

HANDSHAKE_S = 30
_POLL_MOST_S = 10**6      # that poll() can be told to wait
SETTLE_S = 5          # that a daemon is given to see what was sent
STATE_LATE_S = 10     # that the daemon's word on a state may come after the time it was given
_TOKEN_MOST = 1 << 20  # bytes of a token, besides a bit for each sample
_HISTORY_MOST = 16     # bytes of a history for each sample
# Flags as plain numbers: an enum's | and & take longer than the call that they are for.
_QUIETLY = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
_CLOSED_AT_EXEC = int(socket.MSG_CMSG_CLOEXEC)
_AT_ONCE = int(socket.MSG_DONTWAIT) | _CLOSED_AT_EXEC
_LOST_FDS, _TOO_LONG = int(socket.MSG_CTRUNC), int(socket.MSG_TRUNC)
_CONTROL_BYTES = socket.CMSG_SPACE(16)

_all = np.logical_and.reduce  # without what all() does in Python
_largest = np.maximum.reduce
_FEW = 64  # numbers, the largest of which Python finds before NumPy has begun
_BATCH = _wire.BATCH
_NOTHING = None, None
_ANSWERS = _wire.STATE, _wire.CLASSES, _wire.COLUMN
_LENGTH = np.dtype("<u4")  # of a sample, in a batch's entries
_LENGTH_BYTES = _LENGTH.itemsize


def draws_of(job, samples):
    """Draws of a whole epoch of a job whose subset has so many samples."""
    return samples * job.copies if job.copies else job.draws or samples


class Session:
    """A connection. `info` is the daemon's answer to the registration, `classes` the dataset's class names."""

    def __init__(self, path):
        """Not connected yet, so that another thread can end it while connect() goes on."""
        check_path(path)
        self.path = path
        self.pid = os.getpid()
        self.info = None
        self.classes = []
        self.arena = None      # a read-only memoryview of it, whose slices cost less than an array's …
        self.address = 0       # … and where it begins
        self.epoch = -1        # the epoch that batches are asked of
        self.outstanding = 0   # batches asked for and not yet received
        self._standing = False  # the daemon was told that the script stands still until the next one comes
        self.held = set()      # batches that zero-copy views hold
        self._sock = None
        self._unsent = collections.deque()  # releases that found the socket full
        self._timeout_s = None  # that a full socket may be waited for
        self._batch_size = 0
        self._one_length = None  # as many times as a batch has samples, where all have the same …
        self._last_offset = 0    # … and the last place of the arena where one can begin
        self._inbox = memoryview(bytearray(_wire.REPLY_MAX))
        self._inboxes = [self._inbox]  # as recvmsg_into takes it
        self._lies = None      # of the message in the inbox: its size, what control data came with it, and flags
        self._came = collections.deque()  # (type, fields) of messages that nobody has looked at
        self._turns = None     # those of the batch that comes next
        self._seq = 0
        self._question = 0     # the seq of an open STATE_GET, CLASSES_GET or COLUMN_GET
        self._answer = None    # to it: a token, a page of classes, a column, or the daemon's error
        self.done = {}         # by rank: (epoch, the history of another one that has had its share of that)
        self._leaving = False  # closes when the last zero-copy batch is released
        self._over = False     # by interrupt()
        self._lost_fds = False  # with the message that came last
        self.torn = False      # Ctrl-C came between a message and what is known of it here

    def connect(self, timeout_s=HANDSHAKE_S):
        """Connects and takes the arena over. Raises DaemonGone where nobody listens."""
        deadline = time.monotonic() + timeout_s
        self._sock = connect(self.path, deadline, lambda: self._over)
        _process.sessions.add(self)
        try:
            if self._over:
                raise gone(self.path)
            self._greet(deadline)
        except BaseException:
            self.close()
            raise

    def _greet(self, deadline):
        self._send(_wire.hello(self._next_seq(), self.pid, b"python/" + __version__.encode()))
        self._wait(deadline, "the daemon's greeting")
        fds = []
        try:
            kind, _, welcome = _wire.decode(self._message(fds))
            if kind == _wire.ERROR:
                raise from_code(welcome.code, in_python(welcome.text))
            if kind == _wire.WELCOME and not fds and self._lost_fds:
                raise no_descriptor(f"the daemon at {self.path} passed its arena")
            if kind != _wire.WELCOME or len(fds) != 1:
                raise FormatError(f"the daemon at {self.path} did not greet with its arena")
            self.arena = map_arena(self.path, fds[0], welcome.arena_bytes)
            self.address = np.frombuffer(self.arena, np.uint8).ctypes.data
        finally:
            for fd in fds:
                os.close(fd)

    def register(self, job, timeout_s=None, record=None):
        """Registers the job, with the bytes of a record of what was taken where there is one, and fetches the class
        names. Blocks while the daemon indexes the dataset."""
        self._timeout_s = timeout_s
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        request = _wire.register(self._next_seq(), job, with_state=record is not None)
        beside = job.sets + job.weights + (record or b"")
        fd = file_of(beside) if beside else -1
        try:
            self.info = self._ask_for(request, _wire.REGISTERED, deadline, () if fd < 0 else (fd,))
        finally:
            if fd >= 0:
                os.close(fd)
        self._batch_size = job.batch_size
        self._check_info(b'"parts"' in job.pipeline)
        if self.info.layout and not self.info.layout.ragged:
            self._one_length = np.full(job.batch_size, self.info.sample_bytes, _LENGTH).tobytes()
            self._last_offset = len(self.arena) - self.info.sample_bytes
        self.draws = draws_of(job, self.info.n_samples)
        self._sets = _record.SETS_MAX if job.sampler else 1  # that a token may have
        total = self.info.n_classes
        while len(self.classes) < total:
            page = self._ask_for(_wire.classes_get(self._next_seq(), len(self.classes)), _wire.CLASSES, deadline)
            if page.first != len(self.classes) or page.count == 0 or page.total != total:
                raise FormatError(f"the daemon at {self.path} sent class names out of order")
            self.classes += page.names

    def _check_info(self, parts):
        info = self.info
        one = not parts and len(info.layout) > 0 and info.layout[0].name in _layout.ALONE
        if one and (len(info.layout) > 1 or info.layout[0].offset):
            raise VersionMismatch(f"the daemon at {self.path} makes samples of several fields ({info.layout}), and "
                                  "this package asked for an image: install the release of Larder that the daemon has")
        if info.layout and info.sample_bytes > len(self.arena):
            raise FormatError(f"the daemon at {self.path} says that a sample has {info.sample_bytes} bytes, and its "
                              f"arena has {len(self.arena)}")
        if info.held_max < 1:
            raise FormatError(f"the daemon at {self.path} allows this job no batch at all")
        if info.n_samples > info.dataset_samples:
            raise FormatError(f"the daemon at {self.path} says that {info.n_samples} samples are part of a dataset of "
                              f"{info.dataset_samples}")

    # ── batches ──

    def begin(self, epoch):
        """From here on batches of `epoch` are asked for; what was still to come of an earlier one is dropped."""
        self.epoch = epoch
        self.outstanding = 0
        self._standing = False

    def ask(self, prefetch, standing=False):
        """Tops the batches that are on their way up to `prefetch`, as far as the held ones leave room. `standing`: the
        script goes on when the next one comes. A Timeout, where the daemon does not read, loses nothing: the next call
        goes on."""
        if self._unsent:
            self._release_unsent()
        room = self.info.held_max - len(self.held)
        missing = (prefetch if prefetch < room else room) - self.outstanding
        if missing > 0:
            awaited = self.outstanding + missing
            self._send(_wire.next_batches(self.epoch, missing, awaited if standing else _wire.AHEAD))
            self.outstanding, self._standing = awaited, standing

    def _release_unsent(self):
        while self._unsent:
            batch = self._unsent.popleft()
            try:
                self._send(_wire.release(batch))
            except Timeout:
                self._unsent.appendleft(batch)
                raise

    def wait(self, timeout_s):
        """Waits until a message is there. An exception from here (Ctrl-C) loses nothing."""
        if self._came:
            return
        if not self._standing:
            if self._is_there():
                return
            self._stand()
        if timeout_s is None:
            self._is_there(waits=True)
        elif not self._is_there():
            self._wait(time.monotonic() + timeout_s, "a batch")

    def _stand(self):
        """Tells the daemon that the script stands still, where no request for batches has told it: none was missing.
        Never waits, and never fails: only what the daemon says of its waiting depends on it."""
        self._standing = True
        sock = self._sock
        if sock is None:
            return
        try:
            sock.send(_wire.next_batches(self.epoch, 0, self.outstanding), _QUIETLY)
        except OSError:
            pass

    def receive(self):
        """The next batch of the running epoch, and the indices whose turn in the epoch is over with it; None when the
        message was something else. Does not wait."""
        kind, batch = self._came.popleft() if self._came else self._take_in()
        if kind != _BATCH:
            self._take_other(kind, batch)
            return None
        moved, self._turns = self._turns, None
        if batch.epoch != self.epoch:
            self.release(batch.batch)
            return None
        turns = self._check(batch, moved)
        self.outstanding -= 1
        self._standing = False
        return batch, turns

    def _take_other(self, kind, fields):
        if kind is None:
            return
        if kind == _wire.ERROR:
            raise self._error(fields)
        if kind != _wire.TURNS:
            raise FormatError(f"the daemon at {self.path} sent a message of type {kind} where batches were expected")
        self._turns = fields

    def next_is_empty(self):
        """Whether the message that is there is a batch without samples, which stays there; None where it was something
        else than a batch, and no more is there."""
        if not self._came:
            self._keep()
        if not self._came:
            return None
        kind, batch = self._came[0]
        return kind == _BATCH and batch.entries.size == 0

    def _check(self, batch, moved):
        """Checks a batch, and gives the indices whose turn is over with it."""
        entries = batch.entries
        count, turns = entries.size, entries["index"]
        if moved is not None:
            if moved.batch != batch.batch or moved.turns["position"][-1] >= count:
                raise FormatError(f"the daemon at {self.path} sent turns that do not belong to their batch")
            turns = turns.copy()
            turns[moved.turns["position"]] = moved.turns["index"]
            turns = turns[turns != _wire.TURN_NONE]
        if turns.size and (max(turns.tolist()) if count <= _FEW else int(_largest(turns))) >= self.info.dataset_samples:
            raise FormatError(f"the daemon at {self.path} sent a sample beyond the {self.info.dataset_samples} of the "
                              "dataset")
        if count == 0:
            return turns
        if count > self._batch_size:
            raise FormatError(f"the daemon at {self.path} sent a batch of {count} where {self._batch_size} is the "
                              "job's batch size")
        offset, length = entries["offset"], entries["len_bytes"]
        if self._one_length is not None:
            if length.tobytes() != self._one_length[:count * _LENGTH_BYTES]:
                raise FormatError(f"the daemon at {self.path} sent a batch whose samples are not of the registered "
                                  "size")
            inside = (max(offset.tolist()) if count <= _FEW else int(_largest(offset))) <= self._last_offset
        else:
            sample_bytes = self.info.sample_bytes
            if self.info.layout and (int(_largest(length)) > sample_bytes or not _all(length % 64 == 0)):
                raise FormatError(f"the daemon at {self.path} sent a batch with samples longer than the "
                                  f"{sample_bytes} bytes that were registered, or of odd lengths")
            room = np.uint64(len(self.arena))
            # A length beyond the arena makes its difference wrap around; the first comparison has refused it then.
            inside = _all((length <= room) & (offset <= room - length))
        if not inside:
            raise FormatError(f"the daemon at {self.path} sent a batch that reaches beyond its arena")
        return turns

    def check_lease(self):
        """After the bytes of a batch were read, or before they are handed out: raises where the daemon has ended the
        connection, which it does before it gives their place to others. Does not wait."""
        if self.has_ended:
            self.raise_end()

    def raise_end(self):
        """Raises what tells of the end of a connection that the daemon has ended."""
        self._raise_last_words()
        raise gone(self.path)

    @property
    def has_ended(self):
        """Whether either side has closed the connection; any thread."""
        poller = select.poll()
        try:
            poller.register(self.fileno(), 0)  # a hang-up is told unasked, whatever lies unread before it
        except ValueError:
            return True
        return bool(poller.poll(0))

    def release(self, batch):
        """Gives a batch's slots back that views may have held; any thread. As give_back()."""
        self.held.discard(batch)
        if self._leaving and not self.held:
            self.close()
        return self.pid == os.getpid() and self.give_back(batch)

    def give_back(self, batch):
        """Gives a batch's slots back. Never waits, and never fails: where the daemon is gone there is nothing left to
        give back. False: it has ended the connection, as check_lease() has it."""
        sock = self._sock
        if sock is None:
            return False
        try:
            sock.send(_wire.release(batch), _QUIETLY)
        except BlockingIOError:  # only of a connection that is still there
            self._unsent.append(batch)
        except OSError:
            return False
        return True

    # ── what the ranks have taken ──

    def ask_state(self, epoch, batches, timeout_s):
        """The bytes of a token: what all ranks had taken when each had taken `batches` of the epoch, since its base.
        Waits until they have, or raises what the daemon says."""
        return self._ask(lambda seq: _wire.state_get(seq, epoch, batches, int(timeout_s * 1000)),
                         time.monotonic() + timeout_s + STATE_LATE_S)

    def settle(self):
        """Waits until the daemon has seen what was sent so far, and has said to others what they are to know of it."""
        self._ask(lambda seq: _wire.classes_get(seq, self.info.n_classes), time.monotonic() + SETTLE_S)

    def ask_column(self, name, timeout_s):
        """A column of the dataset by its name, as _columns.read has it; raises NotFound where there is none."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            asked = os.fsencode(name)
        except UnicodeEncodeError:
            asked = b""
        if not 0 < len(asked) <= _wire.COLUMN_MAX or b"\0" in asked:
            raise NotFound(f"no column is called {name[:100]!r}: a name has 1 to {_wire.COLUMN_MAX} bytes, and no zero "
                           "byte")
        return self._ask(lambda seq: _wire.column_get(seq, asked), deadline, f"column {name!r}")

    def _ask(self, request, deadline, what="what the ranks have taken"):
        """The answer to a question. What else comes meanwhile is kept."""
        self._await_answer(deadline, what)  # to a question whose asker did not wait
        self._answer = None
        question = self._next_seq()
        self.torn = True
        try:
            self._send(request(question))
        except Timeout:
            self.torn = False  # it was not sent
            raise
        self._question, self.torn = question, False
        self._await_answer(deadline, what)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def _await_answer(self, deadline, what):
        while self._question:
            self._wait(deadline, what)
            self._keep()

    # ── messages ──

    def _next_seq(self):
        self._seq += 1
        return self._seq

    def _error(self, fields):
        """A daemon that goes says so with an error that is fatal. Of a job alone it says so when it was cancelled."""
        error = from_code(fields.code, in_python(not_here(fields.text)))
        if isinstance(error, DaemonGone):
            if not fields.fatal:
                return JobCancelled(f"{fields.text}. To train again, make another Loader")
            error.lost = self.info is not None
        return error

    def _send(self, message, fds=()):
        """Sends a message. Where the daemon does not read, it may be waiting until this side does: what comes meanwhile
        is kept. Raises Timeout where the message was not sent."""
        if self._sent(message, fds):
            return
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not self._sent(message, fds):
            if not self._poll(select.POLLIN | select.POLLOUT, deadline):
                raise Timeout(f"the daemon at {self.path} does not read: it is busy or stopped")
            if self._is_there():
                torn = self.torn
                try:
                    self._keep()
                except DaemonGone:
                    self._raise_last_words()
                    raise
                self.torn = torn

    def _sent(self, message, fds):
        """Sends a message, or gives false where the socket is full."""
        sock = self._sock
        if sock is None:
            raise gone(self.path)
        try:
            if fds:
                socket.send_fds(sock, [message], fds, _QUIETLY)
            else:
                sock.send(message, _QUIETLY)
            return True
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF):
                # What the daemon said before it hung up explains more than the broken pipe.
                self._raise_last_words()
                raise gone(self.path) from None
            raise IOFailure(f"sending to the daemon at {self.path}: {error.strerror}") from error

    def _raise_last_words(self):
        try:
            while self._sock is not None and self._is_there():
                self._keep()
        except DaemonGone:
            pass
        for kind, fields in self._came:
            if kind == _wire.ERROR:
                raise self._error(fields)

    def _poll(self, events, deadline):
        """Waits for one of the events, or the connection's end; whether it has come by the deadline."""
        poller = select.poll()
        try:
            poller.register(self.fileno(), events)
        except ValueError:
            raise gone(self.path) from None
        while deadline is not None and deadline - time.monotonic() > _POLL_MOST_S:  # or for ever
            if poller.poll(_POLL_MOST_S * 1000):
                return True
        return bool(poller.poll(None if deadline is None else max(0, deadline - time.monotonic()) * 1000))

    def _wait(self, deadline, what):
        if self._lies is None and not self._poll(select.POLLIN, deadline):
            raise Timeout(f"{what} did not come in time from the daemon at {self.path}")

    def _keep(self):
        """Takes the message that is there, and keeps it for receive() where it is for that."""
        self.torn = True
        try:
            kind, fields = self._take_in()
            if kind is not None:
                self._came.append((kind, fields))
            self.torn = False
        except LarderError:
            self.torn = False
            raise

    def _take_in(self):
        """(type, fields) of the message that is there. One that is not for receive() it keeps itself, as the answer to
        an open question for instance, and gives _NOTHING."""
        fds = []
        try:
            kind, seq, fields = _wire.decode(self._message(fds))
            if kind == _BATCH:
                return kind, fields
            if kind in _ANSWERS or (kind == _wire.ERROR and seq and not fields.fatal):
                if seq == self._question:  # another one nobody waits for
                    self._answer = self._answer_of(kind, fields, fds)
                    self._question = 0
                return _NOTHING
            if kind == _wire.DONE:
                self.done[fields.rank] = fields.epoch, self._history(fields, fds)
                return _NOTHING
            return kind, fields
        finally:
            for fd in fds:
                os.close(fd)

    def _answer_of(self, kind, fields, fds):
        """What answers a question: the token of a STATE, a column, the fields of others, or the error in its place."""
        if kind == _wire.ERROR:
            return from_code(fields.code, in_python(not_here(fields.text)))
        if kind not in (_wire.STATE, _wire.COLUMN):
            return fields
        what = "a state" if kind == _wire.STATE else "a column"
        if not fds and self._lost_fds:
            return no_descriptor(f"the daemon at {self.path} passed {what}")
        fd = self._passed(fds, f"sent {what}")
        if kind == _wire.COLUMN:
            return _columns.read(self.path, fields, fd)
        most = _TOKEN_MOST + self._sets * _record.set_bytes(self.info.dataset_samples)
        return bytes_of(self.path, fd, fields.n_bytes, most)

    def _passed(self, fds, what):
        """The descriptor of a message that has one."""
        if len(fds) != 1:
            raise FormatError(f"the daemon at {self.path} {what} without a descriptor")
        return fds[0]

    def _history(self, fields, fds):
        most = _TOKEN_MOST + _HISTORY_MOST * max(self.info.dataset_samples, self.draws)
        return bytes_of(self.path, self._passed(fds, f"said what rank {fields.rank} has had"), fields.n_bytes, most)

    def take_in_rest(self):
        """Keeps what the daemon said before its end."""
        try:
            self._raise_last_words()
        except LarderError:
            pass  # it has ended, and why is known

    def _is_there(self, waits=False):
        """Whether there is a message, which lies in the inbox then. Does not wait, or for ever."""
        if self._lies is not None:
            return True
        sock = self._sock
        if sock is None:  # a signal's handler has closed it
            raise gone(self.path)
        flags = _CLOSED_AT_EXEC if waits else _AT_ONCE
        self._inbox[0] = 0
        try:
            try:
                self._lies = sock.recvmsg_into(self._inboxes, _CONTROL_BYTES, flags)
            except ConnectionResetError:  # told once, ahead of what the daemon had still sent: its last words perhaps
                self._lies = sock.recvmsg_into(self._inboxes, _CONTROL_BYTES, flags)
        except BlockingIOError:
            return False
        except BaseException as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise gone(self.path) from None
            # A signal's handler raised it, before the message was received or after: none begins with a zero.
            self.torn = self.torn or (self._lies is None and self._inbox[0] != 0)
            raise
        return True

    def _message(self, fds):
        """The message that is there; file descriptors go to `fds`."""
        if self._lies is None and not self._is_there():
            raise Timeout(f"no message from the daemon at {self.path}")
        (size, control, flags, _), self._lies = self._lies, None
        if control:
            fds += descriptors(control)
        self._lost_fds = flags & _LOST_FDS  # the kernel drops those for which there is no place
        if size == 0:
            raise gone(self.path)
        if flags & _TOO_LONG:
            raise FormatError(f"the daemon at {self.path} sent a message longer than {_wire.REPLY_MAX} bytes")
        return self._inbox[:size].tobytes()

    def _ask_for(self, request, kind_wanted, deadline, fds=()):
        self._send(request, fds)
        self._wait(deadline, "an answer")
        kind, seq, fields = _wire.decode(self._message([]))
        if kind == _wire.ERROR:
            raise self._error(fields)
        if kind != kind_wanted or seq != self._seq:
            raise FormatError(f"the daemon at {self.path} answered something that was not asked")
        return fields

    # ── the end ──

    def fileno(self):
        """The socket's; -1 once it is closed."""
        sock = self._sock
        return -1 if sock is None else sock.fileno()

    @property
    def usable(self):
        return self._sock is not None and self.pid == os.getpid()

    def close(self):
        """Says goodbye and closes; everything held is the daemon's again."""
        if self.usable:
            try:
                self._sock.send(_wire.bye(), _QUIETLY)
            except OSError:
                pass
        self.abandon()

    def leave(self):
        """Closes as soon as no zero-copy batch is held: the connection is the lease of those that are."""
        self._leaving = True
        if not self.held:
            self.close()

    @property
    def interrupted(self):
        return self._over

    def interrupt(self, goodbye=False):
        """Ends what another thread waits for; any thread. The connection is of no more use then."""
        self._over = True
        sock = self._sock
        if sock is not None and self.usable:
            try:
                if goodbye:
                    sock.send(_wire.bye(), _QUIETLY)
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
