"""report.py: results as Markdown for people and as CSV for everything else."""

import csv
from statistics import median


def markdown(result):
    workload, metrics = result.workload, result.metrics()
    lines = [f"### {workload.title}", ""]
    notes = [workload.note] if workload.note else []
    lines += _table(
        ["median (min..max)", *metrics, *notes],
        (
            [
                name,
                *(_figure(result, name, metric) for metric in metrics),
                *(workload.notes[name] for _ in notes),
            ]
            for name in workload.contenders
        ),
    )
    if not workload.comparisons:
        return "\n".join(lines)
    lines += _table(
        ["ratio: median (min..max)", *metrics, "goal"],
        (
            [
                str(comparison),
                *(_ratio(result, comparison, metric) for metric in metrics),
                _verdict(comparison.goal, median(result.ratios(comparison, metrics[0]))),
            ]
            for comparison in workload.comparisons
        ),
    )
    return "\n".join(lines)


def write_csv(path, results):
    """Each single figure, to be plotted or compared later."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["workload", "contender", "metric", "round", "value"])
        for result in results:
            for (contender, metric), values in result.figures.items():
                for number, value in enumerate(values, start=1):
                    title = result.workload.title
                    rows.writerow([title, contender, metric, number, f"{value:.3f}"])


def _table(head, rows):
    yield _row(head)
    yield _row(["---"] * len(head))
    yield from map(_row, rows)
    yield ""


def _row(cells):
    return f"| {' | '.join(cells)} |"


def _figure(result, name, metric):
    values = result.figures.get((name, metric))
    return _spread(values, "{:,.0f}" if median(values) >= 20 else "{:,.2f}") if values else ""


def _ratio(result, comparison, metric):
    """Nothing where one of the two has no such figure, or where a share of the clients is compared."""
    if metric.endswith("%") or not result.has(comparison, metric):
        return ""
    return _spread(result.ratios(comparison, metric), "{:,.2f}")


def _spread(values, text):
    return f"{text.format(median(values))} ({text.format(min(values))}..{text.format(max(values))})"


def _verdict(goal, ratio):
    if goal is None:
        return ""
    return f"{goal}: {'met' if goal.met_by(ratio) else 'missed'}"
