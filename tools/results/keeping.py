"""Keep of a run what its numbers are made of: small enough to lie in the repository.

A kept evaluation is a run folder like any other (`sql-env compare` reads it too), except that its
episodes are packed and hold no texts: no question, no SQL, no rows. All metrics come out the same.
The episodes that the page shows in full lie beside them in `transcripts.jsonl`. Of a kept training
the settings, the sessions and the curves remain. Paths of the machine that a run was made on are
cut to their last two names.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.core.render import NO_ROWS
from sql_env.evaluation.metrics import summarize
from sql_env.evaluation.run_folder import (
    CONFIG,
    LONE_SURROGATES,
    PACKED_EPISODES,
    SUMMARY,
    Run,
    RunError,
    is_training_run,
    read_run,
)
from sql_env.training.run_log import METRICS, SESSIONS, SUCCESS, RunLog
from tools.results.manifest import Manifest

SHOWN = "transcripts.jsonl"
DIGITS = 4  # of the numbers in a learning curve
CURVE_KEYS = (
    "phase", "stage", "step", "loss", "mean_token_accuracy", "reward", "reward_std",
    "rewards/reward_correctness/mean", "rewards/reward_progress/mean",
    "rewards/reward_operational/mean", "frac_reward_zero_std", "entropy", "grad_norm",
    "learning_rate", "turns", "parsed", "errors", "step_time", "seconds/run",
)  # fmt: skip


def keep_runs(manifest: Manifest, sources: Iterable[Path]) -> list[Path]:
    """Copy what the manifest names and `sources` hold into the manifest's folder of runs.

    A run may lie in a folder of its name, or as the only run in one (`sql-env eval --out NAME`).

    Raises:
        RunError: a folder of that name holds no run, or several.
    """
    kept = []
    trainings = {training.folder for training in manifest.trainings}
    for source in sources:
        for name in dict.fromkeys([*manifest.evaluation_folders(), *trainings]):
            if not (source / name).is_dir():
                continue
            target = manifest.runs / name
            if name in trainings:
                keep_training(source / name, target)
            else:
                keep_evaluation(_the_run_in(source / name), target, _shown(manifest, name))
            kept.append(target)
    return kept


def keep_evaluation(source: Path, target: Path, shown: Iterable[str] = ()) -> None:
    """Keep one evaluation; of the questions `shown`, keep the whole first episode."""
    run = read_run(source)
    target.mkdir(parents=True, exist_ok=True)
    _write_json(target / CONFIG, _without_machine(asdict(run.config)))
    bare = [without_texts(episode) for episode in run.episodes]
    lines = "".join(episode.to_json() + "\n" for episode in bare)
    # No time stamp: keeping a run again changes nothing.
    packed = gzip.compress(lines.encode("utf-8", LONE_SURROGATES), compresslevel=9, mtime=0)
    (target / PACKED_EPISODES).write_bytes(packed)
    _write_json(target / SUMMARY, summarize(bare).to_dict())
    whole = [e for e in run.episodes if e.question_id in set(shown) and e.sample == 0]
    if whole:
        text = "".join(episode.to_json() + "\n" for episode in whole)
        (target / SHOWN).write_text(text, encoding="utf-8", errors=LONE_SURROGATES)


def keep_training(source: Path, target: Path) -> None:
    """Keep one training."""
    if not is_training_run(source):
        raise RunError(f"{source} is no training run: there is no {METRICS} in it")
    target.mkdir(parents=True, exist_ok=True)
    log = RunLog(source)
    config = json.loads((source / CONFIG).read_text(encoding="utf-8"))
    _write_json(target / CONFIG, _without_machine(config))
    rows = [{k: _rounded(row[k]) for k in CURVE_KEYS if k in row} for row in log.metrics()]
    _write_lines(target / METRICS, rows)
    _write_lines(target / SESSIONS, log.sessions())
    _write_lines(target / SUCCESS, log.success())


def shown_episode(run: Run, question: str) -> EpisodeResult:
    """An episode that was kept whole.

    Raises:
        RunError: it was not.
    """
    path = run.folder / SHOWN
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for episode in map(EpisodeResult.from_json, lines):
        if episode.question_id == question:
            return episode
    raise RunError(
        f"{path} does not hold question {question!r}. If the run played it, keep the run again: "
        "sql-env results RUNS"
    )


def without_texts(episode: EpisodeResult) -> EpisodeResult:
    """The episode with everything that metrics and comparisons look at, and nothing to read."""
    return replace(
        episode,
        question="",
        gold_sql="",
        gold_answer=[] if episode.gold_answer == [] else None,
        verdict="",
        steps=tuple(map(_bare_step, episode.steps)),
        environment_seconds=round(episode.environment_seconds, 4),
        policy_seconds=round(episode.policy_seconds, 4),
    )


def _bare_step(step: Step) -> Step:
    counts = {k: v for k, v in step.trace.items() if isinstance(v, bool | int)}
    return step._replace(
        argument="",
        result=NO_ROWS if step.result.endswith(NO_ROWS) else "",
        error=(step.error_kind or "action") if step.error else "",
        trace=counts,
    )


def _shown(manifest: Manifest, folder: str) -> list[str]:
    return [
        item.question
        for item in manifest.transcripts
        for key in (item.before, item.after)
        if folder in manifest.policy(key).runs.get(item.dataset, [])
    ]


def _the_run_in(folder: Path) -> Path:
    if (folder / CONFIG).is_file():
        return folder
    runs = sorted(path.parent for path in folder.glob(f"*/{CONFIG}"))
    if len(runs) != 1:
        raise RunError(f"{folder} holds {len(runs)} runs: keep one of them in it")
    return runs[0]


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
