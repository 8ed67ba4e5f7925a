"""The tables of the page, in Markdown. A rate never comes without its 95 % interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sql_env.evaluation.comparison import Comparison, compare
from sql_env.evaluation.metrics import DIFFICULTIES, Rate, wilson
from tools.results.evidence import Evidence, Exhibits, Kind
from tools.results.manifest import ComparisonEntry, DatasetEntry

NOTHING = "-"
PASS_AT = (1, 2, 4, 8)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    lines = [head, rule, *rows]
    return "\n".join("| " + " | ".join(_in_a_cell(cell) for cell in line) + " |" for line in lines)


def _in_a_cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def with_interval(rate: Rate) -> str:
    """`72.9 % [66.4, 78.6]`."""
    if rate.n == 0:
        return NOTHING
    return f"{percent(rate.rate)} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def success_table(exhibits: Exhibits, kind: Kind = Kind.GREEDY) -> str:
    """Policies down, datasets across."""
    datasets = [d for d in exhibits.manifest.datasets if exhibits.rows(d, kind)]
    head = ["", *(_heading(dataset, exhibits.rows(dataset, kind)) for dataset in datasets)]
    rows = []
    for policy in exhibits.manifest.policies:
        found = [exhibits.find(policy.key, dataset.key, kind) for dataset in datasets]
        if any(found) and not policy.ablation:
            cells = [with_interval(item.summary.success) if item else NOTHING for item in found]
            rows.append([policy.title, *cells])
    return markdown_table(head, rows)


def _heading(dataset: DatasetEntry, column: Sequence[Evidence]) -> str:
    return f"{dataset.title} ({len(column[0].questions)})"


def hardness_table(column: Sequence[Evidence]) -> str:
    """One dataset: policies down, difficulties across."""
    present = [d for d in DIFFICULTIES if d in column[0].summary.by_difficulty]
    counts = {d: column[0].summary.by_difficulty[d].n for d in present}
    return markdown_table(
        ["", *(f"{name} ({counts[name]})" for name in present)],
        [
            [item.policy.title, *(with_interval(item.summary.by_difficulty[d]) for d in present)]
            for item in column
        ],
    )


def behaviour_table(column: Sequence[Evidence]) -> str:
    """One dataset: how each policy plays."""
    head = [
        "", "steps", "queries", "use SAMPLE", "SQL errors", "first query fails: recovered",
        "turns parsed",
    ]  # fmt: skip
    return markdown_table(head, [_behaviour(item) for item in column])


def _behaviour(item: Evidence) -> list[str]:
    summary = item.summary
    queries = summary.actions.get("QUERY", 0)
    errors = sum(n for kind, n in summary.error_kinds.items() if kind != "action")
    return [
        item.policy.title,
        f"{summary.avg_steps:.1f}",
        f"{summary.avg_queries:.2f}",
        percent(summary.sample_share.rate),
        f"{errors} of {queries}",
        _of_those(summary.recovery),
        NOTHING if summary.parse_rate is None else f"{100 * summary.parse_rate:.2f} %",
    ]


def _of_those(rate: Rate) -> str:
    return f"{rate.n}: {with_interval(rate)}" if rate.n else "0"


def pass_table(exhibits: Exhibits) -> str:
    """Every sampled run: the mean, and the chance that one of k samples is right."""
    rows = []
    for dataset in exhibits.manifest.datasets:
        for item in exhibits.rows(dataset, Kind.SAMPLED):
            cells = [_pass_at(item, k) for k in PASS_AT]
            config = item.run.config
            played = f"{config.samples} x {len(item.questions)}, T = {config.temperature:g}"
            rows.append([f"{item.policy.title}, {dataset.title}", played, *cells])
    return markdown_table(["", "episodes", *(f"pass@{k}" for k in PASS_AT)], rows)


def _pass_at(item: Evidence, k: int) -> str:
    share = item.summary.pass_at_k.get(str(k))
    if share is None:
        return NOTHING
    n = len(item.questions)
    return with_interval(wilson(share * n, n))


def comparison_table(exhibits: Exhibits, pairs: Sequence[ComparisonEntry]) -> str:
    """Pairs of policies, on every dataset that both played in the same way."""
    rows = []
    for pair in pairs:
        titles = [exhibits.manifest.policy(key).title for key in (pair.before, pair.after)]
        for about, comparison in compared(exhibits, pair):
            rows.append([" → ".join(titles), about, *_comparison_cells(comparison)])
    head = ["", "on", "before", "after", "difference", "won", "lost", "p"]
    return markdown_table(head, rows)


def compared(exhibits: Exhibits, pair: ComparisonEntry) -> list[tuple[str, Comparison]]:
    """Each dataset (and way of playing) on which the two can be paired."""
    found = []
    for dataset in exhibits.manifest.datasets:
        for kind in Kind:
            before = exhibits.find(pair.before, dataset.key, kind)
            after = exhibits.find(pair.after, dataset.key, kind)
            if before and after:
                how = "" if kind is Kind.GREEDY else f", {kind}"
                comparison = compare(before.run.episodes, after.run.episodes)
                found.append((f"{dataset.title}{how}", comparison))
    return found


def _comparison_cells(comparison: Comparison) -> list[str]:
    low, high = 100 * comparison.low, 100 * comparison.high
    return [
        percent(comparison.rate_before),
        percent(comparison.rate_after),
        f"{100 * comparison.difference:+.1f} [{low:+.1f}, {high:+.1f}]",
        str(len(comparison.won)),
        str(len(comparison.lost)),
        f"{comparison.p_value:.2g}",
    ]


def runs_table(exhibits: Exhibits) -> str:
    """Where each number comes from."""
    head = [
        "run", "policy", "split", "questions", "samples", "T", "steps", "@last", "seed", "dataset",
        "commit", "machine", "seconds",
    ]  # fmt: skip
    rows = []
    for item in exhibits.all:
        config = item.run.config
        seconds = item.summary.policy_seconds + item.summary.environment_seconds
        rows.append(
            [
                f"`{item.run.name}`",
                f"`{config.policy}`",
                config.split,
                str(len(item.questions)),
                str(config.samples),
                f"{config.temperature:g}",
                str(config.step_budget),
                "yes" if config.allow_last else "no",
                str(config.seed),
                f"`{config.dataset_hash}`",
                f"`{config.commit[:10]}`" if config.commit else NOTHING,
                config.machine or NOTHING,
                f"{seconds:.0f}",
            ]
        )
    return markdown_table(head, rows)
