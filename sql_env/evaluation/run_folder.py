"""A run is a folder: `config.json`, `episodes.jsonl`, `summary.json`.

The episodes are appended as they end, so that a run that was interrupted can be resumed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from sql_env.agent.choice import Decoding
from sql_env.agent.episodes import EpisodeResult
from sql_env.core.errors import UserError
from sql_env.evaluation.green_agent import EvaluationResult
from sql_env.models import QuestionRecord

CONFIG, EPISODES, SUMMARY = "config.json", "episodes.jsonl", "summary.json"
PACKED_EPISODES = "episodes.jsonl.gz"  # in a run that is kept in a repository
# What a training run keeps.
LEARNING_CURVE = "metrics.jsonl"  # one row per logged step
SUCCESS = "success.jsonl"  # success on some questions, every so many steps
# Models and databases produce them, UTF-8 cannot hold them, and what this writes is valid JSON.
LONE_SURROGATES = "backslashreplace"


class RunError(UserError, ValueError):
    """A run folder that cannot be used; the message says which file and what to do."""


@dataclass(frozen=True)
class RunConfig:
    """All that is needed to play the run again, and to know where its numbers come from.

    Attributes:
        weights: tells models apart that lay in the same folder, one after the other.
        resumed_with: commit and versions of every resumption with other code.
        other: settings of other versions of SQLEnv; they still tell runs apart.
    """

    policy: str
    dataset: str
    split: str
    n_questions: int | None
    seed: int
    samples: int
    step_budget: int
    allow_last: bool
    ids: list[str] | None = None
    databases: list[str] | None = None
    difficulties: list[str] | None = None
    base: str | None = None
    # What runs say nothing of that were played before there was a choice.
    prompt: str | None = "v1"
    actions: str | None = "text"
    temperature: float = 0.0
    top_p: float = 1.0
    body: dict[str, Any] = field(default_factory=dict)
    price: str | None = None
    decoding: Decoding = "plain"
    max_new_tokens: int = 256
    batch_size: int | None = None
    dtype: str = "float32"
    device: str | None = None
    weights: str = ""
    dataset_hash: str = ""
    commit: str = ""
    created: str = ""
    versions: dict[str, str] | None = None
    machine: str = ""
    resumed_with: list[dict[str, Any]] = field(default_factory=list)
    other: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        known = {item.name for item in fields(cls)} - {"other"}
        other = {name: value for name, value in values.items() if name not in known}
        return cls(**{k: v for k, v in values.items() if k in known}, other=other)

    def to_dict(self) -> dict[str, Any]:
        """For `config.json`."""
        values = asdict(self)
        other = values.pop("other")
        return {**values, **other}


def differences(before: RunConfig, after: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Every setting in which two runs differ, with both values; None where one has no such."""
    old, new = before.to_dict(), after.to_dict()
    return {
        name: (old.get(name), new.get(name))
        for name in {**old, **new}
        if name != "created" and old.get(name) != new.get(name)
    }


@dataclass(frozen=True)
class Run:
    """A run as it lies on the disk."""

    folder: Path
    config: RunConfig
    episodes: tuple[EpisodeResult, ...]

    @property
    def name(self) -> str:
        return self.folder.name


