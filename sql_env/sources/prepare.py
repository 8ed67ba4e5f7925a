"""Turn a source into a dataset: choose the questions, run them, split them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sql_env.core.suggestions import name_some
from sql_env.models import QuestionRecord
from sql_env.sources.enrich import LeftOut, enrich
from sql_env.sources.raw import RawQuestion, Source, SourceError, SplitBy
from sql_env.sources.spider import CORE_DATABASES, TRAINING_PARTS
from sql_env.sources.splitting import hold_out_databases, split_by_database, split_by_question
from sql_env.sql.leak_key import leak_key

_NAMED = 10


@dataclass(frozen=True)
class Prepared:
    """A dataset in memory: the records with their splits, and what was left out."""

    records: list[QuestionRecord]
    left_out: list[LeftOut] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many questions each split has."""
        counts: dict[str, int] = {}
        for record in self.records:
            counts[record.split] = counts.get(record.split, 0) + 1
        return counts


def prepare_spider(
    source: Source,
    *,
    databases: Sequence[str] = CORE_DATABASES,
    split_by: SplitBy = "question",
    wide: bool = False,
    hold_out: int = 0,
    test: int = 0,
    used_test: int = 0,
    rl: int = 0,
    dagger: int = 0,
    rl_core: int = 0,
    seed: int = 42,
) -> Prepared:
    """The core set, split in train and eval; with `wide` every other training question.

    Of those, the ones whose answer is "no rows" make the split `no_rows`, as far as they are about
    databases to train on: nothing is measured with them.

    Args:
        source: what `read_spider` found.
        databases: whose questions make the core set.
        split_by: see `split`.
        wide: add the other training questions whose gold runs and returns rows.
        hold_out: keep whole databases with so many of these apart, in the split `unseen`.
        test: likewise, of the rest, in the split `test`: neither its databases nor its gold
            queries are in any other split.
        used_test: the databases that `test` of this size had are not drawn for it again.
        rl: likewise, of what then remains, in the split `rl`: for RL on databases that SFT on
            `wide` has not shown.
        dagger: likewise, of what then remains, in the split `dagger`: where a model after SFT
            makes mistakes for an expert to correct.
        rl_core: about so many of the core set's training questions, in the split `rl_core`: for
            RL too. No gold query is on both sides.
        seed: of the split and of the choice of databases to hold out.

    Raises:
        SourceError: a core database is not in the source, one of its gold queries does not run, or
            the arguments do not fit together.
    """
    kept_apart = {
        "--hold-out": hold_out,
        "--test": test,
        "--used-test": used_test,
        "--rl": rl,
        "--dagger": dagger,
    }
    if any(kept_apart.values()) and not wide:
        name = next(name for name, wanted in kept_apart.items() if wanted)
        raise SourceError(f"{name} takes its questions from the wide set: add --wide")
    chosen = only_databases(source, databases)
    core, left_out = enrich(chosen.questions, chosen.databases)
    if left_out and set(databases) == set(CORE_DATABASES):
        raise SourceError(f"this copy of Spider is damaged:{_names(left_out)}")
    # Also without `wide`: a split must not depend on what else is prepared.
    trained_elsewhere = frozenset(
        leak_key(item.sql) for item in source.questions if _is_wide(item, databases)
    )
    records = split(core, split_by, seed, trained_elsewhere)
    if rl_core:
        records = _with_rl_core(records, rl_core, seed)
    if wide:
        asked, more_left_out = _wide(source, databases)
        others = [record for record in asked if record.gold_answer != []]
        unseen, others = _apart(others, "unseen", "--hold-out", hold_out, seed)
        # Drawn before what is trained on, so that what is asked for there does not change it.
        elsewhere = [*records, *unseen]
        used, others = _apart(others, "wide", "--used-test", used_test, seed, also=elsewhere)
        tested, others = _apart(others, "test", "--test", test, seed, also=[*elsewhere, *used])
        others += used
        measured = [*unseen, *tested, *(r for r in records if r.split == "eval")]
        no_rows, kept_out = _without_rows(asked, measured)
        left_out += [*more_left_out, *kept_out]
        # Nothing is measured on the other two, so they may share golds with the rest.
        for_rl, others = _apart(others, "rl", "--rl", rl, seed, leak_free=False)
        for_dagger, others = _apart(others, "dagger", "--dagger", dagger, seed, leak_free=False)
        records += [*_marked(others, "wide"), *unseen, *tested, *for_rl, *for_dagger]
        records += _marked(no_rows, "no_rows")
    return Prepared(records, left_out)


def _without_rows(
    records: Sequence[QuestionRecord], measured: Sequence[QuestionRecord]
) -> tuple[list[QuestionRecord], list[LeftOut]]:
    """The questions answered by "no rows" that may be trained on, and the others."""
    databases = {record.database_name for record in measured}
    golds = {leak_key(record.gold_sql) for record in measured}
    kept: list[QuestionRecord] = []
    left_out: list[LeftOut] = []
    for record in records:
        if record.gold_answer != []:
            continue
        if record.database_name in databases or leak_key(record.gold_sql) in golds:
            left_out.append(LeftOut(record.question_id, "the gold query returns no rows"))
        else:
            kept.append(record)
    return kept, left_out


def _with_rl_core(
    records: Sequence[QuestionRecord], wanted: int, seed: int
) -> list[QuestionRecord]:
    """The same records, with `wanted` training questions, or nearly so many, in `rl_core`."""
    train = [record for record in records if record.split == "train"]
    if not train:
        raise SourceError(
            "--rl-core takes training questions, and --split-by none leaves none: "
            "use --split-by question"
        )
    if wanted >= len(train):
        raise SourceError(
            f"--rl-core {wanted} leaves nothing of the {len(train)} training questions: "
            "ask for less"
        )
    shown, kept = split_by_question(train, seed, share=wanted / len(train))
    if not kept:
        raise SourceError(f"--rl-core {wanted} is too few: ask for more")
    measured = [record for record in records if record.split != "train"]
    return [*shown, *_marked(kept, "rl_core"), *measured]


def _apart(
    records: Sequence[QuestionRecord],
    split: str,
    option: str,
    at_least: int,
    seed: int,
    *,
    leak_free: bool = True,
    also: Sequence[QuestionRecord] = (),
) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """The questions of some whole databases, marked as `split`, and all the others."""
    chosen: set[str] = set()
    if at_least:
        chosen = hold_out_databases(
            records, at_least, seed, option=option, leak_free=leak_free, also=also
        )
    taken = (record for record in records if record.database_name in chosen)
    others = [record for record in records if record.database_name not in chosen]
    return _marked(taken, split), others


def prepare_all(
    source: Source,
    *,
    split_by: SplitBy = "question",
    seed: int = 42,
    skip_failing: bool = True,
) -> Prepared:
    """Every question of a source.

    Raises:
        SourceError: no gold query runs; or, without `skip_failing`, one does not.
    """
    asked, left_out = _with_database(source, source.questions)
    records, failed = enrich(asked, source.databases)
    left_out += failed
    if left_out and not skip_failing:
        raise SourceError(
            f"{len(left_out)} of {len(source.questions)} questions cannot be used:"
            f"{_names(left_out)}\nCorrect them, or leave them out with --skip-failing"
        )
    if not records:
        raise SourceError(f"no question can be used:{_names(left_out)}")
    return Prepared(split(records, split_by, seed), left_out)


def split(
    records: Sequence[QuestionRecord],
    by: SplitBy,
    seed: int,
    trained_elsewhere: frozenset[str] = frozenset(),
) -> list[QuestionRecord]:
    """The records marked train or eval.

    By `question`, both sides have the same databases and no gold query in common; by `database`,
    they have different databases; by `none`, everything is for evaluation.
    """
    if by == "none":
        return _marked(records, "eval")
    train, held = (
        split_by_database(records, seed)
        if by == "database"
        else split_by_question(records, seed, trained_elsewhere=trained_elsewhere)
    )
    return [*_marked(train, "train"), *_marked(held, "eval")]


def _wide(source: Source, core: Sequence[str]) -> tuple[list[QuestionRecord], list[LeftOut]]:
    asked, left_out = _with_database(
        source, (item for item in source.questions if _is_wide(item, core))
    )
    records, failed = enrich(asked, source.databases)
    return records, left_out + failed


def _with_database(
    source: Source, questions: Iterable[RawQuestion]
) -> tuple[list[RawQuestion], list[LeftOut]]:
    """Copies of a dataset are often partial: leave out questions without their database."""
    asked: list[RawQuestion] = []
    left_out: list[LeftOut] = []
    for item in questions:
        if item.database in source.databases:
            asked.append(item)
        else:
            left_out.append(LeftOut(item.question_id, f"no database {item.database!r} here"))
    return asked, left_out


def _is_wide(item: RawQuestion, core: Sequence[str]) -> bool:
    return item.part in TRAINING_PARTS and item.database not in core


def _check_databases(source: Source, names: Sequence[str]) -> None:
    asked_about = {question.database for question in source.questions}
    for name in names:
        if name not in asked_about or name not in source.databases:
            what = "no questions about" if name in source.databases else "no file of"
            raise SourceError(
                f"the source has {what} the database {name!r}. "
                f"It has: {name_some(asked_about & source.databases.keys(), name)}. "
                "Choose with --db-ids NAME, or --db-ids all"
            )


def _marked(records: Iterable[QuestionRecord], split: str) -> list[QuestionRecord]:
    return [record.model_copy(update={"split": split}) for record in records]


def _names(left_out: Sequence[LeftOut]) -> str:
    lines = [f"\n  {item.question_id}: {item.reason}" for item in left_out[:_NAMED]]
    more = len(left_out) - len(lines)
    return "".join(lines) + (f"\n  and {more} more" if more else "")


def only_databases(source: Source, names: Sequence[str] | None) -> Source:
    """The part of a source that is about these databases; all of it where none are named.

    Raises:
        SourceError: the source has no questions about one of them.
    """
    if not names:
        return source
    _check_databases(source, names)
    kept = tuple(item for item in source.questions if item.database in names)
    return Source(source.name, kept, source.databases)
