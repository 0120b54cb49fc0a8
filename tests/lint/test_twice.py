"""Nothing is said twice: no two places of the README, of CONTRIBUTING and of docs/ have 14 words in a row in common.
Each fact has one page, and the others link to it. What must stand in two places is in ALLOWED, with the reason."""

import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = 14
LINK = re.compile(r"\]\([^)]*\)")
# It begins with a letter or a figure, and what stands within it belongs to it.
WORD = re.compile(r"\w(?:[\w%./'+-]*\w)?")
ALLOWED = {
    "import sys import larder train = larder.Loader(sys.argv[1], [larder.RandomResizedCrop(224)], batch_size=8, "
    "output=numpy epochs":
        "programs of the guide are whole, and begin alike",
}


def pages():
    return ["README.md", "CONTRIBUTING.md",
            *sorted(os.path.relpath(path, ROOT)
                    for path in glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True))]


def words(text, page=""):
    """(word, line) of a page. Where a link leads is no word. Below a table's head stands one that is nowhere else."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.fullmatch(r"[|\-: ]+", line):
            found.append((f"{page}:{number}", number))
        found += [(word.lower(), number) for word in WORD.findall(LINK.sub("]", line))]
    return found


def in_common(one, other):
    """How many words one and other begin with alike."""
    return next((at for at, ((a, _), (b, _)) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def twice(texts):
    """(words, place, place) of each place that has WORDS words or more in a row in common with an earlier one. texts:
    text by the name of its page."""
    found = {page: words(text, page) for page, text in texts.items()}
    first, runs = {}, []
    for page, here in found.items():
        at = 0
        while at + WORDS <= len(here):
            other, start = first.setdefault(tuple(word for word, _ in here[at:at + WORDS]), (page, at))
            long = 1
            if other != page or start + WORDS <= at:
                long = in_common(found[other][start:], here[at:])
                runs.append((" ".join(word for word, _ in here[at:at + long]),
                             f"{other}:{found[other][start][1]}", f"{page}:{here[at][1]}"))
            at += long
    return runs


def allowed():
    return {" ".join(word for word, _ in words(text)) for text in ALLOWED}


class Twice(unittest.TestCase):
    maxDiff = None

    def test_nothing_is_said_twice(self):
        """Where this fails: say it on the page whose it is, and link to it from the other."""
        texts = {}
        for page in pages():
            with open(os.path.join(ROOT, page), encoding="utf-8") as file:
                texts[page] = file.read()
        self.assertGreater(len(texts), 50)
        found = twice(texts)
        self.assertEqual([run for run in found if run[0] not in allowed()], [])
        self.assertLessEqual(allowed(), {run[0] for run in found}, "what is allowed and stands nowhere twice any more")

    def test_it_is_seen(self):
        """Fourteen words are found in two pages and within one, over ends of lines, whatever links and capitals they
        have, and said as one run however long it is; thirteen are not."""
        row = [f"word{number}" for number in range(20)]
        short, long = " ".join(row[:13]), " ".join(row)
        cases = [
            ("thirteen", ({"a": short + " x", "b": short + " y"}, [])),
            ("twenty", ({"a": long, "b": "A word before: " + long.replace("word5 ", "Word5\n") + "."},
                        [(long, "a:1", "b:1")])),
            ("links", ({"a": long, "b": long.replace("word3", "[word3](https://x.y/z)")}, [(long, "a:1", "b:1")])),
            ("one page", ({"a": long + "\n\nsomething else\n\n" + long}, [(long, "a:1", "a:5")])),
            ("heads", ({"a": f"| {short} |\n|---|\n| word13 |", "b": f"| {short} |\n|---|\n| word13 |"}, [])),
            ("beside itself", ({"a": "again " * 20}, [])),
        ]
        for name, (texts, runs) in cases:
            with self.subTest(name):
                self.assertEqual(twice(texts), runs)


if __name__ == "__main__":
    unittest.main()
