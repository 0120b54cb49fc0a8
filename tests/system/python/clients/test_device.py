"""larder.to_device: on the CPU, and on a GPU where there is one, batches are those of the Loader, normalised alike."""

import contextlib
from unittest import mock

import above  # noqa: F401
from system import Case, larder, main, skip, tree

try:
    import torch
except ImportError:
    skip("this Python has no torch")

COUNT = 50
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIPELINE = [larder.Resize([16, 16])]


class Streams:
    """What torch.cuda has, where there is no GPU: it writes down in which order it is asked for what."""

    def __init__(self):
        self.asked = []

    def Stream(self, _):
        return "side"

    def Event(self):
        return mock.Mock(record=lambda stream: self.asked.append(f"record on {stream}"))

    def current_stream(self, _):
        return mock.Mock(wait_event=lambda _: self.asked.append("wait"))

    @contextlib.contextmanager
    def stream(self, stream):
        self.asked.append(f"into {stream}")
        yield
        self.asked.append(f"out of {stream}")


@contextlib.contextmanager
def as_on_cuda(moved):
    """Has a DeviceLoader do what it does for a GPU. What it puts into pinned memory is written down."""
    streams, empty, pinned = Streams(), torch.empty, []

    def pinning(*shape, pin_memory=False, **options):
        made = empty(*shape, **options)
        if pin_memory:
            pinned.append(made)
        return made

    moved._streams = streams
    with mock.patch.object(torch, "empty", pinning), \
            mock.patch.object(torch.Tensor, "record_stream", lambda *_: streams.asked.append("recorded")), \
            mock.patch.object(torch.Tensor, "is_pinned", lambda part: any(part is each for each in pinned)):
        yield streams, pinned


