#!/usr/bin/env python3
"""What state_dict() costs while training: its time, its size, and whether batches come later for it.

    state.py FOLDER [--ranks 1] [--batch-size 1024] [--step-ms 20] [--calls 200]

A Loader, or one a rank in threads of one process, takes half an epoch of FOLDER's files as they are (no operator).
Then it trains on, with steps of --step-ms, by turns with and without a state_dict() after each step: the table has the
medians and the 99th percentiles of state_dict() and of the waits for batches of both kinds. The size is that of
torch.save, or of JSON where torch is missing.

LARDER_BIN says which build.
"""

import argparse
import io
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system", "python"))

from system import Daemon, larder  # noqa: E402

CONFIG = """\
memory: {arena: 256MiB, encoded: 512MiB, scratch: 64MiB}
catalog: {checkpoint: none}
metrics: {enabled: false}
"""
BLOCK = 20  # steps of one kind in a row


def saved_bytes(state):
    try:
        import torch
    except ImportError:
        return len(json.dumps(state)), "JSON"
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=True) == state
    return buffer.tell(), "torch.save"


def others(loader, options, together, ending):
    """A rank that takes its batches in step with rank 0 and asks for no state."""
    for _ in loader:
        try:
            together.wait()
        except threading.BrokenBarrierError:
            return
        if ending.is_set():
            return


def measure(loader, options, together):
    batches, half = iter(loader), len(loader) // 2
    for _ in range(half):
        next(batches)
        together.wait()
    asked, waits = [], {True: [], False: []}
    for number in range(2 * options.calls):
        with_state = number // BLOCK % 2 == 0
        began = time.perf_counter()
        try:
            next(batches)
        except StopIteration:
            break
        waits[with_state].append(time.perf_counter() - began)
        together.wait()
        time.sleep(options.step_ms / 1000)
        if with_state:
            began = time.perf_counter()
            state = loader.state_dict()
            asked.append(time.perf_counter() - began)
    return state, asked, waits


def row(name, seconds):
    ordered = sorted(seconds)
    print(f"{name:28} {len(ordered):6} {1000 * statistics.median(ordered):9.2f} "
          f"{1000 * ordered[int(0.99 * (len(ordered) - 1))]:9.2f} {1000 * ordered[-1]:9.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--shuffle", default="dependent")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="larder-state-")
    daemon = Daemon(folder, CONFIG)
    ending, together = threading.Event(), threading.Barrier(options.ranks)
    try:
        loaders = [larder.Loader(options.folder, [], options.batch_size, all_files=True, socket=daemon.socket,
                                 output="numpy", rank=rank, world_size=options.ranks, name="state", seed=7,
                                 shuffle=options.shuffle)
                   for rank in range(options.ranks)]
        threads = [threading.Thread(target=others, args=(loader, options, together, ending), daemon=True)
                   for loader in loaders[1:]]
        for thread in threads:
            thread.start()
        state, asked, waits = measure(loaders[0], options, together)
        ending.set()
        together.abort()
        size, how = saved_bytes(state)
        print(f"{loaders[0].dataset_size} samples, {options.ranks} ranks, {options.shuffle}, epoch {state['epoch']}, "
              f"batch {state['batches']} of {len(loaders[0])}: {size} bytes ({how})", flush=True)
        print(f"{'milliseconds':28} {'number':>6} {'median':>9} {'99 %':>9} {'most':>9}")
        row("state_dict()", asked)
        row("wait, after a state_dict()", waits[True])
        row("wait, without", waits[False])
    finally:
        daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
