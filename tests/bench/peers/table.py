#!/usr/bin/env python3
"""Markdown tables of what run.py measured.

usage: table.py RESULTS.json"""

import json
import sys

import measure


def cells_of(rows):
    """(cell, cores), in the order in which they were measured."""
    return list(dict.fromkeys((row["cell"], row["cores"]) for row in rows))


def rows_of(rows, peer, cell):
    return [row for row in rows if row["peer"] == peer and (row["cell"], row["cores"]) == cell]


def peers_of(rows):
    return list(dict.fromkeys(row["peer"] for row in rows))


def head(cells):
    """How many cores there were is said where cells differ in it."""
    several = len({cores for _, cores in cells}) > 1
    titles = [name + several * f", {cores} core{'s' * (cores > 1)}" for name, cores in cells]
    return ["| | " + " | ".join(titles) + " |", "|---" * (len(cells) + 1) + "|"]


def cost(rows):
    """Median CPU ms a delivered sample, and least and most."""
    value = measure.median_of(rows, "cpu_ms")
    if value is None:
        return "failed" if rows else ""
    values = [row["cpu_ms"] for row in rows if "cpu_ms" in row]
    return f"{value:.2f} ({min(values):.2f} … {max(values):.2f})"


def times(rows, ours):
    value, base = measure.median_of(rows, "cpu_ms"), measure.median_of(ours, "cpu_ms")
    return f"{value / base:.1f}" if value and base else ""


def losses(rows):
    """Samples lost and taken twice, of how many that the epochs had."""
    counted = [row for row in rows if "lost" in row]
    if not counted:
        return "failed" if rows else ""
    lost, twice = (sum(row[key] for row in counted) for key in ("lost", "twice"))
    due = sum(row["samples"] + row["lost"] - row["twice"] for row in counted)
    return "none" if not lost and not twice else f"{lost} lost, {twice} twice, of {due}"


def table(title, rows, cell_text):
    cells = cells_of(rows)
    lines = [title, "", *head(cells)]
    for peer in peers_of(rows):
        texts = [cell_text(rows_of(rows, peer, cell), rows_of(rows, "larder", cell)) for cell in cells]
        lines.append(f"| {peer} | " + " | ".join(texts) + " |")
    return lines + [""]


def versions(results):
    lines = ["Versions", "", "| peer | version |", "|---|---|"]
    lines += [f"| {peer} | {version} |" for peer, version in results["versions"].items()]
    lines += [f"| {peer} | not measured: {reason} |" for peer, reason in results["missing"].items()]
    return lines + [""]


def print_all(results):
    rows = results["rows"]
    lines = table("CPU ms a delivered sample: median (least … most)", rows, lambda its, ours: cost(its))
    lines += table("CPU a delivered sample, times Larder's", rows, times)
    lines += table("Samples of whole epochs, by the ledger", rows, lambda its, ours: losses(its))
    print("\n".join(lines + versions(results)).rstrip())


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        print_all(json.load(file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
