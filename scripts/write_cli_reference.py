"""Write docs/cli.md: what the `--help` of every command says, as tables.

    python scripts/write_cli_reference.py            # write the page
    python scripts/write_cli_reference.py --check    # exit 1 where the page is out of date

Tables, because terminal text reads badly in a page and is half again as long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from sql_env.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
INTRODUCTION = """\
# Command line

What each command's `--help` says. Names without dashes are arguments, in their order;
defaults stand in square brackets.

**For scripts.** `eval`, `compare`, `data stats` and `data validate` have `--json`. Progress and
errors go to stderr, results to stdout.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | a question failed `data validate`, or no episode could be played to its end |
| 2 | wrong input; the message says what to do |
| 130 | interrupted; `--resume` continues |

`sql-env --install-completion` installs completion for your shell.
"""
FEW = 4  # options in common with another command; they are written out
SHORT = {
    r"<(?:list\[)?str\]?>": "TEXT",
    r"<(?:list\[)?[Pp]ath\]?>": "PATH",
    r"<(?:int|float)(?: range)?>": "N",
    r"; [\d.<=]*x[\d.<=>]+\]": "]",
    r" \[[\d.<=]*x[\d.<=>]+\]": "",
    r"\[default: \(?(.*?)\)?\]$": r"[\1]",
}


def reference() -> str:
    """The whole page."""
    written: dict[str, dict[str, str]] = {}
    return "\n".join([INTRODUCTION, *(_section(context, written) for context in commands())])


def _section(context: Any, written: dict[str, dict[str, str]]) -> str:
    """One command. Where many of its options are those of one above, it refers to that one.

    `written` has the rows of every command above, and the options that they explain.
    """
    command = context.command
    said = " ".join((command.help or "").split("\f")[0].split())
    lines = [f"## {context.command_path}", "", said, ""]
    rows = {
        f"| `{_cell(record[0])}` | {_cell(record[1])} |": record[0].split(" <")[0]
        for parameter in command.get_params(context)
        if parameter.name not in ("help", "install_completion", "show_completion")
        and (record := parameter.get_help_record(context))
    }
    alike = max(written, key=lambda path: len(rows.keys() & written[path].keys()), default="")
    shared = [name for row, name in rows.items() if row in written.get(alike, {})]
    if len(shared) < FEW and len(shared) * 2 <= len(rows):
        shared = []
    new = [row for row, name in rows.items() if name not in shared]
    if new:
        lines += ["| | |", "| --- | --- |", *new, ""]
    if shared:
        lines += [f"As in `{alike}`: {', '.join(f'`{name}`' for name in shared)}.", ""]
    written[context.command_path] = rows
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text of a table, with short names for what an option takes and without its bounds."""
    text = " ".join(text.split()).replace("|", "\\|")
    for pattern, short in SHORT.items():
        text = re.sub(pattern, short, text)
    return text


def commands() -> Iterator[Any]:
    """`sql-env`, then every command and subcommand, in the order of the help."""

    def below(command: Any, name: str, parent: Any) -> Iterator[Any]:
        context = command.make_context(name, [], parent=parent, resilient_parsing=True)
        yield context
        for inner_name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                yield from below(inner, inner_name, context)

    yield from below(get_command(app), "sql-env", None)


def main() -> None:
    page = reference()
    if sys.argv[1:] == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
            raise SystemExit(f"{PAGE} is out of date: run python scripts/write_cli_reference.py")
    else:
        PAGE.write_text(page, encoding="utf-8")
        print(PAGE)


if __name__ == "__main__":
    main()
