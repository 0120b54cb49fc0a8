"""The `larder` command: options before and after the command, answers as JSON, and what it says of wrong usage."""

import json
import os
import re
import shutil
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
                            (["ping", "--wacht"], "no such option: --wacht"),
                            (["ping", "more"], "not understood: more"), (["completion", "fish"], "bash or zsh"),
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

    def completed(self, *words):
        """What bash offers for the last word."""
        array = " ".join(f"'{word}'" for word in ("larder", *words))
        code = f'source <(larder completion bash); COMP_WORDS=({array}); COMP_CWORD={len(words)}; _larder; ' \
            'printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", code], stdout=subprocess.PIPE, text=True, timeout=60 * SLOW, check=True,
                                env=dict(os.environ, PATH=BIN + ":" + os.environ["PATH"],
                                         LARDER_SOCKET=self.server.socket))
        return result.stdout.split()

    def test_completion(self):
        """bash completes commands, their options and words, and the names of jobs."""
        self.assertEqual(self.completed("sta"), ["status"])
        self.assertEqual(self.completed("--socket", "x", "drain", "--for"), ["--for-restart"])
        self.assertEqual(self.completed("poison", ""), ["list", "clear", "--json", "--socket"])
        self.assertIn("sharing", self.completed("bench", ""))
        with larder.Loader(tree(20), [], 4, name="sweep-7", socket=self.server.socket, output="numpy", all_files=True):
            self.assertEqual(self.completed("cancel", "sw"), ["sweep-7"])
        for word in run("--help").stdout.split("OPTIONS")[0].split("larder ")[2:]:
            for name in word.split()[0].strip(",").split("|"):
                self.assertIn(name, self.completed(name), "a command that --help names and bash does not complete")
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n"], input=run("completion", "zsh").stdout, text=True, check=True)

    def test_manual(self):
        """The man pages say what --help says, and are right for groff."""
        for program, section in (("larder", 1), ("larderd", 8)):
            page = subprocess.run([os.path.join(BIN, program), "--man"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            self.assertTrue(page.startswith(f".TH {program.upper()} {section} "))
            told = subprocess.run([os.path.join(BIN, program), "--help"], stdout=subprocess.PIPE, text=True,
                                  check=True).stdout
            plain = re.sub(r"\\(?:fB|fR|&)|\.(?:TP|PP|SH)\b", "", page).replace("\\-", "-")
            self.assertEqual(plain.split(" - ", 1)[1].split(), told.split(": ", 1)[1].split())
            self.assertLessEqual(max(map(len, told.splitlines())), 110)
            if shutil.which("groff"):
                shown = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww"], input=page, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
                self.assertEqual(shown.stderr, "")

    def test_without_a_daemon(self):
        """The exit status tells that none answers."""
        for words in (["ping"], ["status"], ["cancel", "a"], ["drain"]):
            result = run(*words, "--socket", os.path.join(self.folder, "none"))
            self.assertEqual((result.returncode, result.stdout), (NO_DAEMON, ""), words)
            self.assertIn("no daemon answers", result.stderr)


if __name__ == "__main__":
    main()
