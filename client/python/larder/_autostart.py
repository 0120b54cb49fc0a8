"""Starting a daemon for this user, where none answers at the default socket.

Scripts that start together queue up at a lock file; the first one starts the daemon and waits until it listens, for as
long as it makes progress (to the descriptor of --ready-fd it writes dots, and a line's end when clients can connect);
the others find it there. The daemon is nobody's child and has its own session, so that neither a script's end nor
Ctrl-C in its terminal concerns it, and its own control group where systemd gives it one; it leaves after a minute
without a job.
"""

import fcntl
import logging
import os
import re
import select
import sys
import time

from ._socket_path import check_path, default_path
from .errors import DaemonGone, IOFailure, NotPermitted, Timeout

IDLE_EXIT_S = 60
STALLED_S = 60  # without progress
SCOPE_S = 10    # for systemd-run to say whether it can
TRIES = 3       # daemons that may leave just as this script comes
STARTS_AT_ONCE = 2  # without a pause
PAUSE_FIRST_S, PAUSE_MOST_S = 1, 60  # before the next start
LOG_TAIL_BYTES = 4096
LOG_MAX_BYTES = 1 << 20  # a longer one begins anew with the next daemon

_SERVING = re.compile(r'msg="serving metrics" address=(\S+) port=(\d+)')
_log = logging.getLogger("larder")


def find_daemon():
    """larderd's path: $LARDERD, beside the package, in build/bin of the source tree the package lies in, in PATH."""
    import shutil  # these modules take long to import, and few scripts start a daemon
    given = os.environ.get("LARDERD")
    if given:
        return os.path.abspath(given) if os.sep in given else shutil.which(given)
    package = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.dirname(os.path.dirname(os.path.dirname(package)))
    for candidate in (os.path.join(package, "bin", "larderd"), os.path.join(os.path.dirname(package), "larderd"),
                      os.path.join(tree, "build", "bin", "larderd")):
        if os.access(candidate, os.X_OK):
            return candidate
    return shutil.which("larderd")


class Pace:
    """How often a daemon is started for one that waits for it: starts that lead to nothing are made ever later."""

    def __init__(self):
        self.reset()

    def reset(self):
        """It has led to something."""
        self._starts = 0
        self._next_s = 0.0
        self._why = ""

    def check(self):
        """Raises where it is too early for another start."""
        if time.monotonic() < self._next_s:
            raise DaemonGone(self._why)

    def note(self, why):
        """A daemon was started; `why` is what to say while it is not there."""
        self._starts, self._why = self._starts + 1, why
        paused = self._starts - STARTS_AT_ONCE
        if paused >= 0:
            self._next_s = time.monotonic() + min(PAUSE_FIRST_S * 2 ** min(paused, 16), PAUSE_MOST_S)


def with_daemon(path, connect, register, pace):
    """register(connect()), and gives what connect gave — and where nobody answers, after starting a daemon at `path`,
    where the pace allows it. One that had been idle may leave at any moment until it has the job: then there is
    another."""
    for _ in range(TRIES):
        session = _connected(path, connect, pace)
        try:
            if session is not None:
                register(session)
                return session
        except DaemonGone as error:
            gone = error
        else:
            gone = DaemonGone(_left(path))
    raise gone


def _connected(path, connect, pace):
    """What connect() gives; None when the daemon that was started for it has left already."""
    try:
        return connect()
    except DaemonGone:
        pace.check()
    except Timeout:
        if not _is_starting(path):
            raise
    check_path(path)
    with _locked(path):
        try:
            return connect()  # another script was faster
        except DaemonGone:
            pass
        try:
            page = _start(path)
        except DaemonGone as error:
            pace.note(str(error))
            raise
        pace.note(_left(path))
        _log.info("started a daemon at %s; its log is %s.log%s. It leaves after %d s without a job", path, path,
                  f", and its page {page}" if page else "", IDLE_EXIT_S)
        try:
            return connect()
        except DaemonGone:
            return None


def _left(path):
    return f"the daemon that was started at {path} has left already: its log {path}.log says why"


