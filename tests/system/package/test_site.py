"""The documentation's site: the reference has every public name, the same sources give the same pages, and links that
lead nowhere are found. Where MkDocs is missing the site itself is skipped."""

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.environ.get("LARDER_BIN", os.path.join(SOURCE, "build", "bin"))
TOOL = os.path.join(SOURCE, "configs", "site")


def tool():
    loader = importlib.machinery.SourceFileLoader("site_tool", TOOL)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("site_tool", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def heads(text):
    return set(re.findall(r"^#+ (.*)$", text, re.MULTILINE))


class Reference(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.tool = folder.name, tool()

    def test_python(self):
        """Every name of the package is there, but the operators, which have a page."""
        stub = text_of(SOURCE, "client", "python", "larder", "__init__.pyi")
        names = re.findall(r"\b(\w+) as \1\b", re.sub(r"# operators begin(?:.*\n)*?# operators end", "", stub))
        text = self.tool.python_page()
        self.assertGreater(len(names), 25)
        missing = set(names) - heads(text) - {"__version__", "Operator", "RandomApply", "RandomChoice", "recipes"}
        self.assertEqual(missing, set())
        self.assertLessEqual({"Loader.state_dict", "Loader.close"}, heads(text))

    def test_c(self):
        """Every function and type of larder.h is there."""
        header = text_of(SOURCE, "client", "include", "larder.h")
        names = re.findall(r"^LARDER_API [^;]*?\b(larder_\w+)\(", header, re.MULTILINE)
        self.assertGreater(len(names), 15)
        self.assertEqual(set(names) - set(", ".join(heads(self.tool.c_page())).split(", ")), set())

    def test_configuration(self):
        """Every section of the configuration is there."""
        sections = re.findall(r"^(\w+):", text_of(SOURCE, "configs", "larder.yaml"), re.MULTILINE)
        self.assertEqual(set(sections) - heads(self.tool.configuration_page()), set())

    def test_commands(self):
        """Every command with a --help of its own is there, and each column of the tables has a row."""
        text = self.tool.commands_page(BIN)
        self.assertLessEqual({"larder", "larderd", "larder look", "larder plan", "Columns"}, heads(text))
        self.assertNotIn("COLUMNS", text)
        self.assertIn("EXIT STATUS", text)
        rows = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", text, re.MULTILINE))
        self.assertLessEqual({"READY", "HELD", "STILL TO COME FROM, TO", "memory"}, set(rows))
        self.assertIn("and have not given back: with zero", rows["HELD"])  # it stands in two lines of --help

    def test_navigation(self):
        """A page that the navigation does not name comes last; what it names is there."""
        self.tool.copy_pages(self.folder)
        with open(os.path.join(self.folder, "docs", "new.md"), "w", encoding="utf-8") as file:
            file.write("# New\n")
        text = self.tool.navigation(self.folder)
        self.assertTrue(text.endswith("  - More:\n      - docs/new.md\n"), text[-200:])
        for path in re.findall(r": (\S+\.md)$", text, re.MULTILINE):
            made = path in [f"docs/reference/{name}.md" for name in ("python", "c", "commands", "configuration")]
            self.assertTrue(made or os.path.exists(os.path.join(self.folder, path)), path)

    def test_broken(self):
        """A link to a page that is not there is found, and one to a heading that is not there."""
        for name, text in (("a.html", '<h2 id="one">1</h2><a href="b.html#two">2</a><a href="https://x.y/z">3</a>'),
                           ("b.html", '<h2 id="two">2</h2><a href="a.html#none">1</a><a href="c.html">4</a>')):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.assertEqual(self.tool.broken_links(self.folder), ["b.html: a.html#none", "b.html: c.html"])


class Site(unittest.TestCase):
    def test_whole(self):
        """All pages become a site, in which every link leads somewhere, and which a search without a network knows."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-B", TOOL, folder, "--bin", BIN], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
            if done.returncode == 77:
                self.skipTest(done.stdout)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("larder_open", text_of(folder, "site", "search", "data.js"))
            self.assertNotIn("Worker", text_of(folder, "site", "search", "main.js"))
            for path, _, names in os.walk(os.path.join(folder, "site")):
                for name in names:
                    if name.endswith(".html"):
                        outside = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*"',
                                             text_of(path, name))
                        self.assertEqual(outside, [], name)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if program.result.skipped and program.result.testsRun == len(program.result.skipped) else 0)
