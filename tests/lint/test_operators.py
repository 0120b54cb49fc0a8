"""What the users' page and the Python package say of the operators is what their rows in preprocess/ops/ say; and
tests/lint/operators, which tells and mends it, sees each kind of difference.

    test_operators.py PROGRAM    larder_print_operators
"""

import os
import sys
import unittest

from made import HERE, ROOT, Made

PAGE, PACKAGE = "docs/reference/pipelines.md", "client/python/larder/"
FILES = (PAGE, PACKAGE + "transforms.py", PACKAGE + "transforms.pyi", PACKAGE + "__init__.pyi")
# In a file: what stands there, and what somebody makes of it.
CHANGES = (
    (PAGE, "`RandomGrayscale(p=0.1)`", "`RandomGrayscale(p=0.2)`"),
    (PAGE, "Cuts out the middle.", "Cuts out the centre."),
    (PACKAGE + "transforms.py", "gaussian_blur: kernel_size | sigma", "gaussian_blur: kernel | sigma"),
    (PACKAGE + "transforms.py", "interpolation max_size antialias", "interpolation antialias max_size"),
    (PACKAGE + "transforms.pyi", "num_ops: int | None", "num_ops: float | None"),
    (PACKAGE + "__init__.pyi", "Resample as Resample, ", ""),
    (PACKAGE + "__init__.pyi", '"Resize", ', ""),
)


class Operators(Made):
    files = FILES

    @property
    def command(self):
        return os.path.join(HERE, "operators"), "--program", PROGRAM

    def test_the_texts_are_what_the_rows_say(self):
        """Where this fails: tests/lint/operators --fix."""
        self.assertEqual(self.check(root=ROOT), (0, "operators: 0 of 4 files differ from preprocess/ops/\n"))

    def test_each_difference_is_told_and_mended(self):
        """A default, a sentence, an argument, a type or a name that is changed by hand is told, and written anew."""
        for path, old, new in CHANGES:
            with self.subTest(path=path, old=old):
                whole = self.read(path)
                self.change(path, old, new)
                code, said = self.check()
                self.assertEqual(code, 1)
                self.assertIn(f"--- {path}\n", said)
                self.assertIn("operators: 1 of 4 files differ", said)
                self.assertEqual(self.check("--fix"), (0, "operators: 1 of 4 files written\n"))
                self.assertEqual(self.read(path), whole)

    def test_a_new_operator_comes_last(self):
        """An operator that the page does not have yet is put at the end, in the package too."""
        row, = [line for line in self.read(PAGE).splitlines(True) if line.startswith("| `pad` ")]
        self.change(PAGE, row, "")
        self.assertEqual(self.check("--fix")[0], 0)
        self.assertIn(f"\n{row}\n<!-- operators end", self.read(PAGE))
        self.assertRegex(self.read(PACKAGE + "__init__.pyi"), r'"Pad",\n *# operators end')
        self.assertEqual(self.check()[0], 0)

    def test_a_mark_that_is_missing(self):
        """Without its marks a place is not passed over in silence."""
        self.change(PACKAGE + "transforms.pyi", "operators begin: stubs", "")
        code, said = self.check("--fix")
        self.assertEqual(code, 1)
        self.assertIn("must be those of exports, imports, rows, stubs, table", said)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop()
    unittest.main(verbosity=1)
