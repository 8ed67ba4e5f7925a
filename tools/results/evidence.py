"""The runs behind a page, read and checked: what stands side by side has the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from sql_env.evaluation.metrics import Summary, summarize
from sql_env.evaluation.run_folder import Run, RunError, read_run
from tools.results.manifest import DatasetEntry, Manifest, ManifestError, PolicyEntry


class Kind(StrEnum):
    """How a run was played, as its config.json says."""

    GREEDY = "greedy"
    SAMPLED = "sampled"
    LITERAL = "literal"


@dataclass(frozen=True)
class Evidence:
    """One run of one policy on one dataset."""

    policy: PolicyEntry
    dataset: DatasetEntry
    run: Run

    @property
    def kind(self) -> Kind:
        if not self.run.config.allow_last:
            return Kind.LITERAL
        return Kind.SAMPLED if self.run.config.samples > 1 else Kind.GREEDY

    @cached_property
    def summary(self) -> Summary:
        return summarize(self.run.episodes)

    @cached_property
    def questions(self) -> frozenset[str]:
        return frozenset(episode.question_id for episode in self.run.episodes)


class Exhibits:
    """Everything that a manifest names.

    Raises:
        ManifestError: runs are missing, are named twice for one place, or are about different
            questions although they stand in one column.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.all = list(_read(manifest))
        for dataset in manifest.datasets:
            _check_same_questions([item for item in self.all if item.dataset == dataset])
        self._by_place = {(item.policy.key, item.dataset.key, item.kind): item for item in self.all}
        if len(self._by_place) < len(self.all):
            places = [(item.policy.key, item.dataset.key, item.kind) for item in self.all]
            twice = next(place for place in places if places.count(place) > 1)
            raise ManifestError(
                f"{manifest.path}: policy {twice[0]!r} has two {twice[2]} runs on {twice[1]!r}: "
                "make another policy of the second, with a title of its own"
            )

    def find(self, policy: str, dataset: str, kind: Kind = Kind.GREEDY) -> Evidence | None:
        return self._by_place.get((policy, dataset, kind))

    def rows(self, dataset: DatasetEntry, kind: Kind = Kind.GREEDY) -> list[Evidence]:
        """What stands in the tables about a dataset, in the order of the policies.

        Ablations stand where they are compared. Sampling is dear: what was sampled is shown.
        """
        found = (
            self.find(policy.key, dataset.key, kind)
            for policy in self.manifest.policies
            if kind is Kind.SAMPLED or not policy.ablation
        )
        return [item for item in found if item is not None]


def _read(manifest: Manifest) -> Iterator[Evidence]:
    datasets = {dataset.key: dataset for dataset in manifest.datasets}
    missing = [
        name for name in manifest.evaluation_folders() if not (manifest.runs / name).is_dir()
    ]
    missing += [t.folder for t in manifest.trainings if not (manifest.runs / t.folder).is_dir()]
    if missing:
        raise ManifestError(
            f"{manifest.path} names runs that are not in {manifest.runs}: {', '.join(missing)}. "
            "Name the folder that holds them (sql-env results RUNS), or take them out"
        )
    for policy in manifest.policies:
        for key, folders in policy.runs.items():
            for folder in folders:
                run = read_run(manifest.runs / folder)
                if not run.episodes:
                    raise RunError(f"{run.folder} holds no episodes: play it with sql-env eval")
                yield Evidence(policy, datasets[key], run)


def _check_same_questions(column: list[Evidence]) -> None:
    for item in column[1:]:
        first = column[0]
        theirs, ours = item.run.config.dataset_hash, first.run.config.dataset_hash
        if theirs != ours or item.questions != first.questions:
            raise ManifestError(
                f"{item.run.folder} cannot stand beside {first.run.folder} under "
                f"{item.dataset.key!r}: it played {len(item.questions)} questions of dataset "
                f"{theirs}, the other {len(first.questions)} of {ours}"
            )
