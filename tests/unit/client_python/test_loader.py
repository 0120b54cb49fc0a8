"""The Loader against a fake daemon: what it yields, when an epoch ends, what it asks for and gives back."""

import gc
import os
import warnings

import fake_daemon as fake
from support import Case, larder, main, until

import numpy as np


class Epochs(Case):
    def test_every_sample_comes_once_an_epoch_with_its_pixels(self):
        """Shapes, types, labels, indices and bytes are right, for slots side by side, spaced, and scattered."""
        for gap in (0, 64, "random"):
            with self.subTest(gap=gap):
                path = f"{self.path}{gap}"
                self.daemon(path, gap_bytes=gap)
                with self.loader(socket=path, with_ids=True) as loader:
                    self.assertEqual((len(loader), loader.dataset_size, loader.classes), (4, 20, ["cat", "dog"]))
                    self.assertEqual(loader.class_to_idx, {"cat": 0, "dog": 1})
                    for _ in range(3):
                        seen = []
                        for images, labels, indices in loader:
                            self.assertEqual((images.dtype, images.shape[1:]), (np.uint8, (4, 6, 3)))
                            self.assertEqual(labels.dtype, np.int64)
                            self.assertEqual(labels.tolist(), (indices % 2).tolist())
                            self.assertEqual(loader.last_ids.tolist(), (indices + 1000).tolist())
                            self.check_pixels(images, indices)
                            seen += indices.tolist()
                        self.assertEqual(sorted(seen), list(range(20)))
                    self.assertEqual(loader.stats()["samples"], 60)
                    self.assertEqual(loader.stats()["batches"], 12)

    def test_batches_may_be_kept_and_changed(self):
        """Batches are the caller's: they stay as they were while later ones come, and can be written to."""
        self.daemon()
        kept = []
        for images, _, indices in self.loader(with_ids=True):
            kept.append((images, indices))
        for images, indices in kept:
            self.check_pixels(images, indices)
            images += 1

    def test_buffers_are_used_again_only_when_nobody_looks(self):
        """A buffer returns with its last view, also when that is a slice of a reshaped one, and not before."""
        self.daemon()
        loader = self.loader(batch_size=5)
        first = next(iter(loader))[0]
        address, view = first.ctypes.data, first.reshape(5, -1)[2:, 1:]
        expected = view.copy()
        del first
        others = [images.ctypes.data for _ in range(3) for images, _ in loader]
        self.assertNotIn(address, others)
        self.assertTrue((view == expected).all())
        del view
        self.assertIn(address, [images.ctypes.data for _ in range(3) for images, _ in loader])

    def test_drop_last_and_flags(self):
        """The job's settings reach the daemon, and drop_last leaves the short batch out."""
        daemon = self.daemon()
        loader = self.loader(drop_last=True, shuffle="strict", bad_samples="replace", seed=2**64 - 1, epochs=3,
                             prefetch=3, name="my job", subset=larder.Range(0, 5), relabel=True, weight=2.5)
        self.assertEqual([len(labels) for _, labels in loader], [6, 6, 6])
        job = daemon.registrations[0]
        self.assertEqual((job["flags"], job["shuffle"], job["bad_policy"], job["seed"], job["epochs"], job["prefetch"]),
                         (3, 1, 1, 2**64 - 1, 3, 3))
        self.assertEqual((job["name"], job["dataset"], job["pipeline"], job["subset"]),
                         (b"my job", b"/data", b'["resize"]', b'{"range": [0, 5]}'))
        self.assertEqual((loader.name, job["weight"]), ("my job", 2.5))

    def test_breaking_out_goes_on_with_the_next_epoch(self):
        """After a break the next iteration is a whole epoch of its own, and the old epoch's batches are given back."""
        daemon = self.daemon()
        loader = self.loader(with_ids=True)
        for _ in loader:
            break
        seen = sorted(i for _, _, indices in loader for i in indices.tolist())
        self.assertEqual(seen, list(range(20)))
        self.assertTrue(until(lambda: not daemon.connections[0].held))
        self.assertEqual([entry[1] for entry in daemon.log if entry[0] == "next"][0], 0)
        self.assertEqual(loader.epoch, 2)

    def test_it_says_what_it_is(self):
        """repr names job, dataset, batch size, rank and the next epoch, also of a loader that is closed."""
        self.daemon()
        loader = self.loader(name="mine", rank=1, world_size=2)
        text = "job 'mine', of '/data', batches of 6, rank 1 of 2, next is epoch 0>"
        self.assertEqual(repr(loader), "<larder.Loader " + text)
        loader.close()
        self.assertEqual(repr(loader), "<larder.Loader of '/data', batches of 6, rank 1 of 2, next is epoch 0>")

    def test_an_empty_last_batch_ends_the_epoch(self):
        """An empty batch with the flag is an end, not a batch."""
        self.daemon(empty_last=True)
        loader = self.loader()
        for _ in range(2):
            self.assertEqual([len(labels) for _, labels in loader], [6, 6, 6, 2])

    def test_turns_before_a_batch_do_not_disturb_it(self):
        """TURNS comes before each batch: the epoch is the same as without."""
        self.daemon(turns=((0, 7), (2, fake.TURN_NONE)), empty_last=True)
        with self.loader(with_ids=True) as loader:
            for _ in range(2):
                self.assertEqual(sorted(int(i) for batch in loader for i in batch[2]), list(range(20)))

    def test_a_newer_iterator_ends_the_older(self):
        """The older of two live iterators says so; an exhausted one just stays exhausted."""
        self.daemon()
        loader = self.loader()
        older = iter(loader)
        next(older)
        newer = iter(loader)
        with self.assertRaisesRegex(larder.LarderError, "newer"):
            next(older)
        self.assertEqual(len(list(newer)), 4)
        iter(loader)
        with self.assertRaises(StopIteration):
            next(newer)

    def test_known_epochs_are_asked_ahead_and_end(self):
        """With epochs given, the next one's first batches are requested at an epoch's end; then it is over."""
        daemon = self.daemon()
        loader = self.loader(epochs=2, with_ids=True)
        self.assertEqual(len(list(loader)), 4)
        self.assertTrue(until(lambda: ("next", 1, 2, fake.AHEAD) in daemon.log))
        self.assertEqual(sorted(i for _, _, indices in loader for i in indices.tolist()), list(range(20)))
        with self.assertRaisesRegex(larder.EpochsOver, "all 2 epochs"):
            iter(loader)
        self.assertNotIn(2, [entry[1] for entry in daemon.log if entry[0] == "next"])

    def test_without_epochs_nothing_is_asked_beyond_the_end(self):
        """A finished epoch leaves no batch of another one prepared in vain."""
        daemon = self.daemon()
        loader = self.loader()
        list(loader)
        self.assertEqual({entry[1] for entry in daemon.log if entry[0] == "next"}, {0})

    def test_requests_stay_within_prefetch(self):
        """Never more than `prefetch` batches are on their way, and every one is given back."""
        daemon = self.daemon(n_samples=60)
        loader = self.loader(prefetch=3)
        asked = received = 0
        for _ in loader:
            received += 1
            asked = sum(entry[2] for entry in list(daemon.log) if entry[0] == "next")
            self.assertLessEqual(asked, received + 3)
        self.assertTrue(until(lambda: len([e for e in daemon.log if e[0] == "release"]) == 10))

    def test_encoded_bytes(self):
        """An empty pipeline yields each file's bytes."""
        self.daemon(encoded=True)
        seen = {}
        for files, _, indices in self.loader(pipeline=[], with_ids=True):
            seen.update(zip(indices.tolist(), files))
        self.assertEqual(seen, {i: fake.pixels(i, 5 + i)[:5 + i] for i in range(20)})

    def test_other_types_and_layouts(self):
        """float32 in channels-first order comes as such."""
        self.daemon(dtype=2, layout=1, itemsize=4)
        for images, _, indices in self.loader(with_ids=True):
            self.assertEqual((images.dtype, images.shape[1:]), (np.float32, (3, 4, 6)))
            self.check_pixels(images, indices)

    def test_class_names_come_in_pages(self):
        """Many classes arrive whole and in order, names that are not UTF-8 included."""
        names = [b"class-%d" % i for i in range(7)] + [b"\xff\xfe"]
        self.daemon(classes=names, page=3)
        self.assertEqual([name.encode("utf-8", "surrogateescape") for name in self.loader().classes], names)


