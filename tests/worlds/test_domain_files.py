"""Domain files: what they declare, and one clear line for each way in which they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from fenced_blocks import blocks_of, commands_of
from typer.testing import CliRunner

from sql_env.cli import app
from sql_env.evaluation.validation import validate
from sql_env.questions import Dataset
from sql_env.worlds import generate_dataset
from sql_env.worlds.domain_files import DomainError, read_domain
from sql_env.worlds.schema import Column, Link, Ref
from sql_env.worlds.values import Choice, Number, Title

PAGE = Path(__file__).parents[2] / "docs" / "worlds.md"
BAKERY = next(block.text for block in blocks_of(PAGE) if block.language == "toml")
NAME = 'name = { kind = "person" }'


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    """The domain that the documentation shows."""
    path = tmp_path / "bakery.toml"
    path.write_text(BAKERY, encoding="utf-8")
    return path


def problem(path: Path, old: str, new: str) -> str:
    """What is said of the file once `old` is `new`, without the file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DomainError) as caught:
        read_domain(path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{path}: ")
    return said.removeprefix(f"{path}: ")


def test_a_file_declares_tables_columns_references_and_links(bakery: Path) -> None:
    domain = read_domain(bakery)
    assert domain.key == "bakery"
    baker, bread, sale, skill = domain.tables
    assert (baker.rows, baker.nouns, baker.person) == ((6, 14), ("baker",), True)
    assert bread.names == ("loaf", "product")
    by_key = {column.key: column for column in bread.columns}
    assert isinstance(by_key["name"].values, Title)
    assert by_key["flour"].values == Choice((("W", "wheat"), ("R", "rye"), ("S", "spelt")))
    assert by_key["weight"].values == Number(80, 1200, step=10)
    assert sale.refs == (Ref("bread", "are|is of", ""),)
    assert not skill.nouns
    assert domain.links == (
        Link("skill", "baker", "bread", "master|masters", "are|is mastered by"),
    )


def test_a_kind_brings_words_that_a_column_may_change(bakery: Path) -> None:
    def age() -> Column:
        return read_domain(bakery).tables[0].columns[1]

    assert age().over == "be older than {}"
    text = bakery.read_text(encoding="utf-8")
    bakery.write_text(text.replace("[19, 64]", '[19, 64], over = "be past {}"'), encoding="utf-8")
    assert age().over == "be past {}"
    assert age().under == "be younger than {}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("rows = [6, 14]", "rows = [6, 14", "not TOML: "),
        ("rows = [6, 14]", "", "baker.rows: is missing: it takes two whole numbers"),
        ("rows = [6, 14]", "rows = [14, 6]", "baker.rows: is [14, 6]: the smaller one"),
        ("rows = [6, 14]", "rows = [1, 6]", "baker.rows: begin at 1: "),
        ("rows = [6, 14]", 'rows = "6-14"', "baker.rows: is '6-14', not two whole numbers"),
        ("rows =", "row =", "baker.rows: is missing"),
        ("person = true", "persn = true", "baker.persn: is not known. Did you mean person?"),
        ("person = true", 'person = "yes"', "baker.person: is 'yes', not true or false"),
        ('nouns = "baker"', "", "baker.nouns: are missing"),
        ("[tables.baker]", "[tables.Baker]", "Baker: 'Baker' is no name: small letters"),
        (NAME, 'name = { kind = "persn" }', "name.kind: is 'persn'. Did you"),
        (NAME, "name = { }", "name.kind: is missing. There are: title, person"),
        (NAME, "name = 3", "name: is 3, not a table of keys"),
        (NAME, 'who = { kind = "person" }', "who: a person's column is called"),
        (NAME, 'email = { host = "x" }', "email: an email address needs"),
        ("[19, 64]", "[64, 19]", "age.range: is [64, 19]: the smaller"),
        ("[19, 64]", "[19, 64], eq = 7", "age.eq: is 7, not a text"),
        ("[19, 64]", '[19, 64], over = "be older"', "age.over: is 'be older': "),
        ("[19, 64]", '[19, 64], over = "turn {}"', "age.over: is 'turn {}': it"),
        ("[19, 64]", '[19, 64], unit = "{x}"', "age.unit: is '{x}': it takes {}"),
        ("[19, 64]", "[19, 64], nulls = 2", "age.nulls: is 2: it lies between 0 and 1"),
        ("[19, 64]", "[19, 64], nulls = 1", "age.nulls: is 1: every value"),
        ("[19, 64]", "[19, 64], peak = 7", "age.peak: is 7: it lies between 0 and 1"),
        ("[19, 64]", "[19, 9223372036854775808]", "age.range: is [19, 9223372036854775808]: SQL"),
        ("age =", 'first_name = { kind = "city" }\nage =', "first_name: the column name holds"),
        ("rye, spelt, ", "rye, rye, ", "bread.columns.name.of: has 'rye' twice"),
        ("[19, 64]", '[19, 64], names = "a b"', "age.names: 'a b' is no name"),
        ("[19, 64]", "[19, 64], hue = 1", "age.hue: is not known."),
        ('S = "spelt" }', "S = 1 }", "bread.columns.flour.of: is {"),
        ('kind = "title", of', 'kind = "title", on', "bread.columns.name.of: has too few"),
        ('to = "baker"', 'to = "bakr"', "bread.columns.baker.to: there is no table 'bakr'"),
        ('"bake|bakes"', '"bake"', "bread.columns.baker.back: is 'bake': it begins with"),
        ('"bake|bakes"', '"sold|sold"', "bread.columns.baker.back: 'sold|sold' cannot be neg"),
        ('through = "skill"', 'through = "skil"', "links, number 1.through: there is no"),
        ('left = "baker"', 'left = "sale"', "links, number 1.left: 'skill' refers to no 'sale'"),
        ("links = [", "link = [", "link: is not known. Did you mean links?"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_key(bakery: Path, old: str, new: str, said: str) -> None:
    found = problem(bakery, old, new)
    assert found.removeprefix("tables.").removeprefix("baker.columns.").startswith(said)


@pytest.mark.parametrize("columns", ["{}", '{ self = { to = "part", says = "are|is in" } }'])
def test_a_table_without_columns_links_two_others(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "parts.toml"
    path.write_text(f'[tables.part]\nrows = [2, 9]\nnouns = "part"\ncolumns = {columns}\n', "utf-8")
    with pytest.raises(
        DomainError, match=r"tables\.part\.columns: hold nothing: a bare link refers"
    ):
        read_domain(path)


def test_a_byte_order_mark_is_no_mistake(bakery: Path) -> None:
    bakery.write_text(BAKERY, encoding="utf-8-sig")
    assert read_domain(bakery).key == "bakery"


def test_two_files_may_not_share_a_name(bakery: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / bakery.name
    other.write_text(BAKERY, encoding="utf-8")
    with pytest.raises(DomainError, match="is called the same"):
        generate_dataset(tmp_path / "made", questions=10, domains=[bakery, other])


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DomainError, match=r"zoo\.toml: cannot be read: No such file"):
        read_domain(tmp_path / "zoo.toml")
    (tmp_path / "zoo.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(DomainError, match=r"zoo\.toml: not UTF-8 text"):
        read_domain(tmp_path / "zoo.toml")
    with pytest.raises(DomainError, match="databases are named after the file"):
        read_domain(tmp_path / "My zoo.toml")


def test_a_world_is_made_from_a_file_of_ones_own(
    bakery: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the documentation shows it."""
    monkeypatch.chdir(bakery.parent)
    consoles = [block for block in blocks_of(PAGE) if block.language == "console"]
    (shown,) = [
        command
        for block in consoles
        for command in commands_of(block)
        if "--domain bakery.toml" in command.line
    ]
    result = CliRunner().invoke(app, shown.line.split()[1:])
    assert result.exit_code == 0, result.output
    assert result.output == shown.output
    made = Dataset.at(Path("data/bakeries"))
    records = made.load()
    assert {record.database_name for record in records} == {"bakery", "bakery_2"}
    assert not [
        finding for finding in validate(records, Path("data/bakeries/databases")) if finding.failed
    ]


def test_a_broken_file_ends_the_command_with_one_line(bakery: Path, tmp_path: Path) -> None:
    bakery.write_text(BAKERY.replace("range", "rnage", 1), encoding="utf-8")
    arguments = ["data", "generate", "--domain", str(bakery), "--out", str(tmp_path / "made")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.output == (
        f"error: {bakery}: tables.baker.columns.age.range: is missing: it takes two whole numbers,"
        " as [1, 9]; rnage is not known\n"
    )
    assert not (tmp_path / "made").exists()
