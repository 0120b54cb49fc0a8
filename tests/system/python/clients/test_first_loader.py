"""The first Loader starts its daemon wherever a script can run: whatever XDG_RUNTIME_DIR says, whoever owns /run, and
whatever the launcher has closed, ignored or masked. Each case has a /run, /tmp and /dev/shm of its own, in a mount
namespace, and mostly a user with no home and no rights."""

import os
import subprocess
import sys

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, SLOW, Case, main, skip, tree

USER, OTHER = 4242, 4343
INSIDE = "/mnt"  # where a case sees what it needs, whoever may read the folders that it lies in

START = f"""\
set -e
mount -t tmpfs none {INSIDE}
mkdir {INSIDE}/python {INSIDE}/bin {INSIDE}/data {INSIDE}/own
mount --bind "$1" {INSIDE}/python
mount --bind "$2" {INSIDE}/bin
mount --bind "$3" {INSIDE}/data
cp "$4" {INSIDE}/larder.yaml
chmod 644 {INSIDE}/larder.yaml
chown {USER}:{USER} {INSIDE}/own
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs -o mode=1777 none /dev/shm
as_other() {{ setpriv --reuid={OTHER} --regid={OTHER} --clear-groups "$@"; }}
eval "$5"
shift 5
exec "$@"
"""

# Where Python and C think that the daemon is: the path, or what speaks against it.
RULE = f"""\
import re, subprocess, sys
sys.path.insert(0, "{INSIDE}/python")
import larder
from larder._socket_path import default_path
try:
    print(default_path())
except larder.LarderError as error:
    print(error)
said = subprocess.run(["{INSIDE}/bin/larder", "ping"], stderr=subprocess.PIPE, text=True).stderr
path = re.search(r"answers at (.*?): ", said)
print(path[1] if path else said.strip().replace("larder: ", "", 1))
"""

# A Loader, and the end of the daemon that it has started.
LOADER = f"""\
import os, signal, sys
sys.path.insert(0, "{INSIDE}/python")
import larder
before()
loader = larder.Loader("{INSIDE}/data", [larder.CenterCrop(32)], 4, output="numpy", timeout=240)
samples, path = sum(len(labels) for _, labels in loader), loader._job.link.path
loader.close()
pid = int(open(path + ".lock").read())
end = os.pidfd_open(pid)
modes = [oct(os.stat(name).st_mode & 0o777) for name in (os.path.dirname(path), path, path + ".log")]
os.kill(pid, signal.SIGTERM)
signal.alarm(120)
__import__("select").select([end], [], [])
os.umask(0o22)
with open("{INSIDE}/own/said", "w") as file:
    print(samples, path, *modes, file=file)
"""

BELOW_TMP = f"/tmp/larder-{USER}/larder.sock"
BELOW_SHM = f"/dev/shm/larder-{USER}/larder.sock"
OWN = f"{INSIDE}/own"

