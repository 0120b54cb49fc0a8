"""The sessions of this process: what becomes of them where it forks, and at its end."""

import atexit
import os
import weakref

sessions = weakref.WeakSet()


def names():
    """Those of the jobs of this process, as bytes."""
    return {os.fsencode(session.info.name) for session in list(sessions) if session.usable and session.info}


def _forked():
    for session in list(sessions):
        session.abandon()


# The child's copy of the socket would keep the parent's lease alive after the parent's end.
os.register_at_fork(after_in_child=_forked)


@atexit.register
def _end():
    """What something else refers to at the interpreter's end, as torch does, is never finalised. Without a goodbye its
    script would look as if it had died."""
    for session in list(sessions):
        session.interrupt(goodbye=True)
