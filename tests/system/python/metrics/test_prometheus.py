"""A real Prometheus with the scrape example and the alerts: what the dashboard asks for is answered."""

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import above  # noqa: F401
from system import PIPELINE, SLOW, SOURCE, Case, free_port, main, skip, tree, until
from test_dashboards import dashboard, queries, text_of
from test_endpoint import CONFIG

PROMETHEUS = shutil.which("prometheus")
if not PROMETHEUS:
    skip("prometheus (Debian's package prometheus) is not installed")
VARIABLES = {"$instance": ".*", "$job": ".*", "$__rate_interval": "15s"}
ASKED_S = 1  # how often Prometheus asks here


class Prometheus(Case):
    def start(self, daemon_port):
        """Prometheus with the example's files, which asks this daemon, and more often."""
        example = text_of(os.path.join(SOURCE, "configs", "prometheus.yml"))
        for old, new in (("127.0.0.1:9450", f"127.0.0.1:{daemon_port}"), ("_interval: 15s", f"_interval: {ASKED_S}s")):
            self.assertIn(old, example)
            example = example.replace(old, new)
        with open(os.path.join(self.folder, "prometheus.yml"), "w") as file:
            file.write(example)
        shutil.copy(os.path.join(SOURCE, "configs", "prometheus-alerts.yml"), self.folder)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/api/v1/"
        self.log = os.path.join(self.folder, "prometheus.log")
        with open(self.log, "w") as log:
            process = subprocess.Popen(
                [PROMETHEUS, "--config.file", os.path.join(self.folder, "prometheus.yml"), "--storage.tsdb.path",
                 os.path.join(self.folder, "data"), "--web.listen-address", f"127.0.0.1:{port}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def get(self, path, **parameters):
        """The data of an answer; None while Prometheus is not there yet."""
        url = self.url + path + "?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=20 * SLOW) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            error.close()
            if error.code != 503:
                raise AssertionError(f"{parameters}: {text}") from None
        except OSError:
            pass
        return None

    def ask(self, query):
        """What a query gives: [(labels, value), …]."""
        for name, value in VARIABLES.items():
            query = query.replace(name, value)
        data = self.get("query", query=query)
        return [(row["metric"], float(row["value"][1])) for row in data["result"]] if data else []

    def wait_for(self, query):
        self.assertTrue(until(lambda: self.ask(query), 60), f"{query}: {text_of(self.log)}")

    def rules(self):
        data = self.get("rules")
        return [rule for group in data["groups"] for rule in group["rules"]] if data else []

    def test_dashboard_and_alerts(self):
        """While two jobs share a dataset every query of the dashboard gives something, by job where it should; the
        sharing factor and the waiting are what they must be; every rule is evaluated; and a daemon that goes is on its
        way to an alert."""
        daemon_port = free_port()
        server = self.daemon(CONFIG % daemon_port)
        self.start(daemon_port)
        for name in ("one", "two"):
            self.script(server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=100000, name=name,
                        step_s=0.02)
        self.wait_for("count_over_time(larder_job_samples_delivered_total{job='two'}[1h]) > 8")
        for panel in dashboard()["panels"]:
            for query, _ in queries(panel):
                # What is not known yet, or nobody needs now, is filtered out.
                self.assertTrue(self.ask(query.replace("> 0", ">= 0")), f"{panel['title']}: {query}")
        jobs = "rate(larder_job_samples_delivered_total[15s])"
        self.assertEqual({labels["job"] for labels, _ in self.ask(jobs)}, {"one", "two"})
        # No sample is prepared twice in an epoch of one job; two that run together need fewer.
        factor = "sum(larder_samples_delivered_total) / sum(larder_samples_prepared_total)"
        self.assertGreater(self.ask(factor)[0][1], 1)
        for labels, waited in self.ask("sum without (cause) (rate(larder_job_stall_seconds_total[15s]))"):
            self.assertTrue(0 <= waited <= 1.5, (labels, waited))  # rates are extrapolated
        self.assertTrue(until(lambda: {rule["health"] for rule in self.rules()} == {"ok"}, 60), self.rules())
        self.assertEqual([rule["name"] for rule in self.rules() if rule["state"] == "firing"], [])
        server.kill()
        self.wait_for('ALERTS{alertname="LarderDown", alertstate="pending"}')


if __name__ == "__main__":
    main()
