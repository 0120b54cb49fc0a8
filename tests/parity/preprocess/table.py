"""What the parity tests found, and whether it is allowed."""

import numpy as np


class Table:
    """The differences by subject: how many cases, greatest and mean difference, and what is allowed."""

    def __init__(self):
        self.rows, self.failures = {}, []

    def compare(self, subject, allowed, ours, theirs, case):
        ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
        if ours.shape != theirs.shape:
            self.failures.append(f"{subject}: {case}: shape {ours.shape} and not {theirs.shape}")
            return
        difference = np.abs(ours - theirs)
        row = self.rows.setdefault(subject, [0, 0.0, 0.0, 0, allowed])
        row[0] += 1
        row[1] = max(row[1], float(difference.max()))
        row[2] += float(difference.sum())
        row[3] += difference.size
        if difference.max() > allowed:
            self.failures.append(f"{subject}: {case}: differs by {difference.max():g}, allowed are {allowed:g}")

    def show(self, markdown):
        if markdown:
            print("| subject | cases | greatest difference | mean difference | allowed |\n|---|---|---|---|---|")
        for subject, (cases, most, total, count, allowed) in self.rows.items():
            row = (subject, cases, f"{most:g}", f"{total / max(count, 1):.3g}", f"{allowed:g}")
            form = "| {} | {} | {} | {} | {} |" if markdown else \
                "{:<44} {:>6} cases  max {:<10} mean {:<10} allowed {}"
            print(form.format(*row))
