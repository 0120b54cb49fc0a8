"""The live page of a daemon with 256 jobs and a day of history: the browser's own trace has what its frames take.

What a job and its history look like is asked of a real daemon; a small server then says it 256 times. With
LARDER_TEST_QUIET=1 no task of the page's thread may take more than 16 ms of processor time."""

import copy
import http.server
import json
import math
import os
import threading
import urllib.parse
import urllib.request

import above  # noqa: F401
from browser import PROGRAM, Browser
from system import PIPELINE, SOURCE, Case, free_port, main, skip, tree, until
from test_endpoint import CONFIG

if not PROGRAM:
    skip("chromium (Debian's package chromium) is not installed")

JOBS, ROWS = 256, 64  # ROWS: ROWS_MAX of past_json.c, the jobs with curves
LOOKS, FRAME_MS = 12, 16


class Traced(Browser):
    """A browser that keeps what its trace says."""

    def __init__(self, folder):
        self.traced, self.whole = [], False
        super().__init__(folder)

    def _note(self, event, about):
        if event == "Tracing.dataCollected":
            self.traced += about["value"]
        self.whole = self.whole or event == "Tracing.tracingComplete"
        super()._note(event, about)

    def trace(self, do):
        """Processor time of each task of the page's thread while something is done, in ms, the longest first."""
        self.traced, self.whole = [], False
        self.call("Tracing.start", transferMode="ReportEvents",
                  categories="toplevel,devtools.timeline,disabled-by-default-devtools.timeline")
        do()
        self.call("Tracing.end")
        while not self.whole:
            self._read(30)
        mains = {(row["pid"], row["tid"]) for row in self.traced
                 if row["name"] == "thread_name" and row["args"].get("name") == "CrRendererMain"}
        pages = {(row["pid"], row["tid"]) for row in self.traced if row["name"] == "FunctionCall"} & mains
        return sorted((row["tdur"] / 1000 for row in self.traced
                       if row["name"] == "RunTask" and (row["pid"], row["tid"]) in pages and "tdur" in row),
                      reverse=True)


