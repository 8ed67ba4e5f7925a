"""Every row of the security page's tables has tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hostile_statements import STATEMENTS

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "security.md"
TABLES = re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
ROWS = [line for table in TABLES for line in table.splitlines()[2:]]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in CHECKOUT.glob("tests/**/test_*.py"))


# By how a row begins: tests, and groups of hostile statements.
TESTS_OF = {
    "writing": [
        "test_sqlite_alone_would_let_it_pass",
        "attach",
        "vacuum",
        "pragma",
        "writes",
        "transactions",
        "extension loading",
    ],
    "reading the schema without DESCRIBE": [
        "the schema behind DESCRIBE's back",
        "table functions",
        "reading other files",
        "other databases",
        "test_rows_of_hidden_tables_are_not_counted",
    ],
    "endless queries": ["recursive bombs", "cartesian bombs", "floods of rows"],
    "statements that keep the planner busy": [
        "test_compiling_obeys_a_deadline_of_a_millisecond",
        "test_tables_are_counted_with_what_is_merged_into_a_join",
        "test_selects_are_counted_as_often_as_they_are_used",
        "test_deep_queries_over_a_wide_table_obey_a_deadline_of_a_millisecond",
        "bombs for the planner",
        "names and parameters that hide a join",
        "deep queries",
    ],
    "statements that grow while SQLite compiles them": [
        "test_after_the_heap_was_full_everything_works_again",
        "explosions while compiling",
    ],
    "one slow opcode": ["slow functions", "pattern bombs", "functions with a weak spot"],
    "huge values and results": ["TestCaps", "huge values", "memory"],
    "observations and histories that are too long": [
        "test_no_observation_is_longer_than_anyone_reads"
    ],
    "giant and deeply nested statements": ["giant statements", "deep expressions"],
    "several statements": ["several statements", "no statement", "unicode and NUL bytes"],
    "answers that change from run to run": ["results that differ from run to run"],
    "no token": [
        "test_http_without_the_token_is_refused",
        "test_a_websocket_without_the_token_gets_no_session",
        "test_the_cookie_is_no_token",
    ],
    "DNS rebinding": [
        "test_a_name_that_suddenly_leads_here_is_refused",
        "test_what_is_no_host_is_a_bad_request",
    ],
    "pages of other sites": [
        "test_pages_of_other_origins_are_refused",
        "test_the_pages_cookie_does_not_help_another_page",
    ],
    "routes whose sessions never end": [
        "test_only_known_routes_are_served",
        "test_calls_over_http_take_no_places",
        "test_a_session_belongs_to_one_connection",
    ],
    "many MCP sessions": [
        "test_sessions_are_bounded_and_an_ended_one_makes_room",
        "test_requests_without_a_session_leave_nothing_behind",
        "test_calls_that_come_side_by_side_are_played_one_by_one",
    ],
    "many visitors who watch a model": [
        "test_a_few_are_served_the_others_wait_and_the_line_has_an_end",
        "test_who_leaves_in_the_middle_of_a_turn_has_stopped_it",
    ],
    "sessions that are opened and never used": [
        "test_an_idle_session_is_closed_and_its_place_is_free",
        "test_a_session_that_plays_nothing_makes_room_for_one_that_wants_to",
    ],
    "requests": [
        "test_what_is_begun_and_never_ended_is_cut_off",
        "test_a_client_that_reads_no_answers_is_cut_off",
    ],
    "endless headers": [
        "test_a_request_without_end_is_not_read_to_its_end",
        "test_connections_are_bounded_and_their_places_come_back",
    ],
    "messages of the wrong shape": [
        "test_a_bad_message_is_answered_shortly_and_the_session_goes_on",
        "test_a_body_that_is_no_plain_json_is_refused",
        "test_what_is_no_message_ends_the_connection_and_nothing_else",
    ],
    "statements that keep the server busy": [
        "test_nothing_of_an_episode_runs_in_the_event_loop",
        "test_statements_of_one_session_keep_the_others_waiting_for_nothing",
    ],
    "`{": ["test_a_split_is_a_name_and_not_a_grammar"],
    "looking for the gold answer": [
        "test_no_gold_query_and_no_path_is_served_with_the_embedded_data",
        "test_no_gold_answer_is_served_before_the_end",
    ],
    "scripts in the text of a database": ["test_hostile_text_is_shown_and_never_run"],
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_of_the_page_has_tests(row: str) -> None:
    (named,) = (names for start, names in TESTS_OF.items() if row.startswith(f"| {start}"))
    assert named
    for name in named:
        if name not in STATEMENTS:
            assert re.search(rf"^ *(?:async )?(?:def|class) {name}\b", TESTS, re.MULTILINE), name


def test_every_group_of_hostile_statements_is_in_a_row() -> None:
    assert len(TESTS_OF) == len(ROWS)
    assert set(STATEMENTS) <= {name for names in TESTS_OF.values() for name in names}


def test_the_page_counts_the_hostile_statements() -> None:
    count = sum(len(statements) for _, statements in STATEMENTS.values())
    assert f"holds {count} statements" in PAGE.read_text(encoding="utf-8")