class RunFolder:
    """Writes a run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder

    @classmethod
    def create(cls, runs: Path, config: RunConfig) -> RunFolder:
        """A new folder under `runs`, named after the time and the policy (without its address)."""
        moment = datetime.now().strftime("%Y%m%d-%H%M%S")
        stem = f"{moment}-{slug(config.policy.partition('@http')[0])}"
        names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
        return cls.at(next(runs / name for name in names if not (runs / name).exists()), config)

    @classmethod
    def at(cls, folder: Path, config: RunConfig) -> RunFolder:
        """A new run in a folder of that name.

        Raises:
            RunError: there is something in the folder.
        """
        if folder.exists():
            raise RunError(
                f"{folder} is there already: choose another --name, or --resume {folder}"
            )
        folder.mkdir(parents=True)
        run = cls(folder)
        run.write_config(config)
        return run

    def write_config(self, config: RunConfig) -> None:
        text = json.dumps(config.to_dict(), indent=2, ensure_ascii=False)
        (self.path / CONFIG).write_text(text + "\n", encoding="utf-8")

    def append(self, episode: EpisodeResult) -> None:
        """Keep an episode, whatever happens to the next one."""
        with (self.path / EPISODES).open("a", encoding="utf-8", errors=LONE_SURROGATES) as file:
            file.write(episode.to_json() + "\n")

    def finish(self, result: EvaluationResult) -> None:
        """Put the episodes in the order of the plan and write the summary."""
        ordered = self.path / f"{EPISODES}.new"
        with ordered.open("w", encoding="utf-8", errors=LONE_SURROGATES) as file:
            file.writelines(episode.to_json() + "\n" for episode in result.episodes)
        ordered.replace(self.path / EPISODES)
        summary = {**result.summary.to_dict(), "interrupted": result.interrupted}
        text = json.dumps(summary, indent=2, ensure_ascii=False)
        (self.path / SUMMARY).write_text(text + "\n", encoding="utf-8")


def read_run(folder: Path | str) -> Run:
    """Read a run.

    Raises:
        RunError: it is not a run folder, or a file in it is damaged.
    """
    folder = Path(folder)
    config_path = folder / CONFIG
    if not config_path.is_file():
        raise RunError(
            f"{folder} is not a run: there is no {CONFIG} in it. "
            f"`sql-env eval` makes runs and prints their paths"
        )
    try:
        config = RunConfig.from_dict(json.loads(config_path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise RunError(f"{config_path} does not describe an evaluation: {error}") from error
    packed = (folder / PACKED_EPISODES).is_file()
    return Run(folder, config, read_episodes(folder / (PACKED_EPISODES if packed else EPISODES)))


def find_runs(folder: Path) -> list[Path]:
    """The folders of all evaluations in and under `folder`.

    Raises:
        RunError: there is no such folder.
    """
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such folder; `sql-env eval` keeps runs in runs/")
    return [
        path.parent
        for path in sorted(folder.rglob(CONFIG))
        if any((path.parent / name).is_file() for name in (EPISODES, PACKED_EPISODES))
    ]


def read_episodes(path: Path) -> tuple[EpisodeResult, ...]:
    """The episodes of a file; a last line that was cut off while being written is left out.

    Where a question was played twice (it broke off and the run was resumed) the later one counts.
    """
    if not path.is_file():
        return ()
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    lines = text.decode("utf-8").split("\n")
    episodes: dict[tuple[str, int], EpisodeResult] = {}
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            episode = EpisodeResult.from_json(line)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if number == len(lines):
                break
            raise RunError(f"{path}, line {number} is not an episode: {error}") from error
        episodes[episode.key] = episode
    return tuple(episodes.values())


def is_training_run(folder: Path) -> bool:
    """A folder with a learning curve and no episodes of an evaluation."""
    return (folder / LEARNING_CURVE).is_file() and not (folder / EPISODES).is_file()


def read_learning_curve(folder: Path) -> list[dict[str, Any]]:
    """The rows of `metrics.jsonl`; none where the folder is not of a training."""
    return read_rows(folder / LEARNING_CURVE)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, if there is one.

    Raises:
        RunError: a row is damaged.
    """
    if not path.is_file():
        return []
    # A row without its line feed was cut off when the run died.
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error


def slug(text: str) -> str:
    """`text` as a part of a file name, with its end kept where it is long."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[-40:].strip("-") or "policy"


def dataset_hash(questions: Sequence[QuestionRecord], db_dir: Path) -> str:
    """Tells datasets apart: the questions and every byte of the databases they need."""
    digest = hashlib.sha256()
    for record in questions:
        digest.update(record.model_dump_json().encode())
    for name in sorted({record.database_name for record in questions}):
        path = db_dir / name / f"{name}.sqlite"
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
