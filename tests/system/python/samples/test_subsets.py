"""Subsets: a job gets the samples that its expression selects, in every epoch, and no others."""

import os

import above  # noqa: F401
from system import Case, files_of, larder, main, tree, until

COUNT = 120


class Subsets(Case):
    def indices(self, loader):
        return sorted(index for batch in loader for index in batch[-1].tolist())

    def test_expressions(self):
        """Classes, ranges, lists, fractions and their combinations select what they say, and len() counts it."""
        daemon, files = self.daemon(), files_of(tree(COUNT))
        labels = [path.split("/")[-2] for path in files]
        third = {index for index, label in enumerate(labels) if label == "class_03"}
        listed = os.path.join(self.folder, "list")
        with open(listed, "w") as file:
            file.writelines(f"{os.path.relpath(files[index], tree(COUNT))}\n" for index in (5, 70, 119))
        for subset, expected in ((larder.Classes("class_03"), third),
                                 (larder.Range(10, 30), set(range(10, 30))),
                                 (larder.List(listed), {5, 70, 119}),
                                 (larder.Classes("class_0[0-4]") & larder.Range(0, 50), set(range(50))),
                                 (larder.Range(30, 50) - larder.Classes("class_03"), set(range(30, 50)) - third),
                                 (larder.Range(0, 3) | larder.List(listed), {0, 1, 2, 5, 70, 119})):
            with self.subTest(subset=subset):
                loader = self.loader(daemon, tree(COUNT), subset=subset)
                self.assertEqual(loader.dataset_size, len(expected))
                self.assertEqual(len(loader), -(-len(expected) // 16))
                for _ in range(2):
                    self.assertEqual(self.indices(loader), sorted(expected))
                loader.close()
                self.assertTrue(until(lambda: not daemon.jobs(), 5))

    def test_fractions(self):
        """A fraction has its size, is the same for the same seed, another for another, and nested in a larger one."""
        daemon = self.daemon()

        def part(fraction, seed):
            with self.loader(daemon, tree(COUNT), subset=larder.Fraction(fraction, seed=seed)) as loader:
                return self.indices(loader)
        self.assertEqual(len(part(0.25, 3)), COUNT // 4)
        self.assertEqual(part(0.25, 3), part(0.25, 3))
        self.assertNotEqual(part(0.25, 3), part(0.25, 4))
        self.assertLess(set(part(0.25, 3)), set(part(0.5, 3)))

    def test_what_is_wrong_is_refused(self):
        """An unknown class, an empty selection and a wrong expression are errors that say where."""
        daemon = self.daemon()
        for subset in (larder.Classes("nonesuch"), larder.Range(5, 5), {"clases": ["x"]}, "{"):
            with self.assertRaises(larder.InvalidArgument):
                self.loader(daemon, tree(COUNT), subset=subset)
        with self.assertRaisesRegex(larder.LarderError, "/no/such/list"):
            self.loader(daemon, tree(COUNT), subset=larder.List("/no/such/list"))


if __name__ == "__main__":
    main()
