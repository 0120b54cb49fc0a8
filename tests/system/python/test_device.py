"""larder.to_device: on the CPU, and on a GPU where there is one, batches are those of the Loader, normalised alike."""

from system import Case, larder, main, skip, tree

try:
    import torch
except ImportError:
    skip("this Python has no torch")

COUNT = 50
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
PIPELINE = [larder.Resize([16, 16])]


class Device(Case):
    def loaders(self, **options):
        daemon = self.daemon()
        return [self.loader(daemon, tree(COUNT), 8, PIPELINE, shuffle="strict", output="torch", **options)
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
        """The same on the GPU, from pinned memory, a batch ahead; a state is refused while a batch is ahead."""
        if not torch.cuda.is_available():
            self.skipTest("torch finds no GPU")
        self.same("cuda", pin_memory=True)
        _, loader = self.loaders()
        moved = larder.to_device(loader, "cuda")
        for number, _ in enumerate(moved, 1):
            if number < len(loader):
                with self.assertRaisesRegex(larder.InvalidArgument, "ahead"):
                    moved.state_dict()
        self.assertEqual(moved.state_dict()["epoch"], loader.state_dict()["epoch"])

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


if __name__ == "__main__":
    main()
