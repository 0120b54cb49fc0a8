"""The live page in a real Chromium, with a real daemon and three live jobs. LARDER_TEST_PICTURES=FOLDER keeps pictures
of it."""

import base64
import datetime
import glob
import importlib.util
import json
import os
import shutil
import tempfile

import above  # noqa: F401
from browser import PROGRAM, Browser
from system import PIPELINE, Case, free_port, main, skip, tree, until
from test_endpoint import CONFIG
from test_explain import DEAR

if not PROGRAM:
    skip("chromium (Debian's package chromium) is not installed")

EVIL = "<img src=x onerror=alert(1)>"
NAMES = ("resnet50", EVIL, "a-name-without-a-single-place-to-break-it-" + 80 * "x")
NAMED = {"image", "meter", "progressbar", "link", "region", "table", "heading", "columnheader", "rowheader"}


AXE = ("axe_playwright_python", "axe_core_python")  # packages of PyPI that have axe-core's script


def axe_core():
    """The script of axe-core: what LARDER_AXE names, or what a package of this Python has; None: there is none."""
    found = [os.environ["LARDER_AXE"]] if "LARDER_AXE" in os.environ else []
    for name in AXE:
        spec = importlib.util.find_spec(name)
        for folder in spec.submodule_search_locations if spec else ():
            found += glob.glob(os.path.join(folder, "**", "axe.min.js"), recursive=True)
    if not found:
        return None
    with open(found[0], encoding="utf-8") as file:
        return file.read()


