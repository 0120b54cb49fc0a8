"""The report of run.py as tables."""

import statistics

LAST = 50  # steps whose losses are compared


def said(value, form="{:.0f}"):
    return "–" if value is None else form.format(value)


def rates(cell):
    return [training["samples"] / training["took_s"] for training in cell["trainings"]]


def waits(cell, key):
    """The part of the time that trainings waited, as they, or Larder, say; of the one that waited most."""
    parts = [training[key] / training["took_s"] for training in cell["trainings"] if training[key] is not None]
    return max(parts, default=None)


def row(cell, limit):
    total = sum(rates(cell))
    images = sum(training["samples"] for training in cell["trainings"])
    joules = None if cell["joules"] is None else cell["joules"] / images
    return [cell["variant"], said(total), said(min(rates(cell))), said(limit and total / limit, "{:.2f}"),
            said(cell["gpu_busy"]), said(cell["cpu_s"] / cell["wall_s"], "{:.1f}"),
            said(1000 * cell["cpu_s"] / images, "{:.2f}"), said(100 * waits(cell, "waited_s"), "{:.1f}"),
            said(waits(cell, "told_s") and 100 * waits(cell, "told_s"), "{:.1f}"), said(joules, "{:.3f}")]


HEAD = ["fed by", "images/s", "the slowest job's", "of synthetic", "GPU busy, %", "cores busy", "CPU ms an image",
        "waited, %", "as Larder says, %", "J an image"]


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def loss_lines(losses):
    """Mean and deviation over the trainings of the mean loss of the last steps."""
    ends = {variant: [statistics.mean(one[-LAST:]) for one in all_of] for variant, all_of in losses.items()}
    rows = [[variant, said(statistics.mean(values), "{:.4f}"),
             said(statistics.stdev(values) if len(values) > 1 else None, "{:.4f}"), str(len(values))]
            for variant, values in ends.items()]
    return table(["fed by", f"mean loss of the last {LAST} steps", "deviation over trainings", "trainings"], rows)


def tables(report):
    machine, options = report["machine"], report["options"]
    parts = [", ".join(f"{key} {value}" for key, value in machine.items()) + "\n",
             f"{options['images']} images, batches of {options['batch']} of {options['size']} x {options['size']}, "
             f"{options['seconds']:g} s a cell\n"]
    for model, jobs in dict.fromkeys((cell["model"], cell["jobs"]) for cell in report["cells"]):
        cells = [cell for cell in report["cells"] if (cell["model"], cell["jobs"]) == (model, jobs)]
        limit = next((sum(rates(cell)) for cell in cells if cell["variant"] == "synthetic"), None)
        parts.append(f"## {model}, {jobs} at a time\n\n" + table(HEAD, [row(cell, limit) for cell in cells]))
    if "copies" in report:
        parts.append("## To the device, GB/s\n\n" + table(
            list(report["copies"]), [[value if isinstance(value, str) else f"{value:.2f}"
                                      for value in report["copies"].values()]]))
    if "losses" in report:
        parts.append("## Losses\n\n" + loss_lines(report["losses"]))
    if report["left_out"]:
        parts.append("## Not measured\n\n" + "".join(f"- {text}\n" for text in report["left_out"]))
    return "\n".join(parts)
