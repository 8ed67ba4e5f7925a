"""A training run is a folder.

    config.json         what was asked for, to run it again or to resume it
    changes.jsonl       the settings that changed when it was resumed: what they were and are
    sessions.jsonl      one row per start or resumption: when, on what machine, with what versions
    metrics.jsonl       one row per logged step; `phase` says sft or grpo
    success.jsonl       success on questions of both splits, every so many steps
    transcripts.jsonl   episodes as they were played in training, a few of each round;
                        further processes write transcripts-1.jsonl, …
    checkpoint-N/       everything that is needed to go on from step N
    model/              the trained model, when the run is over
    hub/                what `trl.push_to_hub` sends
    plots/              reward.png, success.png
    sft/                SFT, where it came first: a run folder of its own

An SFT run's folder also holds what it learns from (demonstrations.jsonl, corrections.jsonl) and a
folder for each of its stages (demonstrations/, dagger/), where the checkpoints lie.

The main process writes all but its fellows' transcripts. Rows are appended and flushed, so that a
killed run keeps them; a checkpoint counts when its last file, `COMPLETE`, is there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sql_env.core.errors import UserError
from sql_env.evaluation.run_folder import LEARNING_CURVE, SUCCESS, read_rows
from sql_env.provenance import current_commit, current_machine, current_versions, now
from sql_env.training.config import GRPOConfig
from sql_env.training.settings import ConfigError

CONFIG, METRICS, TRANSCRIPTS = "config.json", LEARNING_CURVE, "transcripts.jsonl"
SESSIONS = "sessions.jsonl"
MODEL, PLOTS, COMPLETE, SFT, HUB = "model", "plots", "COMPLETE", "sft", "hub"
DEMONSTRATIONS, DAGGER = "demonstrations", "dagger"  # the stages of SFT
DEMONSTRATIONS_FILE, CORRECTIONS_FILE = "demonstrations.jsonl", "corrections.jsonl"
CHANGES = "changes.jsonl"


class ResumeError(UserError, ValueError):
    """A run that cannot be resumed; the message says why and what to do."""


class RunLog:
    """Writes and reads the folder of one training run."""

    def __init__(self, folder: Path | str) -> None:
        self.path = Path(folder)

    def begin(self, config: GRPOConfig) -> None:
        """Write the configuration of a new run.

        Raises:
            ConfigError: the folder already holds a run.
        """
        self.check_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_config(config)

    def check_unused(self, *parts: str) -> None:
        """Whether a run may begin here.

        Args:
            parts: folders in it that must not hold a run either.

        Raises:
            ConfigError: it already holds a run.
        """
        if any((self.path / part / METRICS).is_file() for part in ("", *parts)):
            raise ConfigError(
                f"output_dir is {str(self.path)!r}, which already holds a run: go on with it "
                f"(--resume {self.path}), or name another folder"
            )

    def config(self, settings: Sequence[str] = (), **values: Any) -> GRPOConfig:
        """The configuration the run was begun with, with `settings` and `values` over it.

        Raises:
            ResumeError: there is none.
        """
        path = self.path / CONFIG
        if not path.is_file():
            raise ResumeError(
                f"{self.path} is no training run: there is no {CONFIG} in it. "
                "`sql-env train` and `sql-env sft` print their run folder when they begin"
            )
        return GRPOConfig.load(file=path, settings=settings, **values)

    def change(self, config: GRPOConfig, changed: dict[str, Any]) -> None:
        """The run goes on under other settings."""
        self._append(CHANGES, [{"changed": changed, "when": now()}])
        self._write_config(config)

    def changes(self) -> list[dict[str, Any]]:
        """The settings that changed, one row for each time."""
        return self._read(CHANGES)

    def add_session(self, phase: str, **values: Any) -> None:
        """Note that this process works on the run: on what machine, and with which versions."""
        about = {"phase": phase, "started": now(), "machine": current_machine()}
        versions = {"commit": current_commit(), "versions": current_versions()}
        self._append(SESSIONS, [about | versions | values])

    def sessions(self) -> list[dict[str, Any]]:
        """Every start and resumption."""
        return self._read(SESSIONS)

    def add_success(self, row: dict[str, Any]) -> None:
        """Append how often the model succeeded on both splits after a step."""
        self._append(SUCCESS, [row])

    def success(self) -> list[dict[str, Any]]:
        """All those rows."""
        return self._read(SUCCESS)

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append one row."""
        self._append(METRICS, [row])

    def add_transcripts(self, rows: Iterable[dict[str, Any]], process: int = 0) -> None:
        """Append some of the episodes that a process played."""
        self._append(f"transcripts-{process}.jsonl" if process else TRANSCRIPTS, rows)

    def metrics(self) -> list[dict[str, Any]]:
        """All rows; a last one that was cut off while being written is left out."""
        return self._read(METRICS)

    def transcripts(self) -> list[dict[str, Any]]:
        """All episodes that were kept, of all processes, in the order of the steps."""
        rows = [row for name in self._transcript_files() for row in self._read(name)]
        return sorted(rows, key=lambda row: int(row["step"]))

    def checkpoints(self) -> list[Path]:
        """The whole ones, oldest first; one that was half written when the run died has no mark."""
        whole = [path.parent for path in self.path.glob(f"checkpoint-*/{COMPLETE}")]
        return sorted(whole, key=checkpoint_step)

    def last_checkpoint(self) -> Path | None:
        """The newest whole checkpoint."""
        return next(reversed(self.checkpoints()), None)

    def forget_after(self, step: int, stage: str | None = None) -> None:
        """Drop what was written about steps that will be taken again.

        Args:
            stage: of SFT, whose stages each count their own steps.
        """
        for name in (METRICS, SUCCESS, *self._transcript_files()):
            if not (self.path / name).is_file():
                continue
            rows = self._read(name)
            kept = [row for row in rows if row.get("stage") != stage or row["step"] <= step]
            self._replace(name, "".join(map(_line, kept)))

    def _transcript_files(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("transcripts*.jsonl"))

    def _write_config(self, config: GRPOConfig) -> None:
        text = json.dumps(config.to_dict(), indent=2, ensure_ascii=False)
        self._replace(CONFIG, text + "\n")

    def _replace(self, name: str, text: str) -> None:
        """A file is whole at every moment."""
        unfinished = self.path / f"{name}.part"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self.path / name)

    def _append(self, name: str, rows: Iterable[dict[str, Any]]) -> None:
        with (self.path / name).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(map(_line, rows))

    def _read(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.path / name)


def checkpoint_step(checkpoint: Path) -> int:
    """The step in the name `checkpoint-<step>`."""
    match = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    if match is None:
        raise ResumeError(f"{checkpoint} is no checkpoint: its name is not checkpoint-<step>")
    return int(match[1])


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, default=str) + "\n"
