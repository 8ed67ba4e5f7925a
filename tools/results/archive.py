"""The archive of runs: small enough for the repository, with what the model wrote.

An archived evaluation is a run folder like any other (`sql-env compare` and `report` read it), with
its episodes packed. Runs over the embedded data keep every text. Of runs over other datasets, which
are not ours to publish, the questions, gold queries and rows that came back are left out; what the
model wrote and the errors it was told stay. All metrics come out the same. Of a training the
settings, sessions and curves remain. Paths of the machine are cut to their last two names.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.core.render import NO_ROWS
from sql_env.evaluation.metrics import summarize
from sql_env.evaluation.run_folder import (
    CONFIG,
    LONE_SURROGATES,
    PACKED_EPISODES,
    SUCCESS,
    SUMMARY,
    is_training_run,
    read_run,
)
from sql_env.training.run_log import METRICS, SESSIONS, RunLog

EMBEDDED = "embedded"
DIGITS = 4  # of the numbers in a learning curve
CURVE_KEYS = (
    "phase", "stage", "step", "loss", "reward", "rewards/reward_correctness/mean",
    "solved", "retries", "retries/solved", "frac_reward_zero_std", "entropy", "learning_rate",
    "turns", "parsed", "errors", "seconds/run",
)  # fmt: skip


def archive_run(source: Path, target: Path) -> Path:
    """Write what is archived of `source` to `target`; they may be the same folder.

    Raises:
        RunError: `source` is not a run.
    """
    if is_training_run(source):
        _archive_training(source, target)
    else:
        _archive_evaluation(source, target)
    return target


def _archive_evaluation(source: Path, target: Path) -> None:
    run = read_run(source)
    ours = run.config.dataset == EMBEDDED
    episodes = [
        replace(
            _with_rows(episode) if ours else without_others_texts(_with_rows(episode)),
            environment_seconds=round(episode.environment_seconds, 4),
            policy_seconds=round(episode.policy_seconds, 4),
        )
        for episode in run.episodes
    ]
    target.mkdir(parents=True, exist_ok=True)
    _write_json(target / CONFIG, _without_machine(run.config.to_dict()))
    lines = "".join(episode.to_json() + "\n" for episode in episodes)
    # No time stamp: archiving a run again changes nothing.
    packed = gzip.compress(lines.encode("utf-8", LONE_SURROGATES), compresslevel=9, mtime=0)
    (target / PACKED_EPISODES).write_bytes(packed)
    _write_json(target / SUMMARY, summarize(episodes).to_dict())


def _archive_training(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    log = RunLog(source)
    config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
    rows = [{k: _rounded(row[k]) for k in CURVE_KEYS if k in row} for row in log.metrics()]
    sessions, success = log.sessions(), log.success()
    _write_json(target / CONFIG, _without_machine(config))
    _write_lines(target / METRICS, rows)
    _write_lines(target / SESSIONS, sessions)
    _write_lines(target / SUCCESS, success)


def without_others_texts(episode: EpisodeResult) -> EpisodeResult:
    """The episode with what the model wrote and what metrics need, without the dataset's texts."""
    return replace(
        episode,
        question="",
        gold_sql="",
        gold_answer=[] if episode.gold_answer == [] else None,
        verdict="",
        steps=tuple(step._replace(result="") for step in episode.steps),
    )


def _with_rows(episode: EpisodeResult) -> EpisodeResult:
    """Runs of version 0.1 did not count rows; of an empty result they kept the words."""

    def counted(step: Step) -> Step:
        empty = step.rows is None and step.result.endswith(NO_ROWS)
        return step._replace(rows=0) if empty else step

    return replace(episode, steps=tuple(map(counted, episode.steps)))


def _without_machine(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_machine(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_machine(item) for item in value]
    if isinstance(value, str):
        kind, colon, path = value.rpartition(":")
        if path.startswith("/"):
            return kind + colon + "/".join(Path(path).parts[-2:])
    return value


def _rounded(value: Any) -> Any:
    if not isinstance(value, float) or not math.isfinite(value) or value == 0:
        return value
    return round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
