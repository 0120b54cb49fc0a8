"""A daemon in one container, and scripts in others: what configs/ says for Kubernetes and compose fits together, and
works where each has mounts, processes and a network of its own."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import unittest

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, SLOW, SOURCE, Case, main, tree, until

try:
    import yaml
except ImportError:
    yaml = None
try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

USER = 1000
INSIDE = "/mnt"
SOCKET = "/run/larder/larder.sock"

# What a container runtime does with the folder of the node's sockets ($1) and the datasets: a container sees both, and
# nothing else of the others. 64 KiB are all that Docker gives /dev/shm in the narrowest case.
CONTAINER = f"""\
set -e
mount -t tmpfs none {INSIDE}
mkdir {INSIDE}/python {INSIDE}/bin {INSIDE}/data
mount --bind "$2" {INSIDE}/python
mount --bind "$3" {INSIDE}/bin
mount --bind "$4" {INSIDE}/data
cp "$5" {INSIDE}/larder.yaml
chmod 644 {INSIDE}/larder.yaml
mkdir {INSIDE}/run
mount --bind "$1" {INSIDE}/run
mount -t tmpfs -o mode=755 none /run
mkdir /run/larder
mount --move {INSIDE}/run /run/larder
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs -o mode=1777,size=64k none /dev/shm
mount -t proc proc /proc
shift 5
exec setpriv --reuid={USER} --regid={USER} --clear-groups --no-new-privs --bounding-set=-all env -i \\
    PATH=/usr/bin:/bin LARDER_SOCKET={SOCKET} PYTHONPATH={INSIDE}/python "$@"
"""

# It waits within its epoch until it is told to go on.
SCRIPT = f"""\
import os, sys
import larder
train = larder.Loader("{INSIDE}/data", [larder.CenterCrop(32)], 4, output="numpy", epochs=2, with_ids=True, timeout=240)
for epoch in range(2):
    seen = []
    for images, labels, ids in train:
        seen += ids.tolist()
        if epoch == 0 and len(seen) == 8:
            print("in the middle", os.getpid(), flush=True)
            sys.stdin.readline()
    print(sorted(seen) == list(range(len(seen))), len(seen), flush=True)
