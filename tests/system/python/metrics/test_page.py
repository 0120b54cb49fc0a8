"""The live page without a browser: what is in it and how it is served, and what it is told."""

import base64
import hashlib
import json
import os
import re
import urllib.request

import above  # noqa: F401
from system import PIPELINE, SLOW, SOURCE, Case, free_port, main, make_tree, tree, until
from test_endpoint import CONFIG

PAGE = os.path.join(SOURCE, "server", "control", "page.html")
EVIL = '<img src=x onerror=alert(1)> "\\'


def page():
    with open(PAGE, "rb") as file:
        return file.read()


def element(tag):
    return re.search(rf"<{tag}>(.*?)</{tag}>", page().decode(), re.DOTALL)[1]


class Page(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.server = self.daemon(CONFIG % self.port)

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=20 * SLOW) as answer:
            return answer.read(), answer.headers

    def live(self):
        return json.loads(self.get("/api/v1/live")[0])

    def test_nothing_from_outside(self):
        """The file asks for nothing but what the daemon serves, and has nothing that makes markup or code of texts."""
        text = page().decode()
        self.assertEqual(re.findall(r"\w+:/|//[\w-]+\.\w|@import|url\(|srcset", text), [])
        self.assertEqual(sorted(set(re.findall(r'(?:src|href)="([^"]*)"', text))),
                         ["#jobs", "api/v1/history", "api/v1/live", "data:,", "metrics"])
        self.assertEqual(re.findall(r"""fetch\(("[^"]*")""", text), ['"api/v1/history?span="', '"api/v1/live"'])
        self.assertEqual(re.findall(r"HTML\b|\.write\(|\beval\b|\bFunction\(|javascript:|\bimport\b",
                                    element("script")), [])
        self.assertEqual(re.findall(r'<[^>]* (?:style|on\w+)="', text), [])

    def test_small(self):
        """The page is no larger than 60 kB."""
        self.assertLessEqual(len(page()), 60000)

    def test_why(self):
        """The page says why a job waits in the words of `larder explain`."""
        with open(os.path.join(SOURCE, "client", "cli", "explain.c")) as file:
            explain = re.sub(r'"\s*\n\s*"', "", file.read())
        why = re.search(r"function why\(job\) \{(.*?)\n\}", element("script"), re.DOTALL)[1]
        said = re.findall(r"`([^`]*\bwaits?\b[^`]*)`", why)
        self.assertEqual(len(said), 6)
        for text in said:
            self.assertIn(re.sub(r"\$\{.*?\}", "%s", text), explain)

    def test_headers(self):
        """It is served as it is, and its policy lets nothing run or apply but its own script and style."""
        body, headers = self.get("/")
        self.assertEqual(body, page())
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
        for tag in ("script", "style"):
            digest = base64.b64encode(hashlib.sha256(element(tag).encode()).digest()).decode()
            self.assertEqual(policy[tag + "-src"], f"'sha256-{digest}'")
        self.assertEqual((policy["default-src"], policy["connect-src"]), ("'none'", "'self'"))
        self.assertEqual(policy["require-trusted-types-for"], "'script'")
        self.assertNotIn("unsafe", headers["Content-Security-Policy"])

    def test_what_it_is_told(self):
        """The status, the tree of two jobs and the log's warnings, in which a job's name and a bad file's are texts."""
        folder = make_tree(os.path.join(self.folder, "images"), 60)
        bad = os.path.join(folder, sorted(os.listdir(folder))[0], "<script>.jpg")
        with open(bad, "wb") as file:
            file.write(b"not an image")
        never = os.path.join(self.folder, "never")
        scripts = [self.script(self.server, dataset=dataset, pipeline=PIPELINE, batch_size=10, epochs=3, name=name,
                               pause=[4, never]) for name, dataset in (("one", folder), (EVIL, folder))]
        self.assertTrue(until(lambda: all(len(script.batches) == 4 for script in scripts), 60),
                        [script.errors for script in scripts])
        answer = self.live()
        self.assertEqual(sorted(answer), ["status", "tree", "v", "warnings"])
        self.assertEqual(answer["status"].keys(), self.server.status().keys())
        self.assertEqual({job["name"] for job in answer["status"]["jobs"]}, {"one", EVIL})
        self.assertTrue(until(lambda: {row["job"] for row in self.live()["tree"]} == {"one", EVIL}, 10))
        for row in self.live()["tree"]:
            self.assertEqual(sorted(row), ["job", "left", "own", "shared"])
        self.assertTrue(until(lambda: any("<script>.jpg" in line for line in self.live()["warnings"]), 20),
                        self.server.log())
        for line in self.live()["warnings"]:
            self.assertRegex(line, r"^time=\S+ level=(warn|error) msg=")

    def test_the_tree_is_kept(self):
        """However often it is asked for, the tree is made at most once in five seconds."""
        self.script(self.server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=100000, name="one",
                    step_s=0.01)
        self.assertTrue(until(lambda: self.live()["tree"], 30))
        began = self.live()["status"]["daemon"]["time_s"]
        trees, last = set(), began
        while last < began + 6:
            answer = self.live()
            trees.add(json.dumps(answer["tree"]))
            last = answer["status"]["daemon"]["time_s"]
        self.assertLessEqual(len(trees), (last - began + 1) / 5 + 2)


if __name__ == "__main__":
    main()
