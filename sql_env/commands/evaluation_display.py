"""What `sql-env eval` and `sql-env compare` show in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.comparison import Comparison
from sql_env.evaluation.metrics import Summary
from sql_env.evaluation.run_folder import Run, differences
from sql_env.evaluation.run_index import HEADINGS, RunEntry
from sql_env.evaluation.statistics import Interval, Rate
from sql_env.models import DIFFICULTIES

if TYPE_CHECKING:
    from sql_env.commands.evaluation_run import PlayedRun

SECONDS_BETWEEN_UPDATES = 0.1
QUESTIONS_LISTED = 10
POLICY_WIDTH = NAME_WIDTH = 28


class LiveTable:
    """One line per policy while they play: a bar, the time, success and reward so far.

    It goes to stderr, so that what a command is asked for stays alone on stdout, and only where
    someone is looking.
    """

    def __init__(self, policies: Sequence[str]) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=12),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[so_far]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._waiting = [
            self._progress.add_task(escape(_end_of(policy)), start=False, total=None, so_far="")
            for policy in policies
        ]

    def next_line(self) -> LiveLine:
        """The line of the policy whose turn it is now."""
        task = self._waiting.pop(0)
        self._progress.start_task(task)
        return LiveLine(self._progress, task)

    def __enter__(self) -> LiveTable:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._waiting:
            self._progress.update(task, visible=False)
        self._progress.stop()


class LiveLine:
    """The line of one policy."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._right = self._counted = 0
        self._reward = 0.0
        self._updated = 0.0

    def count(self, episode: EpisodeResult) -> None:
        self._counted += 1
        self._right += episode.correct
        self._reward += episode.reward

    def advance(self, played: int, planned: int) -> None:
        """Show it, but not so often that showing would cost anything."""
        if played < planned and monotonic() - self._updated < SECONDS_BETWEEN_UPDATES:
            return
        self._updated = monotonic()
        success, reward = self._right / self._counted, self._reward / self._counted
        so_far = f"success {_percent(success)}  reward {reward:.3f}"
        self._progress.update(self._task, completed=played, total=planned, so_far=so_far)
        if played == planned:
            self._progress.stop_task(self._task)


def show_runs(runs: Sequence[PlayedRun]) -> None:
    """The table, what went wrong, and what to do next."""
    console = Console()
    console.print(_success_table(runs))
    console.print(_behaviour_table(runs))
    for run in runs:
        summary = run.result.summary
        for error, count in list(summary.episode_errors.items())[:3]:
            console.print(f"[red]{count} of {escape(run.config.policy)}:[/] {escape(error)}")
        if summary.episode_errors and not run.result.interrupted:
            console.print(
                "episodes that broke off count as failures; once the cause is gone, play them "
                f"again with  sql-env eval --resume {run.folder}",
                highlight=False,
                soft_wrap=True,
            )
        if summary.cut_off:
            console.print(
                f"[yellow]{summary.cut_off} turns of {escape(run.config.policy)} were cut off[/] "
                f"at {run.config.max_new_tokens} tokens: raise --max-new-tokens",
                highlight=False,
                soft_wrap=True,
            )
        if run.result.interrupted:
            console.print(
                f"[yellow]interrupted after {summary.n_played} of {summary.n_episodes}:[/] "
                f"go on with  sql-env eval --resume {run.folder}"
            )
    folders = " ".join(str(run.folder) for run in runs)
    console.print(
        f"\nread the episodes:  sql-env report {folders}", highlight=False, soft_wrap=True
    )


