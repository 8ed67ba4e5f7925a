"""Fenced code blocks of a Markdown page, and the commands of a console block."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line it begins on."""

    language: str
    text: str
    line: int


class Command(NamedTuple):
    """A command of a console block and the output that the page shows below it."""

    line: str
    output: str


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2], text[: found.start()].count("\n") + 1)
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]


def commands_of(block: Block) -> list[Command]:
    """What follows a `$ `, without its comment, and what is shown below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert parts[0] == "", f"line {block.line}: a console block begins with a command"
    commands = []
    for part in parts[1:]:
        line, _, output = part.partition("\n")
        commands.append(Command(line.split("  # ")[0].strip(), output))
    return commands


def shows(output: str, page: str) -> bool:
    """Whether the page shows this output, blank lines and the space around lines aside.

    `…` on a line of its own stands for any lines, within a line for any text.
    """
    pattern = "".join(
        r"(?:[^\n]*\n)*"
        if line == "…"
        else r"[^\n]*".join(re.escape(piece) for piece in line.split("…")) + r"\n"
        for line in _lines(page)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(output))) is not None


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
