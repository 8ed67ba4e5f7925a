"""Which runs the page of results tells about: a TOML file that names them.

runs = "../results"                  # where they lie, seen from this file

[[datasets]]
key = "unseen"
title = "unseen databases"
about = "What it is, in a sentence."

[[policies]]                         # the rows of the tables, in this order
key = "grpo"
title = "after GRPO"
runs.unseen = ["grpo-unseen"]        # folders; what kind of run each is says its config.json

[[trainings]]
title = "GRPO"
folder = "grpo"
about = "The command."
drawn = false                        # not among the learning curves

[[comparisons]]
before = "warmup"
after = "grpo"
title = "…"                          # with a title and a text it is an ablation
text = "…"

[[transcripts]]
before = "warmup"
after = "grpo"
dataset = "unseen"
question = "car_1_0012"
text = "What to look for."

[notes]                              # a paragraph under a heading of the page, by its name
success = "…"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

Entry = TypeVar("Entry")


# The headings that may have a note under them.
NOTES = (
    "intro", "success", "comparisons", "hardness", "behaviour", "samples", "literal", "curves",
    "ablations", "transcripts", "origin",
)  # fmt: skip


class ManifestError(ValueError):
    """A manifest that cannot be used; the message names it and says what to change."""


@dataclass(frozen=True)
class DatasetEntry:
    """A column of the tables."""

    key: str
    title: str
    about: str = ""


@dataclass(frozen=True)
class PolicyEntry:
    """A row of the tables, and the folders of its runs by dataset."""

    key: str
    title: str
    runs: dict[str, list[str]] = field(default_factory=dict)
    ablation: bool = False  # compared, but not in the tables


@dataclass(frozen=True)
class TrainingEntry:
    """A training that a number on the page comes from."""

    title: str
    folder: str
    about: str = ""
    drawn: bool = True  # among the learning curves


@dataclass(frozen=True)
class ComparisonEntry:
    """Two policies that are compared in pairs, on every dataset that both played."""

    before: str
    after: str
    title: str = ""
    text: str = ""


@dataclass(frozen=True)
class TranscriptEntry:
    """One question as two policies played it."""

    before: str
    after: str
    dataset: str
    question: str
    text: str = ""


@dataclass(frozen=True)
class Manifest:
    """What the file says."""

    path: Path
    runs: Path
    datasets: list[DatasetEntry]
    policies: list[PolicyEntry]
    trainings: list[TrainingEntry]
    comparisons: list[ComparisonEntry]
    transcripts: list[TranscriptEntry]
    notes: dict[str, str]

    def policy(self, key: str) -> PolicyEntry:
        return next(policy for policy in self.policies if policy.key == key)

    def evaluation_folders(self) -> Iterator[str]:
        """The folders of all runs, in the order of the page."""
        for policy in self.policies:
            for folders in policy.runs.values():
                yield from folders


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest.

    Raises:
        ManifestError: it is missing, or something in it does not fit together.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ManifestError(
            f"{path} cannot be read ({error.strerror}): it names the runs that the page is about; "
            "tools/results/manifest.py shows one"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{path} is not TOML: {error}") from error
    known = {"runs", "notes", *_LISTS}
    if unknown := sorted(set(values.get("notes", {})) - {*NOTES}):
        raise ManifestError(
            f"{path}: there is no place for the note {unknown[0]!r}: use {', '.join(NOTES)}"
        )
    if unknown := sorted(set(values) - known):
        raise ManifestError(f"{path}: {unknown[0]!r} is not known: use {', '.join(sorted(known))}")
    lists = {name: _entries(path, name, kind, values) for name, kind in _LISTS.items()}
    folder = Path(os.path.normpath(path.parent / values.get("runs", ".")))
    manifest = Manifest(path=path, runs=folder, notes=values.get("notes", {}), **lists)
    _check_names(manifest)
    return manifest


_LISTS: dict[str, Any] = {
    "datasets": DatasetEntry,
    "policies": PolicyEntry,
    "trainings": TrainingEntry,
    "comparisons": ComparisonEntry,
    "transcripts": TranscriptEntry,
}


def _entries(path: Path, name: str, kind: type[Entry], values: dict[str, Any]) -> list[Entry]:
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    entries = []
    for number, row in enumerate(values.get(name, []), start=1):
        if unknown := sorted(set(row) - known):
            raise ManifestError(
                f"{path}: {unknown[0]!r} in [[{name}]] number {number} is not known: "
                f"use {', '.join(sorted(known))}"
            )
        try:
            entries.append(kind(**row))
        except TypeError as error:
            raise ManifestError(f"{path}: [[{name}]] number {number}: {error}") from error
    return entries


def _check_names(manifest: Manifest) -> None:
    policies = {policy.key for policy in manifest.policies}
    datasets = {dataset.key for dataset in manifest.datasets}
    used = [("dataset", key) for policy in manifest.policies for key in policy.runs]
    for pair in manifest.comparisons:
        used += [("policy", pair.before), ("policy", pair.after)]
    for item in manifest.transcripts:
        used += [("policy", item.before), ("policy", item.after), ("dataset", item.dataset)]
    for kind, key in used:
        known = policies if kind == "policy" else datasets
        if key not in known:
            raise ManifestError(
                f"{manifest.path}: there is no {kind} {key!r}: use {', '.join(sorted(known))}"
            )
