"""From what a model wrote to the actions it meant.

Models are asked for `ACTION_TYPE: argument`. They also write prose around it, code fences,
`<think>` blocks, function calls, tool calls in JSON or XML, and several actions at once: those are
all found, in order, or the first alone where a model is to take one step at a time.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sql_env.core.sql_text import first_statement
from sql_env.models import SQLAction

logger = logging.getLogger(__name__)

_KINDS = "DESCRIBE|SAMPLE|QUERY|ANSWER"
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL | re.IGNORECASE)
_CLOSED = re.compile(r".*</think>", re.DOTALL | re.IGNORECASE)
_SPECIAL_TOKEN = re.compile(r"<\|[^|<>\n]*\|>|</s>")
_XML_CALL = re.compile(
    rf"<function=({_KINDS})>\s*(?:<parameter=\w+>)?(.*?)(?:</parameter>|</function>|$)",
    re.DOTALL | re.IGNORECASE,
)
# What may stand before an action on its line: list marks, quotes, emphasis, "Action:", "Final".
_LEAD = (
    r"^[ \t]*(?:[-*>#`][ \t]*|\d+[.)][ \t]*)*"
    r"(?:(?:next[ \t]+)?action[ \t]*:[ \t]*[*`]*|final[ \t]+)?"
)
_WITH_SIGN = re.compile(
    rf"{_LEAD}(?P<kind>{_KINDS})[*`]*[ \t]*(?P<sign>[:(\[=])[*`]*", re.IGNORECASE | re.MULTILINE
)
_WITHOUT_SIGN = re.compile(
    rf"{_LEAD}(?P<kind>{_KINDS})(?P<sign>)\b[*`]*[ \t\n]+(?P<rest>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_INSIDE_A_LINE = re.compile(rf"\b(?P<kind>{_KINDS})[*`]*[ \t]*(?P<sign>:)[*`]*")
_INSIDE_ANY_CASE = re.compile(_INSIDE_A_LINE.pattern, re.IGNORECASE)
_SQL = re.compile(r"(?:SELECT|WITH|VALUES|EXPLAIN)\b", re.IGNORECASE)
_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\n?(.*?)(?:```|$)", re.DOTALL)
# What models write after an action, as if the environment had answered already.
_LABEL = re.compile(
    r"^[ \t*#]*(?:observation|explanation|note|reason|reasoning|thought|result|output|question"
    r"|error|steps left|action)[*]*:",
    re.IGNORECASE | re.MULTILINE,
)
_TABLE_WORDS = re.compile(
    r"^(?:the\s+)?(?:table\s+)?([`\"'\[]?\w+[`\"'\]]?)(?:\s+table)?[.,;]?$", re.I
)
_LONGEST_BARE_ANSWER = 3


class ActionParseError(ValueError):
    """No action could be found in what a model wrote."""


def format_action(action: SQLAction) -> str:
    """The text a model should write for `action`: the inverse of `parse_model_output`."""
    return f"{action.action_type}: {action.argument}"


def parse_model_output(text: str, *, warn: bool = True) -> SQLAction:
    """The action a model meant; when none is found, `QUERY` with the raw text, and a warning.

    Such a guess carries `metadata={"parsed": False}`; the environment answers it with an error.

    Example:
        >>> parse_model_output("Let me look.\\ndescribe: singer").argument
        'singer'
    """
    try:
        return parse_action(text)
    except ActionParseError as error:
        if warn:
            logger.warning("%s", error)
        return SQLAction(action_type="QUERY", argument=text.strip(), metadata={"parsed": False})


def parse_action(text: str) -> SQLAction:
    """The first action in `text`.

    Raises:
        ActionParseError: there is none.
    """
    spoken = _without_thoughts(text)
    found = next(_tool_calls(spoken), None) or _written_action(spoken) or _bare_sql(spoken)
    if found is None:
        raise ActionParseError(
            f"no action in {text[:200]!r}: write one line such as 'DESCRIBE: table_name'"
        )
    return found


def parse_turn(text: str) -> list[SQLAction]:
    """Every action that a model meant in one turn, in order; at least one.

    `DESCRIBE: a, b` is two actions. Where nothing is found, it is as with `parse_model_output`.

    Example:
        >>> [action.argument for action in parse_turn("DESCRIBE: a, b\\nQUERY: SELECT 1")]
        ['a', 'b', 'SELECT 1']
    """
    spoken = _without_thoughts(text)
    found = list(_tool_calls(spoken))
    if not found:
        # No warnings: the environment answers, and the episode records, what was not understood.
        parts = _parts(spoken) or [text]
        found = [parse_model_output(part, warn=False) for part in parts]
    return [single for action in found for single in _one_table_each(action)]


def _parts(text: str) -> list[str]:
    """The text cut where actions begin, without what is said before the first."""
    starts = sorted({match.start() for match in _beginnings(text)})
    if not starts:
        return [text] if text else []
    before = text[: starts[0]]
    said = bool(_INSIDE_A_LINE.search(before) or _bare_sql(before))
    return [before] * said + [text[a:b] for a, b in pairwise([*starts, len(text)])]


def _beginnings(text: str) -> Iterator[re.Match[str]]:
    for match in _WITH_SIGN.finditer(text):
        # SQL has lines such as `sample = 3`, but a colon in it is no sign of an action.
        if match["kind"].isupper() or match["sign"] == ":":
            yield match
    yield from filter(_is_meant, _WITHOUT_SIGN.finditer(text))


def _one_table_each(action: SQLAction) -> list[SQLAction]:
    if action.action_type not in ("DESCRIBE", "SAMPLE") or "," not in action.argument:
        return [action]
    names = [_clean_table(name) for name in action.argument.strip("[]() ").split(",")]
    return [action.model_copy(update={"argument": name}) for name in names if name]


def _without_thoughts(text: str) -> str:
    closed = _CLOSED.match(text)
    end = closed.end() if closed else 0  # after it nothing can match, and to try takes long
    text = _THOUGHT.sub("", text[:end]) + text[end:]
    # A chat template may have opened the block in the prompt; a token limit may leave it open.
    text = re.split(r"</think>", text, flags=re.IGNORECASE)[-1]
    text = re.split(r"<think>", text, flags=re.IGNORECASE)[0]
    return _SPECIAL_TOKEN.split(text.lstrip())[0] if text.strip() else ""


def _tool_calls(text: str) -> Iterator[SQLAction]:
    xml = list(_XML_CALL.finditer(text))
    for match in xml:
        yield SQLAction(action_type=match[1].upper(), argument=match[2].strip())
    if xml:
        return
    end = 0
    for match in re.finditer(r"\{\s*\"", text):
        if match.start() < end:  # inside the call before it
            continue
        try:
            call, after = json.JSONDecoder(strict=False).raw_decode(text, match.start())
        except (ValueError, RecursionError):  # no JSON, a number too long, nested too deep
            continue
        action = action_of_call(call)
        if action is not None:
            end = after
            yield action


def action_of_call(call: dict[str, Any]) -> SQLAction | None:
    """The action that a decoded function call means; None where it calls something else."""
    call = call.get("function", call) if isinstance(call.get("function"), dict) else call
    kind = str(call.get("name") or call.get("action_type") or call.get("action") or "").upper()
    if kind not in _KINDS.split("|"):
        return None
    argument = next(
        (
            call[key]
            for key in ("arguments", "parameters", "argument", "action_input")
            if key in call
        ),
        "",
    )
    if isinstance(argument, dict):
        argument = next(iter(argument.values()), "")
    plain = argument if isinstance(argument, str) else json.dumps(argument, ensure_ascii=False)
    return SQLAction(action_type=kind, argument=plain.strip())


def _written_action(text: str) -> SQLAction | None:
    matches = [
        match
        for match in (
            _WITH_SIGN.search(text),
            next(filter(_is_meant, _WITHOUT_SIGN.finditer(text)), None),
            _INSIDE_A_LINE.search(text),
        )
        if match
    ]
    if not matches:
        # "the final answer: 42": prose too, so only where nothing clearer was found.
        loose = _INSIDE_ANY_CASE.search(text)
        matches = [loose] if loose else []
    if not matches:
        return None
    first = min(matches, key=lambda match: match.start("kind"))
    kind = first["kind"].upper()
    start = first.start("rest") if first.re is _WITHOUT_SIGN else first.end()
    argument = text[start:]
    if first["sign"] and first["sign"] in "([":
        argument = _inside_brackets(argument, ")" if first["sign"] == "(" else "]")
    clean = {"QUERY": _clean_sql, "ANSWER": _clean_answer}.get(kind, _clean_table)
    return SQLAction(action_type=kind, argument=clean(argument))


def _is_meant(match: re.Match[str]) -> bool:
    """Whether a line such as "Query the table" or "ANSWER 42", without a colon, is an action."""
    kind, rest = match["kind"].upper(), match["rest"].strip()
    if kind == "QUERY":
        return bool(_SQL.match(rest) or rest.startswith("```"))
    if kind == "ANSWER":
        return match["kind"].isupper() or 0 < len(rest.split()) <= _LONGEST_BARE_ANSWER
    return bool(_TABLE_WORDS.match(rest))


def _inside_brackets(text: str, closing: str) -> str:
    """The argument of `QUERY("SELECT …")`: up to the last closing bracket of its first lines."""
    block = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    end = block.rfind(closing) if closing == ")" else block.find(closing)
    inner = (block[:end] if end >= 0 else block).strip()
    inner = re.sub(r"^\w+\s*=\s*(?=[\"'])", "", inner)
    if len(inner) > 1 and inner[0] == inner[-1] and inner[0] in "\"'":
        inner = inner[1:-1]
    return inner


def _block(text: str) -> str:
    """An argument that may span lines ends with its fence, a blank line or the next label."""
    text = text.strip()
    fenced = _FENCE.match(text)
    if fenced:
        return fenced[1].strip()
    text = text.split("```")[0]
    text = re.split(r"\n\s*\n", text, maxsplit=1)[0]
    ends = [match.start() for match in _LABEL.finditer(text) if match.start() > 0]
    ends += [
        match.start()
        for pattern in (_WITH_SIGN, _WITHOUT_SIGN)
        for match in pattern.finditer(text)
        if match.start() > 0 and match["kind"].isupper()
    ]
    return text[: min(ends, default=len(text))].strip()


def _clean_sql(text: str) -> str:
    sql = _block(text)
    if len(sql) > 1 and sql[0] == "`" and sql[-1] == "`":
        sql = sql[1:-1]
    return first_statement(sql).strip().rstrip("*`").strip()


def _clean_answer(text: str) -> str:
    answer = _block(text)
    stripped = answer.strip("*` ")
    return stripped or answer


def _clean_table(text: str) -> str:
    text = text.strip()
    fenced = _FENCE.match(text)
    line = (fenced[1] if fenced else text).strip().split("\n")[0].strip("*` ")
    words = _TABLE_WORDS.match(line)
    return (words[1] if words else line).strip("`\"'[]")


def _bare_sql(text: str) -> SQLAction | None:
    """A query that lacks its action word: on its own, or the first fenced block."""
    fenced = _FENCE.search(text)
    for candidate in (text, fenced[1] if fenced else ""):
        if _SQL.match(candidate.strip()):
            return SQLAction(action_type="QUERY", argument=_clean_sql(candidate))
    return None