# name, XDG_RUNTIME_DIR, what comes before, the path or words of the error
RULES = [
    ("none", None, "", BELOW_TMP),
    ("empty", "", "", BELOW_TMP),
    ("its own", OWN, "", OWN + "/larder/larder.sock"),
    ("not there", "/run/user/4242", "", BELOW_TMP),
    ("relative", "own", "", BELOW_TMP),
    ("a file", OWN + "/file", f"as_user touch {OWN}/file", BELOW_TMP),
    ("root's", "/run/user/0", "mkdir -p -m 700 /run/user/0", BELOW_TMP),
    ("root's, and all may look", "/run/user/0", "mkdir -p /run/user/0", BELOW_TMP),
    ("another user's", "/run/other", f"mkdir /run/other; chown {OTHER} /run/other", BELOW_TMP),
    ("another user's that all may write to", "/run/other", f"mkdir -m 777 /run/other; chown {OTHER} /run/other",
     BELOW_TMP),
    ("one that all may write to", "/run/all", "mkdir -m 1777 /run/all", BELOW_TMP),
    ("its own that others may write to", OWN, f"chmod 777 {OWN}", BELOW_TMP),
    ("its own without the right to write", OWN, f"chmod 500 {OWN}", BELOW_TMP),
    ("its own with another's folder in it", OWN, f"mkdir {OWN}/larder; chown {OTHER} {OWN}/larder", BELOW_TMP),
    ("its own with a file in the folder's place", OWN, f"as_user touch {OWN}/larder", BELOW_TMP),
    ("root's with its own folder in it", "/run", f"mkdir /run/larder; chown {USER} /run/larder",
     "/run/larder/larder.sock"),
    ("none, with its own folder in /run", None, f"mkdir /run/larder; chown {USER} /run/larder",
     "/run/larder/larder.sock"),
    ("none, after root's use", None, "mkdir -m 700 /run/larder", BELOW_TMP),
    ("none, with root's socket for it", None, f"mkdir /run/larder; listen /run/larder/larder.sock; "
     f"chown root:{USER} /run/larder/larder.sock; chmod 660 /run/larder/larder.sock", "/run/larder/larder.sock"),
    ("none, with root's socket for others", None, "mkdir /run/larder; listen /run/larder/larder.sock; "
     "chmod 600 /run/larder/larder.sock", BELOW_TMP),
    ("another user's socket in /run", None, f"mkdir /run/larder; listen /run/larder/larder.sock; "
     f"chown {OTHER} /run/larder/larder.sock; chmod 666 /run/larder/larder.sock", BELOW_TMP),
    ("full", OWN + "/full", f"mkdir {OWN}/full; mount -t tmpfs -o size=4k,mode=700,uid={USER} none {OWN}/full; "
     f"head -c 4096 /dev/zero > {OWN}/full/all", BELOW_TMP),
    ("full of files", OWN + "/full", f"mkdir {OWN}/full; "
     f"mount -t tmpfs -o nr_inodes=1,mode=700,uid={USER} none {OWN}/full", BELOW_TMP),
    ("read-only", OWN + "/ro", f"mkdir {OWN}/ro; mount -t tmpfs -o ro,mode=700,uid={USER} none {OWN}/ro", BELOW_TMP),
    ("too long", OWN + "/" + 80 * "x", f"as_user mkdir {OWN}/{80 * 'x'}", BELOW_TMP),
    ("long", OWN + "/" + 71 * "x", f"as_user mkdir {OWN}/{71 * 'x'}", f"{OWN}/{71 * 'x'}/larder/larder.sock"),
    ("none, and the folder is there", None, f"as_user mkdir -m 755 /tmp/larder-{USER}", BELOW_TMP),
    ("none, and another has the folder", None, f"as_other mkdir -m 777 /tmp/larder-{USER}", "have it removed, or set"),
    ("none, and it is a link", None, f"as_other ln -s {OWN} /tmp/larder-{USER}", "have it removed, or set"),
    ("none, and it is its own link", None, f"as_user ln -s {OWN} /tmp/larder-{USER}", "have it removed, or set"),
    ("none, and it is a file", None, f"as_user touch /tmp/larder-{USER}", "have it removed, or set"),
    ("none, and others may write to the folder", None,
     f"as_user mkdir /tmp/larder-{USER}; chmod 777 /tmp/larder-{USER}", "have it removed, or set"),
    ("none, and no /tmp", None, "umount /tmp; mount -t tmpfs -o ro none /tmp", BELOW_SHM),
    ("none, and nothing to write to", None, "umount /tmp; mount -t tmpfs -o ro none /tmp; chmod 755 /dev/shm",
     "neither /tmp nor /dev/shm can be written to"),
]

