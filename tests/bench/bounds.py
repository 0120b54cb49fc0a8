#!/usr/bin/env python3
"""What no policy can beat with memory for a part of a dataset; docs/internals/measured/sharing.md has the figures.

    bounds.py one    [--samples 20000] [--epochs 4,20] [--memory .1,.25,.5,.75,.9]
    bounds.py four   [--memory .125,.2,.3,.5] [--echo E] [--longest 4] [--play]

one: a job in a known order, a new one in each epoch. A use needs no read if the sample stayed in memory since its use
before. Of such stays the most are chosen that never need more than memory has at once: where they are too many, the one
goes that ends last. For stays of one size that is the optimum (Belady, with samples that never enter memory).

four: jobs a quarter of an epoch apart, whose orders are chosen together. Each epoch of each job has a quarter of the
samples in each of its quarters. Where a sample comes depends neither on where it came in the epoch before nor on
whether memory had it when the epoch began (with --echo: both may depend, and places of what memory had, and of what it
had not, correlate by E at the most). Within a quarter one read serves whoever uses the sample, and needs no memory. At
a quarter's end memory holds the part --memory, a sample over --longest ends in a row or any number. The least reads a
sample and epoch are then the optimum of a linear program over all stationary policies (scipy, some seconds each; with
--longest 4 a minute or more). --play follows the optimal policy with 20,000 samples, at moments within quarters: what
it reads, the most that memory holds, and the correlation of places are printed.
"""

import argparse
import heapq
import itertools
import random


def most_saved(orders, room):
    """How many uses of each epoch need no read, at most over all epochs."""
    turns = [{sample: turn for turn, sample in enumerate(order)} for order in orders]
    count, stays, staying, saved = len(orders[0]), [], set(), []
    for epoch, order in enumerate(orders):
        saved.append(0)
        for sample in order:
            if (epoch - 1, sample) in staying:
                staying.remove((epoch - 1, sample))
                saved[-1] += 1
            if epoch + 1 == len(orders):
                continue
            heapq.heappush(stays, (-(epoch + 1) * count - turns[epoch + 1][sample], epoch, sample))
            staying.add((epoch, sample))
            while len(staying) > room:
                staying.discard(heapq.heappop(stays)[1:])
    return saved


def one(options):
    parts = options.memory or [.1, .25, .5, .75, .9]
    for epochs in options.epochs:
        rng = random.Random(1)
        orders = [rng.sample(range(options.samples), options.samples) for _ in range(epochs)]
        for part in parts:
            saved = most_saved(orders, int(part * options.samples))[1:]
            mean, most = sum(saved) / options.samples / len(saved), max(saved) / options.samples
            print(f"{epochs:2} epochs, memory for {part:.2f}: saved {mean:.4f} of each later epoch, {most:.4f} at most",
                  flush=True)


# A job in state ("wants", quarter of the epoch before, whether memory had the sample then) has not used it in this
# epoch. One in ("had", quarter) has. A state of all is those of four jobs, of which 0 … 3 quarters of their epochs are
# over, and whether memory has the sample.
WANTS = [("wants", before, there) for before in range(4) for there in (0, 1)]


def states(longest):
    """Memory has had the sample for so many quarters' ends in a row; without a limit any number is 1."""
    of_jobs = itertools.product(*[WANTS + [("had", quarter) for quarter in range(age)] for age in range(4)])
    return [jobs + (there,) for jobs in of_jobs for there in range((longest or 1) + 1) if jobs[0][2] == (there > 0)]


def outcomes(there, used, longest):
    """What a quarter's end may leave in memory, and whether that takes a read."""
    if there and longest and there == longest:
        return [(0, 0)] + [(1, 1)] * used
    if there:
        return [(0, 0), (there + 1 if longest else 1, 0)]
    return [(0, 1), (1, 1)] if used else [(0, 0)]


def steps(longest):
    """What may happen in a quarter: (state, next state, reads, stays, [(job, quarter before, there at its begin)])."""
    number = {state: at for at, state in enumerate(states(longest))}
    for state in number:
        jobs, there = state[:4], state[4]
        choices = [(0,) if job[0] == "had" else (1,) if age == 3 else (0, 1) for age, job in enumerate(jobs)]
        for uses in itertools.product(*choices):
            after = [("had", age) if uses[age] else jobs[age] for age in range(4)]
            for left, read in outcomes(there, any(uses), longest):
                then = (("wants", after[3][1], int(left > 0)), after[0], after[1], after[2], left)
                yield (number[state], number[then], read, int(left > 0),
                       [(age, jobs[age][1], jobs[age][2]) for age in range(4) if uses[age]])


