"""A Loader's way to the daemon: opens sessions, and opens another when one has ended and may be made again.

It tries as long as it is told to. That counts the time without a connection since a batch came last, so that a daemon
which ends again and again is given up. A Timeout or Ctrl-C in between changes nothing, and the next call goes on.
"""

import logging
import os
import threading
import time
import weakref

from . import _autostart
from ._session import HANDSHAKE_S, Session
from ._socket import NO_DESCRIPTOR, no_descriptor
from ._socket_path import default_path
from .errors import Busy, DaemonGone, JobCancelled, LarderError, LimitReached, Timeout

PAUSE_FIRST_S, PAUSE_MOST_S = 0.01, 0.5  # between two tries
OWN_END_S = 5.0  # until a daemon has noticed that this process has closed a session of the same job

_log = logging.getLogger("larder")


class Link:
    def __init__(self, socket, timeout_s, reconnect_s):
        self.session = None
        self.reconnects = 0
        self.done = {}        # of all sessions of the job, as a session has it
        self._socket = socket
        self._timeout_s = timeout_s
        self._reconnect_s = reconnect_s
        self._lost_s = None   # when the connection was lost that is not there again
        self._spent_s = 0.0   # without one before, since a batch came
        self._pause_s = 0.0   # before the next try
        self._why = ""        # how the last connection was lost
        self._told = False    # what is awaited, besides a daemon
        self._starts = _autostart.Pace()
        self._former = None   # the session that was let go last
        self._opening = None  # what open() has to wait for at this moment
        self.is_over = False  # check_open() raises
        self._ended = threading.Event()
        self._cancelled = None  # the text that said so

    @property
    def path(self):
        return self._socket or default_path()

    def open(self, register, may_be_busy):
        """A session in which register(session) has registered the job. Where the last one was lost, tries until the
        time for that is over, also while this process has no descriptor free; where `may_be_busy`, as long while others
        have the job's name."""
        began_s = time.monotonic()
        while True:
            if self._spent_s and self._spent_s >= self._reconnect_s:
                self._give_up(DaemonGone(f"{self._why}. Whatever daemon took the job over went before a batch came, "
                                         f"for {self._reconnect_s:.3g} s without a connection"))
            self._ended.wait(self._pause_s)
            try:
                self.session = self._opened(register)
                break
            except (DaemonGone, Busy, Timeout, LimitReached) as error:
                if isinstance(error, LimitReached) and not error._passing:
                    raise
                self._slow_down()
                if isinstance(error, DaemonGone) and error.lost:
                    self.lose(error)
                self._check_on(error, time.monotonic() - began_s, may_be_busy)
            finally:
                self._opening = None
        if self._lost_s is not None:
            self._spent_s, self._lost_s = self._away_s(), None
            self.reconnects += 1
            _log.info("connected to the daemon at %s again, after %.1f s", self.session.path, self._spent_s)
        self._told = False
        return self.session

    def _slow_down(self):
        """A try has led to nothing. One that Ctrl-C ended says nothing of the next."""
        self._pause_s = min(max(2 * self._pause_s, PAUSE_FIRST_S), PAUSE_MOST_S)

    def _opened(self, register):
        if self._socket is None and not os.environ.get("LARDER_SOCKET"):
            try:
                return _autostart.with_daemon(default_path(), self._connected, register, self._starts)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                raise no_descriptor(f"starting a daemon at {default_path()}") from error
        session = self._connected()
        register(session)
        return session

    def _connected(self):
        session = self._opening = Session(self.path)
        session.done = self.done
        self.check_open()  # close() looks for `_opening` after it has said that it is the end
        session.connect(HANDSHAKE_S if self._timeout_s is None else self._timeout_s)
        return session

    def _check_on(self, error, waited_s, may_be_busy):
        """Raises where there is no other try."""
        self.check_open()
        lost = self._lost_s is not None
        tried_s = self._away_s() if lost else waited_s
        limit_s = self._reconnect_s if lost or may_be_busy and isinstance(error, Busy) else 0.0
        if isinstance(error, Busy) and self._former is not None and not lost:
            limit_s = max(limit_s, OWN_END_S)
        if tried_s >= limit_s:
            self._give_up(self._too_late(error) if lost else error)
        self._tell(error)
        if self._timeout_s is not None and waited_s >= self._timeout_s:
            raise Timeout(f"{error}. It was waited for {waited_s:.3g} s, and the next call goes on") from error

    def _tell(self, error):
        """Says what is awaited, once, where it is more than that a daemon comes, or that the last one's end is noticed.
        """
        passing = error.lost or error._absent if isinstance(error, DaemonGone) else \
            isinstance(error, Busy) and self._pause_s < PAUSE_MOST_S
        if not self._told and not passing:
            self._told = True
            _log.warning("%s. Trying again, for up to %g s", error, self._reconnect_s)

    def _too_late(self, error):
        """The error when a lost connection was not made again in time: what was lost, and why the last try failed."""
        # No Timeout, after which the next call would go on.
        kind = next((kind for kind in (Busy, LimitReached) if isinstance(error, kind)), DaemonGone)
        late = kind(f"{self._why}. No daemon took the job over within {self._reconnect_s:.3g} s: {error}")
        late.__cause__ = error
        return late

    def _give_up(self, error):
        self._lost_s, self._told = None, False
        self._spent_s = self._pause_s = 0.0
        raise error

    def forget(self):
        """What was lost is not to be made again: the next session is another job's."""
        self.done = {}
        self._lost_s, self._told = None, False
        self.progress()

    def _away_s(self):
        return self._spent_s + time.monotonic() - self._lost_s

    def progress(self):
        """A batch has come, or the job was given up: another loss is another matter."""
        self._spent_s = self._pause_s = 0.0
        self._starts.reset()

    def lose(self, error):
        """Notes that the connection has ended."""
        session, self.session = self.session, None
        if session is not None:
            session.take_in_rest()
            session.arena = None  # views keep it; without them the dead daemon's memory is free for the next one
            session.abandon()  # what zero-copy batches hold of it, the daemon has taken back, or nobody has
            if self._spent_s:  # and no batch since
                self._slow_down()
        self._why = str(error)  # the error itself would keep the frames that it came through, and what is in them
        if self._lost_s is not None or not self._reconnect_s:
            return
        self._lost_s = time.monotonic()
        job = f"job {session.info.name}: " if session is not None and session.info is not None else ""
        _log.warning("%s%s. Connecting again, for up to %g s", job, error, self._reconnect_s)

    def let_go(self):
        """Is without a session. Zero-copy batches that are held keep theirs: the connection is their lease."""
        session, self.session = self.session, None
        if session is not None:
            session.leave()
            self._former = weakref.ref(session)

    def holds_former(self):
        """Whether zero-copy batches keep a session that was let go."""
        former = self._former and self._former()
        return former is not None and former.usable

    def cancel(self, error):
        """The job was cancelled: no session is opened from here on, so that it stays so."""
        self._cancelled = str(error)
        self.is_over = True

    def may_return(self, error):
        """Whether a session that has ended with this error is to be made again."""
        return isinstance(error, DaemonGone) and error.lost and bool(self._reconnect_s) and not self._ended.is_set()

    def pause(self, pause_s):
        """Waits, unless the Loader is closed."""
        self._ended.wait(pause_s)

    def check_open(self):
        if self._ended.is_set():
            raise LarderError("this Loader is closed")
        if self._cancelled is not None:
            raise JobCancelled(self._cancelled)

    def forked(self):
        """In a child process: nothing is lost there, and another thread held the lock of what it waited for."""
        ended, self._ended = self._ended.is_set(), threading.Event()
        if ended:
            self._ended.set()
        self._opening = None
        self.forget()

    # ── the end ──

    def end(self):
        """No session is opened from here on; any thread."""
        self._ended.set()
        self.is_over = True

    def interrupt(self):
        """Ends what another thread waits for; any thread, after end()."""
        for session in (self.session, self._opening):
            if session is not None:
                session.interrupt()

    def close(self):
        session, self.session = self.session, None
        if session is not None:
            session.close()
