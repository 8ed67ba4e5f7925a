"""`sql-env play`: a person explores a database in the terminal, or watches a policy do it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sql_env.agent.choice import POLICY_HELP, REDRAWS, ModelOptions, build_policy
from sql_env.commands.dataset_choice import load_split
from sql_env.commands.evaluate import user_errors

if TYPE_CHECKING:
    from sql_env.agent.episodes import EpisodeResult
    from sql_env.environment import SQLEnvironment
    from sql_env.models import QuestionRecord, SQLAction, SQLObservation


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("play")(play_command)


def play_command(
    policy: Annotated[
        str | None, typer.Option(help=f"Watch instead of playing: {POLICY_HELP}.")
    ] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset folder; default: the embedded data.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Draw the question from this split.")] = None,
    question_id: Annotated[str | None, typer.Option(help="Play this question.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Draws the question; default: by chance.")
    ] = None,
    step_budget: Annotated[int, typer.Option(min=1, help="Steps in the episode.")] = 15,
    no_last: Annotated[
        bool, typer.Option("--no-last", help="No ANSWER: @last; answers must be typed out.")
    ] = False,
    redraws: Annotated[
        int,
        typer.Option(
            min=0,
            help="Where a watched model's turn leads nowhere, up to so many others are tried.",
        ),
    ] = REDRAWS,
    record: Annotated[
        Path | None, typer.Option(help="Append the episode to this file, as one JSON line.")
    ] = None,
) -> None:
    """Explore a database, answer the question, be scored."""
    from sql_env.environment import SQLEnvironment

    console = Console()
    with user_errors():
        questions, db_dir = load_split(dataset, split)
        chosen = _choose(questions, question_id, seed)
        options = ModelOptions(seed=seed or 0, redraws=redraws)
        select = _watched(policy, questions, options) if policy else None
    with SQLEnvironment(
        db_dir=db_dir, questions=[chosen], step_budget=step_budget, allow_last=not no_last
    ) as env:
        episode = _play(env, chosen, select, console)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(episode.to_json() + "\n")
        console.print(f"[dim]recorded in {escape(str(record))}[/]")


def _choose(
    questions: list[QuestionRecord], question_id: str | None, seed: int | None
) -> QuestionRecord:
    from sql_env.questions import QuestionLoadError

    if question_id is None:
        return random.Random(seed).choice(questions)
    for question in questions:
        if question.question_id == question_id:
            return question
    raise QuestionLoadError(
        f"there is no question {question_id!r} among {len(questions)}; the first is "
        f"{questions[0].question_id!r}"
    )


def _watched(
    choice: str, questions: list[QuestionRecord], options: ModelOptions
) -> Callable[[SQLObservation], SQLAction]:
    from sql_env.agent.policies import BatchPolicy, SeededPolicy

    policy = build_policy(choice, questions, options)
    if isinstance(policy, SeededPolicy):
        policy.begin_episode(str(options.seed))
    if not isinstance(policy, BatchPolicy):
        return policy.select_action
    together = policy.select_actions

    def select(observation: SQLObservation) -> SQLAction:
        (action,) = together([observation], [0])
        if isinstance(action, Exception):
            raise action
        return action

    return select


def _play(
    env: SQLEnvironment,
    question: QuestionRecord,
    watched: Callable[[SQLObservation], SQLAction] | None,
    console: Console,
) -> EpisodeResult:
    """Play one episode; without `watched` a person plays it."""
    from time import perf_counter

    from sql_env.agent.playing import PlannedEpisode, RunningEpisode
    from sql_env.agent.policies import HumanPolicy
    from sql_env.commands.play_screen import PlayerLeftError, Prompt, Screen

    episode = RunningEpisode(env, PlannedEpisode(question, 0), seed=0)
    episode.begin()
    screen = Screen(console, env)
    screen.begin(episode.observation)
    select = watched or HumanPolicy(Prompt(console)).select_action
    try:
        while not episode.observation.done:
            started = perf_counter()
            action = select(episode.observation)
            if watched is not None:
                screen.show_action(action)
            episode.advance(action, perf_counter() - started)
            screen.show_step(episode.observation)
    except PlayerLeftError as left:
        console.print("[dim]left without an answer[/]")
        return episode.finish(left)
    screen.end(episode.observation)
    return episode.finish()
