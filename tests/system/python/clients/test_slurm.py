"""slurm_step.sh in what Slurm gives a step: the tasks of a job come to one daemon of that job's, and each trains."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import above  # noqa: F401
from system import BIN, CONFIG, PACKAGE, SLOW, SOURCE, Case, main, tree, until

STEP = os.path.join(PACKAGE, "examples", "slurm_step.sh")
TASK = """\
import os, sys
import larder
train = larder.Loader(sys.argv[1], [larder.CenterCrop(32)], 4, output="numpy", epochs=1, with_ids=True, timeout=240)
seen = sorted(index for *_, ids in train for index in ids.tolist())
print(seen == list(range(len(seen))), len(seen), os.environ["LARDER_SOCKET"])
"""
# What the script of a rank sees, and the samples that it got. No rank is through before all have begun, as in an
# all-reduce.
RANK = """\
import glob, json, os, sys, time
import larder
ids = []
with larder.Loader(sys.argv[1], [larder.CenterCrop(32)], 4, output="numpy", epochs=1, with_ids=True,
                   timeout=240) as train:
    for images, labels, indices in train:
        ids += indices.tolist()
        open("began-" + os.environ["RANK"], "w").close()
        while len(glob.glob("began-*")) < int(os.environ["WORLD_SIZE"]):
            time.sleep(0.05)
