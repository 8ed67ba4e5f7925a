"""`sql-env play`: a person explores a database in the terminal, or watches a policy do it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sql_env.agent.choice import ModelOptions, build_policy
from sql_env.commands.evaluate import (
    ActionsOption,
    BaseOption,
    DecodingOption,
    PromptOption,
)
from sql_env.commands.old_names import OldRedraws
from sql_env.questions import Dataset, choose_questions

if TYPE_CHECKING:
    from sql_env.models import QuestionRecord


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("play")(play_command)


def play_command(
    policy: Annotated[
        str | None, typer.Option(help="Watch this policy, named as in sql-env eval.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset folder; default: the embedded data.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Draw the question from this split.")] = None,
    question_id: Annotated[str | None, typer.Option(help="Play this question.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws the question; default: at random.")
    ] = None,
    step_budget: Annotated[int, typer.Option(min=1, help="Steps in the episode.")] = 15,
    no_last: Annotated[
        bool, typer.Option("--no-last", help="No ANSWER: @last; answers must be typed out.")
    ] = False,
    prompt: PromptOption = None,
    actions: ActionsOption = None,
    decoding: DecodingOption = "plain",
    base: BaseOption = None,
    redraws: OldRedraws = None,
    record: Annotated[
        Path | None, typer.Option(help="Append the episode to this file, as one JSON line.")
    ] = None,
) -> None:
    """Explore a database, answer the question, be scored."""
    from sql_env.agent.playing import PlannedEpisode, play
    from sql_env.agent.policies import HumanPolicy
    from sql_env.commands.play_screen import PlayerLeftError, Prompt, Screen
    from sql_env.core.database import Database
    from sql_env.environment import SQLEnvironment

    console = Console()
    data = Dataset.at(dataset)
    questions = data.load_split(split)
    chosen = _choose(questions, question_id, seed)
    options = ModelOptions(
        base=base, seed=seed or 0, prompt=prompt, actions=actions, decoding=decoding
    )
    player = build_policy(policy, questions, options) if policy else None
    screen = Screen(console, show_actions=player is not None)
    with SQLEnvironment(
        db_dir=data.db_dir, questions=[chosen], step_budget=step_budget, allow_last=not no_last
    ) as env:
        who = player or HumanPolicy(Prompt(console))
        plan = [PlannedEpisode(chosen)]
        (played,) = play(env, who, plan, seed=seed or 0, watch=screen.show)
        episode = played.episode
    if isinstance(played.cause, PlayerLeftError):
        console.print("[dim]left without an answer[/]")
    elif episode.error:
        console.print(f"[bold red]error:[/] {escape(episode.error)}", highlight=False)
    else:
        path = data.database_path(chosen.database_name)
        screen.end(chosen.gold_sql, Database(path).query(chosen.gold_sql))
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(episode.to_json() + "\n")
        console.print(f"[dim]recorded in {escape(str(record))}[/]")


def _choose(
    questions: list[QuestionRecord], question_id: str | None, seed: int | None
) -> QuestionRecord:
    if question_id is None:
        return random.Random(seed).choice(questions)
    return choose_questions(questions, ids=[question_id])[0]
