"""One HTML file with everything about some runs: it opens offline and can be sent to a colleague.

The episodes lie in the file as JSON, and the page's script draws them with `textContent` alone, so
nothing in the data can become markup. A content security policy allows this one script, by its
hash, and no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from sql_env.agent.episodes import EpisodeResult, Step
from sql_env.evaluation.comparison import ComparisonError, compare
from sql_env.evaluation.metrics import summarize
from sql_env.evaluation.run_folder import (
    SUCCESS,
    Run,
    RunError,
    differences,
    read_learning_curve,
    read_rows,
)
from sql_env.evaluation.statistics import holm

PAGE = Path(__file__).parent / "report_page"
MOST_RUNS = 8
# How much of a text is shown; the shorter lengths are for reports that would be too large to open.
TEXT_LENGTHS = (4000, 1000, 250)
LARGEST_REPORT = 30_000_000


def write_report(runs: Sequence[Run], trainings: Sequence[Path], path: Path) -> Path:
    """Write the report about `runs`, with the learning curves of `trainings`, to `path`.

    Raises:
        RunError: there is nothing to report, too many runs to read side by side, or a learning
            curve is damaged.
    """
    if not any(run.episodes for run in runs):
        raise RunError("no episodes in these folders: play some with `sql-env eval`")
    if len(runs) > MOST_RUNS:
        raise RunError(f"{len(runs)} runs do not fit side by side: name {MOST_RUNS} at most")
    for length in TEXT_LENGTHS:
        page = render_report(runs, trainings, text_length=length)
        if len(page) <= LARGEST_REPORT:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return path


def render_report(
    runs: Sequence[Run], trainings: Sequence[Path] = (), *, text_length: int = TEXT_LENGTHS[0]
) -> str:
    """The page as text."""
    template, style, script = (
        (PAGE / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    parts = {
        "style-hash": _csp_hash(style),
        "script-hash": _csp_hash(script),
        "style": style,
        "script": script,
        "data": _script_safe(report_data(runs, trainings, text_length)),
    }
    # One pass: what was put in is not searched for placeholders again.
    return re.sub(r"\{\{([a-z-]+)\}\}", lambda mark: parts[mark[1]], template)


def report_data(runs: Sequence[Run], trainings: Sequence[Path], text_length: int) -> dict[str, Any]:
    """All that the page shows."""
    questions: dict[str, dict[str, Any]] = {}
    for run in runs:
        for episode in run.episodes:
            questions.setdefault(episode.question_id, _question(episode, text_length))
    return {
        "runs": [_run(run, text_length) for run in runs],
        "questions": list(questions.values()),
        "comparisons": _comparisons(runs),
        "curves": _curves([run.folder for run in runs] + list(trainings)),
        "success": _success(trainings),
    }


def _run(run: Run, text_length: int) -> dict[str, Any]:
    episodes: dict[str, list[dict[str, Any]]] = {}
    for episode in run.episodes:
        shown = _episode(episode, text_length)
        episodes.setdefault(episode.question_id, []).append(shown)
    return {
        "name": run.name,
        "policy": run.config.policy,
        "config": run.config.to_dict(),
        "summary": summarize(run.episodes).to_dict(),
        "episodes": episodes,
    }


def _curves(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """One curve per folder and phase; SFT and GRPO count their own steps."""
    curves = []
    for number, folder in enumerate(folders):
        rows = read_learning_curve(folder)
        phases = dict.fromkeys(row.get("phase") for row in rows)
        for phase in phases:
            name = folder.name if len(phases) == 1 else f"{folder.name}, {phase}"
            points = [row for row in rows if row.get("phase") == phase]
            curves.append({"name": name, "colour": number % MOST_RUNS, "points": points})
    return curves


def _success(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """How often the model of a training succeeded on its way, one curve per folder and split."""
    curves = []
    for folder in folders:
        rows = read_rows(folder / SUCCESS)
        for split in dict.fromkeys(key for row in rows for key in row if key != "step"):
            points = [{"step": row["step"], **row[split]} for row in rows if split in row]
            curves.append({"name": f"{folder.name}, {split}", "points": points})
    return curves


def _question(episode: EpisodeResult, text_length: int) -> dict[str, Any]:
    gold = json.dumps(episode.gold_answer, ensure_ascii=False)
    return {
        "id": episode.question_id,
        "text": shorten(episode.question, text_length),
        "database": episode.database,
        "difficulty": episode.difficulty,
        "answer_type": episode.answer_type,
        "gold_sql": shorten(episode.gold_sql, text_length),
        "gold_answer": shorten(gold, text_length),
    }


def _episode(episode: EpisodeResult, text_length: int) -> dict[str, Any]:
    return {
        "sample": episode.sample,
        "correct": episode.correct,
        "stop": episode.stop_reason,
        "verdict": shorten(episode.verdict, text_length),
        "error": shorten(episode.error, text_length),
        "reward": round(episode.reward, 4),
        "steps": [_step(step, text_length) for step in episode.steps],
    }


def _step(step: Step, text_length: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "type": shorten(step.action_type, 40),
        "argument": shorten(step.argument, text_length),
        "result": shorten(step.result, text_length),
        "error": shorten(step.error, text_length),
        "reward": [round(part, 4) for part in (step.operational, step.progress, step.terminal)],
    }
    if "raw" in step.trace:
        shown["raw"] = shorten(str(step.trace["raw"]), text_length)
        shown["parsed"] = bool(step.trace.get("parsed", True))
    if replaced := step.trace.get("replaced"):
        original = shorten(str(replaced["original"]), text_length)
        shown["replaced"] = {**replaced, "original": original}
    return {name: value for name, value in shown.items() if value != ""}


def _comparisons(runs: Sequence[Run]) -> list[dict[str, Any]]:
    found = []
    for before, after in combinations(range(len(runs)), 2):
        try:
            comparison = compare(runs[before].episodes, runs[after].episodes)
        except ComparisonError:
            continue
        found.append((before, after, comparison))
    corrected = holm([comparison.p_value for _, _, comparison in found])
    return [
        {
            **comparison.to_dict(),
            "before": before,
            "after": after,
            "sentence": replace(comparison, p_value=p).sentence,
            "differences": differences(runs[before].config, runs[after].config),
        }
        for (before, after, comparison), p in zip(found, corrected, strict=True)
    ]


def shorten(text: str, length: int) -> str:
    """`text`, or its beginning with a note on how long it is."""
    if len(text) <= length:
        return text
    return f"{text[:length]}… ({len(text):,} characters, the first {length:,} shown)"


def _script_safe(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element it lies in."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _csp_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
