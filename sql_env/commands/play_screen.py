"""What a player sees in the terminal, and how a player's line is read."""

from __future__ import annotations

import sys

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sql_env.core.query_result import QueryResult
from sql_env.core.render import ROWS_SHOWN, render_cell
from sql_env.models import SQLAction, SQLObservation

# With a space where an argument follows: readline completes, but goes no further by itself.
COMMANDS = ("describe ", "sample ", "query ", "answer ", "help", "quit")
HELP = """\
[bold]describe[/] TABLE   columns, types and keys
[bold]sample[/] TABLE     some rows
[bold]query[/] SELECT …   run one query; a bare SELECT works too
[bold]answer[/] VALUE     a value, rows, \\[] for an empty result, @last for the last query's result
[bold]quit[/]             leave without an answer"""


class PlayerLeftError(Exception):
    """The player has had enough."""


class Prompt:
    """Asks a person for the next action; table and column names are completed with Tab."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._interactive = sys.stdin.isatty()
        self._words: list[str] = []
        if self._interactive:
            self._complete_words()

    def __call__(self, observation: SQLObservation) -> str:
        self._words = [*COMMANDS, *observation.table_names, *_columns(observation)]
        while True:
            line = self._read(observation.budget_remaining)
            word = line.strip().lower()
            if word in ("quit", "exit"):
                raise PlayerLeftError("the player left")
            if word in ("help", "?"):
                self._console.print(HELP)
            elif word:
                return line

    def _read(self, steps_left: int) -> str:
        prompt = f"{steps_left} steps left > "
        try:
            line = input(prompt if self._interactive else "")
        except (EOFError, KeyboardInterrupt):
            self._console.print()
            raise PlayerLeftError("the player left") from None
        if not self._interactive:
            # Commands that are piped in appear in what comes out, as if they had been typed.
            self._console.print(Text(prompt + line))
        return line

    def _complete_words(self) -> None:
        import readline

        def complete(text: str, state: int) -> str | None:
            begins = text.lower()
            found = [word for word in self._words if word.lower().startswith(begins)]
            return found[state] if state < len(found) else None

        readline.set_completer(complete)
        readline.set_completer_delims(" \t\n,().=<>;\"'`")
        readline.parse_and_bind("tab: complete")


def _columns(observation: SQLObservation) -> list[str]:
    """The column names that DESCRIBE has shown so far."""
    names = (column.name for schema in observation.described for column in schema.columns)
    return list(dict.fromkeys(names))


class Screen:
    """Draws an episode as it goes.

    Args:
        show_actions: also say what was done; a person knows it.
    """

    def __init__(self, console: Console, *, show_actions: bool) -> None:
        self._console = console
        self._show_actions = show_actions
        self._total = 0.0
        self._last: SQLObservation | None = None

    def show(self, observation: SQLObservation, action: SQLAction | None) -> None:
        """What the episode begins with, or an action and what came of it."""
        self._last = observation
        if action is None:
            self._begin(observation)
            return
        if self._show_actions:
            words = Text.assemble("> ", (action.action_type, "bold"), " ", action.argument.strip())
            self._console.print(words)
        self._show_step(observation)

    def end(self, gold_sql: str, gold: QueryResult) -> None:
        """The verdict, and what would have been right."""
        assert self._last is not None
        about = self._last.metadata
        if about["correct"]:
            verdict = Text("Correct", style="bold green")
        elif "verdict" in about:
            verdict = Text("Not correct", style="bold red")
        else:
            verdict = Text("Out of steps", style="bold red")
        reason = Text(about.get("verdict", "there was no answer in time"))
        parts: list[RenderableType] = [Text.assemble(verdict, ": ", reason)]
        if not about["correct"]:
            parts += [Text(gold_sql, style="cyan"), result_table(gold)]
        self._console.print(Panel(Group(*parts), subtitle=f"reward {self._total:.3f}"))

    def _begin(self, observation: SQLObservation) -> None:
        about = observation.metadata
        lines: list[RenderableType] = [Text(observation.question, style="bold")]
        if about.get("hint"):
            lines.append(Text(f"hint: {about['hint']}"))
        lines.append(Text(f"tables: {', '.join(observation.table_names)}", style="cyan"))
        title = f"{about['question_id']} · {about['database_name']} · {about['difficulty']}"
        steps = f"{observation.budget_remaining} steps"
        self._console.print(
            Panel(Group(*lines), title=escape(title), subtitle=steps, title_align="left")
        )

    def _show_step(self, observation: SQLObservation) -> None:
        """The result or the error, and what the step was worth."""
        table = observation.shown
        if observation.error:
            self._console.print(Text(observation.error, style="red"))
        elif table is not None and table.columns:
            self._console.print(result_table(table))
        else:
            self._console.print(Text(observation.result))
        self._total += observation.reward or 0.0
        parts = observation.metadata["reward_parts"]
        self._console.print(
            Text.assemble(
                ("reward ", "dim"),
                *(piece for name, value in parts.items() for piece in _part(name, value)),
                (f"total {self._total:+.3f}", "dim"),
            )
        )


def _part(name: str, value: float) -> list[tuple[str, str]]:
    if not value:
        return []
    return [(f"{name} {value:+.3f}  ", "green" if value > 0 else "red")]


def result_table(result: QueryResult) -> RenderableType:
    """A query's result, with the cells as an agent reads them."""
    columns, rows = result.columns, result.rows
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(columns):
        numbers = all(isinstance(row[position], int | float) for row in rows)
        table.add_column(Text(name), justify="right" if numbers and rows else "left")
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*(Text(render_cell(cell)) for cell in row))
    if not rows:
        return Group(table, Text("no rows", style="dim"))
    if len(rows) > ROWS_SHOWN:
        note = f"{len(rows)} rows, the first {ROWS_SHOWN} shown"
        return Group(table, Text(note, style="dim"))
    return table
