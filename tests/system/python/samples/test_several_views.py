"""Several views of each image (views=): made of one decode and delivered together, shared, resumed, and handed to the
script in every way that one image is."""

import json
import pickle

import numpy as np

import above  # noqa: F401
import system
from system import Case, larder, main, tree

try:
    import torch
except ImportError:
    torch = None

COUNT = 60
CROP = [larder.Resize(40), larder.CenterCrop(32)]
DINO = larder.recipes.DINO(32, 16)
# Views for evaluation: the middle, mirrored, and turned.
FIXED = [CROP, [*CROP, larder.RandomHorizontalFlip(1.0)], [*CROP, larder.RandomRotation([90, 90])],
         [larder.Resize([20, 24]), larder.Grayscale(3), larder.ToDtype("float32", True), larder.Layout("CHW")]]


def samples_of(batches):
    """The bytes of each sample's views, by index."""
    return {int(index): [view[place].tobytes() for view in images]
            for images, _, indices in batches for place, index in enumerate(indices)}


class SeveralViews(Case):
    def setUp(self):
        super().setUp()
        self.dataset = tree(COUNT, width=64, height=48)

    def views(self, daemon, views, **options):
        options = {"batch_size": 8, "pipeline": None, **options}
        return self.loader(daemon, self.dataset, views=views, **options)

    def test_papers(self):
        """Each paper's views come in its number, sizes and order; views of one list differ, and each sample comes once
        an epoch."""
        daemon = self.daemon()
        for recipe, sides in ((larder.recipes.SimCLR(32), [32] * 2), (larder.recipes.MoCo_v2(32), [32] * 2),
                              (larder.recipes.BYOL(32), [32] * 2), (larder.recipes.SwAV(32, 16), [32] * 2 + [16] * 6),
                              (DINO, [32] * 2 + [16] * 8)):
            loader = self.views(daemon, recipe)
            for _ in range(2):
                seen = []
                for images, labels, indices in loader:
                    self.assertIsInstance(images, tuple)
                    self.assertEqual([view.shape for view in images],
                                     [(len(labels), side, side, 3) for side in sides])
                    self.assertTrue(all((one != other).any() for one, other in zip(images, images[1:])
                                        if one.shape == other.shape))
                    seen += indices.tolist()
                self.assertEqual(sorted(seen), list(range(COUNT)))
        self.assertIn('{"count":8,"steps":[{"random_resized_crop"', daemon.jobs()[loader.name]["pipeline"])

    def test_each_view_is_its_list(self):
        """Views without chance are, byte for byte, what a Loader of each list gives, for evaluation in the order of the
        dataset; a sample's views are made with one decode, and come again in the next epoch without another."""
        daemon = self.daemon()
        loader = self.views(daemon, FIXED, shuffle="none", name="views")
        got = samples_of(loader)
        self.assertEqual(daemon.status()["samples"]["decoded"], COUNT)
        self.assertEqual(samples_of(loader), got)
        self.assertEqual(daemon.status()["samples"]["decoded"], COUNT)
        for number, pipeline in enumerate(FIXED):
            for images, _, indices in self.loader(daemon, self.dataset, 7, pipeline, shuffle="none"):
                for place, index in enumerate(indices.tolist()):
                    self.assertEqual(images[place].tobytes(), got[index][number], (number, index))

    def test_one_language(self):
        """A number of views, a list of as many, JSON in Python and as text, and a pipeline in front of lists are one
        pipeline, whose jobs share; one view is a tuple of one."""
        daemon = self.daemon()
        crop, flip = {"random_resized_crop": {"size": 16}}, larder.RandomHorizontalFlip()
        program = {"views": [{"count": 2, "steps": [crop, "random_horizontal_flip"]}]}
        for pipeline, views in (([crop, flip], 2), (None, [[crop, flip], [crop, flip]]), ([crop], [[flip], [flip]]),
                                (program, None), (json.dumps(program), None), ([larder.View([crop, flip], 2)], None),
                                (None, [larder.View(json.dumps([crop, "random_horizontal_flip"]), 2)])):
            with self.views(daemon, views, pipeline=pipeline) as loader:
                self.assertEqual(len(samples_of(loader)), COUNT)
        status = daemon.status()["samples"]
        self.assertEqual(status["delivered"], 7 * COUNT)
        self.assertLess(status["prepared"], 7 * COUNT)
        (images, _, _), *_ = self.views(daemon, 1, pipeline=CROP)
        self.assertEqual([view.shape for view in images], [(8, 32, 32, 3)])

    def test_four_share(self):
        """Four jobs with the same ten views side by side: one decode for four samples delivered."""
        daemon = self.daemon()
        loaders = [self.views(daemon, DINO) for _ in range(4)]
        for _ in range(2):
            seen = [[] for _ in loaders]
            for batches in zip(*loaders):
                for indices, batch in zip(seen, batches):
                    indices += batch[2].tolist()
            self.assertEqual([sorted(indices) for indices in seen], [list(range(COUNT))] * 4)
        samples = daemon.status()["samples"]
        print(f"decoded {samples['decoded']}, delivered {samples['delivered']}")
        self.assertLessEqual(samples["decoded"], .26 * samples["delivered"])

    def test_private(self):
        """Jobs that augment for themselves get other views of the same decode, and strict ones the same views in two
        runs."""
        daemon = self.daemon()
        runs = [samples_of(self.views(daemon, DINO, **options)) for options in
                (dict(augment="private", seed=1), dict(augment="private", seed=2),
                 dict(shuffle="strict", seed=3), dict(shuffle="strict", seed=3))]
        self.assertEqual(runs[2], runs[3])
        self.assertTrue(all(runs[0][index][view] != runs[1][index][view]
                            for index in range(COUNT) for view in (0, 1)))

    def test_killed_daemon(self):
        """The daemon is killed in the middle of an epoch: with the next one, the rest of it comes once, and under
        strict it has the views of a run that was not disturbed."""
        for shuffle in ("dependent", "strict"):
            with self.subTest(shuffle):
                daemon = self.daemon()
                whole = samples_of(self.views(daemon, DINO, shuffle=shuffle, seed=5))
                loader, batches = self.views(daemon, DINO, shuffle=shuffle, seed=5), []
                for batch in loader:
                    batches.append(batch)
                    if len(batches) == 3:
                        daemon.kill()
                        daemon = self.daemon()
                self.assertEqual(sum(len(indices) for _, _, indices in batches), COUNT)
                got = samples_of(batches)
                self.assertEqual(sorted(got), list(range(COUNT)))
                if shuffle == "strict":
                    self.assertEqual(got, whole)
                self.assertEqual(loader.stats()["reconnects"], 1)
                daemon.kill()

    def test_resumed(self):
        """A state in the middle of an epoch: the next Loader gets the rest; a Loader is pickled with its views."""
        daemon = self.daemon()
        first = self.views(daemon, DINO)
        batches = [batch for _, batch in zip(range(4), first)]
        state = first.state_dict()
        first.close()
        batches += list(self.views(daemon, DINO, state=state))
        self.assertEqual(sum(len(indices) for _, _, indices in batches), COUNT)
        self.assertEqual(len(samples_of(batches)), COUNT)
        with pickle.loads(pickle.dumps(self.views(daemon, DINO))) as copy:
            self.assertEqual(len(next(iter(copy))[0]), 10)

    def test_in_place(self):
        """Zero-copy views of the daemon's memory are what is copied: an array for each view, or a list of arrays."""
        daemon = self.daemon()
        copied = samples_of(self.views(daemon, FIXED, shuffle="none"))
        for prefetch in (1, 3):
            got, loader = {}, self.views(daemon, FIXED, shuffle="none", zero_copy=True, prefetch=prefetch)
            for batch in loader:
                got.update(samples_of([batch]))
                self.assertEqual({type(view) for view in batch[0]} - {list, np.ndarray}, set())
                batch.release()
            self.assertEqual(got, copied)

    def test_the_scripts_functions(self):
        """transform gets a sample's views in a tuple, OnBatch's the tuple of a batch, collate_fn a list of samples;
        as_dict names the tuple."""
        daemon = self.daemon()
        plain = list(self.views(daemon, FIXED, shuffle="none"))

        def both(views):
            return views[0] + 1, views[3] * 2

        for (images, labels, _), (made, same, _), (first, *_) in zip(
                plain, self.views(daemon, FIXED, shuffle="none", transform=both),
                self.views(daemon, FIXED, shuffle="none", transform=lambda views: views[1])):
            self.assertIsInstance(made, tuple)
            np.testing.assert_array_equal(made[0], images[0] + 1)
            np.testing.assert_array_equal(made[1], images[3] * 2)
            np.testing.assert_array_equal(first, images[1])
            self.assertEqual(same.tolist(), labels.tolist())
        on_batch = larder.OnBatch(lambda images, labels, indices: (np.stack(images[:3], 1), labels, indices))
        for (images, *_), batch, samples in zip(
                plain, self.views(daemon, FIXED, shuffle="none", transform=on_batch, as_dict=("views", "y", "at")),
                self.views(daemon, FIXED, shuffle="none", collate_fn=list)):
            np.testing.assert_array_equal(batch["views"][:, 2], images[2])
            self.assertEqual(len(samples), len(images[0]))
            np.testing.assert_array_equal(samples[1][0][3], images[3][1])

    def test_torch(self):
        """With torch, views are tensors with the channels first; to_device moves and normalises each."""
        if torch is None:
            self.skipTest("this Python has no torch")
        daemon = self.daemon()
        arrays = list(self.views(daemon, FIXED[:3], shuffle="none"))
        mean, std = 0.5, 0.25
        for zero_copy in (False, True):
            loader = self.views(daemon, FIXED[:3], shuffle="none", output="torch", zero_copy=zero_copy)
            moved = larder.to_device(loader, "cpu", normalize=(mean, std))
            for (images, labels, _), (tensors, same, _) in zip(arrays, moved):
                self.assertEqual(same.tolist(), labels.tolist())
                for array, tensor in zip(images, tensors):
                    wanted = (torch.from_numpy(array).permute(0, 3, 1, 2).float() / 255 - mean) / std
                    self.assertTrue(torch.allclose(tensor, wanted, atol=1e-5))
        (tensors, _, _), *_ = self.views(daemon, FIXED, shuffle="none", output="torch")
        self.assertEqual([tuple(view.shape) for view in tensors], [(8, 3, 32, 32)] * 3 + [(8, 3, 20, 24)])
        self.assertEqual(tensors[3].dtype, torch.float32)

    def test_images_of_one_size(self):
        """Views that keep the images' size have that of the dataset."""
        (images, _, _), *_ = self.views(self.daemon(), [["random_horizontal_flip"], [larder.CenterCrop(8)]])
        self.assertEqual([view.shape for view in images], [(8, 48, 64, 3), (8, 8, 8, 3)])

    def test_by_epoch(self):
        """With a pipeline for each epoch, `views` are of each; set_pipeline gives views, too."""
        loader = self.views(self.daemon(), 2, pipelines={0: [larder.RandomCrop(16)], 1: [larder.RandomCrop(24)]})
        loader.set_epoch(0)
        shapes = []
        for _ in range(3):
            seen = []
            for images, _, indices in loader:
                seen += indices.tolist()
            self.assertEqual(sorted(seen), list(range(COUNT)))
            shapes.append([view.shape[1:] for view in images])
            if len(shapes) == 2:
                loader.set_pipeline(views=[CROP] * 3)
        self.assertEqual(shapes, [[(16, 16, 3)] * 2, [(24, 24, 3)] * 2, [(32, 32, 3)] * 3])

    def test_configured(self):
        """A dataset's configuration may have views, as a mapping."""
        config = system.CONFIG + f"""
datasets:
  pairs:
    path: {self.dataset}
    pipeline:
      steps: [{{resize: {{size: [16, 16]}}}}]
      views:
        - {{name: pair, count: 2, steps: [random_horizontal_flip]}}
"""
        daemon = self.daemon(config)
        (images, _, _), *_ = self.loader(daemon, "pairs", 8, None)
        self.assertEqual([view.shape for view in images], [(8, 16, 16, 3)] * 2)

    def test_refused(self):
        """What is no list of views is refused, and says which view."""
        daemon, crop = self.daemon(), larder.CenterCrop(8)
        for options, words in ((dict(views=2), "give that, too"), (dict(views="two"), "no list of pipelines"),
                               (dict(views=0, pipeline=[crop]), r"views\[0\]: 0 views"),
                               (dict(views=17, pipeline=[crop]), "1 to 16"),
                               (dict(views=[crop]), r"views\[0\] is CenterCrop.*a view is a list"),
                               (dict(views=larder.recipes.MAE), "a view is a list"),
                               (dict(views=[[crop], [larder.Resize]]), r"views\[1\]: pipeline\[0\] is the class"),
                               (dict(views=[[larder.View([crop])]]), r"views\[0\]: it makes several views itself"),
                               (dict(views=['{"views": []}']), r"views\[0\] has views or parts itself"),
                               (dict(views=["[1"]), r"views\[0\] is no JSON"),
                               (dict(views=[[]]), "view view_0: it has no operators"),
                               (dict(views=[larder.View([crop], 9), larder.View([crop], 8)]), "at most 16 views"),
                               (dict(views=[larder.View([crop, "blur"], name="small")]), r"view small: pipeline\[1\]"),
                               (dict(views=[larder.View([crop], name="Small")]), "a name is a lower-case letter"),
                               (dict(pipeline=[[crop], [crop]]), "views=")):
            with self.subTest(words), self.assertRaisesRegex(larder.InvalidArgument, words):
                self.views(daemon, **{"views": None, **options})


if __name__ == "__main__":
    main()
