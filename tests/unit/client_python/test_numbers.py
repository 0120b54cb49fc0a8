"""Numbers that a script gives come as they are, or are refused: none becomes another without a word."""

import fractions
import os

import numpy as np
from support import Case, larder, main

from larder import _labels
from larder._columns import Files

WHOLE, FRACTIONS = np.int64, np.float32


class Labels(Case):
    def test_kept(self):
        """Whole numbers come as int64 and others as float32, whatever holds them."""
        most, least = 2**63 - 1, -2**63
        for given, wanted, kind in (
                ([most, least], [most, least], WHOLE), (np.array([most], np.uint64), [most], WHOLE),
                (np.array([5, least], object), [5, least], WHOLE), ([True, False], [1, 0], WHOLE),
                ({0: np.uint8(200), 1: 3}, [200, 3], WHOLE), ({0: 2**53 + 1, 1: -1}, [2**53 + 1, -1], WHOLE),
                ([1, 0.5], [1, 0.5], FRACTIONS), (np.array([2.0**24]), [2**24], FRACTIONS),
                ([[1, 2], [3, 4]], [[1, 2], [3, 4]], WHOLE), (np.float16([0.5]), [0.5], FRACTIONS),
                ([0.1], [np.float32(0.1)], FRACTIONS), ([2.0**24, np.inf], [2**24, np.inf], FRACTIONS)):
            values = _labels.check(given)[1]
            self.assertEqual((values.dtype, values.tolist()), (kind, np.array(wanted, kind).tolist()), given)

    def test_refused(self):
        """What neither holds is refused with what to do."""
        for given, words in (
                (np.array([2**64 - 1], np.uint64), "18446744073709551615.*int64"), ([2**63], "int64"),
                ([-1, 2**63], "int64"), ([2**64, 1], "int64"), ([-2**63 - 1], "int64"), ({3: 2**63}, "int64"),
                ([np.uint64(2**63), np.int64(-1)], "int64"), ([[2**63, 1], [1, 1]], "int64"),
                (np.array([2**70, 1], object), "int64"), ([2**24 + 1, 0.5], "beside fractions"),
                (np.array([2.0**24 + 1, 3]), "float32"), ([2.0**24 + 1], "float32"), ([1e300, 0.5], "float32"),
                ([1e-60, 0.5], "float32"), (np.array(["a", None], object), "no array of numbers"),
                (["a", 1], "nor of names"),
                ([1j], "no array of numbers"), ([None], "no array of numbers"), (5, "no array of numbers")):
            with self.assertRaisesRegex(larder.InvalidArgument, words):
                _labels.check(given)

    def test_files_and_keys(self):
        """So it is with a file; and keys that are no positions do not become some."""
        os.mkdir(self.folder + "/cat")
        open(self.folder + "/cat/1.jpg", "wb").close()
        path = self.folder + "/labels.csv"
        for text in (f"0,{2**63}\n", "0,1e300\n", "0,16777217.0\n", "0,16777217 0.5\n"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaisesRegex(larder.LarderError, "64 bits|float32|beside fractions"):
                self.placed(path)
        for keys in ([0.5], [False], [2**70], [-1]):
            with self.assertRaises(larder.LarderError):
                self.placed(dict.fromkeys(keys, 1))

    def placed(self, given):
        columns = {"__root__": [self.folder], "__path__": [self.folder + "/cat/1.jpg"], "__key__": ["cat/1.jpg"],
                   "__classes__": ["cat"], "__label__": np.zeros(1, np.int64)}
        return _labels.of_dataset(_labels.check(given), 1, lambda: Files(columns.get, self.folder), False)


class Arguments(Case):
    def test_subsets(self):
        """Ranges, fractions and their seeds."""
        self.assertEqual(larder.Range(np.int64(3), np.uint8(9)).spec, {"range": [3, 9]})
        self.assertEqual(larder.Fraction(fractions.Fraction(1, 4), seed=np.uint64(2**63)).spec,
                         {"fraction": 0.25, "seed": 2**63})
        for make in (lambda: larder.Range(0.5, 3), lambda: larder.Range(0, "3"), lambda: larder.Range(False, 3),
                     lambda: larder.Fraction("0.5"), lambda: larder.Fraction(float("nan")), lambda: larder.Classes(3),
                     lambda: larder.Fraction(0.5, seed=1.5), lambda: larder.Fraction(0.5, seed=True)):
            with self.assertRaises(larder.InvalidArgument):
                make()

    def test_loader(self):
        """Each number that a Loader takes."""
        self.daemon()
        for options in ({"batch_size": 2.5}, {"batch_size": True}, {"batch_size": 2**32 + 1}, {"seed": 2**64},
                        {"seed": -1}, {"seed": 1.0}, {"epochs": 2**32}, {"prefetch": 1.5}, {"weight": "1"},
                        {"weight": float("nan")}, {"timeout": "5"}, {"timeout": -1}, {"timeout": float("nan")},
                        {"reconnect": "60"}, {"rank": 0.5, "world_size": 2, "name": "a"}, {"name": b"a"},
                        {"world_size": 1.5, "rank": 0}, {"rank": 2, "world_size": 2, "name": "a"},
                        {"world_size": 2**32, "rank": 0, "name": "a"}, {"local_world_size": 1.5}):
            with self.assertRaisesRegex(larder.InvalidArgument, list(options)[0]):
                self.loader(**options)
        for timeout in (1e12, float("inf"), np.float32(100)):
            self.assertEqual(len(list(self.loader(timeout=timeout))), 4)


if __name__ == "__main__":
    main()
