"""A training script for the system tests: iterates as its one argument, JSON, says, and prints what it got.

dataset, pipeline, batch_size, epochs and all other arguments of larder.Loader, a sampler as {"Weights": its arguments};
besides: step_s, how long a training step takes; burst, of how many steps only the last takes that long; rest, how many
times as long as those steps were waited for that one takes, in place of step_s; hold, how many zero-copy batches to
hold on to; start_after, a file to wait for before the first epoch; pause, [number, file]: after so many batches wait
for the file; load_after, a file to wait for before it makes its Loader, beside which it makes one named …-up as soon as
it waits.
"""

import json
import os
import signal
import sys
import time

import larder


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.001)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background processes ignore it
    options = json.loads(sys.argv[1])
    step_s, burst, rest, hold, start_after, pause, load_after = (
        options.pop(key, None) for key in ("step_s", "burst", "rest", "hold", "start_after", "pause", "load_after"))
    for name, arguments in (options.pop("sampler", None) or {}).items():
        options["sampler"] = getattr(larder, name)(*arguments)
    epochs = options["epochs"]
    kept, rested = [], 0.0
    if load_after:
        with open(load_after + "-up", "w"):
            wait_for(load_after)
    try:
        loader = larder.Loader(output="numpy", with_ids=True, zero_copy=bool(hold), **options)
        if start_after:
            wait_for(start_after)
        while loader.epoch < epochs:  # a rank that comes back does not begin with the first
            epoch = loader.epoch
            for batch in loader:
                if hold:
                    kept = [*kept, batch][-hold:]  # before it is told: who hears of it may kill this script
                print(json.dumps({"time": time.monotonic(), "epoch": epoch, "indices": batch[2].tolist(),
                                  "wait_s": loader.stats()["wait_s"]}), flush=True)
                del batch
                if not burst or loader.stats()["batches"] % burst == 0:
                    waited = loader.stats()["wait_s"]
                    time.sleep(rest * (waited - rested) if rest else step_s or 0)
                    rested = waited
                if pause and loader.stats()["batches"] == pause[0]:
                    wait_for(pause[1])
    except larder.LarderError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error), "time": time.monotonic()}), flush=True)
        return 1
    print(json.dumps({"stats": loader.stats()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
