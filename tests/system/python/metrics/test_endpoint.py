"""The HTTP endpoint while jobs run: what Prometheus reads is well formed and agrees with `larder status`."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from unittest import mock

import above  # noqa: F401
from system import BIN, PIPELINE, SLOW, Case, free_port, larder, main, skip, tree, until

COUNT = 120
CONFIG = """\
memory:
  arena: 64MiB
  encoded: 32MiB
catalog:
  checkpoint: none
metrics:
  port: %d
"""


def value(text, name, **labels):
    """The value of one sample of a metric in Prometheus' text format."""
    wanted = name + ("{" + ",".join(f'{key}="{label}"' for key, label in labels.items()) + "}" if labels else "")
    for line in text.splitlines():
        if line.startswith(wanted + " "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{wanted} is not in\n{text}")


class Endpoint(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.server = self.daemon(CONFIG % self.port)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20 * SLOW) as answer:
            return answer.read().decode()

    def run_two_jobs(self):
        """Two scripts in the middle of an epoch, held there."""
        folder = tree(COUNT)
        scripts = [self.script(self.server, dataset=folder, pipeline=PIPELINE, batch_size=10, epochs=3, name=name,
                               pause=[4, os.path.join(self.folder, "never")])
                   for name in ("one", "two \"quoted\\")]
        self.assertTrue(until(lambda: all(len(script.batches) == 4 for script in scripts), 60),
                        [script.errors for script in scripts])
        return scripts

    def test_metrics_with_jobs_running(self):
        """promtool accepts the text while two jobs run, and its counters are those of the status."""
        self.run_two_jobs()
        text = self.get("/metrics")
        self.assertEqual(value(text, "larder_jobs"), 2)
        delivered = value(text, "larder_job_samples_delivered_total", job="one")
        self.assertGreaterEqual(delivered, 40)
        self.assertEqual(delivered % 10, 0)
        status = json.loads(self.get("/api/v1/status"))
        self.assertEqual({job["name"] for job in status["jobs"]}, {"one", 'two "quoted\\'})
        self.assertGreaterEqual(status["samples"]["delivered"], delivered)
        promtool = shutil.which("promtool")
        if not promtool:
            skip("promtool (Debian's package prometheus) is not installed")
        check = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True,
                               timeout=60 * SLOW)
        self.assertEqual((check.returncode, check.stderr + check.stdout), (0, ""))

    def test_asking_without_end(self):
        """However often somebody asks over HTTP, the engine is asked once a second: all others are shown the same."""
        began = time.monotonic()
        shown = [json.loads(self.get("/api/v1/status"))["daemon"]["time_s"] for _ in range(100)]
        self.assertLessEqual(len(set(shown)), time.monotonic() - began + 2)
        self.assertTrue(until(lambda: json.loads(self.get("/api/v1/status"))["daemon"]["time_s"] > shown[-1], 10))

    def test_health(self):
        """Health and readiness answer 200; an unknown path 404, also one with escapes that end in the middle."""
        self.get("/-/healthy")
        self.get("/-/ready")
        for path in ("/nothing", "/%", "/metrics%2", "/-/ready/%%"):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                self.get(path)
            self.assertEqual(caught.exception.code, 404)
            caught.exception.close()
        self.assertEqual(self.server.stop(), 0)

    def test_draining(self):
        """A daemon that drains, and is held back by a batch that a script still has, is healthy but takes no jobs: it
        answers 503 when asked whether it is ready."""
        self.assertEqual(self.get("/-/ready"), "ready\n")
        batches = iter(self.loader(self.server, tree(COUNT), 10, zero_copy=True))
        held = next(batches)
        subprocess.run([os.path.join(BIN, "larder"), "drain", "--socket", self.server.socket], check=True,
                       timeout=30 * SLOW)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.get("/-/ready")
        self.assertEqual((caught.exception.code, caught.exception.read()), (503, b"not ready\n"))
        caught.exception.close()
        self.assertEqual(self.get("/-/healthy"), "healthy\n")
        self.assertEqual(self.server.status()["daemon"]["state"], "draining")
        del held


class Port(Case):
    """Where the endpoint is when its usual port is another's."""
    ANY = "memory: {arena: 64MiB, encoded: 32MiB}\ncatalog: {checkpoint: none}\n"

    def setUp(self):
        super().setUp()
        taken = socket.socket()
        self.addCleanup(taken.close)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 9450))
            taken.listen()
        except OSError:
            pass  # somebody has it already

    def told(self, daemon, command):
        return subprocess.run([os.path.join(BIN, "larder"), command, "--socket", daemon.socket], stdout=subprocess.PIPE,
                              text=True, timeout=30 * SLOW).stdout

    def test_taken(self):
        """A daemon that finds the default port taken serves at a free one; its status, doctor and log say where."""
        daemon = self.daemon(self.ANY)
        page = daemon.status()["daemon"]["page"]
        self.assertRegex(page, r"^http://127\.0\.0\.1:\d+/$")
        self.assertNotIn(":9450/", page)
        with urllib.request.urlopen(page + "-/healthy", timeout=20 * SLOW) as answer:
            self.assertEqual(answer.read(), b"healthy\n")
        self.assertIn(page, self.told(daemon, "status"))
        self.assertIn(page, self.told(daemon, "doctor"))
        self.assertTrue(daemon.logged("another process has the port of the page"))

    def test_said_by_the_script(self):
        """A script that starts a daemon logs where its page is."""
        environment = {"XDG_RUNTIME_DIR": self.folder, "LARDERD": os.path.join(BIN, "larderd"),
                       "LARDER_CONFIG": os.path.join(self.folder, "any.yaml")}
        with open(environment["LARDER_CONFIG"], "w") as file:
            file.write(self.ANY)
        with mock.patch.dict(os.environ, environment), self.assertLogs("larder", "INFO") as said:
            with larder.Loader(tree(COUNT), PIPELINE, 10, output="numpy") as loader:
                path = loader._job.link.path
            with open(path + ".lock") as file:
                pid = int(file.read())
            self.addCleanup(os.kill, pid, signal.SIGTERM)
            status = subprocess.run([os.path.join(BIN, "larder"), "status", "--json", "--socket", path],
                                    stdout=subprocess.PIPE, timeout=30 * SLOW).stdout
        self.assertIn(json.loads(status)["daemon"]["page"], said.output[0])

    def test_asked_for(self):
        """A daemon whose configuration names a port that is taken does not start, and says so."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            daemon = self.daemon(self.ANY + f"metrics: {{port: {taken.getsockname()[1]}}}\n", expect_ready=False)
            self.assertEqual(daemon.process.wait(20 * SLOW), 3)
        self.assertIn("is in use", daemon.log())

    def test_switched_off(self):
        """A daemon without metrics has no page, and says so."""
        daemon = self.daemon(self.ANY + "metrics: {enabled: false}\n")
        self.assertIsNone(daemon.status()["daemon"]["page"])
        self.assertIn("page           there is none", self.told(daemon, "doctor"))
        self.assertNotIn("page at", self.told(daemon, "status"))


if __name__ == "__main__":
    main()
