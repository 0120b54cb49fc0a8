"""Processes that stand still for a while, as SIGSTOP, a debugger or a machine that sleeps makes them: nobody raises,
and each sample comes once.

    test_faults_stopped.py [--long]    for a minute in place of seconds
"""

import signal
import threading
import time

import above  # noqa: F401
from system import CONFIG, LONG, SLOW, Case, main, only_long, tree, until

COUNT = 600
STOPPED_S = 60 if LONG else 2
OPTIONS = {"dataset": tree(COUNT), "pipeline": [{"resize": {"size": [64, 64]}}], "batch_size": 16, "epochs": 2,
           "step_s": 0.01}


class Stopped(Case):
    def begun(self, *scripts):
        self.assertTrue(until(lambda: all(len(script.batches) > 3 for script in scripts), 60),
                        [script.errors for script in scripts])

    def stand_still(self, process):
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        time.sleep(STOPPED_S)  # this is what is tested
        process.send_signal(signal.SIGCONT)

    def whole_epochs(self, *scripts):
        for script in scripts:
            self.assertEqual(script.wait(), 0, script.errors or script.end)
            self.assertEqual(script.epochs(), [list(range(COUNT))] * OPTIONS["epochs"])
            self.assertEqual(script.end["stats"]["reconnects"], 0)

    def test_the_daemon(self):
        """The daemon stands still under a job, a job of two ranks, one that asks for its state, and one that comes
        meanwhile: all wait, and go on."""
        daemon = self.daemon(CONFIG)
        scripts = [self.script(daemon, name="alone", **OPTIONS)]
        ranks = [self.loader(daemon, OPTIONS["dataset"], rank=rank, world_size=2, name="both") for rank in range(2)]
        iterators = [iter(rank) for rank in ranks]
        seen = [index for iterator in iterators for index in next(iterator)[-1].tolist()]
        self.begun(*scripts)
        states, late = [], []
        asker = threading.Thread(target=lambda: states.append(ranks[0].state_dict()))
        patient = {"name": "late", "timeout": (STOPPED_S + 30) * SLOW, **OPTIONS}  # without one: half a minute
        comer = threading.Thread(target=lambda: late.append(self.script(daemon, **patient)))
        daemon.process.send_signal(signal.SIGSTOP)
        asker.start()
        comer.start()
        self.stand_still(daemon.process)
        asker.join()
        comer.join()
        self.assertEqual(states[0]["batches"], 1)
        for iterator in iterators:
            seen += [index for batch in iterator for index in batch[-1].tolist()]
        self.assertEqual(sorted(seen), list(range(COUNT)))
        self.whole_epochs(*scripts, *late)

    @only_long
    def test_a_script(self):
        """A script stands still while it holds batches: another gets all of its own meanwhile, and it afterwards."""
        daemon = self.daemon(CONFIG)
        sleeper = self.script(daemon, name="sleeper", **OPTIONS)
        other = self.script(daemon, name="other", **OPTIONS)
        self.begun(sleeper, other)
        sleeper.kill(signal.SIGSTOP)
        self.whole_epochs(other)
        self.stand_still(sleeper.process)
        self.whole_epochs(sleeper)

    @only_long
    def test_a_rank(self):
        """One of two ranks stands still, for longer than limits.rank_timeout allows one to stay away: it is there, only
        slow, and both get their shares."""
        daemon = self.daemon(CONFIG + "limits: {rank_timeout: 1}\n")
        scripts = [self.script(daemon, name="both", rank=rank, world_size=2, **OPTIONS) for rank in range(2)]
        self.begun(*scripts)
        self.stand_still(scripts[1].process)
        for script in scripts:
            self.assertEqual(script.wait(60 * SLOW), 0, script.errors or script.end)
        for epoch in range(OPTIONS["epochs"]):
            seen = [index for script in scripts for index in script.epochs()[epoch]]
            self.assertEqual(sorted(seen), list(range(COUNT)))


if __name__ == "__main__":
    main()
