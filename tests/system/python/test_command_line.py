"""The `larder` command: options before and after the command, answers as JSON, and what it says of wrong usage."""

import json
import os
import subprocess

from system import BIN, SLOW, Case, Daemon, larder, main, tree

USAGE, NO_DAEMON = 2, 3


def run(*words, **environment):
    return subprocess.run([os.path.join(BIN, "larder"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60 * SLOW, env=dict(os.environ, **environment))


class CommandLine(Case):
    def setUp(self):
        super().setUp()
        self.server = Daemon(self.folder)
        self.addCleanup(self.server.stop)

    def asked(self, *words):
        """The JSON that a command answers with."""
        result = run("--socket=" + self.server.socket, "--json", *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""), words)
        return json.loads(result.stdout)

    def test_options_stand_anywhere(self):
        """--socket and --json mean the same before and after the command, as one word or two."""
        socket = self.server.socket
        for words in (["ping", "--json", "--socket", socket], ["--socket", socket, "ping", "--json"],
                      ["--json", f"--socket={socket}", "ping"], ["--json", "ping", f"--socket={socket}"]):
            result = run(*words)
            self.assertEqual((result.returncode, result.stderr), (0, ""), words)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["pid"], answer["socket"]), (self.server.process.pid, socket + ".control"), words)
        self.assertIn(f"pid {self.server.process.pid}", run("ping", LARDER_SOCKET=socket).stdout)

    def test_every_answer_has_json(self):
        """Whatever asks the daemon says as JSON what it did."""
        with larder.Loader(tree(20), [], 4, name="--job", socket=self.server.socket, output="numpy",
                           all_files=True) as loader:
            next(iter(loader))
            self.assertEqual(self.asked("weight", "--", "--job", "2.5"), {"job": "--job", "weight": 2.5})
            self.assertEqual(self.server.jobs()["--job"]["weight"], 2.5)
            self.assertEqual(self.asked("poison", "list"), [])
            self.assertEqual(self.asked("poison", "clear"), {"cleared": None})
            self.assertEqual(self.asked("cancel", "--", "--job"), {"cancelled": "--job"})
        self.assertEqual(self.asked("status")["daemon"]["pid"], self.server.process.pid)
        self.assertEqual(self.asked("drain", "--for-restart"), {"gone": True})
        self.assertEqual(self.server.process.wait(30 * SLOW), 0)

    def test_wrong_usage(self):
        """It is said in one line on stderr, with status 2, before any daemon is asked."""
        for words, text in ((["statsu"], 'did you mean "status"?'), (["nothing-like-it"], "no such command"),
                            ([], "no command"), (["ping", "--watch"], "ping has no option: --watch"),
                            (["ping", "--wacht"], "no such option: --wacht"), (["ping", "more"], "not understood: more"),
                            (["cancel"], "cancel needs a job's name"), (["weight", "a"], "a job's name and a weight"),
                            (["weight", "a", "heavy"], "from 0.01 to 100"), (["status", "--socket"], "needs a path"),
                            (["status", "--interval", "0"], "--interval needs seconds"), (["poison"], "poison needs"),
                            (["poison", "eat"], "poison needs"), (["poison", "list", "x"], "poison needs"),
                            (["--socket", "x", "check", "y"], "check asks no daemon")):
            result = run(*words, LARDER_SOCKET=self.server.socket)
            self.assertEqual((result.returncode, result.stdout), (USAGE, ""), words)
            self.assertIn(text, result.stderr, words)
            self.assertEqual(len(result.stderr.splitlines()), 1, words)
        self.assertIn("x.control", run("--socket=x", "ping").stderr)

    def test_without_a_daemon(self):
        """The exit status tells that none answers."""
        for words in (["ping"], ["status"], ["cancel", "a"], ["drain"]):
            result = run(*words, "--socket", os.path.join(self.folder, "none"))
            self.assertEqual((result.returncode, result.stdout), (NO_DAEMON, ""), words)
            self.assertIn("no daemon answers", result.stderr)


if __name__ == "__main__":
    main()
