"""`sql-env data …`: prepare, import, check and look at datasets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sql_env.commands import augment, data_checks
from sql_env.commands.generate import generate
from sql_env.commands.old_names import old_option
from sql_env.sources.raw import SplitBy

if TYPE_CHECKING:
    from sql_env.sources.download import Archive
    from sql_env.sources.prepare import Prepared
    from sql_env.sources.raw import Source

app = typer.Typer(help="Prepare, import, check and look at datasets.", no_args_is_help=True)
app.command()(generate)

console = Console()
NAMED = 5


SourceOption = Annotated[
    Path | None,
    typer.Option(help="Your copy, a folder or a ZIP; default: download it."),
]
SplitOption = Annotated[
    SplitBy,
    typer.Option(
        help="What train and eval do not share: gold queries or databases. none: no train split."
    ),
]
SeedOption = Annotated[int, typer.Option(help="Same seed, same split.")]
DatabasesOption = Annotated[
    list[str] | None,
    typer.Option(help="Only these databases: a,b,c, or all; repeatable."),
]
UrlOption = Annotated[
    str | None,
    typer.Option(help="Download from here instead; its checksum is recorded, not checked."),
]
DownloadsOption = Annotated[
    Path | None,
    typer.Option(help="Where downloads are kept.", show_default="~/.cache/sql-env"),
]


@app.command()
def spider(
    source: SourceOption = None,
    out: Annotated[Path, typer.Option(help="Where to write the dataset.")] = Path("data/spider"),
    db_ids: DatabasesOption = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Add every other training question.")
    ] = False,
    hold_out: Annotated[int, typer.Option(min=0, help="With --wide: N questions for unseen.")] = 0,
    test: Annotated[int, typer.Option(min=0, help="With --wide: N questions for test.")] = 0,
    used_test: Annotated[
        int, typer.Option(min=0, help="Not the databases that --test N draws.")
    ] = 0,
    rl: Annotated[int, typer.Option(min=0, help="With --wide: N questions for rl.")] = 0,
    dagger: Annotated[int, typer.Option(min=0, help="With --wide: N questions for dagger.")] = 0,
    rl_core: Annotated[
        int, typer.Option(min=0, help="About N training questions for rl_core.")
    ] = 0,
    split_by: SplitOption = "question",
    seed: SeedOption = 42,
    url: UrlOption = None,
    downloads: DownloadsOption = None,
    fresh: Annotated[str | None, old_option("--fresh", "is called --rl now")] = None,
    trial: Annotated[str | None, old_option("--trial", "is called --dagger now")] = None,
    reserve: Annotated[str | None, old_option("--reserve", "is called --rl-core now")] = None,
) -> None:
    """Prepare Spider: 676 questions on ten databases, 473 to train on and 203 to evaluate with."""
    from sql_env.sources.download import SPIDER
    from sql_env.sources.prepare import prepare_all, prepare_spider
    from sql_env.sources.raw import SourceError
    from sql_env.sources.spider import CORE_DATABASES, read_spider

    chosen = _names(db_ids)
    if rl_core and chosen == ["all"]:
        raise SourceError("--rl-core is for a set of chosen databases, not --db-ids all")
    if wide and chosen == ["all"]:
        raise SourceError("--wide adds other databases; --db-ids all leaves none")
    needed = chosen or CORE_DATABASES
    settings: dict[str, Any] = {
        "wide": wide,
        "hold_out": hold_out,
        "test": test,
        "used_test": used_test,
        "rl": rl,
        "dagger": dagger,
        "rl_core": rl_core,
        "split_by": split_by,
        "seed": seed,
    }
    unpacked = None if wide or chosen == ["all"] else needed
    with _opened(source, SPIDER, url, downloads, "database*", unpacked) as folder:
        with _busy():
            found = read_spider(folder)
            prepared = (
                prepare_all(found, split_by=split_by, seed=seed)
                if chosen == ["all"]
                else prepare_spider(found, databases=needed, **settings)
            )
        _write(out, found, prepared, settings)


@app.command()
def bird(
    source: SourceOption = None,
    out: Annotated[Path, typer.Option(help="Where to write the dataset.")] = Path("data/bird"),
    db_ids: DatabasesOption = None,
    split_by: SplitOption = "none",
    seed: SeedOption = 42,
    url: UrlOption = None,
    downloads: DownloadsOption = None,
) -> None:
    """Prepare BIRD's development set; its evidence becomes the hint an agent sees."""
    from sql_env.sources.bird import read_bird
    from sql_env.sources.download import BIRD
    from sql_env.sources.prepare import only_databases, prepare_all

    chosen = None if _names(db_ids) == ["all"] else _names(db_ids)
    with _opened(source, BIRD, url, downloads, "*_databases", chosen) as folder:
        with _busy():
            found = only_databases(read_bird(folder), chosen)
            prepared = prepare_all(found, split_by=split_by, seed=seed)
        _write(out, found, prepared, {"split_by": split_by, "seed": seed})


