"""`sql-env data validate` and `sql-env data stats`: is a dataset fit to play, and what is in it?"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sql_env.commands.errors import fail
from sql_env.questions import Dataset

if TYPE_CHECKING:
    from sql_env.evaluation.validation import Finding

FolderArgument = Annotated[
    Path | None, typer.Argument(help="A dataset folder.", show_default="the embedded data")
]
OnOption = Annotated[
    str | None, typer.Option("--on", help="Work on a cluster: ray, or ray://HOST:PORT.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
PERCENT = 100


def validate(
    folder: FolderArgument = None,
    on: OnOption = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --on: how many at once.", show_default="all there are"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that every gold query runs, the verifier accepts it and the oracle succeeds."""
    from rich.progress import track

    from sql_env.evaluation import validation
    from sql_env.evaluation.ray_pool import connect

    dataset = Dataset.at(folder)
    records = dataset.load()
    if on is None:
        found = validation.validate(records, dataset.db_dir)
    else:
        connect(on)
        found = validation.validate_on_ray(records, dataset.db_dir.resolve(), workers)
    bar = Console(stderr=True)
    findings = list(
        track(
            found,
            "Trying every question",
            total=len(records),
            console=bar,
            transient=True,
            disable=not bar.is_terminal,
        )
    )
    failures = [finding for finding in findings if finding.failed is not None]
    if as_json:
        _print_json(
            {
                "dataset": str(dataset.questions_path.parent),
                "questions": len(findings),
                "failures": [
                    {
                        "question_id": finding.record.question_id,
                        "split": finding.record.split,
                        "database": finding.record.database_name,
                        "failed": finding.failed,
                        "reason": finding.reason,
                    }
                    for finding in failures
                ],
            }
        )
    else:
        _show_findings(findings, failures)
    raise typer.Exit(1 if failures else 0)


def stats(
    folder: FolderArgument = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the counts into this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Count questions by database, hardness, answer type, tables and result size."""
    from sql_env.sources import statistics

    dataset = Dataset.at(folder)
    records = dataset.load()
    counts = statistics.count(records)
    title = f"{dataset.questions_path.parent}: {len(records):,} questions"
    if as_json:
        _print_json({"questions": len(records), **counts})
    else:
        _show_counts(title, counts)
    if plot is not None:
        try:
            statistics.plot(counts, plot, title)
        except ImportError:
            fail("drawing needs matplotlib: pip install '.[training]' in the project's folder")
        except (OSError, ValueError) as error:
            fail(f"{plot}: cannot be drawn: {error}")
        Console(stderr=True).print(f"drawn: {plot}", highlight=False)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def _show_findings(findings: list[Finding], failures: list[Finding]) -> None:
    from sql_env.evaluation.validation import Check
    from sql_env.sources.statistics import splits_of

    console = Console()
    table = Table(box=box.SIMPLE, title=None)
    table.add_column("split")
    table.add_column("questions", justify="right")
    for check in Check:
        table.add_column(str(check), justify="right")
    total = Counter(finding.record.split for finding in findings)
    failed = Counter((finding.record.split, finding.failed) for finding in failures)
    for split in splits_of(finding.record for finding in findings):
        left = total[split]
        cells = []
        for check in Check:
            left -= failed[split, check]
            cells.append(f"{left:,}" if not failed[split, check] else f"[red]{left:,}[/]")
        table.add_row(escape(split), f"{total[split]:,}", *cells)
    console.print(table)
    for finding in failures:
        console.print(
            f"[red]{escape(finding.record.question_id)}[/] ({escape(finding.record.split)}) fails "
            f"'{finding.failed}': {escape(finding.reason)}",
            highlight=False,
            soft_wrap=True,
        )
    if not failures:
        console.print(f"[green]All {len(findings):,} questions are fit to play.[/]")


def _show_counts(title: str, counts: dict[str, dict[str, dict[str, int]]]) -> None:
    console = Console()
    console.print(f"[bold]{escape(title)}[/]", highlight=False)
    for aspect, values in counts.items():
        splits = list(next(iter(values.values())))
        totals = {split: sum(by_split[split] for by_split in values.values()) for split in splits}
        table = Table(box=box.SIMPLE)
        table.add_column(aspect)
        for split in splits:
            table.add_column(escape(split), justify="right")
        table.add_column("all", justify="right")
        table.add_column("share", justify="right")
        everything = sum(totals.values())
        for value, by_split in values.items():
            row = sum(by_split.values())
            cells = [f"{by_split[split]:,}" if by_split[split] else "-" for split in splits]
            table.add_row(escape(value), *cells, f"{row:,}", f"{PERCENT * row / everything:.0f} %")
        console.print(table)
