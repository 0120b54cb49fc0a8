"""Prometheus' own tool accepts the scrape example and the alerts, and proves that the alerts fire when they should."""

import os
import shutil
import subprocess
import unittest

import above  # noqa: F401
from system import SLOW, SOURCE, main, skip

PROMTOOL = shutil.which("promtool")
if not PROMTOOL:
    skip("promtool (Debian's package prometheus) is not installed")


class Alerts(unittest.TestCase):
    def promtool(self, *arguments):
        result = subprocess.run([PROMTOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=60 * SLOW)
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_rules_are_accepted(self):
        self.promtool("check", "rules", os.path.join(SOURCE, "configs", "prometheus-alerts.yml"))

    def test_scrape_example_is_accepted(self):
        """With the alerts that it names."""
        self.promtool("check", "config", os.path.join(SOURCE, "configs", "prometheus.yml"))

    def test_alerts_fire(self):
        """Each fires at what it is for, and not at what is near that; alerts.yml has the series."""
        self.promtool("test", "rules", os.path.join(os.path.dirname(os.path.abspath(__file__)), "alerts.yml"))


if __name__ == "__main__":
    main()
