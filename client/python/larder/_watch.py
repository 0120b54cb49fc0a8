"""Connections of ranks, watched while their scripts do something else.

When a daemon has died nothing is drawn for a job of ranks before all of them have said what they had. A rank that waits
for another outside of its Loader, as in all_reduce, would never say so: then this connects it again. One thread of the
process sleeps until a connection ends; a thread of its own connects, so that no Loader waits for another.
"""

import os
import select
import threading
import weakref

from .errors import DaemonGone, LarderError, Timeout, without_frames

_LATER_S = 2     # once the time for it is over
_PAUSE_S = 0.05  # after a Timeout, in which the script may have its turn


def _start(name, work, *arguments):
    try:
        threading.Thread(target=work, args=arguments, name=name, daemon=True).start()
    except RuntimeError:
        pass  # no thread is left, or the interpreter ends: the job comes back at its next use


class _Watcher:
    def __init__(self):
        self.poller = None
        self.watched = {}  # by descriptor: (job, weakly, and its session, weakly)
        self.lock = threading.Lock()

    def add(self, job, session):
        with self.lock:
            if self.poller is None:
                self.poller = select.epoll()
                _start("larder-watch", self._run, self.poller)
            fd = session.fileno()
            try:
                self.poller.register(fd, select.EPOLLONESHOT)  # of a hang-up it tells unasked
            except FileExistsError:
                self.poller.modify(fd, select.EPOLLONESHOT)
            self.watched[fd] = weakref.ref(job), weakref.ref(session)

    def _run(self, poller):
        while True:
            for fd, _ in poller.poll():
                job, session = self._taken(poller, fd)
                if job is not None and session is not None:
                    _start("larder-again", _come_back, job, session)
                job = session = None

    def _taken(self, poller, fd):
        """The job and the session that a descriptor's hang-up is about. They are watched on where it is of a connection
        that had the number before, and was closed."""
        with self.lock:
            job, session = (reference() for reference in self.watched.get(fd, (lambda: None, lambda: None)))
            if session is not None and not session.has_ended:
                try:
                    poller.modify(fd, select.EPOLLONESHOT)
                    return None, None
                except OSError:
                    pass  # another thread has just closed it
            self.watched.pop(fd, None)
            return job, session


_watcher = _Watcher()


def _forked():
    global _watcher
    if _watcher.poller is not None:
        _watcher.poller.close()
    _watcher = _Watcher()


os.register_at_fork(after_in_child=_forked)


def watch(job, session):
    """Has the job come back by itself when this session ends."""
    try:
        _watcher.add(job, session)
    except (OSError, ValueError):
        pass  # no descriptor is left, or it has just been closed: it comes back at its next use


def come_back(job):
    """Has the job come back, whose script leaves its Loader without a connection."""
    if not job.returning:
        _start("larder-again", _come_back, job)


def _come_back(job, session=None):
    with job.lock:
        if session is not None and session.interrupted:
            return  # the script itself has ended it
        if job.returning or session is not None and job.link.session is session and not _is_lost(job, session):
            return  # the script is to be told
        job.returning = True
    link, job, session = job.link, weakref.ref(job), None  # of a Loader that is gone meanwhile nothing is left
    pause_s = 0
    while pause_s is not None:
        link.pause(pause_s)
        pause_s = _try(job())


def _try(job):
    """Connects the job; the pause before another try, or None."""
    if job is None:
        return None
    with job.lock:
        pause_s = None
        try:
            session = job.link.session  # the script may have been faster, and have lost that one again
            if job.begun and (session is None or _is_lost(job, session)):
                job.go_on()
        except Timeout:
            pause_s = _PAUSE_S
        except LarderError as error:
            if isinstance(error, DaemonGone) and job.begun:
                pause_s = _LATER_S  # whether that is too long is for the script to find out; others may wait for it
            else:
                job.error = without_frames(error)
        finally:
            job.returning = pause_s is not None
        return pause_s


def _is_lost(job, session):
    try:
        session.check_lease()
    except LarderError as error:
        if job.link.may_return(error):
            job.link.lose(error)
            return True
    return False