class Device(Case):
    def loaders(self, **options):
        self.served = self.daemon()
        return [self.loader(self.served, tree(COUNT), 8, PIPELINE, shuffle="strict", output="torch", **options)
                for _ in range(2)]

    def same(self, device, **options):
        plain, moved = self.loaders(**options)
        moved = larder.to_device(moved, device, normalize=(MEAN, STD))
        self.assertEqual((len(moved), moved.classes), (len(plain), plain.classes))
        mean, std = (torch.tensor(part).reshape(1, 3, 1, 1) for part in (MEAN, STD))
        for _ in range(2):
            batches = list(zip(plain, moved))
            self.assertEqual(len(batches), len(plain))
            for (images, labels, indices), (there, labels_there, indices_there) in batches:
                self.assertEqual((there.device.type, there.dtype), (device, torch.float32))
                torch.testing.assert_close(there.cpu(), (images / 255 - mean) / std, rtol=1e-5, atol=1e-5)
                self.assertTrue(torch.equal(labels_there.cpu(), labels) and torch.equal(indices_there.cpu(), indices))

    def test_cpu(self):
        """Each batch is the Loader's, in floating point; two epochs."""
        self.same("cpu")

    def test_gpu(self):
        """The same on the GPU, from pinned memory that nobody had to ask for, and from zero-copy views."""
        if not torch.cuda.is_available():
            self.skipTest("torch finds no GPU")
        self.same("cuda")
        self.same("cuda", zero_copy=True)

    def test_streams(self):
        """On a GPU a batch goes through pinned memory on a stream of its own, and who uses it waits for that; it is
        handed out before the next one is asked for."""
        plain, loader = self.loaders()
        moved = larder.to_device(loader, "cpu", normalize=(MEAN, STD))
        expected = list(larder.to_device(plain, "cpu", normalize=(MEAN, STD)))
        with as_on_cuda(moved) as (streams, pinned):
            for number, (there, here) in enumerate(zip(moved, expected), 1):
                for part, other in zip(there, here):
                    self.assertTrue(torch.equal(part, other))
                self.assertEqual(streams.asked,
                                 ["into side", "record on side", "out of side", "wait", *["recorded"] * 3])
                self.assertEqual((len(pinned), loader.stats()["batches"]), (3 * number, number))
                streams.asked.clear()

    def test_states(self):
        """In the middle of an epoch the state is that of what the loop has got: with what was had before it, the rest
        is the whole epoch."""
        daemon, data = self.daemon(), tree(COUNT)
        for cuda in (False, True):
            moved = larder.to_device(self.loader(daemon, data, 8, PIPELINE, output="torch"), "cpu")
            with as_on_cuda(moved) if cuda else contextlib.nullcontext():
                had = []
                for _, _, indices in moved:
                    had += indices.tolist()
                    state = moved.state_dict()
                    rest = self.loader(daemon, data, 8, PIPELINE, output="torch", state=state)
                    left = [index for batch in rest for index in batch[2].tolist()] if len(had) < COUNT else []
                    self.assertEqual(sorted(had + left), list(range(COUNT)))

    def test_zero_copy(self):
        """zero_copy gives torch tensors in the daemon's memory, in one or in a list, and the same in to_device, which
        gives their slots back once they are copied."""
        self.loaders()
        for prefetch in (1, 4):
            options = {"shuffle": "strict", "output": "torch", "prefetch": prefetch}
            plain = self.loader(self.served, tree(COUNT), 8, PIPELINE, **options)
            loader = self.loader(self.served, tree(COUNT), 8, PIPELINE, zero_copy=True, **options)
            for (images, labels, indices), (views, others, at) in zip(plain, loader):
                self.assertTrue(torch.equal(labels, others) and torch.equal(indices, at))
                self.assertTrue(all(torch.equal(image, view) for image, view in zip(images, views)))
                session = loader._job.link.session
                self.assertLess(views[0].data_ptr() - session.address, len(session.arena))
                self.assertEqual(len(loader._job.link.session.held), 1)
                del views
            moved = larder.to_device(loader, "cpu", normalize=(MEAN, STD))
            with as_on_cuda(moved):
                kept = list(zip(larder.to_device(plain, "cpu", normalize=(MEAN, STD)), moved))
            for (images, *_), (there, *_) in kept:
                self.assertTrue(torch.equal(images, there))
                self.assertTrue(there.is_contiguous(memory_format=torch.channels_last))

    def test_default_device(self):
        """Batches and constants are made on the CPU, whatever torch's default device is."""
        if not hasattr(torch, "set_default_device"):
            self.skipTest("this torch has no default device")
        plain, loader = self.loaders()
        expected = [images for images, *_ in larder.to_device(plain, "cpu", normalize=(MEAN, STD))]
        zero_copy = self.loader(self.served, tree(COUNT), 8, PIPELINE, shuffle="strict", output="torch",
                                zero_copy=True)
        torch.set_default_device("meta")
        try:
            for each in (loader, zero_copy):
                got = [images for images, *_ in larder.to_device(each, "cpu", normalize=(MEAN, STD))]
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(got, expected)))
        finally:
            torch.set_default_device(None)

    def test_dictionaries(self):
        """Dictionaries stay ones, and what is no tensor stays where it is."""
        _, loader = self.loaders(as_dict=("pixel_values", "labels", "at", "path"), with_paths=True)
        for batch in larder.to_device(loader, "cpu", normalize=(0.5, 0.5), dtype=torch.float16):
            self.assertEqual(batch["pixel_values"].dtype, torch.float16)
            self.assertLessEqual(batch["pixel_values"].abs().max(), 1)
            self.assertEqual(batch["path"], [loader.dataset.samples[index][0] for index in batch["at"]])

    def test_refused(self):
        """Images that are floating point already, no tensors, and constants that are none."""
        daemon = self.daemon()
        float32 = self.loader(daemon, tree(COUNT), 8, [*PIPELINE, larder.ToDtype("float32", True)], output="torch")
        arrays = self.loader(daemon, tree(COUNT), 8, PIPELINE)
        for loader, normalize, words in ((float32, (MEAN, STD), "uint8"), (arrays, None, "torch tensors"),
                                         (arrays, (1, 2, 3), "mean, std"), (arrays, (0.5, 0), "above 0")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                next(iter(larder.to_device(loader, "cpu", normalize)))
        for dtype in (torch.uint8, torch.int64, "float16"):
            with self.assertRaisesRegex(larder.InvalidArgument, "floating point"):
                larder.to_device(float32, "cpu", (0.5, 0.5), dtype)


if __name__ == "__main__":
    main()
