"""One picture: how many training episodes of GRPO were answered correctly, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sql_env.training.plots import FAINT, new_axes, save_figure, trend
from sql_env.training.run_log import RunLog

CORRECT = "rewards/reward_correctness/mean"
SOLVED = "solved"  # the same without retries, in runs that have them
COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed")


def draw_curve(trainings: Mapping[str, RunLog], path: Path) -> None:
    """Draw the curves of `trainings`, by their titles."""
    figure, axes = new_axes("GRPO: training episodes answered correctly, sampled", "")
    for (title, log), colour in zip(trainings.items(), COLOURS, strict=False):
        rows = [row for row in log.metrics() if CORRECT in row]
        steps = [row["step"] for row in rows]
        values = [float(row.get(SOLVED, row[CORRECT])) for row in rows]
        axes.plot(steps, values, color=FAINT, linewidth=0.6)
        axes.plot(steps, trend(values), color=colour, linewidth=2, label=title)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save_figure(figure, path)