# name, the script's environment, what comes before as root, words before the script, what the script does first
LOADERS = [
    ("a container's user", {}, "", [], "pass"),
    ("a closed standard input, output and error", {"XDG_RUNTIME_DIR": OWN}, "",
     ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"], "pass"),
    ("SIGCHLD and SIGPIPE ignored, a systemd-run that can start nothing",
     {"XDG_RUNTIME_DIR": OWN, "PATH": f"{INSIDE}/programs:/usr/bin:/bin"},
     f"mkdir {INSIDE}/programs; printf '#!/bin/sh\\nexit 1\\n' > {INSIDE}/programs/systemd-run; "
     f"chmod 755 {INSIDE}/programs/systemd-run", ["env", "--ignore-signal=CHLD", "--ignore-signal=PIPE"], "pass"),
    ("a umask that masks all", {"XDG_RUNTIME_DIR": OWN}, "", [], "os.umask(0o777)"),
    ("a home and a TMPDIR that are not there", {"HOME": "/no/home", "TMPDIR": "/no/tmp"}, "", [], "pass"),
    ("no /tmp to write to, no /dev/shm", {"XDG_RUNTIME_DIR": OWN},
     "umount /tmp; mount -t tmpfs -o ro none /tmp; umount /dev/shm; mount -t tmpfs -o ro none /dev/shm", [], "pass"),
]


def can():
    """Whether mount namespaces and users can be had: only root can."""
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", INSIDE], stderr=subprocess.DEVNULL
                              ).returncode == 0 and \
            subprocess.run(["setpriv", f"--reuid={USER}", "--clear-groups", sys.executable, "-c", "import numpy"],
                           stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


class FirstLoader(Case):
    def setUp(self):
        super().setUp()
        self.settings = os.path.join(self.folder, "settings.yaml")
        with open(self.settings, "w") as file:
            file.write(CONFIG)

    def run_case(self, code, environment, prepare="", words=()):
        """What a script of the plain user says, where `prepare` has been done."""
        as_user = f'as_user() {{ setpriv --reuid={USER} --regid={USER} --clear-groups "$@"; }}\n'
        listen = ('listen() { "$0" -c "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); '
                  's.bind(sys.argv[1])" "$1"; }\n').replace("$0", sys.executable)
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", START, "sh", PACKAGE, BIN, tree(16, classes=2), self.settings,
             as_user + listen + prepare, "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups",
             "env", "-i", "PATH=/usr/bin:/bin", f"LARDERD={INSIDE}/bin/larderd", f"LARDER_CONFIG={INSIDE}/larder.yaml",
             *(f"{name}={value}" for name, value in environment.items()),
             "sh", "-c", f'cd {INSIDE}; "$@" || exit; test ! -e {OWN}/said || cat {OWN}/said', "sh", *words,
             sys.executable, "-B", "-c", code],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * SLOW)
        return done

    def test_where_it_is(self):
        """Python and C come to the same path, or to the same error, for every kind of XDG_RUNTIME_DIR, /run, /tmp and
        /dev/shm; LARDER_SOCKET goes before all."""
        for name, runtime, prepare, expected in RULES:
            with self.subTest(name):
                done = self.run_case(RULE, {} if runtime is None else {"XDG_RUNTIME_DIR": runtime}, prepare)
                said = done.stdout.splitlines()
                self.assertEqual(len(said), 2, done.stdout + done.stderr)
                self.assertEqual(said[0], said[1])
                self.assertTrue(said[0] == expected if expected.startswith("/") else expected in said[0], said[0])
        said = self.run_case(RULE, {"XDG_RUNTIME_DIR": OWN, "LARDER_SOCKET": "/some/where"}).stdout.splitlines()
        self.assertEqual(said, ["/some/where", "/some/where"])

    def test_a_loader(self):
        """A Loader gets all its samples, from a daemon that it has started; what it has made is its user's alone, and
        usable by the next script whatever the umask was."""
        for name, environment, prepare, words, first in LOADERS:
            with self.subTest(name):
                code = "import os\ndef before():\n    " + first + "\n" + LOADER
                done = self.run_case(code, environment, prepare, words)
                where = environment.get("XDG_RUNTIME_DIR")
                path = BELOW_TMP if where is None else where + "/larder/larder.sock"
                self.assertEqual(done.stdout.split(), ["16", path, "0o700", "0o600", "0o600"], done.stderr)


if __name__ == "__main__":
    if not can():
        skip("this user can have no mounts and users of its own")
    main()