class Four:
    def __init__(self, longest):
        import numpy
        import scipy.sparse
        self.numpy, self.sparse = numpy, scipy.sparse
        self.states, self.steps = states(longest), list(steps(longest))
        count = len(self.steps)
        places = [at for step in self.steps for at in step[:2]]
        self.flow = self.matrix([1, -1] * count, places, [at for at in range(count) for _ in range(2)],
                                len(self.states))
        self.reads, self.stays = (numpy.array([step[part] for step in self.steps], float) for part in (2, 3))
        pairs = [(at, (before * 2 + there) * 4 + quarter) for at, step in enumerate(self.steps)
                 for quarter, before, there in step[4]]
        self.pairs = self.matrix([1] * len(pairs), [row for _, row in pairs], [at for at, _ in pairs], 32)

    def matrix(self, values, rows, columns, count):
        return self.sparse.coo_matrix((values, (rows, columns)), (count, len(self.steps))).tocsr()

    def orders(self, echo):
        """What orders must hold: rows that are 0, and rows that are 0 at the most, of the 32 pairs."""
        numpy = self.numpy
        if echo is None:
            return numpy.kron(numpy.eye(8), numpy.eye(4) - .25), None
        middle = (numpy.arange(4) + .5) / 4 - .5
        even = numpy.zeros((2, 4, 4, 2, 4))  # there, quarter; quarter before, there, quarter
        near = numpy.zeros((2, 4, 2, 4))
        for there in range(2):
            even[there, :, :, there, :] = (numpy.eye(4) - .25)[:, None, :]
            near[there, :, there, :] = numpy.outer(middle, middle) - echo / 12
        return even.reshape(8, 32), near.reshape(2, 32)

    def least(self, part, echo):
        """Reads a sample and epoch, and how often each step happens in a quarter."""
        from scipy.optimize import linprog
        numpy, stack = self.numpy, self.sparse.vstack
        equal, at_most = self.orders(echo)
        equal = stack([self.flow[1:], self.sparse.csr_matrix(equal) @ self.pairs, numpy.ones((1, len(self.steps)))])
        most = [self.sparse.csr_matrix(self.stays[None])]
        if at_most is not None:
            most.append(self.sparse.csr_matrix(at_most) @ self.pairs)
        most = stack(most)
        found = linprog(self.reads, A_eq=equal.tocsc(), b_eq=[0] * (equal.shape[0] - 1) + [1], A_ub=most.tocsc(),
                        b_ub=[part] + [0] * (most.shape[0] - 1), method="highs-ipm")
        if found.status:
            raise SystemExit(found.message)
        return 4 * found.fun, numpy.maximum(found.x, 0)

    def play(self, often, samples=20000, quarters=160):
        """Each sample follows the policy by itself. All that use it in a quarter do so at one moment, drawn anew."""
        numpy, rng = self.numpy, self.numpy.random.default_rng(1)
        froms, thens = (numpy.array([step[part] for step in self.steps]) for part in (0, 1))
        uses = numpy.zeros((len(self.steps), 4), bool)
        for at, step in enumerate(self.steps):
            uses[at, [job for job, _, _ in step[4]]] = True
        total = numpy.concatenate([[0], numpy.cumsum(often)])  # steps are in the order of their states
        first = numpy.searchsorted(froms, numpy.arange(len(self.states) + 1))
        weight = total[first[1:]] - total[first[:-1]]
        there_in = numpy.array([state[4] for state in self.states], bool)
        state = rng.choice(len(self.states), samples, p=weight / weight.sum())
        reads = most = 0
        places, pairs = numpy.full((4, samples), numpy.nan), []
        for quarter in range(quarters):
            step = numpy.searchsorted(total, total[first[state]] + rng.random(samples) * weight[state], "right") - 1
            step = numpy.minimum(step, first[state + 1] - 1)
            moment, there, stays, used = rng.random(samples), there_in[state], self.stays[step] > 0, uses[step].any(1)
            reads += self.reads[step].sum()
            for now in (0, .25, .5, .75):
                holds = numpy.where(there, stays | used & (moment > now), stays & (moment <= now))
                most = max(most, holds.mean())
            for age in range(4):
                job, takes = (quarter - age) % 4, uses[step, age]
                old = takes & ~numpy.isnan(places[job])
                pairs.append(numpy.stack([places[job][old], (age + moment[old]) / 4]))
                places[job][takes] = (age + moment[takes]) / 4
            state = thens[step]
        return 4 * reads / samples / quarters, most, numpy.corrcoef(numpy.concatenate(pairs, 1))[0, 1]


def four(options):
    program = Four(options.longest)
    for part in options.memory or [.125, .2, .3, .5]:
        reads, often = program.least(part, options.echo)
        print(f"memory for {part:.3f} of them: {reads:.4f} reads a sample and epoch. Where others stay for ever, of "
              "all bytes", ", ".join(f"{(1 - all_of) * reads / (1 - part):.4f} with memory for {100 * all_of:.0f} %"
                                 for all_of in (.5, .75, .9) if all_of >= part), flush=True)
        if options.play:
            reads, most, echo = program.play(often)
            print(f"  played: {reads:.4f} reads, at most {most:.4f} in memory, echo {echo:.4f}", flush=True)


def main():
    def numbers(kind):
        return lambda text: [kind(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("one", "four"))
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--epochs", type=numbers(int), default=[4, 20])
    parser.add_argument("--memory", type=numbers(float), help="parts of the dataset; four: of what does not stay")
    parser.add_argument("--echo", type=float)
    parser.add_argument("--longest", type=int, default=0, help="quarters' ends in a row over which one stays")
    parser.add_argument("--play", action="store_true")
    options = parser.parse_args()
    (one if options.what == "one" else four)(options)


if __name__ == "__main__":
    main()
