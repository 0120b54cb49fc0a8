"""Where the daemon listens when nobody says otherwise: the rule of common/socket_path.h, which says it in words."""

import os
import stat

from .errors import LimitReached, NotPermitted

PATH_MAX = 107  # bytes of a unix socket's path
_IN_BASE, _CONTROL = "/larder/larder.sock", ".control"
_SHARED = "/tmp", "/dev/shm"  # folders in which every user may make a folder


def default_path():
    """The path of this user's daemon's socket. Raises NotPermitted where it would have to lie in a folder that is not
    this user's."""
    given = os.environ.get("LARDER_SOCKET")
    if given:
        return given
    for base in os.environ.get("XDG_RUNTIME_DIR", ""), "/run":
        if base.startswith("/") and len(os.fsencode(base + _IN_BASE + _CONTROL)) <= PATH_MAX and \
                (_has_daemon(base) or _takes_daemon(base)):
            return base + _IN_BASE
    return _below_shared()


def check_path(path):
    if not path:
        raise LimitReached("the socket's path is empty")
    if len(os.fsencode(path)) > PATH_MAX:
        raise LimitReached(f"the socket's path '{path}' has {len(os.fsencode(path))} bytes, and the system allows "
                           f"{PATH_MAX}: choose a shorter one, with LARDER_SOCKET for example")


def _look(path, follow_symlinks=True):
    """None where nothing is, False where that cannot be seen."""
    try:
        return os.stat(path, follow_symlinks=follow_symlinks)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return False


def _may(path, how):
    return os.access(path, how, effective_ids=True)


def _has_daemon(base):
    path = base + _IN_BASE
    found = _look(path)
    return bool(found) and stat.S_ISSOCK(found.st_mode) and found.st_uid in (0, os.geteuid()) and _may(path, os.W_OK)


def _takes_daemon(base):
    folder, above = base + "/larder", _look(base)
    if not above or not _is_safe(above):
        return False
    found = _look(folder)
    if found:
        return _is_safe(found) and found.st_uid == os.geteuid() and _has_room(folder)
    return found is None and above.st_uid == os.geteuid() and _has_room(base)


def _is_safe(found):
    """Nobody else may put something in the place of what lies in this folder."""
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    return stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid()) and not others_write


def _has_room(folder):
    if not _may(folder, os.W_OK | os.X_OK):
        return False
    try:
        free = os.statvfs(folder)
    except OSError:
        return False
    return bool((free.f_bavail or not free.f_blocks) and
                (free.f_favail or not free.f_files))  # none at all: they are not counted


def _below_shared():
    for base in _SHARED:
        folder = f"{base}/larder-{os.geteuid()}"
        found = _look(folder, follow_symlinks=False)
        if found:
            if _is_safe(found) and found.st_uid == os.geteuid():
                return folder + "/larder.sock"
            raise NotPermitted(f"{folder} would be the folder of your daemon's socket, and is no folder that is yours "
                               f"(user {os.geteuid()}) alone to write to: have it removed, or set LARDER_SOCKET to a "
                               "path in a folder of yours")
        if _has_room(base):
            return folder + "/larder.sock"
    raise NotPermitted("there is no folder for your daemon's socket: XDG_RUNTIME_DIR is none of yours, and neither "
                       "/tmp nor /dev/shm can be written to: set LARDER_SOCKET to a path in a folder of yours")
