"""The tf.data service: a dispatcher and one worker prepare for all jobs. Each job has an epoch of its own, so nothing
is shared. peer_tfservice_shared.py shares."""

import contextlib
import subprocess
import sys

import peer_tfdata

PACKAGES = peer_tfdata.PACKAGES
LISTS = peer_tfdata.LISTS
available = peer_tfdata.available


@contextlib.contextmanager
def server(spec):
    """Gives the dispatcher's address."""
    with subprocess.Popen([sys.executable, "-B", __file__], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def serve():
    """A dispatcher and a worker in this process, until its input ends."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1]))
    print(dispatcher.target, flush=True)
    sys.stdin.read()
    return worker


def loader(spec):
    import tensorflow as tf

    service = tf.data.experimental.service
    batches = peer_tfdata.dataset(spec).apply(service.distribute(
        processing_mode=service.ShardingPolicy.DYNAMIC, service=spec.address)).prefetch(tf.data.AUTOTUNE)
    return batches.as_numpy_iterator


if __name__ == "__main__":
    serve()
