"""What models really write, and the action each of them meant."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.parsing import ActionParseError, format_action, parse_action, parse_turn
from sql_env.models import SQLAction
from sql_env.training.rollout import parse_model_output

CASES = {
    # the format itself
    "DESCRIBE: singer": ("DESCRIBE", "singer"),
    "SAMPLE: singer\n": ("SAMPLE", "singer"),
    "QUERY: SELECT count(*) FROM singer": ("QUERY", "SELECT count(*) FROM singer"),
    "ANSWER: 42": ("ANSWER", "42"),
    "ANSWER: @last": ("ANSWER", "@last"),
    "ANSWER: []": ("ANSWER", "[]"),
    "ANSWER: France | 3\nPeru | 1": ("ANSWER", "France | 3\nPeru | 1"),
    "QUERY: SELECT name\nFROM singer\nWHERE age > 3": (
        "QUERY",
        "SELECT name\nFROM singer\nWHERE age > 3",
    ),
    # no colon, any case
    "describe singer": ("DESCRIBE", "singer"),
    "Describe: singer": ("DESCRIBE", "singer"),
    "Sample singer;": ("SAMPLE", "singer"),
    "query select 1": ("QUERY", "select 1"),
    "QUERY\nSELECT 1": ("QUERY", "SELECT 1"),
    "answer 42": ("ANSWER", "42"),
    "ANSWER United States of America and more": ("ANSWER", "United States of America and more"),
    "DESCRIBE the table singer": ("DESCRIBE", "singer"),
    "describe table `singer`": ("DESCRIBE", "singer"),
    # names in quotes, emphasis, list marks, labels
    'DESCRIBE: "singer"': ("DESCRIBE", "singer"),
    "**DESCRIBE: singer**": ("DESCRIBE", "singer"),
    "**Query**: SELECT 1": ("QUERY", "SELECT 1"),
    "- SAMPLE: concert": ("SAMPLE", "concert"),
    "1. DESCRIBE: singer\n2. QUERY: SELECT 1": ("DESCRIBE", "singer"),
    "Action: QUERY: SELECT 1": ("QUERY", "SELECT 1"),
    "Action: DESCRIBE singer": ("DESCRIBE", "singer"),
    "> ANSWER: 3": ("ANSWER", "3"),
    "`QUERY: SELECT 1`": ("QUERY", "SELECT 1"),
    "QUERY: `SELECT 1`": ("QUERY", "SELECT 1"),
    # code fences
    "```\nDESCRIBE: singer\n```": ("DESCRIBE", "singer"),
    "```sql\nQUERY: SELECT 1;\n```": ("QUERY", "SELECT 1"),
    "QUERY:\n```sql\nSELECT name\nFROM singer\n```\nThis lists names.": (
        "QUERY",
        "SELECT name\nFROM singer",
    ),
    "Here is the query:\n```sql\nSELECT 1\n```": ("QUERY", "SELECT 1"),
    "```sql\nSELECT 1\n```": ("QUERY", "SELECT 1"),
    "We can run\n```\nselect 1;\n```\nto see.": ("QUERY", "select 1"),
    # SQL alone
    "SELECT count(*) FROM singer;": ("QUERY", "SELECT count(*) FROM singer"),
    "WITH t AS (SELECT 1) SELECT * FROM t": ("QUERY", "WITH t AS (SELECT 1) SELECT * FROM t"),
    # semicolons end a statement, except in quotes and comments
    "QUERY: SELECT 1; SELECT 2": ("QUERY", "SELECT 1"),
    "QUERY: SELECT ';' , 2; done": ("QUERY", "SELECT ';' , 2"),
    "QUERY: SELECT 1 -- it isn't; no\n+ 2; done": ("QUERY", "SELECT 1 -- it isn't; no\n+ 2"),
    # thoughts
    "<think>\nI should QUERY: it\n</think>\n\nDESCRIBE: singer": ("DESCRIBE", "singer"),
    "maybe ANSWER: 3</think>DESCRIBE: singer": ("DESCRIBE", "singer"),
    "<think></think>ANSWER: 5": ("ANSWER", "5"),
    "DESCRIBE: singer\n<think>and then": ("DESCRIBE", "singer"),
    # text before and after
    "Let me look at the singers first.\nDESCRIBE: singer": ("DESCRIBE", "singer"),
    "Sure! First I will DESCRIBE: singer": ("DESCRIBE", "singer"),
    "QUERY: SELECT 1\n\nThis counts them.": ("QUERY", "SELECT 1"),
    "QUERY: SELECT 1\nExplanation: it counts": ("QUERY", "SELECT 1"),
    "DESCRIBE: singer\nThat shows the columns.": ("DESCRIBE", "singer"),
    "ANSWER: 42\n\nBecause there are 42.": ("ANSWER", "42"),
    "The final answer: 42": ("ANSWER", "42"),
    "Final Answer: Paris": ("ANSWER", "Paris"),
    # several actions
    "DESCRIBE: singer\nQUERY: SELECT 1\nANSWER: 1": ("DESCRIBE", "singer"),
    "QUERY: SELECT 1\nObservation: 1\nANSWER: 1": ("QUERY", "SELECT 1"),
    "QUERY: SELECT 1\nANSWER: @last": ("QUERY", "SELECT 1"),
    "ANSWER: 3\nANSWER: 4": ("ANSWER", "3"),
    # calls
    "DESCRIBE(singer)": ("DESCRIBE", "singer"),
    'query("SELECT max(age) FROM singer")': ("QUERY", "SELECT max(age) FROM singer"),
    'query(sql="SELECT max(age) FROM singer")': ("QUERY", "SELECT max(age) FROM singer"),
    "Answer[42]": ("ANSWER", "42"),
    '<tool_call>\n{"name": "describe", "arguments": {"table": "singer"}}\n</tool_call>': (
        "DESCRIBE",
        "singer",
    ),
    '<tool_call>{"name": "query", "arguments": {"sql": "SELECT \\"a\\" FROM t"}}</tool_call>'
    '<tool_call>{"name": "answer", "arguments": {"value": "1"}}</tool_call>': (
        "QUERY",
        'SELECT "a" FROM t',
    ),
    '{"name": "answer", "arguments": {"value": 42}}': ("ANSWER", "42"),
    '{"name": "answer", "arguments": {"value": ["a", "b"]}}': ("ANSWER", '["a", "b"]'),
    '{"action_type": "SAMPLE", "argument": "singer"}': ("SAMPLE", "singer"),
    '{"type": "function", "function": {"name": "sample", "arguments": {"table": "t"}}}': (
        "SAMPLE",
        "t",
    ),
    "<tool_call>\n<function=query>\n<parameter=sql>\nSELECT 1\n</parameter>\n</function>\n"
    "</tool_call>": ("QUERY", "SELECT 1"),
    # special tokens that leak, and what models write after them
    "ANSWER: 42<|im_end|>\n<|im_start|>user\nDESCRIBE: x": ("ANSWER", "42"),
    "DESCRIBE: singer</s>": ("DESCRIBE", "singer"),
    # an empty argument is the environment's to judge
    "QUERY:": ("QUERY", ""),
}


@pytest.mark.parametrize("text", CASES, ids=lambda text: repr(text)[:50])
def test_the_action_that_was_meant_is_found(text: str) -> None:
    action = parse_model_output(text)
    assert (action.action_type, action.argument) == CASES[text]


@pytest.mark.parametrize(
    "text",
    [
        "I do not know what to do.",
        "Query the table to find the count of all singers",
        "Describe what you see in these tables",
        "<think>I should DESCRIBE: singer, or perhaps ANSWER: 3",
        "{not json",
        '{"name": "python", "arguments": {}}',
        "",
    ],
)
def test_without_an_action_the_raw_text_is_a_query(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sql_env.agent.parsing"):
        action = parse_model_output(text)
    assert (action.action_type, action.argument) == ("QUERY", text)
    assert "no action in" in caplog.text
    with pytest.raises(ActionParseError, match="DESCRIBE: table_name"):
        parse_action(text)


@given(st.text(max_size=300))
def test_any_text_gives_one_of_the_four_actions(text: str) -> None:
    assert parse_model_output(text).action_type in {"DESCRIBE", "SAMPLE", "QUERY", "ANSWER"}


@given(
    st.sampled_from(["DESCRIBE", "SAMPLE"]),
    st.from_regex(r"[a-z_][a-z0-9_]{0,20}", fullmatch=True),
)
def test_a_formatted_action_is_read_back(kind: str, argument: str) -> None:
    action = SQLAction(action_type=kind, argument=argument)
    assert parse_model_output(format_action(action)) == action


MARKS = ["-", "- ", "* ", "#", ">", "`", "1.", "1. ", "*-", "\t-", "- 1) ", "[", "{", "\n", "<"]


@pytest.mark.timeout(60)  # a pattern that goes back and forth would take longer than we live
@pytest.mark.parametrize("mark", MARKS)
def test_a_line_of_marks_is_parsed_in_good_time(mark: str) -> None:
    """As an untrained model writes it."""
    for end in ("", "x", " QUERY", " ANSWER 4"):
        parse_model_output(mark * 500 + end)


def test_a_number_too_long_for_json_is_no_action() -> None:
    assert parse_model_output('{"a": ' + "1" * 5000 + "}").metadata == {"parsed": False}


def test_parsing_and_prompts_need_no_torch() -> None:
    script = (
        "import sys, sql_env.training.rollout, sql_env.agent.prompts;"
        "assert not {'torch', 'transformers', 'trl'} & set(sys.modules), 'heavy import'"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("token", ["<think>", "</think><think>", "{"])
def test_a_token_that_is_repeated_for_ever_takes_no_longer_than_another(token: str) -> None:
    # In time that grows with the square it would outlast the limit of a test.
    assert parse_turn(token * 300_000)
