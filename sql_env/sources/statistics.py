"""What a dataset is made of: counts by database, hardness, answer type, tables and result size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import get_args

from sql_env.models import DIFFICULTIES, AnswerType, QuestionRecord

RESULT_SIZES = ("empty", "one value", "one row", "2-5 rows", "6-20", "21-100", "over 100")
MAX_TABLES = 5
SPLITS = ("train", "rl_core", "eval", "unseen", "test", "rl", "dagger", "wide")
_COLOURS = {
    "train": "#3b75af",
    "rl_core": "#7fb0dc",
    "eval": "#ef8636",
    "unseen": "#519e3e",
    "test": "#c14f4f",
    "rl": "#8d69b8",
    "dagger": "#b8894f",
    "wide": "#c3cedb",
}


def result_size(record: QuestionRecord) -> str:
    """How much an agent would have to type."""
    answer = record.gold_answer
    if record.answer_type not in ("list", "table"):
        return "one value"
    rows = len(answer)
    if rows <= 1:
        return "one row" if rows else "empty"
    for limit, name in ((5, "2-5 rows"), (20, "6-20"), (100, "21-100")):
        if rows <= limit:
            return name
    return "over 100"


def table_count(record: QuestionRecord) -> str:
    count = len(record.tables_involved)
    return f"{MAX_TABLES}+" if count >= MAX_TABLES else str(count)


# What is counted, and in which order its values are shown; None: by name.
ASPECTS: Mapping[str, tuple[Callable[[QuestionRecord], str], tuple[str, ...] | None]] = {
    "hardness": (lambda record: record.difficulty, DIFFICULTIES),
    "answer type": (lambda record: record.answer_type, get_args(AnswerType)),
    "tables": (table_count, None),
    "result size": (result_size, RESULT_SIZES),
    "database": (lambda record: record.database_name, None),
}

Counts = dict[str, dict[str, dict[str, int]]]


def splits_of(records: Iterable[QuestionRecord]) -> list[str]:
    """The splits there are: the usual ones first."""
    found = {record.split for record in records}
    return [*(split for split in SPLITS if split in found), *sorted(found - {*SPLITS})]


def count(records: Iterable[QuestionRecord]) -> Counts:
    """Aspect -> value -> split -> how many questions."""
    records = list(records)
    splits = splits_of(records)
    counts: Counts = {}
    for aspect, (value_of, order) in ASPECTS.items():
        found = Counter((value_of(record), record.split) for record in records)
        values = order or sorted({value for value, _ in found})
        counts[aspect] = {
            value: {split: found[value, split] for split in splits}
            for value in values
            if any(found[value, split] for split in splits)
        }
    return counts


def plot(counts: Counts, path: Path, title: str) -> None:
    """Draw one panel per aspect into a PNG (or whatever the file's ending says).

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    databases = counts["database"]
    small = [aspect for aspect in counts if aspect != "database"]
    shown = dict(sorted(databases.items(), key=lambda item: -sum(item[1].values()))[:30])
    figure = Figure(figsize=(13, max(5.5, 1.6 + 0.24 * len(shown))), layout="constrained")
    grid = figure.add_gridspec(2, 3, width_ratios=(1, 1, 1.25))
    panels = [(aspect, grid[i // 2, i % 2]) for i, aspect in enumerate(small)]
    for aspect, place in [*panels, ("database", grid[:, 2])]:
        axes = figure.add_subplot(place)
        values = shown if aspect == "database" else counts[aspect]
        names = list(values)[::-1]
        left = [0] * len(names)
        for split in next(iter(values.values())):
            widths = [values[name][split] for name in names]
            axes.barh(names, widths, left=left, label=split, color=_COLOURS.get(split))
            left = [a + b for a, b in zip(left, widths, strict=True)]
        for position, total in enumerate(left):
            axes.text(total, position, f" {total:,}", va="center", fontsize=8)
        axes.set_title(_panel_title(aspect, len(databases), len(shown)), loc="left", fontsize=10)
        axes.margins(x=0.12)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        if aspect == "hardness":
            axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.savefig(path, dpi=130)


def _panel_title(aspect: str, databases: int, shown: int) -> str:
    if aspect != "database" or databases == shown:
        return f"questions by {aspect}"
    return f"questions by database, the {shown} largest of {databases}"
