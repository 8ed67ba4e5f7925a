"""Where people see pictures and episodes: a notebook's output area or a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sql_env.agent.episodes import EpisodeResult
from sql_env.training.plots import png_bytes

SHOWN_LINES = 8
SHOWN_CHARACTERS = 300
HTML_WIDTH = 110


class Display(Protocol):
    """Where pictures and episodes are shown."""

    def figure(self, name: str, figure: Any) -> None:
        """Show a figure, in place of the last one of that name."""

    def episode(self, title: str, episode: EpisodeResult) -> None:
        """Show an episode, in place of the last one."""


class TerminalDisplay:
    """Prints episodes; says where the pictures lie."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._folder = folder
        self._announced: set[str] = set()

    def figure(self, name: str, figure: Any) -> None:
        if name not in self._announced:
            self._announced.add(name)
            self._console.print(f"[dim]{name} plot: {self._folder / name}.png, kept up to date")

    def episode(self, title: str, episode: EpisodeResult) -> None:
        self._console.print(episode_panel(title, episode), soft_wrap=False)


class NotebookDisplay:
    """Redraws in place, each thing in its own output area."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}

    def figure(self, name: str, figure: Any) -> None:
        from IPython.display import Image

        self._show(name, Image(data=png_bytes(figure)))

    def episode(self, title: str, episode: EpisodeResult) -> None:
        from IPython.display import HTML

        self._show("episode", HTML(as_html(episode_panel(title, episode))))

    def _show(self, name: str, thing: Any) -> None:
        from IPython.display import display

        if name in self._handles:
            self._handles[name].update(thing)
        else:
            self._handles[name] = display(thing, display_id=True)


def episode_panel(title: str, episode: EpisodeResult) -> RenderableType:
    """An episode as a person reads it: question, actions, what came back, the verdict."""
    lines: list[RenderableType] = [Text(episode.question, style="bold")]
    for step in episode.steps:
        action = f"{step.action_type}: {step.argument}".rstrip()
        lines.append(Text(_shortened(action), style="cyan"))
        answer = Text(_shortened(step.error or step.result), style="red" if step.error else "dim")
        lines.append(Padding(answer, (0, 0, 0, 2)))
    verdict = "right" if episode.correct else f"{episode.stop_reason}: {episode.verdict}"
    lines.append(
        Text(
            f"{verdict}  (reward {episode.reward:+.3f})",
            style="green" if episode.correct else "red",
        )
    )
    return Panel(Group(*lines), title=title, title_align="left", border_style="dim")


def side_by_side(
    before: Sequence[EpisodeResult], after: Sequence[EpisodeResult], count: int = 2
) -> RenderableType:
    """The same questions before and after training; those that were learned come first."""
    earlier = {episode.key: episode for episode in before}
    pairs = [(earlier[episode.key], episode) for episode in after if episode.key in earlier]
    pairs.sort(key=lambda pair: pair[0].correct - pair[1].correct)
    table = Table.grid(expand=True, padding=(0, 1))
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    for old, new in pairs[:count]:
        table.add_row(episode_panel("before", old), episode_panel("after", new))
    return table


def show(thing: RenderableType) -> None:
    """Show something once, in the notebook this runs in or else in the terminal."""
    if in_notebook():
        from IPython.display import HTML, display

        display(HTML(as_html(thing)))
    else:
        Console().print(thing)


def show_figure(figure: Any) -> None:
    """Show a figure in the notebook this runs in."""
    from IPython.display import Image, display

    display(Image(data=png_bytes(figure)))


def as_html(thing: RenderableType) -> str:
    """What rich would print, for a notebook."""
    recorder = Console(record=True, width=HTML_WIDTH, file=io.StringIO(), force_jupyter=False)
    recorder.print(thing)
    style = "line-height:1.2;font-family:monospace"
    code = f'<pre style="{style}">{{code}}</pre>'
    return recorder.export_html(inline_styles=True, code_format=code)


def in_notebook() -> bool:
    """Whether a Jupyter kernel (Colab's too) runs this."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")


def _shortened(text: str) -> str:
    lines = [
        line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]}…"
        for line in text.split("\n")
    ]
    more = [f"… {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    return "\n".join([*lines[:SHOWN_LINES], *more])