@app.command("import")
def import_own(
    folder: Annotated[
        Path, typer.Argument(help="SQLite files, and a JSON or CSV of questions with gold SQL.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it.", show_default="data/<folder's name>")
    ] = None,
    questions: Annotated[
        Path | None, typer.Option(help="The question file, where the folder has several.")
    ] = None,
    split_by: SplitOption = "question",
    seed: SeedOption = 42,
    skip_failing: Annotated[
        bool, typer.Option("--skip-failing", help="Leave out questions whose gold does not run.")
    ] = False,
) -> None:
    """Make a dataset from your own databases and questions."""
    from sql_env.sources.own import read_own
    from sql_env.sources.prepare import prepare_all

    with _busy():
        found = read_own(folder, questions)
        prepared = prepare_all(found, split_by=split_by, seed=seed, skip_failing=skip_failing)
    _write(out or Path("data") / found.name, found, prepared, {"split_by": split_by, "seed": seed})


@app.command("add")
def add(
    source: Annotated[Path, typer.Argument(help="The dataset to add.")],
    to: Annotated[Path, typer.Option(help="The dataset to add it to.")] = Path("data/spider"),
    split: Annotated[str, typer.Option(help="Name of that split.")] = "worlds",
) -> None:
    """Add one dataset's questions to another, as a split."""
    from sql_env.sources.merge import add_dataset

    added = add_dataset(source, to, split)
    console.print(f"[bold]{escape(str(to))}[/]: {len(added):,} questions added as {escape(split)}")


app.add_typer(augment.app, name="augment")
app.command()(data_checks.validate)
app.command()(data_checks.stats)


def _busy() -> AbstractContextManager[object]:
    return Console(stderr=True).status("Running every gold query")


def _names(given: list[str] | None) -> list[str]:
    return [name for item in given or () for name in item.split(",") if name]


def _opened(
    source: Path | None,
    archive: Archive,
    url: str | None,
    downloads: Path | None,
    marker: str,
    only: Any,
) -> AbstractContextManager[Path]:
    """The source's folder; without one, that of the archive from the network."""
    from sql_env.sources.archives import opened
    from sql_env.sources.download import DEFAULT_FOLDER, fetch
    from sql_env.sources.download import Archive as AnArchive

    if source is None:
        wanted = AnArchive(Path(url).name, (url,)) if url else archive
        with _progress_bar(f"Downloading {wanted.name}") as on_progress:
            source = fetch(wanted, downloads or DEFAULT_FOLDER, on_progress)
    return opened(source, marker, only or None)


@contextmanager
def _progress_bar(title: str) -> Iterator[Any]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(escape(title), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _write(out: Path, source: Source, prepared: Prepared, settings: dict[str, Any]) -> None:
    from sql_env.sources.writing import write_dataset

    manifest = {
        "source": source.name,
        **settings,
        "questions": prepared.counts(),
        "left_out": {item.question_id: item.reason for item in prepared.left_out},
    }
    write_dataset(out, prepared.records, source.databases, manifest)
    databases = {record.database_name for record in prepared.records}
    console.print(
        f"[bold]{escape(str(out))}[/]: {len(prepared.records):,} questions on "
        f"{len(databases)} database{'s' if len(databases) > 1 else ''}",
        highlight=False,
        soft_wrap=True,
    )
    for split, number in prepared.counts().items():
        console.print(f"  {split:<8}{number:>6,}", highlight=False)
    if not prepared.left_out:
        return
    console.print(f"left out: {len(prepared.left_out)} questions (all in manifest.json)")
    reasons: dict[str, list[str]] = {}
    for item in prepared.left_out:
        reasons.setdefault(item.reason, []).append(item.question_id)
    for reason, names in sorted(reasons.items(), key=lambda pair: len(pair[1])):
        listed = ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")
        line = f"  {len(names):>4}  {escape(reason)}: {escape(listed)}"
        console.print(line, highlight=False, soft_wrap=True)
