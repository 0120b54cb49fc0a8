"""The Loader with torch: tensors over the same memory, in the layout that training wants."""

import sys
import warnings
from unittest import mock

from support import Case, main

from larder import _options

try:
    import torch
except ImportError:
    print("skipped: this Python has no torch")
    sys.exit(77)


class Torch(Case):
    def test_tensors_are_channels_last(self):
        """torch gets (B, 3, H, W) in channels-last memory and int64 labels, without a second copy."""
        self.daemon()
        for images, labels, indices in self.loader(output="auto", with_ids=True):
            self.assertEqual((images.dtype, tuple(images.shape[1:])), (torch.uint8, (3, 4, 6)))
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
            self.assertEqual((labels.dtype, indices.dtype), (torch.int64, torch.int64))
            self.check_pixels(images.permute(0, 2, 3, 1).numpy(), indices)

    def test_tensors_keep_their_memory(self):
        """A tensor kept while many others come and go keeps its values."""
        self.daemon()
        loader = self.loader(output="torch")
        kept = next(iter(loader))[0][1:]
        expected = kept.clone()
        for _ in range(3):
            for images, _ in loader:
                images.zero_()
        self.assertTrue(torch.equal(kept, expected))

    def test_pinning_without_a_gpu_warns(self):
        """pin_memory does not fail on a machine without a GPU."""
        if torch.cuda.is_available():
            self.skipTest("there is a GPU")
        self.daemon()
        with self.assertWarnsRegex(UserWarning, "pin_memory"):
            loader = self.loader(output="torch", pin_memory=True)
        self.assertEqual(len(list(loader)), 4)

    def test_pinned_batches_are_the_cpus(self):
        """With pin_memory and a default device that is not the CPU, batches are made on the CPU all the same; where
        torch has no pinned memory after all, it is said once."""
        if not hasattr(torch, "set_default_device"):
            self.skipTest("this torch has no default device")
        self.daemon()
        with mock.patch.object(_options, "can_pin", lambda: True):
            loader = self.loader(output="torch", pin_memory=True)
        torch.set_default_device("meta")
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                devices = {part.device.type for batch in loader for part in batch}
        finally:
            torch.set_default_device(None)
        self.assertEqual(devices, {"cpu"})
        self.assertEqual(len([each for each in said if "pin_memory" in str(each.message)]),
                         0 if torch.cuda.is_available() else 1)


if __name__ == "__main__":
    main()
