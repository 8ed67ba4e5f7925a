"""Two episodes of one question, side by side. HTML, for Markdown has no columns."""

from __future__ import annotations

import textwrap
from html import escape

from sql_env.agent.episodes import EpisodeResult, Step
from tools.results.evidence import Exhibits
from tools.results.keeping import shown_episode
from tools.results.manifest import ManifestError, TranscriptEntry

COLUMN_WIDTH = 42
SHOWN_LINES = 10
SHOWN_CHARACTERS = 600


def side_by_side(exhibits: Exhibits, entry: TranscriptEntry) -> str:
    """The question, and what the two policies made of it."""
    columns = []
    for key in (entry.before, entry.after):
        evidence = exhibits.find(key, entry.dataset)
        if evidence is None:
            raise ManifestError(
                f"{exhibits.manifest.path}: policy {key!r} has no run on {entry.dataset!r} "
                f"for the transcript of {entry.question!r}"
            )
        columns.append((evidence.policy.title, shown_episode(evidence.run, entry.question)))
    episode = columns[0][1]
    head = "".join(f"<th>{escape(title)}: {_verdict(played)}</th>" for title, played in columns)
    cells = "".join(f"<td><pre>{_on_one_line(played)}</pre></td>" for _, played in columns)
    return "\n\n".join(
        [
            f"**{episode.question}** (`{episode.database}`, {episode.difficulty})",
            f"The reference: `{episode.gold_sql}`",
            *([entry.text.strip()] if entry.text else []),
            f'<table><tr>{head}</tr>\n<tr valign="top">{cells}</tr></table>',
        ]
    )


def _on_one_line(episode: EpisodeResult) -> str:
    # A blank line would end the HTML and begin Markdown again.
    return escape(transcript(episode)).replace("\n", "&#10;")


def _verdict(episode: EpisodeResult) -> str:
    return "right" if episode.correct else "wrong"


def transcript(episode: EpisodeResult) -> str:
    """What was done and what came back."""
    return "\n\n".join(_step(step) for step in episode.steps)


def _step(step: Step) -> str:
    came_back = f"error: {step.error}" if step.error else step.result
    said = _wrapped(f"> {step.action_type}: {step.argument}")
    return "\n".join(filter(None, [*said, _shortened(came_back)]))


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, COLUMN_WIDTH, subsequent_indent="  ") or [""]


def _shortened(text: str) -> str:
    lines = [part for line in text.splitlines() for part in _wrapped(line)]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[: SHOWN_LINES - 1], f"… {len(lines) - SHOWN_LINES + 1} more lines"]
    short = "\n".join(lines)
    return short if len(short) <= SHOWN_CHARACTERS else short[: SHOWN_CHARACTERS - 1] + "…"
