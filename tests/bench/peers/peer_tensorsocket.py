"""TensorSocket: one producer with a DataLoader (torchvision's second transforms) sends each batch to all jobs, which
keep step with each other. It puts several of the loader's batches into one that it sends. Those that it has not sent
when the loader ends are lost. Two of half the size lose least: one alone fails."""

import contextlib
import importlib.metadata
import json
import socket
import subprocess
import sys

import peer_torchvision
import peer_torchvision_v2

PACKAGES = ("tensorsocket", "torch", "torchvision")
LEAVES = True  # a job that stays connected and takes nothing would hold up the others


def available():
    version, reason = peer_torchvision_v2.available()
    if not version:
        return None, reason
    try:
        import tensorsocket  # noqa: F401
    except ImportError as reason:
        return None, str(reason)
    return f"tensorsocket {importlib.metadata.version('tensorsocket')}, {version}", None


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def server(spec):
    """Gives the four ports, as JSON."""
    ports = json.dumps(free_ports(4))
    with subprocess.Popen([sys.executable, "-B", __file__, spec.folder, str(spec.threads), ports],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            process.stdout.readline()
            yield ports
        finally:
            process.terminate()


def named(ports):
    return {"port": ports[0], "ack_port": ports[1], "heart_ports": tuple(ports[2:])}


def produce(folder, threads, ports):
    import job
    from tensorsocket import TensorProducer

    spec = job.Spec("tensorsocket", folder, "", 0, threads)
    dataset = peer_torchvision.with_indices(peer_torchvision_v2.transform(job.SIZE), folder,
                                            loader=peer_torchvision_v2.decode)
    producer = TensorProducer(peer_torchvision.data_loader(dataset, spec, job.BATCH // 2), producer_batch_size=2,
                              **named(ports))
    print("ready", flush=True)
    while True:
        for _ in producer:
            pass


def loader(spec):
    import job
    from tensorsocket import TensorConsumer

    batches = TensorConsumer(batch_size=job.BATCH, **named(json.loads(spec.address)))
    return lambda: iter(batches)


if __name__ == "__main__":
    produce(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