def _success_table(runs: Sequence[PlayedRun]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("policy", style="bold")
    for name in ("episodes", "success", "95 % interval", "reward", "steps"):
        table.add_column(name, justify="right")
    for run in runs:
        summary = run.result.summary
        interval = Interval(summary.success.low, summary.success.high)
        table.add_row(
            escape(_end_of(run.config.policy)),
            str(summary.n_played),
            f"[bold]{_percent(summary.success.rate)}[/]",
            _from_to(interval),
            f"{round(summary.avg_reward, 3) + 0.0:.3f}",  # never -0.000
            f"{summary.avg_steps:.1f}",
        )
    return table


def _behaviour_table(runs: Sequence[PlayedRun]) -> Table:
    """One column per policy, so that long lists of counts have room to go down."""
    summaries = [run.result.summary for run in runs]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("how it plays", style="bold", no_wrap=True)
    for run in runs:
        table.add_column(escape(_end_of(run.config.policy)), justify="right")

    def row(name: str, show: Callable[[Summary], str]) -> None:
        table.add_row(name, *map(show, summaries))

    if any(summary.success_over_databases for summary in summaries):
        row("95 % over databases", lambda s: _from_to(s.success_over_databases))
    for level in DIFFICULTIES:
        sizes = {s.by_difficulty[level].n for s in summaries if level in s.by_difficulty}
        if sizes:
            name = f"{level} ({', '.join(map(str, sorted(sizes)))})"
            row(name, partial(_of_level, level))
    most = max(len(summary.pass_at_k) for summary in summaries)
    for k in [k for k in (2, 4, 8, 16, 32) if k < most] + [most] * (most > 1):
        row(f"pass@{k}", partial(_pass_at, k))
    row("not won", lambda s: _listed(s.failures) or "none")
    row("queries an episode", lambda s: f"{s.avg_queries:.1f}")
    row("use SAMPLE", lambda s: _percent(s.sample_share.rate))
    if any(summary.recovery.n for summary in summaries):
        row("recovered", lambda s: _share_of(s.recovery) if s.recovery.n else "-")
    if any(summary.extra_tokens for summary in summaries):
        row("turns replaced", lambda s: f"{_percent(s.replaced.rate)}, {s.extra_tokens:,} tokens")
        row("because of", lambda s: _listed(s.replaced_reasons))
    if any(summary.cut_off for summary in summaries):
        row("turns cut off", lambda s: str(s.cut_off))
    row("SQL errors", lambda s: _listed(s.error_kinds) or "none")
    if any(summary.parse_rate is not None for summary in summaries):
        # Of a policy that thinks for no time at all the environment's share means nothing.
        row("environment's time", lambda s: _percent(s.environment_share))
        row("turns parsed", lambda s: "-" if s.parse_rate is None else _percent(s.parse_rate))
    if any(summary.avg_turns < summary.avg_steps for summary in summaries):
        row("turns an episode", lambda s: f"{s.avg_turns:.1f}")
    if any(summary.avg_tokens for summary in summaries):
        row("tokens an episode", lambda s: f"{s.avg_tokens:,.0f}" if s.avg_tokens else "-")
    if any(summary.tokens for summary in summaries):
        row("tokens read", lambda s: f"{s.tokens.get('prompt_tokens', 0):,}")
        row("tokens written", lambda s: f"{s.tokens.get('completion_tokens', 0):,}")
    if any(summary.cost is not None for summary in summaries):
        row("cost", lambda s: "-" if s.cost is None else f"{s.cost:,.4f}")
    return table


def show_run_list(entries: Sequence[RunEntry]) -> None:
    """All runs of a folder, in a width of 80; their page has more columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown = [name for name in HEADINGS if name not in ("when", "episodes")]
    # A name is there to be copied: it is folded only where it would push the others out.
    crowded = any(len(entry.run.name) > NAME_WIDTH for entry in entries)
    for name in shown:
        whole = name == "success" or (name == "run" and not crowded)
        table.add_column(name, no_wrap=whole, min_width=len(name), overflow="fold")
    for entry in entries:
        cells = dict(zip(HEADINGS, entry.cells, strict=True))
        table.add_row(*(escape(cells[name]) for name in shown))
    Console().print(table)


def show_comparison(before: Run, after: Run, comparison: Comparison) -> None:
    """The comparison in the terminal."""
    console = Console()
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "run", "policy", "success"):
        table.add_column(name)
    for label, run, rate in (
        ("before", before, comparison.rate_before),
        ("after", after, comparison.rate_after),
    ):
        table.add_row(label, escape(run.name), escape(run.config.policy), _percent(rate))
    console.print(table)
    for name, (old, new) in differences(before.config, after.config).items():
        if name != "policy":  # it stands in the table
            console.print(
                f"[yellow]{name.replace('_', ' ')} differs:[/] {escape(_both(old, new))}",
                highlight=False,
                soft_wrap=True,
            )
    if comparison.only_before or comparison.only_after:
        console.print(
            f"[yellow]not paired: {comparison.only_before} questions only before, "
            f"{comparison.only_after} only after[/]"
        )
    console.print(f"[bold]{comparison.sentence}[/]", highlight=False)
    console.print(f"both right {comparison.both_right}, both wrong {comparison.both_wrong}")
    questions = {episode.question_id: episode for episode in after.episodes}
    _list_questions(console, "won", comparison.won, questions)
    _list_questions(console, "lost", comparison.lost, questions)


def _both(old: Any, new: Any) -> str:
    """Two values of a setting; of two sets of versions only what differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return ", ".join(f"{name} {old.get(name, '-')} → {new.get(name, '-')}" for name in names)
    return f"{'-' if old is None else old} → {'-' if new is None else new}"


def _list_questions(
    console: Console, title: str, ids: Sequence[str], questions: dict[str, EpisodeResult]
) -> None:
    if not ids:
        return
    console.print(f"\n[bold]{title}[/] ({len(ids)})")
    for question_id in ids[:QUESTIONS_LISTED]:
        episode = questions[question_id]
        console.print(
            f"  {escape(question_id)}  [dim]{episode.difficulty}[/]  {escape(episode.question)}",
            highlight=False,
        )
    if len(ids) > QUESTIONS_LISTED:
        console.print(f"  … and {len(ids) - QUESTIONS_LISTED} more: sql-env report shows them all")


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _from_to(interval: Interval | None) -> str:
    return f"{_percent(interval.low)} to {_percent(interval.high)}" if interval else "-"


def _of_level(level: str, summary: Summary) -> str:
    rate = summary.by_difficulty.get(level)
    return _percent(rate.rate) if rate else "-"


def _pass_at(k: int, summary: Summary) -> str:
    return _percent(summary.pass_at_k.get(str(k), 0.0))


def _listed(counts: dict[str, int]) -> str:
    return "\n".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())


def _share_of(rate: Rate) -> str:
    return f"{_percent(rate.rate)} of {rate.n}"


def _end_of(policy: str) -> str:
    """The end of a long path says which model it is; of an endpoint, what is before its address."""
    policy = policy.partition("@http")[0]
    return policy if len(policy) <= POLICY_WIDTH else f"…{policy[-POLICY_WIDTH:]}"
