#!/usr/bin/env python3
"""A bar chart of what run.py measured, as SVG: CPU ms a delivered sample, a group of bars a cell.

usage: plot.py RESULTS.json PLOT.svg"""

import json
import sys
from xml.sax.saxutils import escape

import measure
import table

COLOURS = ("#c0392b", "#7f8c8d", "#bdc3c7", "#2980b9", "#16a085", "#1abc9c", "#d35400", "#f39c12", "#f1c40f", "#9b59b6",
           "#2c3e50", "#27ae60", "#8e5a2b", "#e8a0bf")
BAR, GAP, HEIGHT, LEFT, TOP = 14, 22, 260, 60, 40


def step_of(most):
    """Between two lines of the grid: 1, 2 or 5 of some power of ten, so that there are at most eight."""
    step = 0.001
    while True:
        for factor in (1, 2, 5):
            if most <= 8 * step * factor:
                return step * factor
        step *= 10


def text(x, y, what, anchor="middle", size=11):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(what)}</text>'


def grid(most, width):
    step = step_of(most)
    lines = []
    for number in range(int(most / step) + 1):
        y = TOP + HEIGHT * (1 - number * step / most)
        lines += [f'<line x1="{LEFT}" y1="{y:.1f}" x2="{width - 10}" y2="{y:.1f}" stroke="#ddd"/>',
                  text(LEFT - 6, y + 4, f"{number * step:g}", "end")]
    return lines


def bars(rows, cells, peers, most):
    lines, x = [], LEFT + GAP / 2
    for cell in cells:
        for number, peer in enumerate(peers):
            value = measure.median_of(table.rows_of(rows, peer, cell), "cpu_ms")
            if value is not None:
                height = HEIGHT * value / most
                lines.append(f'<rect x="{x + number * BAR:.1f}" y="{TOP + HEIGHT - height:.1f}" width="{BAR - 2}" '
                             f'height="{height:.1f}" fill="{COLOURS[number % len(COLOURS)]}">'
                             f"<title>{escape(peer)}: {value:.2f} ms</title></rect>")
        middle = x + len(peers) * BAR / 2
        lines += [text(middle, TOP + HEIGHT + 16, cell[0]),
                  text(middle, TOP + HEIGHT + 30, f"{cell[1]} core{'s' * (cell[1] > 1)}", size=9)]
        x += len(peers) * BAR + GAP
    return lines


def legend(peers, y):
    lines = []
    for number, peer in enumerate(peers):
        x, line = LEFT + number % 5 * 130, y + number // 5 * 18
        lines += [f'<rect x="{x}" y="{line - 9}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>',
                  text(x + 15, line, peer, "start")]
    return lines


def chart(rows):
    cells, peers = table.cells_of(rows), table.peers_of(rows)
    values = [row["cpu_ms"] for row in rows if "cpu_ms" in row]
    most = 1.05 * max(values)
    width = max(LEFT + 5 * 130, LEFT + len(cells) * (len(peers) * BAR + GAP) + 10)
    height = TOP + HEIGHT + 60 + 18 * ((len(peers) + 4) // 5)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>', text(LEFT, 20, "CPU ms a delivered sample", "start", 13),
        *grid(most, width), *bars(rows, cells, peers, most), *legend(peers, TOP + HEIGHT + 56), "</svg>", ""])


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(chart(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