class Slips(Case):
    """What a script that comes from a DataLoader gets wrong."""

    def test_arguments_of_others(self):
        """A DataLoader's arguments are refused with what does the same here; what nobody has is a TypeError."""
        for name, words in (("num_workers", "the daemon has the threads"), ("sampler", "subset="),
                            ("batch_sampler", "batch_size="), ("generator", "seed="), ("target_transform", "labels="),
                            ("worker_init_fn", "no worker processes"), ("prefetch_factor", "prefetch=")):
            with self.assertRaisesRegex(larder.InvalidArgument, f"^{name}= .*{words}"):
                self.loader(**{name: 1})
        with self.assertRaisesRegex(TypeError, "no argument 'shufle': did you mean shuffle="):
            larder.Loader("/data", shufle=True)
        with self.assertRaisesRegex(TypeError, "no argument 'batchsize': did you mean batch_size="):
            self.loader(batchsize=3)

    def test_datasets_that_are_no_folders(self):
        """Addresses, and lists with something else than paths, are refused before anything is opened."""
        for dataset, words in (("s3://bucket/train", "no s3:// address.*mountpoint-s3"), ("file:///data", "file://"),
                               ("https://host/x.tar", "no https://"),
                               (["a.jpg", ("b.jpg", 3)], "no path: give labels by labels="), (None, "None")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                larder.Loader(dataset, ["resize"], output="numpy")

    def test_no_batch_is_left(self):
        """drop_last that leaves no batch warns, once, with the numbers."""
        self.daemon()
        with self.assertWarnsRegex(UserWarning, "no batch.*20 samples than batch_size, 64") as said:
            loader = self.loader(batch_size=64, drop_last=True)
        self.assertEqual(os.path.basename(said.filename), "support.py")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(list(loader), [])
            self.assertEqual(len(list(self.loader(batch_size=20, drop_last=True))), 1)


class ZeroCopy(Case):
    def test_views_show_the_arena_and_cannot_be_written(self):
        """Evenly spaced slots become one array, others a list; both are read-only and right while they are held."""
        for gap, kind in ((0, np.ndarray), (64, np.ndarray), ("random", list)):
            path = f"{self.path}{gap}"
            self.daemon(path, gap_bytes=gap)
            kinds = set()
            for images, _, indices in self.loader(socket=path, zero_copy=True, with_ids=True):
                kinds.add(type(images))
                self.check_pixels(images, indices)
                self.assertFalse(images[0].flags.writeable)
                with self.assertRaises(ValueError):
                    images[0][0] = 1
            self.assertIn(kind, kinds)

    def test_slots_are_held_as_long_as_any_view_lives(self):
        """One pixel of one view keeps the batch, and the batch goes back as soon as it is dropped."""
        daemon = self.daemon(gap_bytes="random")
        loader = self.loader(zero_copy=True, with_ids=True)
        iterator = iter(loader)
        images, _, indices = next(iterator)
        pixel, index = images[2][1:2, 3], int(indices[2])
        del images
        gc.collect()
        next(iterator)
        self.assertEqual(pixel.tobytes(), fake.pixels(index, 72)[27:30])
        self.assertIn(1, daemon.connections[0].held)
        del pixel
        self.assertTrue(until(lambda: 1 not in daemon.connections[0].held))

    def test_holding_too_much_is_an_error_and_not_a_hang(self):
        """At held_max the next batch is refused in words; releasing one, or all, lets it go on."""
        self.daemon(n_samples=60, held_max=3)
        loader = self.loader(zero_copy=True)
        iterator = iter(loader)
        kept = [next(iterator) for _ in range(3)]
        with self.assertRaisesRegex(larder.LimitReached, "holds 3 zero-copy batches"):
            next(iterator)
        kept[0].release()
        kept[0].release()
        kept.append(next(iterator))
        with self.assertRaises(larder.LimitReached):
            next(iterator)
        kept.clear()
        self.assertEqual(sum(1 for _ in iterator), 6)

    def test_views_outlive_the_loader(self):
        """A view keeps the connection, and with it its slots, when the Loader itself has gone."""
        daemon = self.daemon()
        images, _, indices = next(iter(self.loader(zero_copy=True, with_ids=True)))
        gc.collect()
        self.check_pixels(images, indices)
        self.assertFalse(daemon.connections[0].over.is_set())
        del images
        gc.collect()
        self.assertTrue(daemon.connections[0].over.wait(10))


if __name__ == "__main__":
    main()
