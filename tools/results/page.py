"""Tables between marks in hand-written pages: every number is computed from an archived run.

A page says `<!-- table success -->` and `<!-- end -->`; what stands between them is written by this
module. `results/page.toml` says which run stands where:

    [[columns]]                          # of the table of success
    key = "unseen"
    title = "Spider, unseen databases"

    [[rows]]
    title = "SFT and GRPO, seed 7"
    runs = { unseen = "grpo7-unseen-plain" }

    [[pairs]]                            # a line of the table that `table` names
    table = "reward"
    title = "unseen databases, seed 7"
    before = "sft7-unseen"
    after = "grpo7-unseen"

    [[trainings]]
    title = "GRPO, seed 7"
    folder = "grpo7"
    about = "One line."

    [transcript]
    run = "shipped-embedded"
    question = "shipping_0015"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.evaluation.comparison import Comparison, ComparisonError, compare
from sql_env.evaluation.metrics import Summary, summarize
from sql_env.evaluation.run_folder import Run, read_run
from sql_env.evaluation.statistics import Interval, holm
from sql_env.training.run_log import RunLog
from tools.results.curve import draw_curve

BLOCK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
IMAGE = "images/results/learning.png"
SHOWN_LINES = 8
NOTHING = "-"


class PageError(ValueError):
    """A plan or a page that cannot be used; the message says which and what to change."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Entry):
    """A column of the table of success."""

    key: str
    title: str


class Row(_Entry):
    """A row of it: the runs by the key of their column."""

    title: str
    runs: dict[str, str]
    failures: bool = False  # has a column in the table of failures


class Pair(_Entry):
    """Two runs over the same questions."""

    table: Literal["reward", "ablations"]
    title: str
    before: str
    after: str


class Training(_Entry):
    """A training that archived numbers come from."""

    title: str
    folder: str
    about: str


class Transcript(_Entry):
    """An episode that is shown."""

    run: str
    question: str


class Plan(_Entry):
    """What `page.toml` says."""

    columns: list[Column]
    rows: list[Row]
    pairs: list[Pair] = []
    trainings: list[Training] = []
    transcript: Transcript | None = None


@dataclass(frozen=True)
class Archive:
    """A plan and the folder of the runs that it names."""

    plan: Plan
    folder: Path
    _runs: dict[str, Run] = field(default_factory=dict)

    def run(self, name: str) -> Run:
        """An archived run; RunError where there is none of that name."""
        if name not in self._runs:
            self._runs[name] = read_run(self.folder / name)
        return self._runs[name]

    def evaluations(self) -> list[str]:
        """The names of all evaluations, in the order of the page."""
        names = [name for row in self.plan.rows for name in row.runs.values()]
        names += [name for pair in self.plan.pairs for name in (pair.before, pair.after)]
        if self.plan.transcript:
            names.append(self.plan.transcript.run)
        return list(dict.fromkeys(names))


