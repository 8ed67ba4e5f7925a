"""Generated datasets: what every question must be, and the same bytes for the same seed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from sql_env.core.database import Database
from sql_env.core.render import ROWS_SHOWN
from sql_env.evaluation.validation import validate
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset
from sql_env.sql.hardness import hardness
from sql_env.sql.leak_key import leak_key
from sql_env.worlds import INTENTS, GenerationError, generate_dataset
from sql_env.worlds.checks import skeleton
from sql_env.worlds.generating import HARDNESS_MIX


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class TestQuestions:
    def test_every_question_is_fit_to_play(
        self, generated: Path, records: list[QuestionRecord]
    ) -> None:
        failed = [f for f in validate(records, generated / "databases") if f.failed is not None]
        assert not failed

    def test_hardness_is_what_spiders_rules_say(self, records: list[QuestionRecord]) -> None:
        assert all(hardness(record.gold_sql) == record.difficulty for record in records)

    def test_hardness_is_mixed_as_in_spider(self, records: list[QuestionRecord]) -> None:
        counts = Counter(record.difficulty for record in records)
        for level, percent in HARDNESS_MIX.items():
            assert abs(100 * counts[level] / len(records) - percent) < 1

    def test_few_answers_are_empty_or_zero_and_some_are(
        self, records: list[QuestionRecord]
    ) -> None:
        empty = [r for r in records if r.gold_answer in ([], 0)]
        assert 0 < len(empty) <= 0.05 * len(records)

    def test_every_answer_can_be_read_as_a_whole(self, records: list[QuestionRecord]) -> None:
        assert all(
            len(record.gold_answer) <= ROWS_SHOWN
            for record in records
            if isinstance(record.gold_answer, list)
        )

    def test_nothing_ties_at_a_limit(self, generated: Path, records: list[QuestionRecord]) -> None:
        limited = [r for r in records if re.search(r"LIMIT \d+$", r.gold_sql)]
        assert limited
        for record in limited:
            sql, limit = record.gold_sql.rsplit(" LIMIT ", 1)
            head, order = sql.rsplit(" ORDER BY ", 1)
            key = order.removesuffix(" DESC")
            source = head[head.index(" FROM ") :]
            probe = f"SELECT {key}{source} ORDER BY {order} LIMIT {int(limit) + 1}"
            path = generated / "databases" / record.database_name / f"{record.database_name}.sqlite"
            rows = Database(path).query(probe).rows
            if len(rows) > int(limit):
                assert rows[-1] != rows[-2], record.question_id

    def test_no_query_comes_twice_in_a_database(self, records: list[QuestionRecord]) -> None:
        seen = Counter((r.database_name, skeleton(r.gold_sql)) for r in records)
        assert max(seen.values()) == 1

    def test_no_question_comes_twice(self, records: list[QuestionRecord]) -> None:
        words = Counter(
            (r.database_name, frozenset(re.findall(r"[a-z]+", r.question_text.lower())))
            for r in records
        )
        assert sum(count > 1 for count in words.values()) <= 0.005 * len(records)

    def test_train_and_eval_share_no_gold_query(self, records: list[QuestionRecord]) -> None:
        train, kept_apart = (
            {leak_key(r.gold_sql) for r in records if r.split == split}
            for split in ("train", "eval")
        )
        assert not train & kept_apart

    def test_questions_rarely_name_the_column(
        self, generated: Path, records: list[QuestionRecord]
    ) -> None:
        """Exploring must pay: many gold queries use names the question does not say."""
        unsaid = 0
        for record in records:
            names = re.findall(
                r"[A-Za-z_]{3,}", re.sub(r"'[^']*'|\b[A-Zc]\w*\(", "", record.gold_sql)
            )
            question = re.sub(r"[^a-z]", "", record.question_text.lower())
            columns = {n.lower().replace("_", "") for n in names if not n.isupper()}
            unsaid += any(name not in question for name in columns)
        assert unsaid > len(records) / 2


class TestSeeds:
    def test_the_same_seed_gives_the_same_bytes_in_one_process_or_two(self, tmp_path: Path) -> None:
        for name, workers in (("one", 1), ("two", 2)):
            generate_dataset(tmp_path / name, databases=3, questions=60, seed=3, workers=workers)
        assert digest(tmp_path / "one") == digest(tmp_path / "two")

    def test_another_seed_gives_other_data(self, tmp_path: Path) -> None:
        for seed in (1, 2):
            generate_dataset(tmp_path / str(seed), databases=2, questions=20, seed=seed)
        assert digest(tmp_path / "1") != digest(tmp_path / "2")

    def test_a_domain_comes_again_as_another_database(self, tmp_path: Path) -> None:
        generate_dataset(tmp_path, databases=31, questions=62, seed=5)
        names = sorted(path.name for path in (tmp_path / "databases").iterdir())
        again = [name for name in names if name.endswith("_2")]
        assert len(names) == 31
        assert len(again) == 2
        first, second = (
            (tmp_path / "databases" / name / f"{name}.sqlite").read_bytes()
            for name in (again[0].removesuffix("_2"), again[0])
        )
        assert first != second


class TestCounts:
    @pytest.mark.parametrize(("databases", "questions"), [(1, 1), (1, 150), (3, 100), (7, 23)])
    def test_as_many_questions_are_made_as_asked_for(
        self, tmp_path: Path, databases: int, questions: int
    ) -> None:
        summary = generate_dataset(tmp_path, databases=databases, questions=questions, seed=2)
        assert len(Dataset.at(tmp_path).load()) == questions == sum(summary.questions.values())
        assert len(list((tmp_path / "databases").iterdir())) == databases == summary.databases

    def test_progress_counts_every_question(self, tmp_path: Path) -> None:
        seen: list[int] = []
        generate_dataset(tmp_path, databases=2, questions=20, seed=2, progress=seen.append)
        assert seen == [10, 10]


class TestErrors:
    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            ({"databases": 0}, "at least one"),
            ({"databases": 5, "questions": 3}, "one per database"),
            ({"eval_fraction": 1.0}, "eval_fraction"),
        ],
    )
    def test_requests_that_make_no_sense_are_refused(
        self, tmp_path: Path, wanted: dict[str, int], message: str
    ) -> None:
        with pytest.raises(GenerationError, match=message):
            generate_dataset(tmp_path, **wanted)  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())

    def test_more_questions_than_a_database_has_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        few = ("count_rows", "group_count", "above_average", "group_ordered")
        monkeypatch.setattr("sql_env.worlds.generating.INTENTS", {k: INTENTS[k] for k in few})
        with pytest.raises(GenerationError, match="fewer questions or more databases"):
            generate_dataset(tmp_path, databases=1, questions=200, seed=1)
        assert not list(tmp_path.iterdir())

    def test_a_place_that_cannot_be_written_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("in the way")
        with pytest.raises(GenerationError, match="file"):
            generate_dataset(file / "out", databases=1, questions=5)

    def test_old_data_stays_until_the_new_is_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        generate_dataset(tmp_path, databases=1, questions=10, seed=1)
        before = digest(tmp_path)

        def full_disk(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("sql_env.worlds.generating.write_questions", full_disk)
        with pytest.raises(GenerationError, match="No space left"):
            generate_dataset(tmp_path, databases=1, questions=10, seed=2)
        assert digest(tmp_path) == before
