"""plot.py: results as SVG. Bars for a workload; lines for a family of them that differ in a number,
such as the clients. The whiskers go from the lowest round to the highest."""

import os
import re
from statistics import median

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "fencing",  # the same names inside for the same figures
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)
from matplotlib import pyplot  # after the choice of what draws

OURS, OTHERS = "#1f5fa8", "#a8a8a8"


def plot(folder, results):
    """One file for each family, and for each workload without one; returns their names."""
    groups = {}
    for result in results:
        groups.setdefault(result.workload.family or result.workload.title, []).append(result)
    names = []
    for title, group in groups.items():
        figure = _lines(group) if len(group) > 1 else _bars(group[0])
        figure.axes[0].set_title(title, loc="left")
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".svg"
        figure.savefig(os.path.join(folder, name), bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
        names.append(name)
    return names


def _ours(name):
    return name.startswith("fencing") or "guard" in name


def _spread(values):
    middle = median(values)
    return middle, middle - min(values), max(values) - middle


def _bars(result):
    metric = result.metrics()[0]
    names = [name for name in result.workload.contenders if (name, metric) in result.figures]
    spreads = [_spread(result.figures[name, metric]) for name in names]
    figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.32 * len(names)))
    bars = axes.barh(
        names,
        [middle for middle, _, _ in spreads],
        xerr=[[low for _, low, _ in spreads], [high for _, _, high in spreads]],
        color=[OURS if _ours(name) else OTHERS for name in names],
        capsize=2,
    )
    axes.bar_label(bars, [f"{middle:,.4g}" for middle, _, _ in spreads], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel(metric)
    return figure


def _lines(group):
    metric = group[0].metrics()[0]
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name in group[0].workload.contenders:
        found = [result for result in group if (name, metric) in result.figures]
        spreads = [_spread(result.figures[name, metric]) for result in found]
        axes.errorbar(
            [result.workload.number[1] for result in found],
            [middle for middle, _, _ in spreads],
            yerr=[[low for _, low, _ in spreads], [high for _, _, high in spreads]],
            label=name,
            marker="o",
            markersize=3,
            capsize=2,
            linewidth=2 if _ours(name) else 1,
        )
    places = [result.workload.number[1] for result in group]
    axes.set_xscale("log", base=2 if max(places) <= 64 else 10)
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel(group[0].workload.number[0])
    axes.set_ylabel(metric)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure
