"""`sql-env play`: by hand through a pipe and a terminal, and by watching."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sql_env.cli import app


def play(music_dir: Path, *options: str | Path, typed: str = "") -> Any:
    arguments = ["play", "--dataset", str(music_dir), *map(str, options)]
    return CliRunner().invoke(app, arguments, input=typed, env={"COLUMNS": "120", "TERM": "dumb"})


COUNT = ("--question-id", "music_count")


class TestByHand:
    def test_every_action_shows_its_result_and_reward(self, music_dir: Path) -> None:
        typed = "describe singer\nsample Singer\nSELECT count(*) FROM singer\nanswer 4\n"
        done = play(music_dir, *COUNT, typed=typed)
        assert done.exit_code == 0, done.output
        assert "How many singers are there?" in done.output
        assert "tables: Singer, Concert, Performance" in done.output
        assert "Singer (4 rows)" in done.output
        assert "France" in done.output
        assert "progress +0.150" in done.output
        assert "terminal +1.000" in done.output
        assert "Correct" in done.output

    def test_mistakes_are_shown_and_cost_a_step(self, music_dir: Path) -> None:
        done = play(music_dir, *COUNT, typed="describe singr\ndance\nanswer 7\n")
        assert "Did you mean Singer?" in done.output
        assert "unknown action" in done.output
        assert "13 steps left > answer 7" in done.output
        assert "Not correct" in done.output

    def test_the_gold_is_shown_only_after_a_wrong_answer(self, music_dir: Path) -> None:
        wrong = play(music_dir, *COUNT, typed="answer 7\n").output
        left = play(music_dir, *COUNT, typed="describe singer\n").output
        assert "SELECT count(*) FROM singer" in wrong
        assert "SELECT count(*) FROM singer" not in left

    def test_help_and_empty_lines_cost_nothing(self, music_dir: Path) -> None:
        done = play(music_dir, *COUNT, typed="\nhelp\n\nanswer 4\n")
        assert "columns, types and keys" in done.output
        assert "15 steps left > answer 4" in done.output

    @pytest.mark.parametrize("typed", ["quit\n", "describe singer\n", ""])
    def test_leaving_is_no_answer(self, music_dir: Path, typed: str) -> None:
        done = play(music_dir, *COUNT, typed=typed)
        assert done.exit_code == 0
        assert "left without an answer" in done.output

    def test_the_last_step_without_an_answer_ends_the_episode(self, music_dir: Path) -> None:
        done = play(music_dir, *COUNT, "--step-budget", "1", typed="describe singer\n")
        assert "Out of steps" in done.output

    def test_markup_in_data_is_not_markup(self, music_dir: Path) -> None:
        done = play(music_dir, *COUNT, typed="select '[bold]x[/bold]' as [bold]\nquit\n")
        assert "[bold]x[/bold]" in done.output


class TestChoosing:
    def test_same_seed_same_question(self, music_dir: Path) -> None:
        first, again = (play(music_dir, "--seed", 3, typed="").output for _ in range(2))
        assert first == again

    def test_the_question_is_drawn_from_the_split(self, music_dir: Path) -> None:
        assert "Chile" in play(music_dir, "--split", "eval", typed="").output

    def test_an_unknown_question_is_refused_with_those_there_are(self, music_dir: Path) -> None:
        done = play(music_dir, "--question-id", "nope")
        assert done.exit_code == 2
        assert "there is no question 'nope'; there are" in done.stderr

    def test_an_unknown_split_is_refused_with_those_there_are(self, music_dir: Path) -> None:
        done = play(music_dir, "--split", "nope")
        assert done.exit_code == 2
        assert "choose from eval, train" in " ".join(done.stderr.split())


class TestWatching:
    def test_the_oracles_actions_are_shown(self, music_dir: Path) -> None:
        done = play(music_dir, "--question-id", "music_french", "--policy", "oracle")
        assert "> DESCRIBE Singer" in done.output
        assert "> QUERY SELECT name" in done.output
        assert "Correct" in done.output

    def test_random_repeats_with_its_seed(self, music_dir: Path) -> None:
        first, again, other = (
            play(music_dir, *COUNT, "--policy", "random", "--seed", seed).output
            for seed in (1, 1, 2)
        )
        assert first == again != other

    def test_an_unknown_policy_is_refused(self, music_dir: Path) -> None:
        done = play(music_dir, "--policy", "magic")
        assert done.exit_code == 2
        assert "unknown policy 'magic'" in done.stderr


class TestRecording:
    def test_appends_one_json_line_per_episode(self, music_dir: Path, tmp_path: Path) -> None:
        path = tmp_path / "new" / "played.jsonl"
        play(music_dir, *COUNT, "--record", path, typed="answer 4\n")
        play(music_dir, *COUNT, "--record", path, typed="sample singer\nquit\n")
        first, second = (json.loads(line) for line in path.open())
        assert (first["correct"], first["stop_reason"]) == (True, "correct")
        assert (second["correct"], second["stop_reason"]) == (False, "error")
        assert second["steps"][0]["argument"] == "singer"


def test_a_terminal_completes_the_names_of_tables_and_columns(music_dir: Path) -> None:
    """Drive the command through a pseudo-terminal, as a person at a keyboard does."""
    pytest.importorskip("readline")
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", "from sql_env.cli import main; main()", "play",
         "--dataset", str(music_dir), *COUNT],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    try:
        read_until(mine, "15 steps left > ")
        os.write(mine, b"desc\tPerf\t\n")
        seen = read_until(mine, "14 steps left > ")
        assert "Performance (4 rows)" in seen
        os.write(mine, b"select max(Conc\t_I\t) from Performance\n")
        assert "max(Concert_ID)" in read_until(mine, "13 steps left > ")
        os.write(mine, b"answer 4\n")
        assert "Correct" in read_until(mine, "reward 1")
        process.wait(timeout=30)
    finally:
        process.kill()
        os.close(mine)


def read_until(terminal: int, words: str) -> str:
    seen = ""
    ends = time.monotonic() + 60
    while words not in seen and time.monotonic() < ends:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                seen += os.read(terminal, 65536).decode()
            except OSError:  # the other end has closed
                break
    assert words in seen
    return seen
