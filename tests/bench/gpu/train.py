"""One training: a process that stays for all cells, so that importing torch and making the model is paid once. It reads
a JSON command a line, and answers each with a JSON line; run.py tells it when to begin, together with the others."""

import collections
import json
import sys
import time
import traceback

import feeds
import torch
import torchvision

IN_FLIGHT = 2  # steps that are queued on the device: the next batch is fetched while they run
STREAK = 5     # steps before a cell counts


def model_of(name, seed, device):
    torch.manual_seed(seed)
    if name == "tiny":
        model = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=20)
    else:
        model = getattr(torchvision.models, name)(num_classes=20)
    return model.to(device, memory_format=torch.channels_last)


class Training:
    def __init__(self, spec):
        self.device = torch.device(spec["device"])
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True
        else:
            torch.set_num_threads(1)
        self.model = model_of(spec["model"], spec["seed"], self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=.02, momentum=.9)
        self.queued = collections.deque()

    def step(self, images, labels):
        """Queues a step, and waits where more than IN_FLIGHT are queued. Gives the loss, on the device."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        if self.device.type == "cuda":
            event = torch.cuda.Event()
            event.record()
            self.queued.append(event)
            if len(self.queued) > IN_FLIGHT:
                self.queued.popleft().synchronize()
        return loss.detach()

    def finish(self):
        self.queued.clear()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def tell(**answer):
    print(json.dumps(answer), flush=True)
    return json.loads(sys.stdin.readline() or '{"do": "end"}')


def cell(spec):
    """Trains for so many seconds: how many samples, and how long it waited for batches."""
    feed, training = feeds.FEEDS[spec["variant"]](spec, torch.device(spec["device"])), Training(spec)
    try:
        batches = iter(feed)
        for _ in range(STREAK):
            training.step(*next(batches))
        training.finish()
        tell(ready=True)
        samples, waited, told, began = 0, 0.0, feed.waited_s(), time.monotonic()
        while time.monotonic() - began < spec["seconds"]:
            before = time.monotonic()
            images, labels = next(batches)
            waited += time.monotonic() - before
            training.step(images, labels)
            samples += len(labels)
        training.finish()
        took = time.monotonic() - began
        return {"samples": samples, "took_s": took, "waited_s": waited,
                "told_s": None if told is None else feed.waited_s() - told}
    finally:
        feed.close()


def losses(spec):
    """The losses of so many steps, the model's seed being the job's number."""
    feed, training = feeds.FEEDS[spec["variant"]](spec, torch.device(spec["device"])), Training(spec)
    try:
        batches = iter(feed)
        tell(ready=True)
        came = [training.step(*next(batches)) for _ in range(spec["steps"])]
        training.finish()
        return {"losses": torch.stack(came).float().cpu().tolist()}
    finally:
        feed.close()


def main():
    command = tell(up=True)
    while command["do"] != "end":
        try:
            answer = {"cell": cell, "losses": losses}[command["do"]](command)
        except Exception:  # the other cells go on
            answer = {"failed": traceback.format_exc()[-1500:]}
        command = tell(**answer)


if __name__ == "__main__":
    main()
