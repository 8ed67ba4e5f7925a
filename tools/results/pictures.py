"""The pictures of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sql_env.training.plots import (
    FAINT,
    new_axes,
    save_figure,
    success_figure,
    success_points,
    trend,
)
from sql_env.training.run_log import RunLog
from tools.results.evidence import Exhibits
from tools.results.manifest import TrainingEntry

COLOURS = (
    *("#94a3b8", "#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626"),
    *("#0891b2", "#4d7c0f", "#db2777", "#1e293b", "#a16207", "#5eead4"),
)
CURVES = {
    "warmup": ("loss", "Warm-up: loss on the model's own turns", "loss"),
    "grpo": ("rewards/reward_correctness/mean", "GRPO: training episodes answered correctly", ""),
}


class Pictures:
    """Draws into a folder; gives Markdown that shows what was drawn.

    Args:
        folder: where the PNG files go.
        seen_from: the folder of the page.
    """

    def __init__(self, exhibits: Exhibits, folder: Path, seen_from: Path) -> None:
        self._exhibits = exhibits
        self._folder = folder
        self._link = folder.relative_to(seen_from).as_posix()

    def success(self) -> str:
        """Every policy on every dataset, with intervals."""
        manifest = self._exhibits.manifest
        policies = [policy for policy in manifest.policies if not policy.ablation]
        figure, axes = new_axes("Questions answered correctly, with 95 % intervals", "")
        width = 0.8 / len(policies)
        for place, policy in enumerate(policies):
            found = [self._exhibits.find(policy.key, dataset.key) for dataset in manifest.datasets]
            rates = {x: item.summary.success for x, item in enumerate(found) if item}
            middle = (place - (len(policies) - 1) / 2) * width
            axes.bar(
                [x + middle for x in rates],
                [rate.rate for rate in rates.values()],
                width=width * 0.92,
                yerr=[
                    [rate.rate - rate.low for rate in rates.values()],
                    [rate.high - rate.rate for rate in rates.values()],
                ],
                error_kw={"elinewidth": 1, "ecolor": "#334155"},
                color=COLOURS[place % len(COLOURS)],
                label=policy.title,
            )
        axes.set_axisbelow(True)
        axes.set_xlabel("")
        axes.set_xticks(range(len(manifest.datasets)), [item.title for item in manifest.datasets])
        _as_percent(axes)
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        return self._keep("success", figure, "Success of every policy on every dataset")

    def curve(self, phase: str) -> str | None:
        """The learning curves of one phase of the trainings; None where there are none."""
        column, title, label = CURVES[phase]
        runs = [
            (training, found)
            for training, rows in self._each(lambda log: log.metrics())
            if (found := [row for row in rows if row.get("phase") == phase and column in row])
        ]
        if not runs:
            return None
        figure, axes = new_axes(title, label)
        for place, (training, rows) in enumerate(runs):
            steps, values = running_steps(rows), [float(row[column]) for row in rows]
            colour = COLOURS[(place + 1) % len(COLOURS)]
            axes.plot(steps, values, color=FAINT, linewidth=0.6)
            axes.plot(steps, trend(values), color=colour, linewidth=2, label=training.title)
        if phase == "grpo":
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
        return self._keep(f"learning-{phase}", figure, title)

    def train_against_eval(self) -> list[str]:
        """One picture per training that looked at both splits on its way."""
        pictures = []
        for training, rows in self._each(lambda log: log.success()):
            if len(rows) > 1:
                figure = success_figure(success_points(rows))
                title = f"Train against eval: {training.title}"
                figure.axes[0].set_title(title, loc="left", fontsize=11)
                pictures.append(self._keep(f"train-eval-{training.folder}", figure, title))
        return pictures

    def _each(
        self, read: Callable[[RunLog], list[dict[str, Any]]]
    ) -> list[tuple[TrainingEntry, list[dict[str, Any]]]]:
        manifest = self._exhibits.manifest
        drawn = [item for item in manifest.trainings if item.drawn]
        return [(item, read(RunLog(manifest.runs / item.folder))) for item in drawn]

    def _keep(self, name: str, figure: Any, caption: str) -> str:
        save_figure(figure, self._folder / f"{name}.png")
        return f"![{caption}]({self._link}/{name}.png)"


def running_steps(rows: Sequence[dict[str, Any]]) -> list[int]:
    """Steps counted through; the stages of a warm-up each begin to count anew."""
    steps: list[int] = []
    behind = 0
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and _begins_anew(before, row):
            behind = steps[-1]
        steps.append(behind + row["step"])
    return steps


def _begins_anew(before: dict[str, Any], row: dict[str, Any]) -> bool:
    return row["step"] < before["step"] or row.get("stage") != before.get("stage")


def _as_percent(axes: Any) -> None:
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
