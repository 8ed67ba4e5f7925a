"""`sql-env results`: the page of results, made from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command("results")(results_command)


def results_command(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with new runs; those that the manifest names are kept."),
    ] = None,
    manifest: Annotated[
        Path, typer.Option(help="Which run stands where on the page (TOML).")
    ] = Path("docs/results.toml"),
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path(
        "docs/results.md"
    ),
) -> None:
    """Write the page of results from the runs that a manifest names.

    What is kept of a run is small enough for a repository: its settings, its summary and how every
    question went, without the texts.
    """
    from sql_env.evaluation.run_folder import RunError
    from tools.results.keeping import keep_runs
    from tools.results.manifest import ManifestError, read_manifest
    from tools.results.page import write_page

    try:
        about = read_manifest(manifest)
        for folder in keep_runs(about, runs or ()):
            size = sum(path.stat().st_size for path in folder.iterdir())
            typer.echo(f"kept {folder} ({size / 1e3:.0f} kB)")
        page = write_page(about, out)
    except (ManifestError, RunError) as error:
        Console(stderr=True).print(
            f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True
        )
        raise typer.Exit(2) from None
    typer.echo(f"{page}: {len(about.policies)} policies on {len(about.datasets)} datasets")
