"""Write docs/cli.md: the help of every command, as `sql-env … --help` prints it.

    python scripts/write_cli_reference.py            # write the page
    python scripts/write_cli_reference.py --check    # exit 1 where the page is out of date

Help is printed without frames, which read badly in a page.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["TYPER_USE_RICH"] = "0"  # read when typer is imported

from typer.main import get_command
from typer.testing import CliRunner

from sql_env.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
INTRODUCTION = """\
# Command line

This page is what `sql-env --help` and each command's `--help` print. It is generated
(`python scripts/write_cli_reference.py`), and a test keeps it true.

**For scripts.** `--json` prints numbers instead of tables (`eval`, `compare`, `data stats`,
`data validate`), and `play --record FILE` appends the episode as one JSON line. Bars and colours
appear in a terminal only; bars and errors go to stderr, results to stdout.

| exit status | meaning |
| --- | --- |
| 0 | done |
| 1 | a question failed `data validate`, or no episode could be played to its end |
| 2 | the command was given something it cannot use; the message says what and what to do next |
| 130 | interrupted; what was done is kept, and `--resume` goes on |

**Completion.** `sql-env --install-completion` installs it for the shell you are in (bash, zsh, fish
or PowerShell); `sql-env --show-completion` prints it instead.
"""


def reference() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for words in commands():
        done = CliRunner().invoke(app, [*words[1:], "--help"], prog_name="sql-env")
        if done.exit_code:
            raise SystemExit(f"{' '.join(words)} --help failed:\n{done.output}")
        text = "\n".join(line.rstrip() for line in done.output.strip().splitlines())
        parts.append(f"## {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def commands() -> Iterator[list[str]]:
    """`sql-env`, then every command and subcommand, in the order of the help."""

    def below(command: object, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, inner in getattr(command, "commands", {}).items():
            if not inner.hidden:
                yield from below(inner, [*words, name])

    yield from below(get_command(app), ["sql-env"])


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
