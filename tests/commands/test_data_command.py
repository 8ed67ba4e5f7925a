"""`sql-env data …` as a person types it: what is printed, what is written, how it ends."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from dataset_layouts import (
    make_bird,
    make_database,
    make_kaggle,
    make_shops,
    make_spider,
    write_json,
)
from typer.testing import CliRunner, Result

from sql_env.cli import app
from sql_env.questions import Dataset
from sql_env.sources.spider import CORE_DATABASES

SCRIPT = Path(__file__).parents[2] / "scripts" / "download_spider_databases.py"


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["data", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def splits(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in Dataset.at(folder).load():
        counts[record.split] = counts.get(record.split, 0) + 1
    return counts


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A small prepared dataset."""
    make_spider(tmp_path / "spider")
    out = tmp_path / "prepared"
    run("spider", "--source", tmp_path / "spider", "--out", out, "--db-ids", "all")
    return out


def change(dataset: Path, **changes: object) -> str:
    """Change the first record of train; its id."""
    path = dataset / "questions" / "questions_train.json"
    records = json.loads(path.read_text())
    records[0] |= changes
    write_json(path, records)
    return records[0]["question_id"]


class TestSpider:
    def test_the_core_set_is_prepared_from_a_folder(self, tmp_path: Path) -> None:
        make_spider(tmp_path / "spider", CORE_DATABASES)
        result = run("spider", "--source", tmp_path / "spider", "--out", tmp_path / "out")
        assert splits(tmp_path / "out") == {"train": 70, "eval": 30}
        assert "100 questions on 10 databases" in result.output

    def test_chosen_databases_are_prepared_from_an_archive(self, tmp_path: Path) -> None:
        folder = make_spider(tmp_path / "spider", ("a", "b", "c", "d"))
        with zipfile.ZipFile(tmp_path / "spider.zip", "w") as packed:
            for path in folder.rglob("*"):
                packed.write(path, Path("spider_data") / path.relative_to(folder))
        out = tmp_path / "out"
        run("spider", "--source", tmp_path / "spider.zip", "--out", out, "--db-ids", "b,d")
        assert sorted(path.name for path in (out / "databases").iterdir()) == ["b", "d"]

    def test_wide_adds_the_training_questions_whose_gold_returns_rows(self, tmp_path: Path) -> None:
        make_spider(tmp_path / "spider", ("a", "b", "c", "d"))
        out = tmp_path / "out"
        run("spider", "--source", tmp_path / "spider", "--out", out, "--db-ids", "d", "--wide")
        assert splits(out)["wide"] == 18
        assert splits(out)["no_rows"] == 2
        assert json.loads((out / "manifest.json").read_text())["left_out"] == {}

    def test_rl_keeps_as_many_questions_as_asked_for_apart(self, tmp_path: Path) -> None:
        source, out = make_shops(tmp_path / "spider"), tmp_path / "out"
        run(
            "spider", "--source", source, "--out", out, "--db-ids", "core", "--wide",
            "--hold-out", 56, "--rl", 64,
        )  # fmt: skip
        counts = splits(out)
        assert counts["unseen"] >= 56 and counts["rl"] >= 64
        assert sum(counts.values()) == 36 * 6 + 10
        assert json.loads((out / "manifest.json").read_text())["rl"] == 64

    def test_split_by_database_puts_each_on_one_side(self, tmp_path: Path) -> None:
        make_spider(tmp_path / "spider", CORE_DATABASES)
        out = tmp_path / "out"
        run("spider", "--source", tmp_path / "spider", "--out", out, "--split-by", "database")
        records = Dataset.at(out).load()
        sides = {(record.database_name, record.split) for record in records}
        assert len(sides) == 10

    def test_a_dataset_in_the_same_format_takes_all_databases(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        source = make_kaggle(tmp_path / "kaggle")
        result = run("spider", "--source", source, "--out", out, code=2)
        assert "--db-ids all" in result.output
        run("spider", "--source", source, "--out", out, "--db-ids", "all")
        assert sum(splits(out).values()) == 20

    def test_without_a_network_it_says_how_to_pass_a_copy(self, tmp_path: Path) -> None:
        result = run(
            "spider", "--url", "http://127.0.0.1:9/spider.zip", "--downloads", tmp_path / "cache",
            "--out", tmp_path / "out", code=2,
        )  # fmt: skip
        assert "--source DIR or --source ZIP" in result.output
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--source", "nowhere"), "nowhere: no such folder or archive"),
            (("--hold-out", "3"), "add --wide"),
            (("--rl", "3"), "--rl takes its questions from the wide set: add --wide"),
            (("--db-ids", "shopp"), "no file of the database 'shopp'. It has: shop, store"),
            (("--db-ids", "all", "--wide"), "--db-ids all leaves none"),
        ],
    )
    def test_mistakes_are_explained_and_nothing_is_written(
        self, tmp_path: Path, options: tuple[str, ...], message: str
    ) -> None:
        make_spider(tmp_path / "spider")
        result = run(
            "spider", "--source", tmp_path / "spider", "--out", tmp_path / "out", *options, code=2
        )
        assert message in result.output and "Traceback" not in result.output
        assert not (tmp_path / "out").exists()

    def test_a_corrupt_database_stops_everything(self, tmp_path: Path) -> None:
        make_spider(tmp_path / "spider", CORE_DATABASES)
        path = tmp_path / "spider" / "database" / "car_1" / "car_1.sqlite"
        path.write_bytes(b"SQLite format 3\x00" + b"\x13" * 5000)
        result = run("spider", "--source", tmp_path / "spider", "--out", tmp_path / "out", code=2)
        assert "car_1.sqlite" in result.output and "SQLite database" in result.output
        assert not (tmp_path / "out").exists()

    def test_the_script_does_the_same(self, tmp_path: Path) -> None:
        make_spider(tmp_path / "spider", ("a", "b", "c"))
        subprocess.run(
            [sys.executable, SCRIPT, "--db-ids", "a", "c", "--source", tmp_path / "spider"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        found = {record.database_name for record in Dataset.at(tmp_path / "data/spider").load()}
        assert found == {"a", "c"}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A folder on a server of its own."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", folder
    server.shutdown()
    thread.join()
    server.server_close()


def test_spider_is_downloaded_unpacked_and_prepared(
    tmp_path: Path, served: tuple[str, Path]
) -> None:
    address, folder = served
    source = make_spider(tmp_path / "spider", CORE_DATABASES)
    with zipfile.ZipFile(folder / "spider.zip", "w") as packed:
        for path in source.rglob("*"):
            packed.write(path, Path("spider") / path.relative_to(source))
    out, downloads = tmp_path / "out", tmp_path / "cache"
    run("spider", "--url", f"{address}/spider.zip", "--downloads", downloads, "--out", out)
    assert splits(out) == {"train": 70, "eval": 30}
    expected = hashlib.sha256((folder / "spider.zip").read_bytes()).hexdigest()
    assert (downloads / "spider.zip.sha256").read_text().strip() == expected


def test_bird_is_prepared_fit_to_play(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("bird", "--source", make_bird(tmp_path / "bird"), "--out", out)
    assert splits(out) == {"eval": 10}
    assert "All 10 questions are fit to play" in run("validate", out).output


class TestImport:
    def test_a_folder_of_ones_own_becomes_a_dataset(self, tmp_path: Path) -> None:
        make_database(tmp_path / "mine" / "shop.db")
        (tmp_path / "mine" / "q.csv").write_text(
            "question,sql\n"
            "How many?,SELECT count(*) FROM product\n"
            "Which?,SELECT name FROM product\n"
        )
        run("import", tmp_path / "mine", "--out", tmp_path / "out")
        assert splits(tmp_path / "out") == {"train": 1, "eval": 1}
        assert "All 2 questions are fit to play" in run("validate", tmp_path / "out").output

    def test_a_gold_that_does_not_run_is_named_or_left_out(self, tmp_path: Path) -> None:
        make_database(tmp_path / "mine" / "shop.db")
        write_json(
            tmp_path / "mine" / "q.json",
            [
                {"question": "How many?", "sql": "SELECT count(*) FROM product"},
                {"question": "Which?", "sql": "SELECT nme FROM product", "id": "typo"},
            ],
        )
        out = tmp_path / "out"
        result = run("import", tmp_path / "mine", "--out", out, code=2)
        assert "typo: the gold query does not run" in result.output and "nme" in result.output
        assert not out.exists()
        run("import", tmp_path / "mine", "--out", out, "--skip-failing")
        assert sum(splits(out).values()) == 1


class TestValidate:
    def test_a_good_dataset_is_said_to_be_fit(self, dataset: Path) -> None:
        result = run("validate", dataset)
        assert "All 20 questions are fit to play" in result.output

    def test_json_counts_questions_and_failures(self, dataset: Path) -> None:
        report = json.loads(run("validate", dataset, "--json").stdout)
        assert report["questions"] == 20 and report["failures"] == []

    @pytest.mark.parametrize(
        ("changes", "failed"),
        [
            ({"gold_sql": "SELECT weight FROM product"}, "gold runs"),
            ({"gold_answer": "something else"}, "stored answer fits"),
            ({"answer_type": "table"}, "stored answer fits"),
            ({"tables_involved": ["customer"]}, "stored answer fits"),
        ],
    )
    def test_failures_are_named(
        self, dataset: Path, changes: dict[str, object], failed: str
    ) -> None:
        name = change(dataset, **changes)
        result = run("validate", dataset, code=1)
        assert name in result.output and failed in result.output
        report = json.loads(run("validate", dataset, "--json", code=1).stdout)
        assert [(item["question_id"], item["failed"]) for item in report["failures"]] == [
            (name, failed)
        ]

    def test_missing_and_damaged_files_are_named(self, dataset: Path) -> None:
        assert "no such file" in run("validate", dataset / "nowhere", code=2).output
        path = dataset / "databases" / "shop" / "shop.sqlite"
        path.write_text("no longer a database")
        result = run("validate", dataset, code=2)
        assert "shop.sqlite" in result.output and "Traceback" not in result.output
        path.unlink()
        assert "unknown database 'shop'" in run("validate", dataset, code=2).output


class TestStats:
    def test_every_aspect_has_a_table(self, dataset: Path) -> None:
        output = run("stats", dataset).output
        for word in ("hardness", "answer type", "tables", "result size", "database", "store"):
            assert word in output

    def test_the_counts_in_json_add_up(self, dataset: Path) -> None:
        counts = json.loads(run("stats", dataset, "--json").stdout)
        assert counts.pop("questions") == 20
        assert len(counts) == 5
        for values in counts.values():
            assert sum(n for by_split in values.values() for n in by_split.values()) == 20
        assert counts["database"]["shop"] == {"train": 7, "eval": 3}
        assert counts["result size"]["empty"]["train"] + counts["result size"]["empty"]["eval"] == 2

    def test_plot_draws_a_png(self, dataset: Path, tmp_path: Path) -> None:
        picture = tmp_path / "counts.png"
        run("stats", dataset, "--plot", picture)
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000

    def test_a_picture_that_cannot_be_drawn_is_named(self, dataset: Path, tmp_path: Path) -> None:
        result = run("stats", dataset, "--plot", tmp_path / "no" / "folder.png", code=2)
        assert "cannot be drawn" in result.output


@pytest.mark.spider
def test_spider_itself_is_fit_to_play(spider_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "spider"
    run("spider", "--source", spider_dir, "--out", out)
    assert splits(out) == {"train": 473, "eval": 203}
    assert "All 676 questions are fit to play" in run("validate", out).output
