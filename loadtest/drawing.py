"""Draws charts that it reads from its standard input: python -m loadtest.drawing FOLDER"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

OURS, PEERS, CEILINGS = "#2a6f97", "#b56576", "#9a9a9a"
BAR_INCHES, PANEL_INCHES, WIDTH_INCHES, HEAD_INCHES = 0.3, 0.5, 10.0, 0.7
TITLE_INCHES = 0.15
WIDE = 30.0


def main() -> None:
    folder = Path(sys.argv[1])
    for chart in json.load(sys.stdin):
        draw(chart, folder / f"{chart['name']}.png")


def draw(chart: dict[str, Any], file: Path) -> None:
    panels = chart["panels"]
    heights = [PANEL_INCHES + BAR_INCHES * len(panel["bars"]) for panel in panels]
    height = sum(heights) + HEAD_INCHES
    figure, all_axes = pyplot.subplots(
        len(panels),
        1,
        figsize=(WIDTH_INCHES, height),
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for axes, panel in zip(all_axes[:, 0], panels, strict=True):
        draw_panel(axes, panel)
    title = f"{chart['title']}: {chart['axis']}"
    figure.suptitle(title, fontsize=12, fontweight="bold", y=1 - TITLE_INCHES / height)
    figure.tight_layout(rect=(0, 0, 1, 1 - 2 * TITLE_INCHES / height))
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def draw_panel(axes: Any, panel: dict[str, Any]) -> None:
    bars = panel["bars"]
    values = [bar["value"] for bar in bars]
    labels = [bar["label"] for bar in bars]
    places = range(len(bars))
    colors = [color(label) for label in labels]
    spread = [
        [bar["value"] - bar["low"] for bar in bars],
        [bar["high"] - bar["value"] for bar in bars],
    ]
    on_top = [bar["on_top"] for bar in bars]
    axes.barh(places, values, color=colors, height=0.65)
    axes.barh(places, on_top, left=values, color=colors, height=0.65, alpha=0.4)
    axes.errorbar(values, places, xerr=spread, fmt="none", ecolor="#333333", capsize=2, lw=1)
    axes.set_yticks(places, labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_title(panel["title"], loc="left", fontsize=9)
    scale(axes, bars)
    for place, bar in zip(places, bars, strict=True):
        end = max(bar["high"], bar["value"] + bar["on_top"])
        axes.annotate(
            bar["says"], (end, place), (5, 0), textcoords="offset points", va="center", fontsize=8
        )


def scale(axes: Any, bars: list[dict[str, Any]]) -> None:
    """Logarithmic where the smallest bar could not be seen beside the largest."""
    most = max(bar["high"] + bar["on_top"] for bar in bars)
    least = min(bar["low"] for bar in bars)
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if least > 0 and most / least > WIDE:
        axes.set_xscale("log")
        axes.set_xlim(least / 3, most * 4)
        axes.set_xlabel("logarithmic", fontsize=7)
    else:
        axes.set_xlim(0, most * 1.25 or 1)


def color(label: str) -> str:
    if label.startswith("("):
        return CEILINGS
    return OURS if label.startswith("ds-server") else PEERS


if __name__ == "__main__":
    main()