def _is_starting(path):
    """Whether a script starts the daemon at this moment: it greets nobody before it is ready."""
    try:
        with open(path + ".autostart", "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


class _locked:
    """Holds the lock file beside the socket. It stays there: removing it would let two scripts lock two files."""

    def __init__(self, path):
        self._path = path + ".autostart"
        self._fd = -1

    def __enter__(self):
        try:
            _make(os.path.dirname(self._path))
            self._fd = _open(self._path, os.O_RDWR)
        except OSError as error:
            raise NotPermitted(f"no daemon answers, and none can be started at the default socket: {self._path}: "
                               f"{error.strerror}. Set XDG_RUNTIME_DIR to a folder of yours, or start larderd and set "
                               "LARDER_SOCKET") from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except BaseException:
            os.close(self._fd)
            raise

    def __exit__(self, *_):
        os.close(self._fd)


def _make(folder):
    """The folder, for this user alone whatever the umask; default_path() has looked whose it is where it is there."""
    try:
        os.mkdir(folder, 0o700)
        os.chmod(folder, 0o700)
    except FileExistsError:
        default_path()  # raises where another user has made it meanwhile


def _open(path, how):
    """A file for this user alone whatever the umask. No link: in a folder that others may write to, it would be theirs,
    and lead to a file of this user's."""
    fd = os.open(path, how | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(fd, 0o600)
        return _no_stream(fd)
    finally:
        os.close(fd)


def _no_stream(fd):
    """A duplicate that has not the number of a standard stream, as descriptors get where one is closed: the daemon has
    its own there."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def _start(path):
    daemon = find_daemon()
    if not daemon:
        raise DaemonGone(f"no daemon answers at {path}, and no larderd was found to start one: `pip install "
                         "larderd` brings one; or set LARDERD to it, put it in PATH, or point LARDER_SOCKET to a "
                         "running daemon")
    log_path = path + ".log"
    try:
        log = _open(log_path, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise IOFailure(f"opening the daemon's log {log_path}: {error.strerror}") from None
    ready, far = os.pipe()
    ready_far = _no_stream(far)
    os.close(far)
    try:
        if os.fstat(log).st_size > LOG_MAX_BYTES:
            os.ftruncate(log, 0)
        before = os.fstat(log).st_size
        _spawn(daemon, path, log, ready_far)
        os.close(ready_far)
        ready_far = -1
        _await_ready(ready, daemon, path, log_path, before)
        return _page(_tail(log_path, before))
    finally:
        for fd in (log, ready, ready_far):
            if fd >= 0:
                os.close(fd)


def _settings():
    """The words that tell a daemon its configuration: $LARDER_CONFIG, which must be there, else the user's file, which
    need not."""
    given = os.environ.get("LARDER_CONFIG")
    if given:
        return ["--config", os.path.abspath(os.path.expanduser(given))]
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(folder):  # as the XDG Base Directory Specification has it
        folder = os.path.expanduser(os.path.join("~", ".config"))
    return ["--user-config", os.path.join(folder, "larder", "larder.yaml")]


def _spawn(daemon, path, log, ready_far):
    import subprocess
    # The shell leaves at once, so the daemon is init's child and never a zombie of this process.
    scope, why_not = _control_group()
    command = ["/bin/sh", "-c", '"$@" & exit 0', "sh", *scope, daemon, *_settings(), "--idle-exit", str(IDLE_EXIT_S),
               "--socket", path, "--ready-fd", str(ready_far), "--progress",
               "--detach=" + why_not if why_not else "--detach"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(ready_far,), cwd="/",
                       start_new_session=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DaemonGone(f"starting {daemon}: {error}") from error


def _control_group():
    """The words before a command that give it a control group of its own: a script's may be limited, and ends with it
    in a step of Slurm, or at a logout. ([], why not) where systemd does not."""
    import shutil
    import subprocess
    program = shutil.which("systemd-run")
    if not program:
        return [], "there is no systemd-run"
    words = [program, *([] if os.geteuid() == 0 else ["--user"]), "--scope", "--collect", "--quiet", "--"]
    try:
        tried = subprocess.run([*words, "echo", "here"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, timeout=SCOPE_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return [], str(error)
    if tried.stdout == b"here\n":  # where SIGCHLD is ignored the exit status is always 0
        return words, None
    return [], "systemd-run: " + (" ".join(tried.stderr.decode(errors="replace").split())[:200] or
                                  f"exit status {tried.returncode}")


def _await_ready(ready, daemon, path, log_path, before):
    """Waits for the line's end, as long as dots come; the pipe's end without it means that the
    daemon failed, and its log says why."""
    poller = select.poll()
    poller.register(ready, select.POLLIN)
    came = b"."
    while came and not came.strip(b"."):
        if not poller.poll(STALLED_S * 1000):
            raise DaemonGone(f"{daemon} was started but does not listen at {path}, and has made no progress for "
                             f"{STALLED_S} s; see {log_path}")
        came = os.read(ready, 4096)
    if not came:
        raise DaemonGone(f"{daemon} did not start: {_tail(log_path, before) or 'no word why in ' + log_path}")


def _page(log):
    """The address of the page that a daemon serves, by its log; None: it serves none."""
    found = _SERVING.findall(log)
    if not found:
        return None
    address, port = found[-1]
    return f"http://{'[' + address + ']' if ':' in address else address}:{port}/"


def _tail(log_path, before):
    with open(log_path, "rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(before, log.tell() - LOG_TAIL_BYTES))
        return log.read(LOG_TAIL_BYTES).decode(sys.getfilesystemencoding(), "replace").strip()