def read_plan(path: Path) -> Archive:
    """Read `page.toml`; the runs lie beside it.

    Raises:
        PageError: it cannot be read, or says what is not known.
    """
    try:
        plan = Plan.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PageError(f"{path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise PageError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise PageError(f"{path}: {place}: {first['msg']}") from error
    return Archive(plan, path.parent)


def write_blocks(archive: Archive, path: Path) -> int:
    """Write the marked blocks of a page anew; gives their number.

    Raises:
        PageError: the page asks for a table that is not known.
        RunError: a run is missing or damaged.
    """
    text, count = BLOCK.subn(lambda block: _filled(archive, path, block), _read(path))
    path.write_text(text, encoding="utf-8")
    return count


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PageError(f"{path} cannot be read: {error.strerror}") from error


def _filled(archive: Archive, path: Path, block: re.Match[str]) -> str:
    begin, name, end = block.groups()
    if name not in TABLES:
        raise PageError(f"{path}: there is no table {name!r}: use {', '.join(TABLES)}")
    return f"{begin}{TABLES[name](archive, path)}\n{end}"


# -- tables ----------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rule, *rows]
    cells = ([" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _success(archive: Archive, _: Path) -> str:
    columns, rows = archive.plan.columns, []
    sizes: dict[str, set[int]] = {column.key: set() for column in columns}
    for row in archive.plan.rows:
        cells = []
        for column in columns:
            name = row.runs.get(column.key)
            summary = summarize(archive.run(name).episodes) if name else None
            if summary:
                sizes[column.key].add(summary.success.n)
            cells.append(_with_intervals(summary) if summary else NOTHING)
        rows.append([row.title, *cells])
    for key, found in sizes.items():
        if len(found) > 1:
            raise PageError(
                f"the runs under {key!r} played {sorted(found)} questions: not the same"
            )
    head = [f"{column.title} ({min(sizes[column.key], default=0)})" for column in columns]
    return _table(["", *head], rows)


def _with_intervals(summary: Summary) -> str:
    rate = summary.success
    wilson = _points(Interval(rate.low, rate.high), "")
    databases = summary.success_over_databases
    over = f" {{{_points(databases, '')[1:-1]}}}" if databases else ""
    return f"{100 * rate.rate:.1f} % {wilson}{over}"


def _points(interval: Interval, sign: str = "+") -> str:
    return f"[{100 * interval.low:{sign}.1f}, {100 * interval.high:{sign}.1f}]"


def _pairs(table: str) -> Callable[[Archive, Path], str]:
    def render(archive: Archive, _: Path) -> str:
        pairs = [pair for pair in archive.plan.pairs if pair.table == table]
        compared = [_compared(archive, pair) for pair in pairs]
        corrected = holm([comparison.p_value for comparison in compared])
        head = [
            "", "questions", "before", "after", "difference", "won", "lost", "p", "p, Holm",
        ]  # fmt: skip
        rows = [
            _pair_cells(pair.title, comparison, p)
            for pair, comparison, p in zip(pairs, compared, corrected, strict=True)
        ]
        return _table(head, rows)

    return render


def _compared(archive: Archive, pair: Pair) -> Comparison:
    before, after = archive.run(pair.before), archive.run(pair.after)
    try:
        return compare(before.episodes, after.episodes)
    except ComparisonError as error:
        raise PageError(f"{pair.before} and {pair.after}: {error}") from error


def _pair_cells(title: str, comparison: Comparison, corrected: float) -> list[str]:
    over = comparison.over_databases
    databases = f" {{{_points(over)[1:-1]}}}" if over else ""
    interval = _points(Interval(comparison.low, comparison.high))
    return [
        title,
        str(comparison.n_questions),
        f"{100 * comparison.rate_before:.1f} %",
        f"{100 * comparison.rate_after:.1f} %",
        f"{100 * comparison.difference:+.1f} {interval}{databases}",
        str(len(comparison.won)),
        str(len(comparison.lost)),
        f"{comparison.p_value:.2g}",
        f"{corrected:.2g}",
    ]


def _failures(archive: Archive, _: Path) -> str:
    titles = {column.key: column.title for column in archive.plan.columns}
    found = {
        f"{row.title}, {titles[key]}": summarize(archive.run(name).episodes)
        for row in archive.plan.rows
        if row.failures
        for key, name in row.runs.items()
    }
    kinds = dict.fromkeys(kind for summary in found.values() for kind in summary.failures)
    order = sorted(kinds, key=lambda kind: -sum(s.failures.get(kind, 0) for s in found.values()))
    rows = [
        [kind, *(_share(s.failures.get(kind, 0), s.n_played) for s in found.values())]
        for kind in order
    ]
    rows.append(["all that were not won", *(_share(_lost(s), s.n_played) for s in found.values())])
    return _table(["", *found], rows)


def _lost(summary: Summary) -> int:
    return sum(summary.failures.values())


def _share(count: int, n: int) -> str:
    return f"{count} ({count / n:.0%})"


def _curve(archive: Archive, path: Path) -> str:
    trainings = {t.title: RunLog(archive.folder / t.folder) for t in archive.plan.trainings}
    draw_curve(trainings, path.parent / IMAGE)
    return f"![Training episodes answered correctly, by step]({IMAGE})"


def _runs(archive: Archive, _: Path) -> str:
    head = [
        "run", "policy", "questions", "samples", "T", "decoding", "dataset", "commit", "machine",
        "seconds",
    ]  # fmt: skip
    rows = []
    for run in map(archive.run, archive.evaluations()):
        config = run.config
        redraws = config.other.get("redraws")
        rules = redraws and config.policy.startswith("model:")
        seconds = sum(e.policy_seconds + e.environment_seconds for e in run.episodes)
        rows.append(
            [
                f"`{run.name}`",
                f"`{config.policy}`",
                f"{config.split}, {len({e.question_id for e in run.episodes})}",
                str(config.samples),
                f"{config.temperature:g}",
                f"rules of 0.1, {redraws} redraws" if rules else config.decoding,
                f"`{config.dataset_hash}`",
                f"`{config.commit[:10]}`",
                config.machine,
                f"{seconds:.0f}",
            ]
        )
    return _table(head, rows)


def _trainings(archive: Archive, _: Path) -> str:
    rows = []
    for training in archive.plan.trainings:
        log = RunLog(archive.folder / training.folder)
        metrics, sessions = log.metrics(), log.sessions()
        seconds = sum(row.get("seconds/run", 0.0) for row in metrics)
        rows.append(
            [
                training.title,
                f"[`{training.folder}`]({training.folder}/config.json)",
                str(max(row["step"] for row in metrics)),
                f"{seconds / 60:.0f}",
                "; ".join(dict.fromkeys(session.get("machine", "") for session in sessions)),
                "; ".join(dict.fromkeys(f"`{s.get('commit', '')[:10]}`" for s in sessions)),
                training.about,
            ]
        )
    head = ["training", "settings", "steps", "minutes", "machine", "commit", ""]
    return _table(head, rows)


def _transcript(archive: Archive, _: Path) -> str:
    chosen = archive.plan.transcript
    if chosen is None:
        raise PageError("page.toml names no [transcript]")
    for episode in archive.run(chosen.run).episodes:
        if episode.question_id == chosen.question:
            return _shown(episode)
    raise PageError(f"{chosen.run} did not play question {chosen.question!r}")


def _shown(episode: EpisodeResult) -> str:
    verdict = "right" if episode.correct else "wrong"
    steps = "\n".join(map(_step, episode.steps))
    return (
        f"**{episode.question}** (`{episode.question_id}`, {episode.difficulty}: {verdict})\n\n"
        f"```text\n{steps}\n```\n\nThe gold query: `{episode.gold_sql}`"
    )


def _step(step: Step) -> str:
    said = f"> {step.action_type}: {step.argument}"
    lines = (step.error or step.result).splitlines()
    if len(lines) > SHOWN_LINES:
        lines = [*lines[: SHOWN_LINES - 1], "…"]
    return "\n".join([said, *lines])


TABLES: dict[str, Callable[[Archive, Path], str]] = {
    "success": _success,
    "reward": _pairs("reward"),
    "ablations": _pairs("ablations"),
    "failures": _failures,
    "curve": _curve,
    "transcript": _transcript,
    "runs": _runs,
    "trainings": _trainings,
}