print(json.dumps({"rank": os.environ["RANK"], "world": os.environ["WORLD_SIZE"], "local": os.environ["LOCAL_RANK"],
                  "master": os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"], "ids": ids}), flush=True)
"""
# Eight tasks at once, four on each of two nodes, with what srun says to each. It fails where one does.
SRUN = """\
#!/bin/bash
export SLURM_STEP_ID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_TASKS_PER_NODE="4(x2)"
for task in 0 1 2 3 4 5 6 7; do
    node=$((task / 4))
    SLURM_PROCID=$task SLURM_LOCALID=$((task % 4)) SLURM_NODEID=$node SLURMD_NODENAME=node-$((node + 1)) \\
        NODE_TMP=$PWD/node-$((node + 1)) "$@" &
    tasks+=($!)
done
for task in "${tasks[@]}"; do wait "$task" || failed=1; done
exit ${failed-0}
"""


class Slurm(Case):
    def setUp(self):
        super().setUp()
        for tool in ("bash", "flock", "setsid"):
            if not shutil.which(tool):
                self.skipTest(f"no {tool}")
        self.settings = os.path.join(self.folder, "larder.yaml")
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write(CONFIG)
        self.job = os.getpid()

    def environment(self, job, task, **more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LARDER", "SLURM"))}
        return {**environment, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_PROCID": str(task),
                "SLURM_LOCALID": str(task), "SLURM_NTASKS": "2", "LARDER": os.path.join(BIN, "larder"),
                "LARDERD": os.path.join(BIN, "larderd"), "LARDER_CONFIG": self.settings, "PYTHONPATH": PACKAGE, **more}

    def task(self, job, task, **more):
        """Each is a trial of its own, as with an array: none of them is a rank of another."""
        process = subprocess.Popen([STEP, "env", "-u", "SLURM_PROCID", "-u", "SLURM_NTASKS", sys.executable, "-B", "-c",
                                    TASK, tree(61)], env=self.environment(job, task, **more), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(self.end, f"/tmp/larder-{os.getuid()}-slurm-{job}")
        return process

    def end(self, folder):
        """What Slurm does at the end of a step."""
        path = os.path.join(folder, "larder.sock")
        if os.path.exists(path):
            with open(path + ".lock", encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGTERM)
            self.assertTrue(until(lambda: not os.path.exists(path), 60))
        shutil.rmtree(folder, ignore_errors=True)

    def test_two_jobs(self):
        """Two tasks of one job train with one daemon, those of another job on the same node with another one."""
        tasks = [self.task(self.job, 0), self.task(self.job, 1), self.task(self.job + 1, 0)]
        said = []
        for task in tasks:
            out, errors = task.communicate(timeout=120 * SLOW)
            self.assertEqual(task.returncode, 0, errors)
            said.append(out.split())
        self.assertEqual([words[:2] for words in said], [["True", "61"]] * 3)
        self.assertEqual(said[0][2], said[1][2])
        self.assertNotEqual(said[0][2], said[2][2])
        for path, jobs in ((said[0][2], 2), (said[2][2], 1)):
            with open(os.path.join(os.path.dirname(path), "log"), encoding="utf-8") as log:
                text = log.read()
            self.assertEqual((text.count('msg="listening"'), text.count('msg="job registered"')), (1, jobs))

    def test_no_daemon(self):
        """Where the daemon does not start, the task does not either, and says the daemon's words."""
        with open(self.settings, "w", encoding="utf-8") as file:
            file.write("memory: {arenas: 1GiB}\n")
        task = self.task(self.job, 0)
        out, errors = task.communicate(timeout=60 * SLOW)
        self.assertEqual((task.returncode, out), (1, ""))
        self.assertIn("slurm_step.sh: no daemon:", errors)
        self.assertIn("arenas", errors)

    def test_several_nodes(self):
        """With bundles the daemon is a node of the job's cluster, at a port that the job's number gives."""
        host = "localhost"
        larder, bundles = os.path.join(BIN, "larder"), os.path.join(self.folder, "bundles")
        os.mkdir(bundles)
        authority = os.path.join(self.folder, "authority.pem")
        for words in (("--cluster", "slurm", "--authority", authority),
                      ("--authority", authority, "--node", host, os.path.join(bundles, host + ".pem"))):
            subprocess.run([larder, "cluster", "keygen", *words], stdout=subprocess.DEVNULL, check=True)
        task = self.task(self.job, 0, LARDER_BUNDLES=bundles, SLURM_JOB_NODELIST=host, SLURMD_NODENAME=host)
        out, errors = task.communicate(timeout=120 * SLOW)
        self.assertEqual((task.returncode, out.split()[:2]), (0, ["True", "61"]), errors)
        told = subprocess.run([larder, "cluster", "status", "--json", "--socket", out.split()[2]],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn(f":{10000 + self.job % 10000}", json.dumps(json.loads(told)))

    def node_script(self, folder):
        """The guide's script for two nodes in an empty folder, with slurm_step.sh and a train.py beside it. What plays
        srun gives each node a folder in place of /tmp: it is one machine."""
        with open(os.path.join(SOURCE, "docs", "guide", "containers.md"), encoding="utf-8") as page:
            script = next(text for text in re.findall(r"```sh\n(.*?)```", page.read(), re.DOTALL) if "nodes=2" in text)
        with open(STEP, encoding="utf-8") as file:
            step = file.read()
        self.assertIn("folder=/tmp/larder-", step)
        programs = {"job.sh": script.replace("/data/train", tree(61)), "train.py": RANK, "srun": SRUN,
                    "slurm_step.sh": step.replace("folder=/tmp/", "folder=$NODE_TMP/"),
                    "scontrol": '#!/bin/sh\n[ "$*" = "show hostnames node-[1-2]" ] && printf "node-1\\nnode-2\\n"\n'}
        for name, text in programs.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(folder, name), 0o755)

    def test_two_nodes(self):
        """The guide's script for two nodes: each has a daemon with its four ranks, all eight of one job, which get each
        sample once, and know where the first node is."""
        folder = os.path.join(self.folder, "submitted")
        os.mkdir(folder)
        self.node_script(folder)
        for node in ("node-1", "node-2"):
            os.mkdir(os.path.join(folder, node))
            self.addCleanup(self.end, os.path.join(folder, node, f"larder-{os.getuid()}-slurm-{self.job}"))
        environment = self.environment(self.job, 0, SLURM_JOB_NODELIST="node-[1-2]",
                                       PATH=folder + os.pathsep + os.environ["PATH"])
        done = subprocess.run(["bash", "job.sh"], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=240 * SLOW)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = [json.loads(row) for row in re.findall(r"{.*?}", done.stdout)]
        self.assertEqual(sorted((row["rank"], row["world"], row["local"]) for row in told),
                         [(str(rank), "8", str(rank % 4)) for rank in range(8)])
        self.assertEqual({row["master"] for row in told}, {"node-1:29500"})
        self.assertEqual({len(row["ids"]) for row in told}, {8})  # 61 samples, and three that come again
        self.assertEqual({index for row in told for index in row["ids"]}, set(range(61)))
        logs = []
        for node in ("node-1", "node-2"):
            with open(os.path.join(folder, node, f"larder-{os.getuid()}-slurm-{self.job}", "log"),
                      encoding="utf-8") as log:
                logs.append(log.read())
        for text in logs:
            self.assertEqual((text.count('msg="listening"'), text.count('msg="job registered"'),
                              text.count('msg="rank attached"'), text.count("/8]\" rank=")), (1, 1, 3, 8))

    def test_outside(self):
        """Outside of a job it says so."""
        environment = self.environment(1, 0)
        del environment["SLURM_JOB_ID"]
        done = subprocess.run([STEP, "true"], env=environment, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("runs in a job of Slurm", done.stderr)


if __name__ == "__main__":
    main()
