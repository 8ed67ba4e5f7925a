"""The page of results: every number on it is computed from the runs that the manifest names."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from sql_env.training.run_log import CONFIG, RunLog
from tools.results.evidence import Exhibits, Kind
from tools.results.manifest import Manifest, TrainingEntry
from tools.results.pictures import Pictures, running_steps
from tools.results.tables import (
    NOTHING,
    behaviour_table,
    comparison_table,
    hardness_table,
    markdown_table,
    pass_table,
    runs_table,
    success_table,
)
from tools.results.transcripts import side_by_side

IMAGES = "images/results"


def write_page(manifest: Manifest, path: Path) -> Path:
    """Write the page and its pictures (in `images/results` beside it).

    Raises:
        ManifestError, RunError: a run is missing, damaged, or about other questions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(manifest, path), encoding="utf-8")
    return path


def render_page(manifest: Manifest, path: Path) -> str:
    """The page's Markdown; the pictures are drawn on the way."""
    exhibits = Exhibits(manifest)
    pictures = Pictures(exhibits, path.parent / IMAGES, path.parent)
    page = _Page(manifest.notes)
    page.heading("# Results", "intro")
    page.add(f"<!-- made by `sql-env results` from {manifest.path.name}: do not edit -->")

    page.heading("## Success", "success")
    page.add(success_table(exhibits), pictures.success())
    about = [f"* **{item.title}**: {item.about}" for item in manifest.datasets if item.about]
    page.add("\n".join(about))

    plain = [pair for pair in manifest.comparisons if not pair.title]
    if plain:
        page.heading("## Did each stage help?", "comparisons")
        page.add(comparison_table(exhibits, plain))

    page.heading("## By hardness", "hardness")
    for dataset in manifest.datasets:
        if column := exhibits.rows(dataset):
            page.add(f"**{dataset.title}**", hardness_table(column))

    page.heading("## How they play", "behaviour")
    for dataset in manifest.datasets:
        if column := exhibits.rows(dataset):
            page.add(f"**{dataset.title}**", behaviour_table(column))

    if any(exhibits.rows(dataset, Kind.SAMPLED) for dataset in manifest.datasets):
        page.heading("## Several attempts", "samples")
        page.add(pass_table(exhibits))
    if any(exhibits.rows(dataset, Kind.LITERAL) for dataset in manifest.datasets):
        page.heading("## Literal answers only", "literal")
        page.add(success_table(exhibits, Kind.LITERAL))

    curves = [pictures.curve("warmup"), pictures.curve("grpo"), *pictures.train_against_eval()]
    if any(curves):
        page.heading("## Learning curves", "curves")
        page.add(*filter(None, curves))

    ablations = [pair for pair in manifest.comparisons if pair.title]
    if ablations:
        page.heading("## Ablations", "ablations")
        for pair in ablations:
            page.add(f"### {pair.title}", pair.text.strip(), comparison_table(exhibits, [pair]))

    if manifest.transcripts:
        page.heading("## Side by side", "transcripts")
        page.add(*(side_by_side(exhibits, entry) for entry in manifest.transcripts))

    page.heading("## Where the numbers come from", "origin")
    if manifest.trainings:
        page.add(_trainings_table(manifest), *(_settings(manifest, t) for t in manifest.trainings))
    page.add(runs_table(exhibits), _versions(exhibits), _rebuilding(manifest))
    return page.text


class _Page:
    """Blocks of Markdown, with a note of the manifest under each heading that has one."""

    def __init__(self, notes: dict[str, str]) -> None:
        self._notes = notes
        self._blocks: list[str] = []

    def heading(self, title: str, note: str) -> None:
        self.add(title, self._notes.get(note, "").strip())

    def add(self, *blocks: str) -> None:
        self._blocks += [block for block in blocks if block]

    @property
    def text(self) -> str:
        return "\n\n".join(self._blocks) + "\n"


def _trainings_table(manifest: Manifest) -> str:
    rows = []
    for training in manifest.trainings:
        log = RunLog(manifest.runs / training.folder)
        config = _config(manifest, training)
        metrics, sessions = log.metrics(), log.sessions()
        rows.append(
            [
                training.title,
                f"`{training.folder}`",
                str(config.get("seed", NOTHING)),
                str(running_steps(metrics)[-1]) if metrics else NOTHING,
                _minutes(metrics, sessions),
                _joined(session.get("machine", "") for session in sessions),
                _joined(session.get("commit", "")[:10] for session in sessions),
                _joined(_listed(session.get("versions", {})) for session in sessions),
            ]
        )
    head = ["training", "run", "seed", "steps", "minutes", "machine", "commit", "versions"]
    return markdown_table(head, rows)


def _minutes(metrics: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> str:
    """What the log knows: the time of every logged step, or of a session as a whole."""
    seconds = sum(row.get("seconds/run", 0.0) for row in metrics)
    seconds += sum(session.get("seconds", 0.0) for session in sessions)
    return f"{seconds / 60:.1f}" if seconds else NOTHING


def _settings(manifest: Manifest, training: TrainingEntry) -> str:
    text = json.dumps(_config(manifest, training), indent=1, ensure_ascii=False)
    about = f"{training.about.strip()}\n\n" if training.about else ""
    # On one line of HTML, so that no Markdown is seen in it.
    shown = escape(text).replace("\n", "&#10;")
    return (
        f"{about}<details><summary>The settings of {escape(training.title)}</summary>"
        f"<pre>{shown}</pre></details>"
    )


def _config(manifest: Manifest, training: TrainingEntry) -> dict[str, Any]:
    path = manifest.runs / training.folder / CONFIG
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return config


def _versions(exhibits: Exhibits) -> str:
    found = _joined(_listed(item.run.config.versions or {}) for item in exhibits.all)
    return f"The evaluations were played with {found}."


def _rebuilding(manifest: Manifest) -> str:
    return (
        f"The runs lie in `{manifest.runs.name}/`, one folder each: `config.json` says how it was "
        "played, `summary.json` what came out, `episodes.jsonl.gz` how every question went, "
        "without the texts. `sql-env compare` pairs any two of them, and `sql-env results` makes "
        "this page again."
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items())


def _joined(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, values))) or NOTHING
