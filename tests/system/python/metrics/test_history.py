"""What the daemon remembers: curves and jobs, ended ones too, also after kill -9; a damaged file is begun anew."""

import datetime
import glob
import itertools
import json
import os
import re
import subprocess
import sys
import urllib.request
from unittest import mock

import above  # noqa: F401
from system import BIN, PIPELINE, SLOW, Case, files_of, free_port, larder, main, make_tree, tree, until

CONFIG = """\
memory:
  arena: 64MiB
  encoded: 32MiB
catalog:
  checkpoint: %s
metrics:
  port: %d
"""


class History(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.kept = os.path.join(self.folder, "kept")
        self.start()

    def start(self):
        self.server = self.daemon(CONFIG % (self.kept, self.port))

    def larder(self, *words):
        return subprocess.run([os.path.join(BIN, "larder"), *words, "--socket", self.server.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30 * SLOW)

    def history(self, *words):
        done = self.larder("history", *words, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def jobs(self):
        return {job["name"]: job for job in self.history()["jobs"]}

    def train(self, name, **options):
        options = {"dataset": tree(120), "pipeline": PIPELINE, "batch_size": 10, "name": name, **options}
        return self.script(self.server, **options)

    def loader(self, name, pipeline=PIPELINE):
        return larder.Loader(tree(120), pipeline, 10, output="numpy", name=name, socket=self.server.socket)

    def files(self):
        """The file, and none that is still being written, which has another name."""
        return glob.glob(os.path.join(self.kept, "history-" + 16 * "[0-9a-f]"))

    def is_kept(self, name, state):
        """Whether the file has a job in that state: its name is 129 bytes long, and the state follows."""
        for path in self.files():
            with open(path, "rb") as file:
                return name.encode().ljust(129, b"\0") + bytes([state]) in file.read()
        return False

    def shares(self):
        """What `larder jobs` has under SHARING."""
        return re.findall(r" (\d+)% +0$", self.larder("jobs").stdout, re.MULTILINE)

    def kinds(self, history, job):
        return [event["kind"] for event in history["events"] if event["job"] == job["id"]]

    def test_end_of_a_script(self):
        """A script that runs to its end has ended, though it closed nothing and something holds its Loader for ever, as
        torch may. One that is forked off takes nothing from its parent, and ranks do not come back as they end."""
        program = """
import ctypes, os, sys, larder
loader = larder.Loader(sys.argv[1], json, 10, output="numpy", name=sys.argv[3], socket=sys.argv[2],
                       rank=int(sys.argv[4]), world_size=int(sys.argv[5]), local_world_size=int(sys.argv[5]))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(loader))
for epoch in range(2):
    for batch in loader:
        pass
    if epoch == 0 and os.fork() == 0:
        sys.exit()
"""
        here = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.dirname(larder.__file__)))
        for name, ranks in (("held", 1), ("both", 2)):
            scripts = [subprocess.Popen([sys.executable, "-B", "-c", program.replace("json", repr(PIPELINE)), tree(120),
                                         self.server.socket, name, str(rank), str(ranks)], env=here,
                                        stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
            for script in scripts:
                said = script.communicate(timeout=120 * SLOW)[1]
                self.assertEqual((script.returncode, "Connecting again" in said), (0, False), said)
            self.assertTrue(until(lambda: "running" not in [job["state"] for job in self.history()["jobs"]], 20))
            job = self.history()["jobs"][-1]
            self.assertEqual((job["name"], job["state"], job["epochs_done"]), (name, "ended", 2.0))
        self.assertEqual([job["name"] for job in self.history()["jobs"]], ["held", "both"])

    def test_decodes_are_no_gifts(self):
        """Jobs of unlike pipelines decode together and give each other no prepared sample, whoever's turn it is."""
        pipelines = [[larder.RandomResizedCrop(size), larder.GaussianBlur(blur)] for size, blur in ((96, 3), (300, 23))]
        loaders = [self.loader(name, pipeline) for name, pipeline in zip(("small", "big"), pipelines)]
        for batches in zip(*(itertools.chain.from_iterable(itertools.repeat(loader, 8)) for loader in loaders)):
            del batches
        for loader in loaders:
            loader.close()
        self.assertTrue(until(lambda: [job["state"] for job in self.jobs().values()] == ["ended"] * 2, 20), self.jobs())
        self.assertEqual([job["shared"] for job in self.jobs().values()], [0, 0])
        self.assertEqual(self.history()["gave"], [])

    def test_jobs_that_ended(self):
        """What became of jobs, with their whole figures, is told while the daemon runs, and after kill -9 and after a
        stop by the next one. A job that ran then is interrupted, and one of the same name is another. One whose process
        was killed has died; one that got an exception has left its epoch."""
        self.assertEqual(self.train("short", epochs=2).wait(), 0)
        running = self.train("running", epochs=100000, step_s=0.02)
        cancelled = self.train("cancelled", epochs=100000, step_s=0.02)
        self.assertTrue(until(lambda: len(running.batches) > 3 and len(cancelled.batches) > 3, 30))
        self.assertEqual(self.larder("cancel", "cancelled").returncode, 0)
        cancelled.wait()
        self.assertTrue(until(lambda: self.jobs().get("cancelled", {}).get("state") == "cancelled", 20), self.jobs())
        killed = self.train("killed", epochs=100000, step_s=0.02)
        self.assertTrue(until(lambda: killed.batches, 30))
        killed.kill()
        killed.wait()
        self.assertTrue(until(lambda: self.jobs().get("killed", {}).get("state") == "died", 20), self.jobs())
        self.assertTrue(until(lambda: self.jobs().get("running", {}).get("delivered", 0) > 0, 20))
        with self.assertRaises(ZeroDivisionError), self.loader("raised") as loader:
            for images, labels in loader:
                images = 1 // 0
        self.assertTrue(until(lambda: self.jobs().get("raised", {}).get("state") == "left mid-epoch", 20), self.jobs())
        self.assertLess(self.jobs()["raised"]["epochs_done"], 1)
        before = self.jobs()
        self.assertEqual(before["short"]["state"], "ended")
        self.assertEqual((before["short"]["delivered"], before["short"]["epochs_done"]), (240, 2.0))
        self.assertEqual(before["running"]["state"], "running")
        # The file is whole at any time, and has the jobs soon after they ended.
        self.assertTrue(until(lambda: self.is_kept("cancelled", 2) and self.is_kept("killed", 5), 20))
        self.assertTrue(until(lambda: self.is_kept("raised", 6), 20))
        self.server.kill()
        running.close()
        self.start()
        after = self.history()
        named = {job["name"]: job for job in after["jobs"]}
        self.assertEqual({name: job["state"] for name, job in named.items()},
                         {"short": "ended", "running": "interrupted", "cancelled": "cancelled", "killed": "died",
                          "raised": "left mid-epoch"})
        self.assertEqual(self.kinds(after, named["raised"]), ["came", "left mid-epoch"])
        self.assertEqual(named["short"], {**before["short"], **{key: named["short"][key] for key in
                                                                ("per_s", "waits", "others")}})
        self.assertEqual(self.kinds(after, named["short"]), ["came", "ended"])
        self.assertEqual(self.kinds(after, named["cancelled"]), ["came", "cancelled"])
        self.assertEqual(self.kinds(after, named["killed"]), ["came", "died"])
        self.assertEqual(self.kinds(after, named["running"]), ["came", "interrupted"])
        known = r"the daemon was killed; the job is known until \d\d:\d\d:\d\d$"
        self.assertRegex(self.larder("history", "running").stdout, r"(?m)^  \d\d:\d\d:\d\d  interrupted: " + known)
        self.assertRegex(self.larder("history").stdout, "(?m)^running: " + known)
        chosen = self.history("short", "killed", "nobody")["jobs"]
        self.assertEqual([job["name"] for job in chosen], ["short", "killed"])
        self.assertEqual(len(self.history("--since", "23h")["jobs"]), len(after["jobs"]))
        self.assertEqual(self.larder("history", "nobody", "ghost").stdout, "no such job was here\n")
        self.assertEqual(self.larder("history", "--since", "25:00").returncode, 2)
        got, made = (sum(job[key] for job in chosen) for key in ("delivered", "prepared"))
        together = f"together 2 jobs got {got:,} samples, for which {made:,} were prepared: {made / got:.2f} for each" \
                   f", {max(0, 100 * (1 - made / got)):.0f}% less than preparing every one of them\n"
        self.assertIn(together, self.larder("history", "short", "killed").stdout)
        self.assertEqual([event["kind"] for event in after["events"] if not event["job"]], 2 * ["daemon started"])
        self.assertEqual(self.train("running", epochs=1).wait(), 0)
        self.assertTrue(until(lambda: self.history("running")["jobs"][-1]["state"] == "ended", 20))
        self.assertEqual([job["state"] for job in self.history("running")["jobs"]], ["interrupted", "ended"])
        stopped = self.train("stopped", epochs=100000, step_s=0.02)
        self.assertTrue(until(lambda: stopped.batches, 30))
        self.assertEqual(self.server.stop(), 0)
        stopped.close()
        self.start()
        self.assertEqual([job["state"] for job in self.history("running")["jobs"]], ["interrupted", "ended"])
        self.assertEqual([job["state"] for job in self.history("stopped")["jobs"]], ["interrupted"])

    def test_killed_at_once(self):
        """What became of a job is kept as soon as it can be asked for, though the daemon is killed then and the
        history's own file could not be written since, for a folder is in its place. A job that has just come is
        interrupted. Told once more, nothing of it comes twice, and a damaged record and what follows it is left out."""
        self.assertEqual(self.train("first", epochs=1).wait(), 0)
        self.assertEqual(self.server.stop(), 0)
        path, = self.files()
        aside = path + ".aside"
        os.rename(path, aside)
        os.mkdir(path)
        self.start()
        self.assertEqual(self.train("quick", epochs=1).wait(), 0)
        with self.loader("looked-at") as loader:
            self.assertEqual(len(loader), 12)
        with self.loader("comes") as loader:
            self.assertEqual(len(loader), 12)
            self.assertTrue(until(lambda: self.jobs().get("quick", {}).get("state") == "ended" and
                                  "comes" in self.jobs(), 20), self.jobs())
            before = self.jobs()["quick"]
            self.server.kill()
        os.rmdir(path)
        told = ("state", "delivered", "epochs_done", "begun_s", "ended_s")
        for _ in range(2):
            self.start()
            after = self.history()
            self.assertEqual([(job["name"], job["state"]) for job in after["jobs"]],
                             [("quick", "ended"), ("comes", "interrupted")])
            self.assertEqual({key: after["jobs"][0].get(key) for key in told}, {key: before.get(key) for key in told})
            self.assertEqual(self.kinds(after, after["jobs"][0]), ["came", "ended"])
            self.server.kill()
        os.rename(aside, path)
        with open(path + ".events", "wb") as file:
            file.write(b"\0" * 4000)
        self.start()
        self.assertEqual(list(self.jobs()), ["first"])

    def test_local_times(self):
        """When a job began is told in the time of the zone that the command runs in, with the zone."""
        self.assertEqual(self.train("here", epochs=1).wait(), 0)
        self.assertTrue(until(lambda: self.jobs().get("here", {}).get("state") == "ended", 20))
        began_s = self.jobs()["here"]["begun_s"]
        for zone, text in (("EAST-5:30", "+0530"), ("WEST3:30", "-0330"), ("UTC0", "+0000")):
            with mock.patch.dict(os.environ, {"TZ": zone}):
                shown = self.larder("history", "here").stdout
            found = re.search(r"^here +ended +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ([+-]\d{4})) ", shown, re.MULTILINE)
            self.assertEqual(found[2], text)
            told = datetime.datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S %z").timestamp()
            self.assertEqual(told, int(began_s), zone)

    def test_less_than_all(self):
        """An epoch is whole though its last batch is dropped, or a file is bad: the job has ended. A script that begins
        another epoch and closes in it has left."""
        folder = make_tree(os.path.join(self.folder, "damaged"), 24)
        for path in files_of(folder)[:2]:
            with open(path, "wb") as file:
                file.write(b"no image")
        for name, options, epochs, state in (("dropped", {"dataset": tree(120), "drop_last": True}, 2, "ended"),
                                             ("damaged", {"dataset": folder}, 2, "ended"),
                                             ("enough", {"dataset": tree(120)}, 1, "left mid-epoch")):
            with self.subTest(name):
                with larder.Loader(pipeline=PIPELINE, batch_size=7, output="numpy", name=name,
                                   socket=self.server.socket, **options) as loader:
                    for _ in range(epochs):
                        self.assertGreater(sum(1 for _ in loader), 2)
                    if state != "ended":
                        next(iter(loader))
                self.assertTrue(until(lambda: self.jobs().get(name, {"state": "running"})["state"] != "running", 20))
                job = self.jobs()[name]
                self.assertEqual(job["state"], state)
                self.assertEqual(int(job["epochs_done"]), epochs)
                self.assertEqual(job["epochs_done"] > epochs, state != "ended")

    def test_took_nothing(self):
        """A Loader that was only looked at, and one that got a state before it took anything, leave no row."""
        with self.loader("looked-at") as loader:
            self.assertEqual(len(loader), 12)
        with self.loader("first") as loader:
            next(iter(loader))
            state = loader.state_dict()
        with self.loader("goes-on") as loader:
            self.assertEqual(loader.epoch, 0)  # it is registered
            loader.load_state_dict(state)
            self.assertEqual(sum(len(images) for images, labels in loader), 110)
        self.assertTrue(until(lambda: self.jobs().get("goes-on", {}).get("state") == "ended", 20), self.jobs())
        history = self.history()
        self.assertEqual(sorted(job["name"] for job in history["jobs"]), ["first", "goes-on"])
        self.assertEqual({event["job"] for event in history["events"]}, {0, *(job["id"] for job in history["jobs"])})

    def test_curves(self):
        """Throughput, waits and what others gave, by time; over HTTP the same as by the command; as a table."""
        scripts = [self.train(name, epochs=100000, step_s=0.02) for name in ("a", "b")]

        def full():
            jobs = self.jobs()
            return all(name in jobs and len([value for value in jobs[name].get("per_s", ()) if value]) >= 1
                       for name in ("a", "b"))
        self.assertTrue(until(full, 60), [script.errors for script in scripts])
        self.assertTrue(until(lambda: self.history()["gave"], 60))
        self.train("later", dataset=tree(400), epochs=2)  # reads files that were not read before the first second
        self.assertTrue(until(lambda: any(self.history()["daemon"]["read"][0]), 60))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/history?span=600&job=a",
                                    timeout=20 * SLOW) as answer:
            told = json.loads(answer.read())
        self.assertEqual([job["name"] for job in told["jobs"]], ["a"])
        job, daemon = told["jobs"][0], told["daemon"]
        self.assertEqual(sorted(job["causes"]), ["load", "prepare", "rank", "room"])
        self.assertTrue(told["from_s"] <= told["now_s"] <= told["from_s"] + told["steps"] * told["step_s"])
        self.assertEqual(told["steps"] * told["step_s"], 600)
        for curve in (job["per_s"], job["waits"], job["others"], daemon["delivered"], daemon["read"][0]):
            self.assertEqual(len(curve), told["steps"])
        for name, least in (("prepared_per_delivered", 0), ("arena_bytes", 1), ("encoded_bytes", 1),
                            ("rss_bytes", 1 << 20), ("cores", 0)):
            values = [value for value in daemon[name] if value is not None]
            self.assertTrue(values and max(values) > 0 and min(values) >= 0 and max(values) >= least, (name, values))
        self.assertGreater(max(value or 0 for value in daemon["read"][0]), 0)  # of the sources
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20 * SLOW) as answer:
            counted = re.search(r"^larder_history_bytes (\S+)$", answer.read().decode(), re.MULTILINE)[1]
        self.assertTrue(1 << 20 < float(counted) < 16 << 20, counted)
        known = [value for value in job["waits"] if value is not None]
        self.assertTrue(known and all(0 <= value <= 1 for value in known))
        ids = {job["name"]: job["id"] for job in self.history()["jobs"]}
        for giver, taker, samples in self.history()["gave"]:
            self.assertTrue(giver in {0, *ids.values()} and taker in ids.values() and giver != taker and samples > 0)
        lines = self.larder("history", "a").stdout.splitlines()
        self.assertEqual(lines[0].split(), "JOB STATE BEGAN LASTED EPOCHS SAMPLES PER SEC WAITS SHARING BAD".split())
        self.assertRegex(lines[1], r"^a +running +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} ")
        self.assertEqual(lines[2].split(), "FROM PER SEC WAITS FOR SHARING".split())
        self.assertRegex(lines[-1], r"^  \d\d:\d\d:\d\d  came$")
        self.assertGreater(self.server.status()["memory"]["history"]["budget_bytes"], 1 << 20)
        self.assertLess(self.server.status()["memory"]["history"]["budget_bytes"], 16 << 20)
        for url in ("?span=x", "?span=-5", "?span="):
            with self.assertRaises(urllib.error.HTTPError) as failed:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/history{url}", timeout=20 * SLOW)
            self.assertEqual(failed.exception.code, 400)
            failed.exception.close()
        self.assertTrue(until(lambda: any(int(part) > 0 for part in self.shares()), 60), self.larder("jobs").stdout)
        self.assertTrue(all(int(part) <= 100 for part in self.shares()))
        nobody = self.larder("history", "nobody")
        self.assertEqual(nobody.returncode, 1)
        self.assertIn('no job "nobody" was here', nobody.stderr)

    def test_bad_and_failed(self):
        """Bad files and a job's failure are events, with why."""
        folder = make_tree(os.path.join(self.folder, "images"), 60)
        for label in sorted(os.listdir(folder)):
            for name in sorted(os.listdir(os.path.join(folder, label)))[::2]:
                with open(os.path.join(folder, label, name), "wb") as file:
                    file.write(b"not an image")
        self.assertNotEqual(self.train("bad", dataset=folder, epochs=3).wait(), 0)
        self.assertTrue(until(lambda: self.jobs().get("bad", {}).get("state") == "failed", 20), self.jobs())
        history = self.history("bad")
        texts = [event["text"] for event in history["events"] if event["kind"] == "failed"]
        self.assertEqual(len(texts), 1)
        self.assertIn("not_an_image", texts[0])

    def test_damage(self):
        """A damaged file is refused with a line in the log, and the history begins anew and is kept again."""
        self.assertEqual(self.train("lost", epochs=1).wait(), 0)
        self.assertEqual(self.server.stop(), 0)
        path, = self.files()
        with open(path, "r+b") as file:
            file.seek(300)
            file.write(b"\xff\xff")
        self.start()
        self.assertTrue(self.server.logged("the history of an earlier daemon is not used, and begins anew"))
        self.assertEqual(self.jobs(), {})
        self.assertEqual(self.train("kept", epochs=1).wait(), 0)
        self.assertEqual(self.server.stop(), 0)
        self.start()
        self.assertEqual({name: job["state"] for name, job in self.jobs().items()}, {"kept": "ended"})


if __name__ == "__main__":
    main()
