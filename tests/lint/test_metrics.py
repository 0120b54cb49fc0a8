"""The tables of docs/reference/metrics.md are what common/metrics_table.h says; and tests/lint/metrics, which tells and
mends it, sees each kind of difference."""

import os
import unittest

from made import HERE, ROOT, Made

TABLE, PAGE = "common/metrics_table.h", "docs/reference/metrics.md"
# In the page: what stands there, and what somebody makes of it.
CHANGES = (("Connected clients.", "Clients that are connected."),
           ("| `larder_job_leases` | `job`, `rank` |", "| `larder_job_leases` | `job` |"),
           ("| `larder_jobs` |  | gauge |", "| `larder_jobs` |  | counter |"),
           ("| `larder_datasets` |  | gauge | Datasets in the catalog. |\n", ""))


class Metrics(Made):
    files, command = (TABLE, PAGE), (os.path.join(HERE, "metrics"),)

    def test_the_page_is_what_the_table_says(self):
        """Where this fails: tests/lint/metrics --fix."""
        self.assertEqual(self.check(root=ROOT), (0, f"metrics: {PAGE} is what {TABLE} says\n"))
        self.assertGreater(self.read(PAGE).count("\n| `larder_"), 80)

    def test_each_difference_is_told_and_mended(self):
        """A text, a label, a kind or a line that is changed by hand is told, and written anew."""
        whole = self.read(PAGE)
        for old, new in CHANGES:
            with self.subTest(old=old):
                self.change(PAGE, old, new)
                code, said = self.check()
                self.assertEqual(code, 1)
                self.assertIn(f"--- {PAGE}\n", said)
                self.assertEqual(self.check("--fix"), (0, f"metrics: {PAGE} written\n"))
                self.assertEqual(self.read(PAGE), whole)

    def test_no_metric_is_left_out(self):
        """A metric before the first group, one that is not understood and a group without a place are errors."""
        for old, new in (("/* group: daemon */", ""), ('"larder_jobs"', "JOBS_NAME"),
                         ("group: daemon", "group: other")):
            with self.subTest(new=new):
                whole = self.read(TABLE)
                self.change(TABLE, old, new)
                code, said = self.check("--fix")
                self.assertEqual(code, 1, said)
                self.change(TABLE, self.read(TABLE), whole)


if __name__ == "__main__":
    unittest.main()
