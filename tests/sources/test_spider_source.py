"""Spider's layout and its relatives: small copies for the details, the real one for the numbers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import pytest
from dataset_layouts import SHOP_QUESTIONS, make_kaggle, make_shops, make_spider, write_json

from sql_env.models import QuestionRecord
from sql_env.questions import QuestionLoadError
from sql_env.sources.prepare import Prepared, prepare_all, prepare_spider
from sql_env.sources.raw import Source, SourceError
from sql_env.sources.spider import CORE_DATABASES, read_spider
from sql_env.sql.leak_key import leak_key


def test_questions_are_read_and_named_by_database(tmp_path: Path) -> None:
    source = read_spider(make_spider(tmp_path))
    assert len(source.questions) == 2 * len(SHOP_QUESTIONS)
    assert source.questions[0].question_id == "shop-000"
    assert source.questions[len(SHOP_QUESTIONS) + 1].question_id == "store-001"
    assert {item.part for item in source.questions} == {"train_spider", "dev"}
    assert source.databases["store"] == tmp_path / "database" / "store" / "store.sqlite"


def test_labels_are_used_where_there_are_some(tmp_path: Path) -> None:
    make_spider(tmp_path)
    write_json(tmp_path / "hardness.json", {"dev": ["extra", None] + ["easy"] * 8})
    records = prepare_all(read_spider(tmp_path), split_by="none").records
    by_id = {record.question_id: record.difficulty for record in records}
    assert by_id["store-000"] == "extra"  # the label, not what the query would say
    assert by_id["store-001"] == "easy"  # computed
    assert by_id["shop-004"] == "easy"


def test_hardness_labels_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    make_spider(tmp_path)
    write_json(tmp_path / "hardness.json", {"dev": ["easy"]})
    with pytest.raises(SourceError, match=r"1 labels for the 10 questions of dev.json"):
        read_spider(tmp_path)
    write_json(tmp_path / "hardness.json", {"dev": ["easyish"] * 10})
    with pytest.raises(SourceError, match="not of the form"):
        read_spider(tmp_path)
    (tmp_path / "hardness.json").write_text('{"dev":\n [}')
    with pytest.raises(SourceError, match="line 2: malformed JSON"):
        read_spider(tmp_path)


def test_kaggledbqa_loads_each_question_once(tmp_path: Path) -> None:
    source = read_spider(make_kaggle(tmp_path))
    assert len(source.questions) == 2 * len(SHOP_QUESTIONS)
    prepared = prepare_all(source)
    assert prepared.counts() == {"train": 14, "eval": 6}
    assert {record.database_name for record in prepared.records} == {"Shop", "Store"}


def test_kaggledbqa_without_whole_files_loads_both_halves(tmp_path: Path) -> None:
    make_kaggle(tmp_path)
    (tmp_path / "examples" / "Shop.json").unlink()
    assert len(read_spider(tmp_path).questions) == 2 * len(SHOP_QUESTIONS)


def test_another_layout_is_refused_with_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not Spider's layout: looked for database/"):
        read_spider(tmp_path)


def test_malformed_json_is_refused_with_its_line(tmp_path: Path) -> None:
    make_spider(tmp_path)
    (tmp_path / "dev.json").write_text('[\n{"db_id": "store"\n]')
    with pytest.raises(QuestionLoadError, match=r"dev.json, line 3, column 1: malformed JSON"):
        read_spider(tmp_path)


@pytest.mark.parametrize("field", ["db_id", "question", "query"])
def test_a_record_without_a_field_is_refused(tmp_path: Path, field: str) -> None:
    make_spider(tmp_path)
    records = json.loads((tmp_path / "dev.json").read_text())
    del records[3][field]
    write_json(tmp_path / "dev.json", records)
    with pytest.raises(SourceError, match=rf"dev.json: record 3: has no field '{field}'"):
        read_spider(tmp_path)


def test_a_core_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    source = read_spider(make_spider(tmp_path))
    with pytest.raises(SourceError, match="no file of the database 'student_assessment'"):
        prepare_spider(source)
    (tmp_path / "train_spider.json").unlink()
    with pytest.raises(SourceError, match="no questions about the database 'shop'"):
        prepare_spider(read_spider(tmp_path), databases=["shop"])


def test_hold_out_asks_for_wide(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="add --wide"):
        prepare_spider(read_spider(make_spider(tmp_path)), databases=["store"], hold_out=5)


def test_rl_asks_for_wide(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^--rl takes its questions .*: add --wide"):
        prepare_spider(read_spider(make_spider(tmp_path)), databases=["store"], rl=5)


def test_rl_databases_are_whole_and_nowhere_else(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    prepared = prepare_spider(source, databases=["core"], wide=True, hold_out=56, rl=64)
    databases: dict[str, set[str]] = {}
    for record in prepared.records:
        databases.setdefault(record.split, set()).add(record.database_name)
    assert databases.keys() == {"train", "eval", "wide", "unseen", "rl"}
    assert databases["train"] == databases["eval"] == {"core"}
    apart = [databases[split] for split in ("train", "wide", "unseen", "rl")]
    assert sum(map(len, apart)) == len(set().union(*apart)) == 37
    assert 64 <= len(part(prepared, "rl")) < len(part(prepared, "wide"))
    easy_and_hard = {record.difficulty for record in part(prepared, "wide")}
    assert {record.difficulty for record in part(prepared, "rl")} == easy_and_hard


def test_dagger_databases_are_apart_from_rl_ones(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path, 60))
    settings = {"databases": ["core"], "wide": True, "hold_out": 56, "rl": 64}
    prepared = prepare_spider(source, **settings, dagger=56)
    tried = {record.database_name for record in part(prepared, "dagger")}
    assert 56 <= len(part(prepared, "dagger")) < len(part(prepared, "wide"))
    others = {record.database_name for record in prepared.records if record.split != "dagger"}
    assert tried.isdisjoint(others)
    assert part(prepared, "rl") == part(prepare_spider(source, **settings), "rl")


def test_test_databases_are_apart_from_all_others_whatever_else_is_asked_for(
    tmp_path: Path,
) -> None:
    source = read_spider(make_shops(tmp_path, 60))
    settings = {"databases": ["core"], "wide": True, "hold_out": 56}
    with_test, without, with_all = (
        prepare_spider(source, **settings, **more)
        for more in ({"test": 56}, {}, {"test": 56, "rl": 64, "dagger": 56})
    )
    assert len(part(with_test, "test")) >= 56
    assert part(with_test, "test") == part(with_all, "test")
    _nothing_shared(with_all, "test")
    for split in ("train", "eval", "unseen"):
        assert part(with_test, split) == part(without, split) != []


def test_test_databases_share_no_gold_with_the_core_set(tmp_path: Path) -> None:
    """All of `make_spider`'s databases are asked the same questions."""
    source = read_spider(make_spider(tmp_path, ("a", "b", "c", "d", "core")))
    with pytest.raises(SourceError, match=r"^--test 5: no choice .* shares no gold query"):
        prepare_spider(source, databases=["core"], wide=True, test=5)


