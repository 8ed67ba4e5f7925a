"""`sql-env data …`: prepare, import, check and look at datasets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from sql_env.sources.prepare import Prepared
    from sql_env.sources.raw import Source

app = typer.Typer(help="Prepare, import, check and look at datasets.", no_args_is_help=True)
console = Console()
errors = Console(stderr=True)


class SplitBy(StrEnum):
    """What a split keeps apart."""

    question = "question"
    database = "database"


@app.command()
def spider(
    source: Path | None = typer.Option(
        None, help="A copy you have: the unpacked folder or the ZIP. Default: download it."
    ),
    out: Path = typer.Option(Path("data/spider"), help="Where to write the dataset."),
    db_ids: list[str] | None = typer.Option(
        None, help="Databases of the core set, instead of the ten; repeat it, or say 'all'."
    ),
    wide: bool = typer.Option(False, help="Add every other training question."),
    hold_out: int = typer.Option(
        0, min=0, help="With --wide: keep databases with so many questions apart, as 'unseen'."
    ),
    split_by: SplitBy = typer.Option(SplitBy.question, help="What train and eval do not share."),
    seed: int = typer.Option(42, help="Seed of the split and of the held-out databases."),
) -> None:
    """Prepare Spider: 676 questions on ten databases, 473 to train on and 203 to evaluate."""
    with _clear_errors():
        from sql_env.sources.prepare import prepare_spider
        from sql_env.sources.spider import CORE_DATABASES, read_spider

        found = read_spider(source)
        if db_ids == ["all"]:
            db_ids = sorted({question.database for question in found.questions})
        prepared = prepare_spider(
            found,
            databases=db_ids or CORE_DATABASES,
            split_by=split_by.value,
            wide=wide,
            hold_out=hold_out,
            seed=seed,
        )
        _write(out, found, prepared, {"split_by": split_by.value, "seed": seed})


def _write(out: Path, source: Source, prepared: Prepared, settings: dict[str, Any]) -> None:
    from sql_env.sources.writing import write_dataset

    manifest = {
        "source": source.name,
        **settings,
        "questions": prepared.counts(),
        "left_out": {item.question_id: item.reason for item in prepared.left_out},
    }
    write_dataset(out, prepared.records, source.databases, manifest)
    console.print(f"{out}: {prepared.counts()}")


@contextmanager
def _clear_errors() -> Iterator[None]:
    """What a user can mend is one line of text, not a stack of Python."""
    from sql_env.questions import QuestionLoadError
    from sql_env.sources.raw import SourceError
    from sql_env.sources.writing import DatasetWriteError

    try:
        yield
    except (QuestionLoadError, SourceError, DatasetWriteError) as error:
        errors.print(f"[red]error:[/red] {error}", soft_wrap=True)
        raise typer.Exit(2) from error