class InBrowser(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.mkdtemp(prefix="larder-browser-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.browser = Browser(folder)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.port = free_port()
        self.origin = f"http://127.0.0.1:{self.port}/"
        self.server = self.daemon(CONFIG % self.port)
        far = os.path.join(self.folder, 100 * "d", 100 * "e")
        os.mkdir(os.path.dirname(far))
        os.symlink(tree(600), far)
        scripts = [self.script(self.server, dataset=far, pipeline=PIPELINE, batch_size=10, epochs=100000,
                               name=name, step_s=0.01 * (1 + n)) for n, name in enumerate(NAMES)]
        self.assertTrue(until(lambda: all(len(script.batches) > 1 for script in scripts), 60),
                        [script.errors for script in scripts])
        self.browser.fresh()
        self.browser.shape(1280, 4000)
        self.browser.open(self.origin)
        self.assertTrue(self.browser.comes("document.querySelectorAll('#jobs-table tbody tr').length === 3"),
                        self.seen())

    def seen(self):
        said = "\n".join(sorted(set(self.browser.said)))
        return f"{self.browser.text()}\n{said}\n{self.server.log()}"

    def quiet(self):
        """No error was said, and nobody else was asked for anything."""
        self.assertEqual(self.browser.said, [])
        self.assertEqual({url.split("?")[0] for url in self.browser.asked if url != "about:blank"} -
                         {self.origin, self.origin + "api/v1/live", self.origin + "api/v1/history"}, set())

    def shows(self, selector, script):
        """Waits until what is at the selector fulfils a JavaScript condition on `text`."""
        self.assertTrue(self.browser.comes(
            f"((text) => {script})(document.querySelector({selector!r}).innerText)"), self.seen())

    def test_neighbour(self):
        """A job that waits for the threads that another one has is told which, as `larder explain` does."""
        self.browser.fresh()
        self.server.stop()
        port = free_port()
        server = self.server = self.daemon(CONFIG % port + "threads: {workers: 2, loaders: 1}\n")
        for name, pipeline in (("heavy", DEAR[:2]), ("light", DEAR[:1])):
            self.script(server, dataset=tree(200), pipeline=pipeline, batch_size=4, epochs=100000, name=name,
                        augment="private")
        self.browser.open(f"http://127.0.0.1:{port}/")
        self.assertTrue(self.browser.comes("!!document.querySelector('#why')"), self.seen())
        self.shows("#why", r"/light waits for its samples .*; heavy \(\d+(\.\d)? ms a sample\) has \d+ % of the "
                           "threads' time/.test(text)")
        self.assertEqual(self.browser.said, [])

    def test_it_renders_and_updates(self):
        """All parts are shown and change by themselves; names are text; nothing is wrong, nobody else is asked."""
        browser = self.browser
        self.shows("#state", "text === 'live'")
        names = "[...document.querySelectorAll('#jobs-table b')].map(b => b.textContent).sort()"
        self.assertEqual(browser.value(names), sorted(NAMES))
        self.assertEqual(browser.value("document.querySelectorAll('img, #jobs-table tbody script').length"), 0)
        for selector in ("#jobs-table tbody td:nth-child(5)", "#tiles dd", "#jobs-table tbody td:nth-child(4)"):
            self.shows(selector, "/^[0-9]/.test(text)")
        self.shows("#tree", "text.includes('samples are left to') && text.includes('onerror=alert(1)')")
        self.shows("#memory", "text.includes('prepared samples (arena)') && text.includes('64.0 MiB')")
        self.shows("#governor", "/lets [0-9]+ prepare and [0-9]+ load/.test(text)")
        for name in NAMES:
            browser.value("(select => { select.selectedIndex = [...select.options].findIndex(o => o.text === "
                          f"{name!r}); select.dispatchEvent(new Event('change')); }})("
                          "document.getElementById('queue-of'))")
            self.assertTrue(browser.comes("document.querySelector('#queues h3').textContent === "
                                          f"{name + ', rank 0'!r}"))
            self.assertEqual(browser.value("document.querySelectorAll('#queues > li').length"), 1)
        for picture in ("#queues li figure", "#threads"):
            self.assertTrue(browser.comes(f"[...document.querySelectorAll('{picture} path')]"
                                          ".some(path => (path.getAttribute('d') || '').length > 10)"), self.seen())
        self.tree_is_drawn()
        self.nodes_are_shown()
        lines = [f"time={time} level=warn msg={message}" for time, message in ("1x", "2y", "3x")]
        self.assertEqual(browser.value(f"together({lines}).map(row => [row.time, row.times, row.rest])"),
                         [["3", 2, "msg=x"], ["2", 1, "msg=y"]])
        ups = set()
        self.assertTrue(until(lambda: ups.add(browser.text("#daemon")) or len(ups) >= 4, 30), ups)
        self.quiet()

    def test_times_and_old_warnings(self):
        """Times are those of the browser's zone, and name it. A warning of ten minutes ago and more is fainter than one
        of now, in its row's every part."""
        browser, zone = self.browser, datetime.timezone(datetime.timedelta(hours=5, minutes=30))
        browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
        self.addCleanup(browser.call, "Emulation.setTimezoneOverride", timezoneId="")
        browser.open(self.origin)
        self.assertTrue(browser.comes("document.querySelectorAll('#jobs-table tbody tr').length === 3"), self.seen())
        now_s = browser.value("Date.now() / 1000")
        times = [datetime.datetime.fromtimestamp(now_s - ago_s, datetime.timezone.utc) for ago_s in (660, 540, 0)]
        lines = [f"time={time:%Y-%m-%dT%H:%M:%SZ} level=warn msg={n}" for n, time in enumerate(times)]
        rows = browser.value(f"(showWarnings({lines}), [...document.querySelectorAll('#warnings li')].map(row => "
                             "[row.children[0].textContent, [row, ...row.children].map(part => "
                             "getComputedStyle(part).color)]))")
        local = [time.astimezone(zone) for time in reversed(times)]
        self.assertEqual([text for text, _ in rows],
                         [f"{time:%b} {time.day}, {time:%Y, %H:%M:%S} GMT+5:30" for time in local])
        soft = browser.value("getComputedStyle(document.querySelector('#no-warnings')).color")
        self.assertEqual([set(colors[0:1] + colors[2:]) == {soft} for _, colors in rows], [False, False, True])

    def tree_is_drawn(self):
        """A vertex for what several jobs have in common, below it the leaf of one of them and the next vertex."""
        rows = [{"job": name, "left": left, "shared": shared, "own": own}
                for name, left, shared, own in (("a", 132, 21, 111), ("b", 148, 59, 68), ("c", 340, 260, 0),
                                                ("d", 0, 0, 0))]
        drawn = self.browser.value(f"branches({rows}).map(row => [row.deep, row.kind, row.size, row.text])")
        self.assertEqual(drawn[:5], [
            [0, "load", 21, "21 samples are left to a, b and c together"], [1, "prepare side", 111, "111 to a alone"],
            [1, "load", 80, "80 samples are left to b and c together"], [2, "prepare side", 68, "68 to b alone"],
            [2, "prepare", 260, "260 to c alone"]])
        apart = [{"job": "x", "left": 7, "shared": 0, "own": 7}, {"job": "y", "left": 9, "shared": 9, "own": 0}]
        self.assertEqual(self.browser.value(f"branches({apart}).map(row => [row.deep, row.text])"),
                         [[0, "7 samples are left to x"], [0, "9 samples are left to y"]])
        self.assertEqual(drawn[5][3], "All samples of the epoch are drawn for d")
        many = [{"job": f"j{n}", "left": 9, "shared": 1, "own": 8} for n in range(256)]
        self.assertEqual(self.browser.value(f"branches({many}).pop().text"), "and 250 more jobs below: larder tree")
        lines = "getComputedStyle(document.querySelector('#tree li.side'), '::{}').borderLeftWidth"
        for each in ("before", "after"):
            self.assertTrue(self.browser.comes(f"{lines.format(each)} === '2px'"), self.seen())

    def nodes_are_shown(self):
        """A daemon alone has no nodes; of a cluster each has a row, with what is still to come from it."""
        self.assertTrue(self.browser.value("document.getElementById('cluster').hidden"))
        nodes = [{"id": "a", "name": "one", "url": "https://one:1", "state": "UP", "self": True, "asked": False},
                 {"id": "b", "name": EVIL, "url": "https://two:1", "state": "LOST", "self": False, "asked": False}]
        cluster = {"name": "lab", "node": "one", "nodes": nodes, "guests": 2, "given": 574, "received": 1520,
                   "jobs": [{"name": "j", "parts": [{"node": "b", "left": 386, "waiting": 18}]}]}
        self.browser.value(f"showCluster({json.dumps(cluster)})")
        self.assertEqual(self.browser.text("#cluster-words"), "lab, seen by one: 1,520 samples came from other nodes, "
                                                              "574 were given to 2 guests.")
        self.assertEqual(self.browser.value("[...document.querySelectorAll('#nodes-rows tr')].map(row => "
                                            "[...row.children].map(cell => cell.textContent))"),
                         [["one", "UP", "itself", "0", "0", "https://one:1"],
                          [EVIL, "LOST", "no", "386", "18", "https://two:1"]])

    def test_what_it_remembers(self):
        """What was saved, curves, all jobs and who gave to whom are there, and after a reload at once again. The
        jobs are sorted by a click and by the keyboard, and those that ended stay."""
        browser = self.browser
        for _ in range(2):
            self.assertEqual(self.script(self.server, dataset=tree(600), pipeline=PIPELINE, batch_size=10, epochs=1,
                                         name="trial-that-ended").wait(), 0)
        lines = ("[...document.querySelectorAll('#curves path.line')]"
                 ".filter(path => (path.getAttribute('d') || '').length > 4).length")
        self.assertTrue(browser.comes(lines + " >= 6"), self.seen())
        for _ in range(2):
            self.shows("#saved-words", "/^On their own, the jobs would have read, decoded and augmented "
                                       "[0-9,]+ samples. larderd read [0-9,]+, decoded [0-9,]+ and augmented "
                                       "[0-9,]+\\.$/.test(text)")
            self.shows("#saved-tiles", "/[1-9][0-9,]*/.test(text) && text.includes('not read')")
            self.shows("#trials-table tbody", "text.includes('trial-that-ended') && text.includes('ended')")
            for part in ("trials-table", "happened"):  # two of one name are told apart
                self.shows("#" + part, "new Set(text.match(/trial-that-ended #[0-9]+/g)).size === 2")
            self.shows("#trials-table tbody", "text.includes('<img') && text.includes('running')")
            self.shows("#happened", "/trial-that-ended #[0-9]+ came/.test(text) && text.includes('daemon started')")
            self.shows("#gave-note", "text.startsWith('Samples that were prepared for the job of the row')")
            self.assertTrue(browser.value("[...document.querySelectorAll('#gave td')].some(td => /[1-9]/.test("
                                          "td.textContent))"), self.seen())
            self.assertFalse(browser.value("[...document.querySelectorAll('#gave td')].some(td => "
                                           "td.textContent === '0')"))
            browser.open(self.origin)
            self.assertTrue(browser.comes(lines + " >= 6"), self.seen())
        first = "document.querySelector('#trials-table tbody th').textContent"
        for label, key, wanted in (("Job", None, "descending"), ("Job", "Enter", "ascending")):
            button = ("[...document.querySelectorAll('#trials-heads button')].find(b => b.textContent === "
                      f"'{label}')")
            self.assertTrue(browser.comes(f"!!({button})"))
            browser.value(f"{button}.focus()" if key else f"{button}.click()")
            for kind in ("keyDown", "keyUp") if key else ():
                browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                             windowsVirtualKeyCode=13)
            self.assertTrue(browser.comes(f"{button}.parentElement.getAttribute('aria-sort') === '{wanted}'"))
            names = sorted([*NAMES, "trial-that-ended"], reverse=wanted == "descending")
            self.assertEqual(browser.value(first).split(" #")[0], names[0])
        browser.value("[...document.querySelectorAll('#spans button')].find(b => b.textContent === '1 day').click()")
        self.assertTrue(browser.comes("document.querySelector('#curves figcaption').textContent.includes('1 day')"),
                        self.seen())
        self.quiet()

    def test_a_daemon_goes_and_another_comes(self):
        """The page says that its daemon is gone, and goes on by itself with the next one."""
        browser = self.browser
        browser.value("window.opened_once = true")
        self.quiet()
        self.server.kill()
        self.shows("#state", "text.startsWith('The daemon has not answered since')")
        self.assertEqual(browser.value("document.title"), "Larder: no daemon")
        self.assertEqual(browser.value("document.querySelectorAll('#jobs-table tbody tr').length"), 3)
        self.server = self.daemon(CONFIG % self.port)
        self.shows("#state", "text === 'live'")
        self.shows("#daemon", f"text.includes('process {self.server.process.pid},')")
        self.assertTrue(browser.comes("document.querySelectorAll('#jobs-table tbody tr').length === 3"), self.seen())
        self.shows("#jobs-table tbody td:nth-child(5)", "/^[0-9]/.test(text)")
        self.assertEqual(browser.value("[window.opened_once, document.title]"), [True, "Larder"])
        refused = [text for text in browser.said if "net::ERR_" in text]  # the browser's own words for nobody there
        self.assertEqual(browser.said, refused)
        browser.said.clear()
        self.quiet()

    def test_accessibility(self):
        """Who cannot see it is told of each part by role and name, and gets through it by keyboard."""
        self.shows("#jobs-table tbody td:nth-child(5)", "/^[0-9]/.test(text)")
        told = self.browser.accessible()
        self.assertEqual([role for role, name in told if role in NAMED and not name.strip()], [])
        roles = [role for role, _ in told]
        for role, least in (("main", 1), ("banner", 1), ("contentinfo", 1), ("status", 1), ("table", 1), ("row", 4),
                            ("columnheader", 8), ("rowheader", 3), ("progressbar", 3), ("meter", 3), ("image", 6),
                            ("region", 8)):
            self.assertGreaterEqual(roles.count(role), least, role)
        self.assertIn(("progressbar", "epoch of " + EVIL), told)
        self.assertTrue([name for role, name in told if role == "heading" and name.endswith(", rank 0")])
        self.assertTrue([name for role, name in told if role == "combobox" and name.startswith("of the job")])
        self.assertEqual(self.browser.value("[document.documentElement.lang, document.querySelectorAll('h1').length]"),
                         ["en", 1])
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        self.assertEqual(self.browser.value("document.activeElement.textContent"), "Go to the jobs")
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                              windowsVirtualKeyCode=13)
        self.assertTrue(self.browser.comes("document.activeElement.id === 'jobs'"))
        self.assertEqual(self.browser.said, [])

    def test_axe(self):
        """axe-core finds nothing wrong on wide and narrow screens, light and dark."""
        script = axe_core()
        if script is None:
            self.skipTest("axe-core is not here: pip install --no-deps axe-playwright-python, or set LARDER_AXE")
        self.shows("#jobs-table tbody td:nth-child(5)", "/^[0-9]/.test(text)")
        self.browser.value(script + "; null")
        for width in (1280, 390, 3840):
            for scheme in ("light", "dark"):
                self.browser.shape(width, 3000, scheme)
                found = self.browser.value("axe.run(document).then(found => [found.passes.length, found.violations.map("
                                           "rule => [rule.id, rule.impact, rule.nodes.map(node => node.html)])])")
                self.assertEqual(found[1], [], (width, scheme))
                self.assertGreater(found[0], 30)

    def test_narrow_and_dark(self):
        """On a phone nothing is wider than the screen, and the colours follow what the person prefers."""
        look = "getComputedStyle(document.body).backgroundColor"
        light = self.browser.value(look)
        self.browser.shape(1280, 1800, "dark")
        self.assertNotEqual(self.browser.value(look), light)
        for width in (320, 390, 800, 3840):
            self.browser.shape(width, 3000)
            self.assertTrue(self.browser.comes(f"window.innerWidth === {width}"))
            self.assertLessEqual(self.browser.value("document.documentElement.scrollWidth"), width)
            self.picture(f"{width}.png")
        self.browser.shape(1280, 3000, "dark")
        self.picture("dark.png")
        self.quiet()

    def picture(self, name):
        """A picture for a person to look at, in the folder LARDER_TEST_PICTURES if that is set."""
        folder = os.environ.get("LARDER_TEST_PICTURES")
        if folder:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(base64.b64decode(self.browser.call("Page.captureScreenshot")["data"]))


if __name__ == "__main__":
    main()