def _nothing_shared(prepared: Prepared, split: str) -> None:
    """Neither a database nor a gold query of the split is in any other."""
    held = part(prepared, split)
    others = [record for record in prepared.records if record.split != split]
    for traits in (_databases, _golds):
        assert traits(held).isdisjoint(traits(others))


def _databases(records: list[QuestionRecord]) -> set[str]:
    return {record.database_name for record in records}


def _golds(records: list[QuestionRecord]) -> set[str]:
    return {leak_key(record.gold_sql) for record in records}


def test_rl_core_questions_share_no_gold_with_those_to_train_on(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    without = prepare_spider(source, databases=["core"])
    prepared = prepare_spider(source, databases=["core"], rl_core=3)
    assert part(prepared, "eval") == part(without, "eval")
    shown, kept = part(prepared, "train"), part(prepared, "rl_core")
    asked = {record.question_id for record in [*shown, *kept]}
    assert asked == {record.question_id for record in part(without, "train")}
    assert 2 <= len(kept) <= 4
    golds = [{leak_key(record.gold_sql) for record in side} for side in (shown, kept)]
    assert golds[0].isdisjoint(golds[1])


def test_rl_core_leaves_something_to_train_on(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    with pytest.raises(SourceError, match=r"^--rl-core 100000 leaves nothing of the \d+ .* less"):
        prepare_spider(source, databases=["core"], rl_core=100_000)
    with pytest.raises(SourceError, match="use --split-by question"):
        prepare_spider(source, databases=["core"], rl_core=3, split_by="none")


def test_more_for_dagger_than_there_is_are_refused(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    with pytest.raises(SourceError, match=r"^--dagger 100000: .* ask for fewer"):
        prepare_spider(source, databases=["core"], wide=True, dagger=100_000)


def test_rl_takes_nothing_from_unseen(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    with_rl, without = (
        prepare_spider(source, databases=["core"], wide=True, hold_out=56, rl=rl) for rl in (64, 0)
    )
    for split in ("train", "eval", "unseen"):
        assert part(with_rl, split) == part(without, split) != []
    assert not part(without, "rl")
    # What it takes, it takes from wide.
    taken = {record.question_id for record in part(with_rl, "rl")}
    left = {record.question_id for record in part(with_rl, "wide")}
    assert left | taken == {record.question_id for record in part(without, "wide")}


def test_too_much_for_rl_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^--rl 5000: .*ask for fewer"):
        prepare_spider(read_spider(make_shops(tmp_path)), databases=["core"], wide=True, rl=5000)


def test_wide_takes_training_questions_that_return_rows(tmp_path: Path) -> None:
    make_spider(tmp_path, ("shop", "mart", "store", "dev_shop"))
    records = json.loads((tmp_path / "train_spider.json").read_text())
    records += [
        {"db_id": "mart", "question": "Broken?", "query": "SELECT weight FROM nowhere"},
        {"db_id": "lost", "question": "Where?", "query": "SELECT 1"},
    ]
    write_json(tmp_path / "train_spider.json", records)
    prepared = prepare_spider(read_spider(tmp_path), databases=["store"], wide=True)
    wide = [record for record in prepared.records if record.split == "wide"]
    assert Counter(record.database_name for record in wide) == {"shop": 9, "mart": 9}
    reasons = {item.question_id: item.reason for item in prepared.left_out}
    assert reasons["mart-010"] == "the gold query does not run: no such table: nowhere"
    assert reasons["lost-000"] == "no database 'lost' here"
    assert len(reasons) == 2
    empty = [record for record in prepared.records if record.split == "no_rows"]
    assert {record.question_id for record in empty} == {"shop-007", "mart-007"}
    assert all(record.gold_answer == [] for record in empty)


def test_nothing_of_eval_is_trained_on_in_wide(tmp_path: Path) -> None:
    make_spider(tmp_path, ("shop", "store"))
    records = json.loads((tmp_path / "train_spider.json").read_text())
    # The other database shares all but two of the queries: only those may be in eval.
    write_json(tmp_path / "train_spider.json", records[:8])
    prepared = prepare_spider(read_spider(tmp_path), databases=["store"], wide=True)
    held = {record.gold_sql for record in prepared.records if record.split == "eval"}
    assert held == {sql for _, sql in SHOP_QUESTIONS[8:]}


def test_no_rows_has_nothing_of_what_is_measured(tmp_path: Path) -> None:
    make_shops(tmp_path)
    records = json.loads((tmp_path / "train_spider.json").read_text())
    names = {item["db_id"] for item in records} - {"core"}
    records += [
        {"db_id": name, "question": "None?", "query": f"SELECT name FROM {name} WHERE price < 0"}
        for name in names
    ]
    write_json(tmp_path / "train_spider.json", records)
    source = read_spider(tmp_path)
    prepared = prepare_spider(source, databases=["core"], wide=True, hold_out=56, test=56)
    empty = part(prepared, "no_rows")
    measured = [r for split in ("eval", "unseen", "test") for r in part(prepared, split)]
    assert empty and _databases(empty).isdisjoint(_databases(measured))
    assert _golds(empty).isdisjoint(_golds(measured))
    left = {item.question_id.rpartition("-")[0] for item in prepared.left_out}
    assert left == _databases([*part(prepared, "unseen"), *part(prepared, "test")])


def test_a_used_test_set_is_not_drawn_again(tmp_path: Path) -> None:
    source = read_spider(make_shops(tmp_path))
    first, second = (
        prepare_spider(source, databases=["core"], wide=True, hold_out=56, test=56, used_test=used)
        for used in (0, 56)
    )
    for split in ("train", "eval", "unseen"):
        assert part(first, split) == part(second, split) != []
    _nothing_shared(second, "test")
    used = _databases(part(first, "test"))
    assert used.isdisjoint(_databases(part(second, "test")))
    assert used <= _databases(part(second, "wide"))


def test_a_broken_gold_in_the_core_set_means_a_damaged_copy(tmp_path: Path) -> None:
    make_spider(tmp_path, CORE_DATABASES)
    records = json.loads((tmp_path / "dev.json").read_text())
    records[0]["query"] = "SELECT weight FROM product"
    write_json(tmp_path / "dev.json", records)
    with pytest.raises(SourceError, match=r"damaged:\n  pets_1-000: .*no such column: weight"):
        prepare_spider(read_spider(tmp_path))


# -- the real one --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spider(spider_dir: Path) -> Source:
    return read_spider(spider_dir)


@pytest.fixture(scope="module")
def prepared(spider: Source) -> Prepared:
    return prepare_spider(spider, wide=True, hold_out=340)


@pytest.fixture(scope="module")
def recipe(spider: Source) -> Prepared:
    """Every split that a training run wants."""
    return prepare_spider(
        spider, wide=True, hold_out=340, test=300, rl=800, dagger=600, rl_core=140
    )


def part(prepared: Prepared, split: str) -> list[QuestionRecord]:
    return [record for record in prepared.records if record.split == split]


@pytest.mark.spider
class TestSpiderItself:
    def test_the_core_set_is_473_and_203(self, prepared: Prepared) -> None:
        assert len(part(prepared, "train")) == 473
        assert len(part(prepared, "eval")) == 203
        core = part(prepared, "train") + part(prepared, "eval")
        assert {record.database_name for record in core} == {*CORE_DATABASES}
        assert Counter(record.difficulty for record in core) == {
            "easy": 148,
            "medium": 279,
            "hard": 123,
            "extra": 126,
        }
        assert sum(record.gold_answer == [] for record in core) == 40

    def test_no_gold_query_is_shared(self, prepared: Prepared) -> None:
        queries = {
            split: {leak_key(record.gold_sql) for record in part(prepared, split)}
            for split in ("train", "eval", "wide", "unseen")
        }
        for held in ("eval", "unseen"):
            for trained in ("train", "wide"):
                assert not queries[held] & queries[trained], (held, trained)

    @pytest.mark.parametrize("trait", ["database_name", "difficulty", "answer_type"])
    def test_both_sides_have_the_same_mix(self, prepared: Prepared, trait: str) -> None:
        train, held = (
            Counter(getattr(record, trait) for record in part(prepared, split))
            for split in ("train", "eval")
        )
        for value in train | held:
            assert abs(train[value] / 473 - held[value] / 203) < 0.02, value

    def test_every_other_training_question_is_wide_or_unseen(self, prepared: Prepared) -> None:
        others = part(prepared, "wide") + part(prepared, "unseen")
        empty = part(prepared, "no_rows")
        assert len(others) + len(empty) + len(prepared.left_out) == 7000 - 53
        assert all(record.gold_answer != [] for record in others)
        assert {record.database_name for record in others}.isdisjoint(CORE_DATABASES)

    def test_what_does_not_run_is_left_out_by_name(self, prepared: Prepared) -> None:
        broken = {item.question_id for item in prepared.left_out if "does not run" in item.reason}
        assert {"assets_maintenance-027", "document_management-014"} <= broken

    def test_unseen_databases_are_many_and_mixed(self, prepared: Prepared) -> None:
        unseen, wide = part(prepared, "unseen"), part(prepared, "wide")
        names = Counter(record.database_name for record in unseen)
        assert 340 <= len(unseen) < 360
        assert len(names) >= 10 and max(names.values()) <= 42
        assert {record.difficulty for record in unseen} == {"easy", "medium", "hard", "extra"}
        assert names.keys().isdisjoint(record.database_name for record in wide)

    def test_wide_does_not_change_the_core_split(self, spider: Source, prepared: Prepared) -> None:
        core = prepare_spider(spider).records
        assert core == part(prepared, "train") + part(prepared, "eval")

    def test_split_by_database_shares_no_database(self, spider: Source) -> None:
        split = prepare_spider(spider, split_by="database")
        train, held = (
            {record.database_name for record in part(split, name)} for name in ("train", "eval")
        )
        assert not train & held and train | held == {*CORE_DATABASES}
        assert 0.25 < len(part(split, "eval")) / 676 < 0.35

    def test_records_say_what_the_environment_needs(self, prepared: Prepared) -> None:
        by_text = {record.question_text: record for record in prepared.records}
        record = by_text["How many singers do we have?"]
        assert record.gold_answer == 6 and record.answer_type == "integer"
        assert record.tables_involved == ["singer"] and record.difficulty == "easy"
        assert all(record.tables_involved for record in prepared.records)

    @pytest.mark.parametrize("split", ["unseen", "test"])
    def test_no_stage_of_training_sees_what_is_measured(self, recipe: Prepared, split: str) -> None:
        assert len(part(recipe, split)) >= 300
        _nothing_shared(recipe, split)

    @pytest.mark.parametrize(
        ("split", "count", "digest"),
        [("eval", 203, "76008d8ca6ddd8c9"), ("unseen", 343, "006e1cd188431229")],
    )
    def test_what_was_measured_before_is_still_the_same(
        self, recipe: Prepared, split: str, count: int, digest: str
    ) -> None:
        names = sorted(record.question_id for record in part(recipe, split))
        assert len(names) == count
        assert hashlib.sha256("\n".join(names).encode()).hexdigest().startswith(digest)