"""


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def can():
    """Whether containers can be played: only root can."""
    if os.geteuid() != 0:
        return False
    try:
        return subprocess.run(["unshare", "-m", "-p", "-f", "-n", "-i", "sh", "-c",
                               f"mount -t tmpfs none {INSIDE} && mount -t proc proc /proc && setpriv --reuid={USER} "
                               f"--clear-groups {sys.executable} -c 'import numpy'"], stderr=subprocess.DEVNULL
                              ).returncode == 0
    except OSError:
        return False


class Containers(Case):
    def setUp(self):
        super().setUp()
        if not can():
            self.skipTest("this user can have no mounts and processes of its own")
        os.chmod(self.folder, 0o755)
        self.node = os.path.join(self.folder, "node")  # the hostPath folder, as the init container leaves it
        os.mkdir(self.node)
        os.chown(self.node, USER, USER)
        self.settings = os.path.join(self.folder, "settings.yaml")
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        self.data = tree(61)

    def start(self, *command, **options):
        process = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "-n", "-i", "-u", "sh", "-c", CONTAINER, "sh", self.node,
             PACKAGE, BIN, self.data, self.settings, *command], **options)
        self.addCleanup(process.wait)
        self.addCleanup(self.kill, process, signal.SIGKILL)
        return process

    def kill(self, container, how):
        """Its first process; all others of the container end with it."""
        if container.poll() is None:
            with open(f"/proc/{container.pid}/task/{container.pid}/children", encoding="ascii") as file:
                for process in file.read().split():
                    os.kill(int(process), how)

    def start_daemon(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            daemon = self.start(f"{INSIDE}/bin/larderd", "--config", f"{INSIDE}/larder.yaml", stderr=log)
        self.assertTrue(until(lambda: daemon.poll() is not None or self.ping() == 0, 30))
        self.assertIsNone(daemon.poll())
        return daemon

    def ping(self):
        """The probe, in a container of its own."""
        return self.start(f"{INSIDE}/bin/larder", "ping", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()

    def start_script(self, code, *environment):
        return self.start(*environment, sys.executable, "-B", "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True)

    def line(self, script):
        came, _, _ = select.select([script.stdout], [], [], 60 * SLOW)
        self.assertTrue(came, "the script says nothing")
        return script.stdout.readline()

    def test_another_container(self):
        """Two scripts in containers of their own train with the daemon of another one. It is killed with its container
        in the middle of their epoch, and another one comes: each epoch has each sample once."""
        first = self.start_daemon()
        scripts = [self.start_script(SCRIPT), self.start_script(SCRIPT)]
        for script in scripts:
            self.assertEqual(self.line(script), "in the middle 1\n")  # the first process of its container
        self.kill(first, signal.SIGKILL)
        first.wait()
        second = self.start_daemon()
        for script in scripts:
            said, _ = script.communicate("\n", timeout=120 * SLOW)
            self.assertEqual((said, script.returncode), ("True 61\nTrue 61\n", 0))
        self.assertIsNone(second.poll())

    def test_the_end(self):
        """The first process of a container gets SIGTERM, and ends with status 0; what it leaves does not hinder the
        next container."""
        daemon = self.start_daemon()
        self.kill(daemon, signal.SIGTERM)
        self.assertEqual(daemon.wait(60 * SLOW), 0)
        self.assertNotEqual(self.ping(), 0)
        self.start_daemon()

    @unittest.skipUnless(yaml, "no PyYAML")
    def test_the_training_pod(self):
        """The script of the training pod trains in a container."""
        self.start_daemon()
        settings, _ = yaml.safe_load_all(read("configs", "kubernetes", "training.yaml"))
        script = self.start_script(settings["data"]["train.py"], f"DATASET={INSIDE}/data", "EPOCHS=2")
        said, _ = script.communicate(timeout=120 * SLOW)
        self.assertEqual((said, script.returncode), ("epoch 0: 61 samples\nepoch 1: 61 samples\n", 0))


class Files(Case):
    def setUp(self):
        super().setUp()
        if not yaml:
            self.skipTest("no PyYAML")
        self.config, self.daemons = yaml.safe_load_all(read("configs", "kubernetes", "larderd.yaml"))
        self.script, self.training = yaml.safe_load_all(read("configs", "kubernetes", "training.yaml"))

    def test_the_settings(self):
        """The daemon takes the settings of the ConfigMap, and the file that its argument names is where they are."""
        path = os.path.join(self.folder, "larder.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.config["data"]["larder.yaml"])
        done = subprocess.run([os.path.join(BIN, "larder"), "check", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        pod = self.daemons["spec"]["template"]["spec"]
        where = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        self.assertEqual(pod["containers"][0]["args"][1], where["config"] + "/larder.yaml")

    def test_they_agree(self):
        """Daemon and training have one user, one socket in one folder of the node, and datasets at one path; nobody is
        root but the one that makes the folder, and nobody has an account's token."""
        pods = [each["spec"]["template"]["spec"] for each in (self.daemons, self.training)]
        seen = []
        for pod in pods:
            self.assertIs(pod["automountServiceAccountToken"], False)
            container, = pod["containers"]
            security = container["securityContext"]
            self.assertEqual((security["runAsNonRoot"], security["capabilities"]), (True, {"drop": ["ALL"]}))
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume}
            socket = {item["name"]: item["value"] for item in container["env"]}["LARDER_SOCKET"]
            self.assertEqual(os.path.dirname(socket), mounts["socket"])
            seen.append((security["runAsUser"], security["runAsGroup"], socket, mounts["socket"], mounts["data"],
                         paths))
        self.assertEqual(seen[0], seen[1])
        folder, = pods[0]["initContainers"]
        self.assertIn(str(seen[0][0]), folder["command"])
        self.assertEqual(folder["command"][-1], seen[0][3])
        image = read("configs", "Containerfile")
        self.assertIn(f"USER {seen[0][0]}:{seen[0][1]}\n", image)
        self.assertIn(f"LARDER_SOCKET={seen[0][2]} ", image)

    def test_compose(self):
        """compose.yaml builds the Containerfile, and gives both services one user, the socket's folder and the
        dataset."""
        services = yaml.safe_load(read("configs", "compose.yaml"))["services"]
        build = services["larderd"]["build"]
        self.assertTrue(os.path.exists(os.path.join(SOURCE, "configs", build["context"], build["dockerfile"])))
        self.assertEqual(services["larderd"]["user"], services["training"]["user"])
        self.assertLessEqual(set(services["training"]["volumes"]), set(services["larderd"]["volumes"]))

    def test_the_probes(self):
        """The commands that probe and stop a daemon are commands of larder, and do so."""
        daemon = self.daemon()
        container = self.daemons["spec"]["template"]["spec"]["containers"][0]
        probe = container["readinessProbe"]["exec"]["command"]
        for name in ("startupProbe", "livenessProbe"):
            self.assertEqual(container[name]["exec"]["command"], probe)
        told = json.loads(re.search(r"(?m)^HEALTHCHECK .*CMD (\[.*\])$", read("configs", "Containerfile")).group(1))
        self.assertEqual(told, probe)

        def run(command):
            return subprocess.run([os.path.join(BIN, os.path.basename(command[0])), *command[1:]],
                                  env=dict(os.environ, LARDER_SOCKET=daemon.socket), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode

        self.assertEqual(run(probe), 0)
        self.assertEqual(run(container["lifecycle"]["preStop"]["exec"]["command"]), 0)
        self.assertEqual(daemon.process.wait(60 * SLOW), 0)
        self.assertNotEqual(run(probe), 0)

    def test_the_schema(self):
        """Kubernetes takes the files."""
        if not kubernetes_validate:
            self.skipTest("no kubernetes-validate")
        for resource in (self.config, self.daemons, self.script, self.training):
            kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


class Containerfile(Case):
    def test_it_installs_what_the_build_needs(self):
        """The first stage installs all packages that ./run build does, but for those of tests; and copies each folder
        of the product."""
        image = read("configs", "Containerfile")
        words = re.search(r"(?sm)^BUILD_PACKAGES=\((.*?)\)", read("run")).group(1)
        stage = image.split("\nFROM ")[1].split()
        for word in words.replace("'", "").split():
            if word not in ("libcmocka-dev", "libvips-dev", "python3-numpy"):
                self.assertTrue(set(word.split("|")) & set(stage), word)
        for folder in re.findall(r"(?m)^add_subdirectory\((\w+)\)$", read("CMakeLists.txt")):
            self.assertIn(f"COPY {folder} /larder/{folder}\n", image)


if __name__ == "__main__":
    main()
