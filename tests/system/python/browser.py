"""A headless Chromium, spoken to in its DevTools protocol over two pipes: JSON texts, each ended by a zero byte."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from system import SLOW, until

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
           "--no-default-browser-check", "--hide-scrollbars", "--remote-debugging-pipe")


class Browser:
    """One page at a time. `said` are the errors and warnings of its console, `asked` the addresses that it asked
    for."""

    def __init__(self, folder):
        self._profile = tempfile.mkdtemp(dir=folder)
        near_in, self._out = os.pipe()
        self._in, near_out = os.pipe()
        far_in, far_out = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (near_in, near_out))  # 3 and 4 are chromium's
        os.close(near_in)
        os.close(near_out)
        command = f'exec "$@" 3<&{far_in} 4>&{far_out} {far_in}<&- {far_out}>&-'
        self._log = open(os.path.join(self._profile, "log"), "wb")
        self._process = subprocess.Popen(["bash", "-c", command, "bash", PROGRAM, *OPTIONS,
                                          f"--user-data-dir={self._profile}", "about:blank"],
                                         pass_fds=(far_in, far_out), stdin=subprocess.DEVNULL, stdout=self._log,
                                         stderr=self._log)
        os.close(far_in)
        os.close(far_out)
        self._number, self._bytes, self._session, self._target = 0, b"", None, None
        self.said, self.asked = [], []
        self.fresh()

    def fresh(self):
        """Another page takes the place of the one before: nothing is left of that."""
        self._session = None
        if self._target:
            self.call("Target.closeTarget", targetId=self._target)
        context = self.call("Target.createBrowserContext")["browserContextId"]
        self._target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(domain + ".enable")
        self.said, self.asked = [], []

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 30 * SLOW
        while time.monotonic() < deadline:
            answer = self._read(deadline - time.monotonic())
            if answer and answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
        raise AssertionError(f"{method}: chromium does not answer")

    def _read(self, wait_s):
        """One message, noted if it is an event; None: none came."""
        while b"\0" not in self._bytes:
            if not select.select([self._in], [], [], max(0, wait_s))[0]:
                return None
            more = os.read(self._in, 1 << 20)
            if not more:
                with open(os.path.join(self._profile, "log"), errors="replace") as file:
                    raise AssertionError("chromium ended: " + file.read()[-2000:])
            self._bytes += more
        text, _, self._bytes = self._bytes.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event, about):
        if event == "Runtime.exceptionThrown":
            self.said.append(about["exceptionDetails"].get("exception", {}).get("description", str(about)))
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.said.append(str(about["args"]))
        elif event == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.said.append(about["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.asked.append(about["request"]["url"])
        elif event == "Page.javascriptDialogOpening":
            self.said.append("a dialog: " + about["message"])

    def shape(self, width, height, scheme="light", scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def value(self, expression):
        """What a JavaScript expression gives, or a promise of it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, selector="body"):
        return self.value(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText")

    def comes(self, expression, limit_s=30):
        """Whether the expression becomes true in time."""
        return until(lambda: self.value(expression), limit_s)

    def accessible(self):
        """(role, name) of each node that assistive technology is told of."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""))
                for node in nodes if not node.get("ignored") and "role" in node]

    def close(self):
        self._process.terminate()
        try:
            self._process.wait(10 * SLOW)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for fd in (self._in, self._out):
            os.close(fd)
        self._log.close()
