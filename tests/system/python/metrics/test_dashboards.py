"""The dashboard and the alerts of configs/ ask for what a daemon with a job serves, under the names that it has."""

import json
import os
import re
import urllib.request

import above  # noqa: F401
from system import PIPELINE, SLOW, SOURCE, Case, free_port, main, tree, until
from test_endpoint import CONFIG

CONFIGS = os.path.join(SOURCE, "configs")
DASHBOARD = os.path.join(CONFIGS, "grafana.json")
ALERTS = os.path.join(CONFIGS, "prometheus-alerts.yml")
GUIDE = os.path.join(SOURCE, "docs", "reference", "metrics.md")
NAME = re.compile(r"\blarder_\w+\b")
SELECTOR = re.compile(r"\b(larder_\w+)\{([^}]*)\}")
TARGET_LABELS = {"instance"}  # that Prometheus adds to all


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def dashboard():
    return json.loads(text_of(DASHBOARD))


def queries(panel):
    """The queries of one panel, and the texts of their legends."""
    return [(target["expr"], target["legendFormat"]) for target in panel.get("targets", ())]


def labels_of(metrics):
    """Name of each metric in Prometheus' text: the labels that it is served with."""
    served = {}
    for line in metrics.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{") if "{" in line else line.partition(" ")
            served.setdefault(name, set()).update(re.findall(r'(\w+)="', rest if "{" in line else ""))
    return served


def types_of(metrics):
    """The metrics in Prometheus' text, a histogram as one."""
    return set(re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE))


def all_names(metrics):
    return labels_of(metrics).keys() | types_of(metrics)


class Dashboards(Case):
    def named(self):
        """By file: the metrics that the dashboard, the alerts, their test and the guide name."""
        here = os.path.dirname(os.path.abspath(__file__))
        return {path: set(NAME.findall(text_of(path)))
                for path in (DASHBOARD, ALERTS, GUIDE, os.path.join(here, "alerts.yml"))}

    def served(self, wanted):
        """What a daemon with a job serves, once it serves all that is wanted, or does not in time: what is measured
        is not known at once. Gives the labels of each metric, and the metrics."""
        port, peers_port = free_port(), free_port()
        storage = f"storage:\n  - {{path: {os.path.join(self.folder, 'class')}, size: 64MiB}}\n"
        cluster = f"cluster: {{name: alone, node: one, listen: '127.0.0.1:{peers_port}', security: none}}\n"
        server = self.daemon(CONFIG % port + storage + cluster)
        script = self.script(server, dataset=tree(120), pipeline=PIPELINE, batch_size=10, epochs=100000, name="one",
                             step_s=0.02)
        self.assertTrue(until(lambda: len(script.batches) >= 4, 60), script.errors)

        def look():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20 * SLOW) as answer:
                return answer.read().decode()

        until(lambda: not wanted - all_names(look()), 3)
        text = look()
        return labels_of(text), types_of(text)

    def test_names_and_labels_are_served(self):
        """Every metric that the dashboard, the alerts, their test and the guide name is served; so is every label in a
        selector or a legend. The guide has all that is served."""
        named = self.named()
        served, types = self.served(set().union(*named.values()))
        for path, names in named.items():
            known = served.keys() | types if path == GUIDE else served.keys()  # the guide has a histogram as one
            self.assertEqual(sorted(names - known), [], path)
            for name, selector in SELECTOR.findall(text_of(path).replace('\\"', '"')):
                used = set(re.findall(r'(\w+)\s*[=!]~?\s*"', selector))
                if path.endswith("/alerts.yml"):  # Prometheus gives those without a job that of job_name
                    used.discard("job")
                self.assertLessEqual(used, served.get(name, set()) | TARGET_LABELS, f"{path}: {name}")
        for panel in dashboard()["panels"]:
            for query, legend in queries(panel):
                known = set().union(TARGET_LABELS, *(served[name] for name in NAME.findall(query)))
                grouped = re.findall(r"\bby \(([^)]*)\)", query)
                if grouped:
                    known = {label.strip() for label in grouped[0].split(",")}
                self.assertLessEqual(set(re.findall(r"\{\{\s*(\w+)\s*\}\}", legend)), known, panel["title"])
        self.assertEqual(sorted(types - named[GUIDE]), [])

    def test_dashboard_is_whole(self):
        """Panels have numbers of their own, a title, a source to be chosen, and a place that no other has; each query
        is limited to the chosen daemons."""
        board = dashboard()
        variables = {variable["name"] for variable in board["templating"]["list"]}
        self.assertEqual(variables, {"datasource", "instance", "job"})
        seen, places = set(), set()
        for panel in board["panels"]:
            self.assertTrue(panel["title"])
            self.assertNotIn(panel["id"], seen)
            seen.add(panel["id"])
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            self.assertFalse(cells & places, panel["title"])
            places |= cells
            self.assertEqual(panel["type"] == "row", not queries(panel), panel["title"])
            for query, _ in queries(panel):
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                self.assertEqual(query.count("{"), query.count('instance=~"$instance"'), query)
                self.assertLessEqual(set(re.findall(r"\$(\w+)", query)), {"instance", "job", "__rate_interval"}, query)

    def test_each_alert_is_tried_and_explained(self):
        """Each alert is in the test of the rules, and in the guide, which has no others."""
        alerts = sorted(re.findall(r"- alert: (\w+)", text_of(ALERTS)))
        tried = text_of(os.path.join(os.path.dirname(os.path.abspath(__file__)), "alerts.yml"))
        self.assertEqual([alert for alert in alerts if alert not in tried], [])
        self.assertEqual(sorted(set(re.findall(r"`(Larder[A-Z]\w+)`", text_of(GUIDE)))), alerts)


if __name__ == "__main__":
    main()
