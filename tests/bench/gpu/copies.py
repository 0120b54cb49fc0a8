"""How fast a batch comes to the device: from pinned memory, and from a shared read-only mapping, such as the arena is
to a script, registered with CUDA or not. A batch's samples lie in the mapping one by one, in a random order."""

import mmap
import os
import time

import numpy as np
import torch

READ_ONLY = 8  # cudaHostRegisterReadOnly


def rate(copy, size, repeats):
    copy()
    torch.cuda.synchronize()
    began = time.monotonic()
    for _ in range(repeats):
        copy()
    torch.cuda.synchronize()
    return repeats * size / (time.monotonic() - began) / 1e9


def measure(batch=256, sample=224 * 224 * 3, repeats=50):
    """GB/s each way; of the registered mapping also how long registering 1 GiB took."""
    descriptor = os.memfd_create("copies")
    os.ftruncate(descriptor, 1 << 30)
    with mmap.mmap(descriptor, 1 << 30) as filled:
        filled[:] = b"\1" * (1 << 30)
    mapping = np.frombuffer(mmap.mmap(descriptor, 1 << 30, mmap.MAP_SHARED, mmap.PROT_READ), np.uint8)
    os.close(descriptor)
    slots = np.random.default_rng(1).permutation((1 << 30) // sample)[:batch] * sample
    pinned = torch.empty(batch, sample, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(batch, sample, dtype=torch.uint8, device="cuda")
    rows = [torch.from_numpy(mapping[at:at + sample]) for at in slots]

    def gathered():  # what to_device does today
        torch.cuda.synchronize()  # the buffer is free again
        for row, view in zip(pinned, rows):
            row.numpy()[:] = view.numpy()
        device.copy_(pinned, non_blocking=True)

    def direct():
        for row, view in zip(device, rows):
            row.copy_(view, non_blocking=True)

    found = {"pinned": rate(lambda: device.copy_(pinned, non_blocking=True), batch * sample, repeats),
             "gathered": rate(gathered, batch * sample, repeats), "unregistered": rate(direct, batch * sample, repeats)}
    began = time.monotonic()
    error = torch.cuda.cudart().cudaHostRegister(mapping.ctypes.data, 1 << 30, READ_ONLY)
    found["registering_s"] = time.monotonic() - began
    if int(error) == 0:
        found["registered"] = rate(direct, batch * sample, repeats)
        torch.cuda.cudart().cudaHostUnregister(mapping.ctypes.data)
    else:
        found["refused"] = str(error)
    return found