def asked(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
        return json.load(answer)


class Many(http.server.BaseHTTPRequestHandler):
    """Says what the server's `live` and `told` are, as a daemon with many jobs would."""

    def do_GET(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/":
            with open(os.path.join(SOURCE, "server", "control", "page.html"), "rb") as file:
                body, kind = file.read(), "text/html; charset=utf-8"
        elif path.startswith("/api/v1/"):
            body, kind = self.server.says(path.rpartition("/")[2]), "application/json"
        else:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return self.wfile.write(body)

    def log_message(self, *_):
        pass


class Frames(Case):
    def many(self, live, told):
        """A server's `says`: the same daemon with 256 jobs, which go on with each look."""
        status, steps, looks = live["status"], told["steps"], [0]
        job, row = status["jobs"][0], told["jobs"][-1]
        status["jobs"] = [dict(copy.deepcopy(job), name=f"trial-{n}", job=n + 1) for n in range(JOBS)]
        live["tree"] = [dict(live["tree"][0], job=f"trial-{n}", left=600 + n, shared=int(n == 0) * 600, own=n)
                        for n in range(JOBS)]
        curve = [50 + 40 * math.sin(i / 20) for i in range(steps)]
        told["jobs"] = [dict(row, id=n + 1, name=f"trial-{n}", per_s=[round(value + n, 1) for value in curve],
                             waits=[round(value / 100, 3) for value in curve]) for n in range(JOBS)]
        for job in told["jobs"][:-ROWS]:
            del job["per_s"], job["waits"], job["others"]
        told["gave"] = [[n + 1, m + 1, 10 + n] for n in range(20) for m in range(20)]
        told["events"] = [{"time_s": told["from_s"] + 300 * n, "job": 1 + n % JOBS, "kind": "came", "text": ""}
                          for n in range(280)]
        past = json.dumps(told).encode()

        def says(what):
            if what == "history":
                return past
            looks[0] += 1
            status["daemon"]["time_s"] += 1
            for each in status["jobs"]:
                each["delivered"] += 500 + each["job"]
                for cause in each["stall_s"]:
                    each["stall_s"][cause] += 0.05
            return json.dumps(live).encode()
        return says, looks

    def looks(self, looks, more):
        first = looks[0]
        self.assertTrue(until(lambda: looks[0] >= first + more, 60))

    def read(self, browser, looks):
        """Somebody looks at that place while the page is told of news, and scrolls on by a screen."""
        browser.value("recall()")
        self.looks(looks, 2)
        for _ in range(9):
            browser.value("new Promise(done => { scrollBy(0, 100); requestAnimationFrame(() => setTimeout(done)); })")
        self.looks(looks, 1)

    def test_frames(self):
        """256 jobs and a day of history are shown, and told of once a second; the trace has what that takes."""
        port = free_port()
        server = self.daemon(CONFIG % port)
        script = self.script(server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=100000, step_s=0.02)
        self.assertTrue(until(lambda: len(script.batches) > 4 and asked(port, "api/v1/live")["tree"], 60),
                        script.errors)
        self.assertTrue(until(lambda: "per_s" in asked(port, "api/v1/history?span=86400")["jobs"][-1], 60))
        stub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Many)
        self.addCleanup(stub.server_close)
        self.addCleanup(stub.shutdown)
        stub.says, looks = self.many(asked(port, "api/v1/live"), asked(port, "api/v1/history?span=86400"))
        script.close()
        server.stop()
        threading.Thread(target=stub.serve_forever, daemon=True).start()
        browser = Traced(self.folder)
        self.addCleanup(browser.close)
        browser.shape(1280, 900)
        browser.open(f"http://127.0.0.1:{stub.server_port}/")
        ready = ("document.querySelectorAll('#jobs-table tbody tr').length === 32 && "
                 "document.querySelectorAll('#trials-table tbody tr').length === 32 && "
                 "document.querySelector('#all-jobs').textContent.includes('256')")
        self.assertTrue(browser.comes(ready), browser.text() + "\n".join(browser.said))
        browser.value("[...document.querySelectorAll('#spans button')].pop().click()")
        self.assertTrue(browser.comes("document.querySelector('#curves figcaption').textContent.includes('1 day')"))
        tasks = []
        for place in ("saved", "jobs", "h-curves", "h-trials", "h-gave", "h-tree"):
            browser.value(f"document.getElementById('{place}').scrollIntoView()")
            self.looks(looks, 1)
            tasks += browser.trace(lambda: self.read(browser, looks))
        self.tell("the first of each table's rows", tasks)
        browser.value("for (const id of ['all-jobs', 'all-trials']) document.getElementById(id).click()")
        self.assertTrue(browser.comes(ready.replace("=== 32", f"=== {JOBS}").replace("includes('256')",
                                                                                    "includes('32')")))
        tasks = []
        for place in ("jobs", "h-trials"):
            browser.value(f"document.getElementById('{place}').scrollIntoView()")
            self.looks(looks, 1)
            tasks += browser.trace(lambda: self.read(browser, looks))
        self.tell("all rows", tasks)
        self.assertEqual(browser.said, [])

    def tell(self, what, tasks):
        tasks.sort(reverse=True)
        self.assertGreater(len(tasks), LOOKS)
        print(f"{JOBS} jobs, a day of history, {what}: the longest tasks took "
              + ", ".join(f"{task:.1f}" for task in tasks[:6]) + f" ms of processor time; {len(tasks)} in all, "
              f"{sum(task > FRAME_MS for task in tasks)} of them more than {FRAME_MS} ms")
        if os.environ.get("LARDER_TEST_QUIET"):
            self.assertLessEqual(tasks[0], FRAME_MS)


if __name__ == "__main__":
    main()
