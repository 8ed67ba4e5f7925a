"""The pictures of a run: the reward of every step, success on both splits and after each stage."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sql_env.evaluation.statistics import Rate

TRAIN_COLOUR, EVAL_COLOUR, FAINT = "#2563eb", "#d97706", "#94a3b8"
TREND_SHARE = 0.1  # of the points so far that the trend line looks back over


class RewardPoint(NamedTuple):
    """The mean reward of the episodes up to a step, since the point before."""

    step: int
    reward: float


class SuccessPoint(NamedTuple):
    """How often the model succeeded after `step` updates."""

    step: int
    train: Rate
    eval: Rate


def success_points(rows: Sequence[dict[str, Any]]) -> list[SuccessPoint]:
    """The rows of a run's `success.jsonl` as points to plot."""
    return [SuccessPoint(row["step"], Rate(**row["train"]), Rate(**row["eval"])) for row in rows]


def trend(rewards: Sequence[float]) -> list[float]:
    """A moving average over the last tenth of the points so far, at least three."""
    averages = []
    for end in range(1, len(rewards) + 1):
        window = rewards[max(0, end - max(3, round(end * TREND_SHARE))) : end]
        averages.append(sum(window) / len(window))
    return averages


def reward_figure(points: Sequence[RewardPoint], baseline: float | None = None) -> Any:
    """Mean reward against steps, with its trend.

    Args:
        baseline: the mean reward of random play, drawn as a line to beat.
    """
    figure, axes = new_axes("Mean reward of the training episodes", "reward")
    steps, rewards = [p.step for p in points], [p.reward for p in points]
    axes.plot(steps, rewards, color=FAINT, marker=".", linewidth=1, label="each log")
    axes.plot(steps, trend(rewards), color=TRAIN_COLOUR, linewidth=2.5, label="trend")
    if baseline is not None:
        axes.axhline(baseline, color=EVAL_COLOUR, linestyle="--", linewidth=1, label="random play")
    axes.legend(frameon=False, loc="best")
    return figure


def success_figure(points: Sequence[SuccessPoint]) -> Any:
    """Success on both splits against steps, with 95 % intervals."""
    figure, axes = new_axes("Success of the current model", "episodes answered correctly")
    for name, colour, offset in (("train", TRAIN_COLOUR, -1), ("eval", EVAL_COLOUR, 1)):
        rates: list[Rate] = [getattr(point, name) for point in points]
        span = max((point.step for point in points), default=0) or 1
        steps = [point.step + offset * span * 0.004 for point in points]  # bars side by side
        axes.errorbar(
            steps,
            [rate.rate for rate in rates],
            yerr=[
                [rate.rate - rate.low for rate in rates],
                [rate.high - rate.rate for rate in rates],
            ],
            color=colour,
            marker="o",
            capsize=3,
            linewidth=2,
            elinewidth=1,
            label=f"{name} ({rates[-1].n if rates else 0} episodes a point)",
        )
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False, loc="best")
    return figure


def stages_figure(rates: Mapping[str, Rate]) -> Any:
    """Success on the same questions after each stage, with 95 % intervals."""
    figure, axes = new_axes("Success on held-out questions", "episodes answered correctly")
    for place, rate in enumerate(rates.values()):
        spread = [[rate.rate - rate.low], [rate.high - rate.rate]]
        axes.bar(place, rate.rate, width=0.6, color=TRAIN_COLOUR)
        axes.errorbar(place, rate.rate, yerr=spread, color=EVAL_COLOUR, capsize=4)
        axes.text(place + 0.05, rate.rate + 0.02, f"{rate.rate:.0%}")
    axes.set_xticks(range(len(rates)), list(rates))
    axes.set_xlabel("")
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return figure


def save_figure(figure: Any, path: Path) -> Path:
    """Write a PNG; a viewer that reloads the file never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(png_bytes(figure))
    unfinished.replace(path)
    return path


def png_bytes(figure: Any) -> bytes:
    """A figure as a PNG file's content."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, format="png")
    return buffer.getvalue()


def new_axes(title: str, ylabel: str) -> tuple[Any, Any]:
    """A figure and its axes, in the style of all pictures."""
    # Figure without pyplot: no global list of figures to grow, no window to open.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(7.5, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_title(title, loc="left", fontsize=11)
    axes.set_xlabel("step")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel(ylabel)
    axes.grid(axis="y", color="#e2e8f0")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
