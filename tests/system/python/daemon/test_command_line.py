"""The `larder` command: options before and after the command, answers as JSON, and what it says of wrong usage."""

import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import termios
import time

import above  # noqa: F401
from system import BIN, SLOW, SOURCE, Case, Daemon, larder, main, only_long, tree, until

USAGE, NO_DAEMON, FOUND = 2, 3, 4


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
            self.assertEqual(self.asked("explain", "--interval", "0.2", "--", "--job")["job"], "--job")
            self.assertEqual(self.asked("cancel", "--", "--job"), {"cancelled": "--job"})
        self.assertEqual(self.asked("status")["daemon"]["pid"], self.server.process.pid)
        self.assertEqual(self.asked("drain", "--for-restart"), {"gone": True})
        self.assertEqual(self.server.process.wait(30 * SLOW), 0)

    def test_wrong_usage(self):
        """It is said in one line on stderr, with status 2, before any daemon is asked."""
        for words, text in ((["statsu"], 'did you mean "status"?'), (["nothing-like-it"], "no such command: noth"),
                            (["tpo"], 'did you mean "top"?'), (["status", "--jsno"], 'did you mean "--json"?'),
                            (["ping", "--unlike-any"], "no such option: --unlike-any;"),
                            ([], "no command"), (["ping", "--watch"], "ping has no option: --watch"),
                            (["ping", "--wacht"], 'did you mean "--watch"?'),
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
        self.assertIn("no daemon answers at x: ", run("--socket=x", "ping").stderr)

    def completed(self, *words):
        """What bash offers for the last word. The program is not in PATH."""
        program = os.path.join(BIN, "larder")
        array = " ".join(f"'{word}'" for word in (program, *words))
        code = f'source <({program} completion bash); COMP_WORDS=({array}); COMP_CWORD={len(words)}; _larder; ' \
            'printf "%s\\n" "${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", code], stdout=subprocess.PIPE, text=True, timeout=60 * SLOW, check=True,
                                env=dict(os.environ, LARDER_SOCKET=self.server.socket))
        return result.stdout.split()

    def test_completion(self):
        """bash completes commands, their options and words, and the names of jobs."""
        self.assertEqual(self.completed("sta"), ["status"])
        self.assertEqual(self.completed("--socket", "x", "drain", "--for"), ["--for-restart"])
        self.assertEqual(self.completed("poison", ""), ["list", "clear", "--json", "--socket"])
        self.assertIn("storage", self.completed("bench", ""))
        self.assertEqual(self.completed("pack", "--max"), ["--max-side"])
        self.assertIn("--restart-rows", self.completed("pack", "/data", "--"))
        self.assertEqual(self.completed("verify", "-"), ["--quiet"])
        with larder.Loader(tree(20), [], 4, name="sweep-7", socket=self.server.socket, output="numpy", all_files=True):
            self.assertEqual(self.completed("cancel", "sw"), ["sweep-7"])
            socket, self.server.socket = self.server.socket, "none"
            self.assertEqual(self.completed("explain", "sw"), [])
            for words in (["--socket", socket], ["--socket=" + socket], ["--socket", "=", socket]):  # bash divides it
                self.assertEqual(self.completed(*words, "explain", "sw"), ["sweep-7"])
            self.server.socket = socket
        self.assertEqual(self.completed("explain", "--in"), ["--interval"])
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

    def test_columns(self):
        """--help, and with it the site, says what each heading of each table means, and each word that begins a line of
        status. The headings are those of the tables, and those that stand in the sources."""
        part = re.search(r"\nCOLUMNS\n(.*?)\n\n", run("--help").stdout, re.DOTALL)[1]
        explained = {word for row in re.findall(r"^  (\S.*?)  ", part, re.MULTILINE) for word in row.split(", ")}
        headings, printed = set(), 0
        with larder.Loader(tree(20), [], 4, name="job-1", socket=self.server.socket, output="numpy",
                           all_files=True) as loader:
            next(iter(loader))
            self.assertTrue(until(lambda: self.asked("history")["jobs"], 20))
            for words in (["jobs"], ["status"], ["top"], ["history"], ["history", "job-1"], ["datasets"]):
                said = run(*words, LARDER_SOCKET=self.server.socket).stdout
                lines = re.findall(r"^(?: *[A-Z]+(?: [A-Z]+)*(?:  +|$))+$", said, re.MULTILINE)
                printed += len(lines)
                headings.update(*(re.split(r" {2,}", line.strip()) for line in lines))
                headings.update(re.findall(r"^([a-z]+) {2,}\S", said, re.MULTILINE))
        self.assertGreaterEqual(printed, 6)
        self.assertLessEqual({"READY", "HELD", "EPOCH ENDS IN", "DATASET", "KIND", "memory", "threads"}, headings)
        for path in glob.glob(os.path.join(SOURCE, "client", "cli", "*.c")):
            if os.path.basename(path) not in ("pages.c", "top.c", "exec.c"):
                with open(path, encoding="utf-8") as file:
                    literals = re.findall(r'(?<!getenv\()"((?:[^"\\\n]|\\.)*)"', file.read())
                pieces = {piece for text in literals for piece in re.split(r" {2,}|%\S+|\\n", text)}
                headings.update(piece for piece in pieces if re.fullmatch(r"[A-Z]{2,}(?: [A-Z]+)*", piece))
        self.assertLessEqual({"STILL TO COME FROM", "WAITING", "VERDICT"}, headings)
        self.assertEqual(headings - explained - {"UP"}, set())
        self.assertEqual(explained - headings - {"storage", "bad", "guests", "cluster"}, set())

    def test_words_of_look_and_plan(self):
        """The words that begin the lines of `larder look` are in its --help, the headings of `larder plan` on its
        page."""
        def source(*path):
            with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
                return file.read()
        explained = {word for row in re.findall(r"^  (\w+(?:, \w+)*) ", run("look", "--help").stdout, re.MULTILINE)
                     for word in row.split(", ")}
        code = source("server", "commands", "look.c") + source("server", "commands", "look_kinds.c")
        words = set(re.findall(r'(?:"|\\n)([a-z]+) {2,}\S', code[code.index("struct sizes"):]))
        words |= {"shards", "files"} | set(re.findall(r'print_wrapped\("(\w+)"', code))
        self.assertEqual(words, explained)
        heads = re.search(r'"%9s %9s %9s %8s.*?;', source("server", "plan", "plan_tell.c"), re.DOTALL)[0]
        page = source("docs", "reference", "plan.md")
        cells = " ".join(re.findall(r"^\| ([^|]+) \|", page[page.index("| column |"):], re.MULTILINE))
        heads = [word for text in re.findall(r'"([A-Za-z ]+)"', heads) for word in text.split()]
        self.assertGreater(len(heads), 10)
        self.assertEqual([word for word in heads if word not in cells], [])

    def test_help_of_each(self):
        """Each command has a --help of its own, wherever it stands behind it: how it is called and the options that it
        has, and no other command."""
        said = run("--help").stdout
        usages = re.findall(r"^  (larder [a-z][^|…-]*?)(?= [A-Z\[-]|  )", said.split("OPTIONS")[0], re.MULTILINE)
        self.assertGreater(len(set(usages)), 20)
        own = {"--watch": ("status", "jobs"), "--interval": ("status", "top", "jobs", "explain"),
               "--since": ("history",)}
        for usage in set(usages):
            words = usage.split()[1:]
            for more in ([], ["a"]):
                if words[0] in ("check", "cache") or words[1:] in (["keygen"], ["probe"]):
                    more = []  # larderd's
                result = run(*words, *more, "--help")
                self.assertEqual((result.returncode, result.stderr), (0, ""), usage)
                self.assertIn(usage, result.stdout)
                self.assertLess(len(result.stdout), len(said) / 4, usage)
            if words[0] in ("check", "cache") or words[1:] in (["keygen"], ["probe"]):
                continue
            for option, commands in own.items():
                self.assertEqual(f"\n  {option} " in result.stdout, words[0] in commands, (usage, option))
            for other in set(usages) - {usage}:
                if other.split()[1:2] != words[:1] or words[0] == "cluster":
                    self.assertNotIn(f"\n  {other} ", result.stdout)
        self.assertIn("--for-restart", run("drain", "--help").stdout)
        self.assertIn("kept over a restart", run("history", "--help").stdout)

    def test_without_a_daemon(self):
        """The exit status tells that none answers."""
        for words in (["ping"], ["status"], ["cancel", "a"], ["drain"], ["top"], ["jobs"], ["datasets"], ["events"],
                      ["history"], ["explain", "a"]):
            result = run(*words, "--socket", os.path.join(self.folder, "none"))
            self.assertEqual((result.returncode, result.stdout), (NO_DAEMON, ""), words)
            self.assertIn("no daemon answers", result.stderr)
        doctor = run("doctor", "--socket", os.path.join(self.folder, "none"))
        self.assertEqual(doctor.returncode, NO_DAEMON)
        self.assertIn("no daemon answers", doctor.stdout)
        self.assertIn("good     socket folder", doctor.stdout)

    def test_what_the_last_one_left(self):
        """Where no daemon answers, it is said when the last one ended and why; of a killed one that it was."""
        server, ends = self.server, (
            ((), lambda: server.process.terminate(), "it got SIGTERM"),
            (("--idle-exit", "1"), lambda: None, "no script had been connected for 1 s"),
            ((), lambda: run("drain", "--for-restart", "--socket", server.socket), "larder drain told it to"))
        left, elsewhere = server.socket + ".left", os.path.join(self.folder, "elsewhere")
        server.stop()
        for options, end, why in ends:
            server = self.daemon(options=options)
            self.assertFalse(os.path.exists(left))
            end()
            self.assertEqual(server.process.wait(60 * SLOW), 0)
            for word in ("status", "jobs", "history"):
                result = run(word, "--socket", server.socket)
                self.assertEqual((result.returncode, result.stdout), (NO_DAEMON, ""))
                self.assertRegex(result.stderr, r" ended at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}, because " + why)
        server = self.daemon()
        server.kill()
        self.assertIn("the last one was killed, or ran out of memory", run("status", "--socket", server.socket).stderr)
        for name in (server.socket, server.socket + ".control"):
            if os.path.exists(name):
                os.unlink(name)
        self.assertNotIn("the last one", run("status", "--socket", server.socket).stderr)
        for link in (os.link, os.symlink):  # another's file that is linked there stays as it is
            server = self.daemon()
            with open(elsewhere, "w") as file:
                file.write("kept")
            link(elsewhere, left)
            self.assertEqual(server.stop(), 0)
            self.assertFalse(os.path.islink(left))
            with open(elsewhere) as file:
                self.assertEqual(file.read(), "kept")
            self.assertIn("it got SIGTERM", run("status", "--socket", server.socket).stderr)

    @only_long
    def test_ended_while_watched(self):
        """A command that asks again and again says when its daemon ended and why, once no other has come."""
        with subprocess.Popen([os.path.join(BIN, "larder"), "jobs", "--watch", "--socket", self.server.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
            self.assertEqual(watch.stdout.readline(), "no jobs\n")
            self.server.stop()
            self.assertIn("because it got SIGTERM", watch.communicate(timeout=60 * SLOW)[1])
            self.assertEqual(watch.returncode, NO_DAEMON)

    def test_lists(self):
        """Jobs, datasets and events are listed, for a person and as JSON."""
        self.assertEqual(run("jobs", "--socket", self.server.socket).stdout, "no jobs\n")
        self.assertNotIn("cores busy", run("status", "--socket", self.server.socket).stdout)  # of no interval
        self.assertIn("no job draws", run("tree", "--socket", self.server.socket).stdout)
        folder = tree(20)
        with larder.Loader(folder, [], 4, name="one", socket=self.server.socket, output="numpy", all_files=True) as one:
            next(iter(one))
            shown = run("jobs", "--socket", self.server.socket).stdout.splitlines()
            heads = "JOB RANKS EPOCH DONE EPOCH ENDS IN PER SEC WAITS FOR SHARING BAD"
            self.assertEqual(shown[0].split(), heads.split())
            self.assertEqual(shown[1].split()[:3], ["one", "1", "0"])
            self.assertRegex(shown[1], r" 0% +0$")
            self.assertEqual([job["name"] for job in self.asked("jobs")], ["one"])
            self.assertEqual(self.asked("datasets"), [{"dataset": folder, "samples": 20, "store": None,
                                                       "jobs": ["one"]}])
            self.assertRegex(run("datasets", "--socket", self.server.socket).stdout, r"\n +20 .*  not packed +one\n$")
        for shown in (run("events", "--socket", self.server.socket).stdout.splitlines(), self.asked("events")):
            self.assertTrue(any('msg="job registered" job="one"' in line for line in shown), shown)

    def test_tree(self):
        """Of two jobs with subsets that overlap the tree has what both have, and what one has alone."""
        folder, subsets = tree(100), {"few": larder.Range(0, 30), "many": larder.Range(20, 100)}
        loaders = [larder.Loader(folder, [], 4, name=name, socket=self.server.socket, output="numpy", all_files=True,
                                 subset=subset) for name, subset in subsets.items()]
        for loader in loaders:
            self.addCleanup(loader.close)
            iter(loader)  # asks for the first batches
        self.assertTrue(until(lambda: all(job["started"] for job in self.server.jobs().values()), 20))
        rows = {row["job"]: row for row in self.asked("tree")}
        few, many = rows["few"], rows["many"]
        self.assertEqual((few["shared"] + few["own"], few["shared"] + many["own"]), (few["left"], many["left"]))
        self.assertLessEqual(few["left"], 30)
        self.assertLessEqual(few["shared"], 10)
        self.assertGreater(many["own"], 40)
        self.assertRegex(run("tree", "--socket", self.server.socket).stdout,
                         r"^\d+ in common to few and the 1 below\n  \d+ of few alone, which has \d+ left\n"
                         r"  \d+ of many alone, which has \d+ left\n$")

    def test_tree_of_drawn(self):
        """A job whose epoch is drawn to its end is told of in words, and in no vertex of the tree. One that has begun
        none is not told of."""
        idle = larder.Loader(tree(400), [], 4, name="idle", socket=self.server.socket, output="numpy", all_files=True)
        self.addCleanup(idle.close)
        sizes = {"small": 8, "large": 400}
        for name, size in sizes.items():
            loader = larder.Loader(tree(400), [], 4, name=name, socket=self.server.socket, output="numpy",
                                   all_files=True, subset=larder.Range(0, size))
            self.addCleanup(loader.close)
            iter(loader)  # asks for the first batches: two of four are the whole of `small`
        self.assertTrue(until(lambda: all(job["started"] for name, job in self.server.jobs().items()
                                          if name != "idle"), 20))
        self.assertTrue(until(lambda: [row["left"] for row in self.asked("tree") if row["job"] == "small"] == [0], 30))
        self.assertRegex(run("tree", "--socket", self.server.socket).stdout,
                         r"^small has drawn all samples of its epoch\n\d+ of large alone, which has \d+ left\n$")

    def test_doctor(self):
        """It looks at a daemon that is well, and finds what is made wrong."""
        told = {row["of"]: row for row in self.asked_any("doctor")}
        self.assertLessEqual({"daemon", "socket folder", "socket", "version", "memory", "page cache", "descriptors",
                              "processors", "samples", "libraries"}, told.keys())
        for name in ("daemon", "socket folder", "socket", "version", "samples", "libraries"):
            self.assertEqual((told[name]["verdict"], told[name]["todo"]), ("good", None), told[name])
        os.chmod(self.folder, 0o777)
        told = {row["of"]: row for row in self.asked_any("doctor", status=FOUND)}
        self.assertEqual(told["socket folder"]["verdict"], "bad")
        self.assertIn("take the right to write from others", run("doctor", "--socket", self.server.socket).stdout)
        os.chmod(self.folder, 0o700)

    def asked_any(self, *words, status=None):
        """The JSON of a command that may exit with another status than 0."""
        result = run("--socket=" + self.server.socket, "--json", *words)
        self.assertIn(result.returncode, (0, FOUND) if status is None else (status,), result.stderr)
        return json.loads(result.stdout)

    def on_terminal(self, *words, **environment):
        """Starts the command on a terminal of its own: (pid, the terminal, how that was)."""
        looked_at, done = os.pipe()
        pid, terminal = pty.fork()
        if pid == 0:
            os.read(looked_at, 1)
            os.execve(os.path.join(BIN, "larder"), ["larder", *words],
                      dict(os.environ, TERM="xterm", LARDER_SOCKET=self.server.socket, **environment))
        self.addCleanup(os.close, terminal)
        before = termios.tcgetattr(terminal)
        os.write(done, b"!")
        os.close(looked_at)
        os.close(done)
        return pid, terminal, before

    def read_until(self, terminal, wanted):
        output, deadline = b"", time.monotonic() + 30 * SLOW
        while wanted not in output and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    output += os.read(terminal, 65536)
                except OSError:
                    break
        self.assertIn(wanted, output)
        return output

    def test_top(self):
        """On a terminal it draws frames on the other screen until q, Ctrl-C or a signal, and leaves the terminal as it
        was; with NO_COLOR it colours nothing. What is no terminal gets one plain frame."""
        plain = run("top", "--socket", self.server.socket)
        self.assertEqual(plain.returncode, 0)
        self.assertNotIn("\033", plain.stdout)
        self.assertIn("no jobs", plain.stdout)
        endings = (lambda pid, terminal: os.write(terminal, b"q"), lambda pid, terminal: os.write(terminal, b"\x03"),
                   lambda pid, terminal: os.kill(pid, signal.SIGTERM))
        for end in endings:
            pid, terminal, before = self.on_terminal("top", "--interval", "0.2", NO_COLOR="1")
            output = self.read_until(terminal, b"no jobs")
            end(pid, terminal)
            output += self.read_until(terminal, b"\033[?1049l")
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
            self.assertEqual(termios.tcgetattr(terminal), before)
            self.assertIn(b"\033[?1049h", output)
            self.assertNotIn(b"\033[31m", output)


if __name__ == "__main__":
    main()
