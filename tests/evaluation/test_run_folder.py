"""A run on the disk: written as it goes, read back whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade import make_step
from hypothesis import given
from hypothesis import strategies as st

from sql_env.agent.episodes import EpisodeResult
from sql_env.evaluation.green_agent import EvaluationResult
from sql_env.evaluation.run_folder import (
    RunConfig,
    RunError,
    RunFolder,
    dataset_hash,
    is_training_run,
    read_episodes,
    read_learning_curve,
    read_run,
    slug,
)
from sql_env.provenance import current_versions
from sql_env.questions import Dataset

Maker = Callable[..., EpisodeResult]

CONFIG = RunConfig(
    policy="model:runs/first/model",
    dataset="embedded",
    split="eval",
    n_questions=3,
    seed=1,
    samples=1,
    step_budget=15,
    allow_last=True,
    versions={"python": "3"},
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", CONFIG)


class TestFolder:
    def test_what_is_written_is_read_back(self, folder: RunFolder, make_episode: Maker) -> None:
        episodes = (make_episode("a", correct=True), make_episode("b", gold_answer=[[1, None]]))
        for episode in reversed(episodes):
            folder.append(episode)
        folder.finish(EvaluationResult(episodes, 3, interrupted=True))
        run = read_run(folder.path)
        assert run.config == CONFIG
        assert run.episodes == episodes
        summary = json.loads((folder.path / "summary.json").read_text())
        assert (summary["n_played"], summary["n_episodes"]) == (2, 3)
        assert summary["interrupted"]

    def test_episodes_are_there_before_the_end(
        self, folder: RunFolder, make_episode: Maker
    ) -> None:
        folder.append(make_episode("a"))
        assert [e.question_id for e in read_run(folder.path).episodes] == ["a"]

    def test_two_runs_of_the_same_second_get_their_own_folders(self, tmp_path: Path) -> None:
        made = {RunFolder.create(tmp_path, CONFIG).path for _ in range(3)}
        assert len(made) == 3

    def test_names_say_the_policy(self, folder: RunFolder) -> None:
        assert folder.path.name.endswith("-model-runs-first-model")
        assert slug("constant:[]") == "constant"
        assert len(slug("model:" + "x/" * 100)) <= 40


class TestDamage:
    def test_a_line_cut_off_at_the_end_is_left_out(
        self, folder: RunFolder, make_episode: Maker
    ) -> None:
        folder.append(make_episode("a"))
        folder.append(make_episode("b"))
        path = folder.path / "episodes.jsonl"
        path.write_text(path.read_text()[:-20])
        assert [e.question_id for e in read_episodes(path)] == ["a"]

    def test_a_damaged_line_in_the_middle_is_named(
        self, folder: RunFolder, make_episode: Maker
    ) -> None:
        path = folder.path / "episodes.jsonl"
        path.write_text("{}\n" + make_episode("a").to_json() + "\n")
        with pytest.raises(RunError, match=r"episodes\.jsonl, line 1"):
            read_episodes(path)

    def test_the_later_of_two_attempts_counts(self, folder: RunFolder, make_episode: Maker) -> None:
        folder.append(make_episode("a", error="TimeoutError: x"))
        folder.append(make_episode("a", correct=True))
        (episode,) = read_run(folder.path).episodes
        assert episode.correct

    def test_a_folder_that_is_no_run_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(RunError, match="is not a run: there is no config"):
            read_run(tmp_path)

    def test_someone_elses_config(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"learning_rate": 1}')
        with pytest.raises(RunError, match="does not describe an evaluation"):
            read_run(tmp_path)


class TestText:
    @given(st.text(), st.text(), st.text())
    def test_any_text_survives(
        self, tmp_path_factory: pytest.TempPathFactory, argument: str, result: str, raw: str
    ) -> None:
        step = make_step("QUERY", argument, result=result, trace={"raw": raw})
        folder = RunFolder(tmp_path_factory.mktemp("texts"))
        episode = EpisodeResult(
            "q", "", "", "", "", "", 1, 0, 0, (step,), False, "", "", "", 0.0, 0.0
        )
        folder.append(episode)
        assert read_episodes(folder.path / "episodes.jsonl") == (episode,)

    def test_lone_surrogates_and_bytes_survive(
        self, folder: RunFolder, make_episode: Maker
    ) -> None:
        folder.append(make_episode("\ud800", gold_answer=[b"\x00"]))
        (episode,) = read_run(folder.path).episodes
        assert episode.question_id == "\ud800"


class TestDatasetHash:
    @pytest.fixture
    def copy(self, music_dir: Path, tmp_path: Path) -> Dataset:
        return Dataset.at(shutil.copytree(music_dir, tmp_path / "copy"))

    def hash_of(self, dataset: Dataset) -> str:
        return dataset_hash(dataset.load(), dataset.db_dir)

    def test_does_not_depend_on_the_place(self, copy: Dataset, music_dir: Path) -> None:
        assert self.hash_of(copy) == self.hash_of(Dataset.at(music_dir))

    def test_changes_with_a_question(self, copy: Dataset, music_dir: Path) -> None:
        path = copy.questions_path / "questions_eval.json"
        path.write_text(path.read_text().replace("Chile", "Peru"))
        assert self.hash_of(copy) != self.hash_of(Dataset.at(music_dir))

    def test_changes_with_a_database(self, copy: Dataset, music_dir: Path) -> None:
        path = copy.database_path("music")
        path.write_bytes(path.read_bytes() + b"\0")
        assert self.hash_of(copy) != self.hash_of(Dataset.at(music_dir))


def test_versions_name_what_is_in_use() -> None:
    assert {"python", "sqlite", "sql_env"} <= set(current_versions())


class TestLearningCurve:
    def test_a_row_that_was_cut_off_is_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "metrics.jsonl"
        path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
        assert read_learning_curve(tmp_path) == [{"step": 1, "reward": 0.5}]
        assert is_training_run(tmp_path)

    def test_a_damaged_row_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "metrics.jsonl").write_text("nonsense\n")
        with pytest.raises(RunError, match=r"metrics\.jsonl is damaged"):
            read_learning_curve(tmp_path)

    def test_an_evaluation_has_none(self, folder: RunFolder) -> None:
        assert read_learning_curve(folder.path) == []
        assert not is_training_run(folder.path)
