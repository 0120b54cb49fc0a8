"""An etcd of a test's own, of one process."""

import base64
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

from system import SLOW, free_port, until


def there_is_one():
    return shutil.which("etcd") is not None


class Etcd:
    def __init__(self, folder):
        self._data, self._log = os.path.join(folder, "etcd"), os.path.join(folder, "etcd.log")
        self.url, self._peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start()

    def start(self):
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                ["etcd", "--data-dir", self._data, "--listen-client-urls", self.url, "--advertise-client-urls",
                 self.url, "--listen-peer-urls", self._peers, "--initial-advertise-peer-urls", self._peers,
                 "--initial-cluster", f"default={self._peers}"], stdout=log, stderr=log)
        assert until(lambda: self.keys() is not None, 60), "etcd does not answer"

    def entries(self):
        """All that it has, by key; None: it does not answer."""
        asked = json.dumps({"key": base64.b64encode(b"\0").decode(), "range_end": base64.b64encode(b"\0").decode()})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self.url + "/v3/kv/range", asked.encode(), timeout=5 * SLOW) as answer:
                found = json.load(answer).get("kvs", [])
        except (urllib.error.URLError, OSError):
            return None
        return {base64.b64decode(entry["key"]).decode(): base64.b64decode(entry["value"]).decode() for entry in found}

    def keys(self):
        found = self.entries()
        return None if found is None else list(found)

    def nodes(self):
        """The nodes' values, by key."""
        return {key: json.loads(value) for key, value in (self.entries() or {}).items() if "/nodes/" in key}

    def stop(self):
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def wipe(self):
        shutil.rmtree(self._data)
