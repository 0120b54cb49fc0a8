#!/usr/bin/env python3
"""How long `import larder` takes, beside `import numpy`: new processes by turns, and the medians.

    import_time.py [ROUNDS]

`larder and its Loader` asks for larder.Loader too, which imports NumPy.
"""

import os
import statistics
import subprocess
import sys

PACKAGE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python"))
KINDS = {"NumPy": "import numpy", "larder": "import larder", "larder and its Loader": "import larder; larder.Loader"}
CODE = "import time; began = time.perf_counter(); {}; print(time.perf_counter() - began)"


def seconds(statement):
    done = subprocess.run([sys.executable, "-c", CODE.format(statement)], stdout=subprocess.PIPE, text=True, check=True,
                          env=dict(os.environ, PYTHONPATH=PACKAGE, PYTHONDONTWRITEBYTECODE=""))
    return float(done.stdout)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 41
    for statement in KINDS.values():  # byte code is written, and files come into memory
        seconds(statement)
    took = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, statement in KINDS.items():
            took[kind].append(seconds(statement))
    numpy = statistics.median(took["NumPy"])
    for kind, all_of_it in took.items():
        middle = statistics.median(all_of_it)
        print(f"{kind:22} {1000 * middle:7.1f} ms, {middle / numpy:.2f} of NumPy's ({rounds} rounds)")


if __name__ == "__main__":
    main()
