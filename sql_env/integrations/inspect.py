"""SQLEnv as tasks of Inspect: any model that Inspect can reach, its log and its viewer.

    inspect eval sql_env/embedded --model openai/gpt-4o-mini
    inspect eval sql_env/spider --model ... -T dataset=data/spider -T split=eval -T actions=text

The model explores with four tools, or writes its actions as text. The environment judges the
answer; nothing of the gold query is in a sample or a message.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anyio import to_thread
from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    get_model,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall, ToolInfo, ToolParams

from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.prompts import Actions, Prompt
from sql_env.environment import SQLEnvironment
from sql_env.integrations.chat import ChatEpisode, Message
from sql_env.models import QuestionRecord
from sql_env.questions import Dataset

_RESULT = "sql_env"


@task
def embedded(
    split: str = "eval", actions: Actions = "text", step_budget: int = 15, allow_last: bool = True
) -> Task:
    """The embedded databases and questions."""
    return _task(None, split, actions, step_budget, allow_last)


@task
def spider(
    dataset: str = "data/spider",
    split: str = "eval",
    actions: Actions = "text",
    step_budget: int = 15,
    allow_last: bool = True,
) -> Task:
    """A dataset folder: Spider as `sql-env data spider` prepares it, or any other."""
    return _task(Path(dataset), split, actions, step_budget, allow_last)


def _task(
    folder: Path | None, split: str, actions: Actions, step_budget: int, allow_last: bool
) -> Task:
    try:
        dataset = Dataset.at(folder)
        prompt = Prompt(actions=actions)
        questions = dataset.load_split(split)
        env = SQLEnvironment(
            db_dir=dataset.db_dir,
            step_budget=step_budget,
            allow_last=allow_last,
            questions=questions,
        )
    except ValueError as error:
        # The one error that Inspect prints as a line, not as a traceback.
        raise PrerequisiteError(f"error: {error}") from error
    return Task(
        dataset=MemoryDataset([_sample(record) for record in questions], name=split),
        solver=explore(env, prompt),
        scorer=verdict(),
    )


def _sample(record: QuestionRecord) -> Sample:
    about = {"database": record.database_name, "difficulty": record.difficulty}
    return Sample(id=record.question_id, input=record.question_text, metadata=about)


@solver
def explore(env: SQLEnvironment, prompt: Prompt) -> Solver:
    """Play one episode: ask the model, play the actions of its turn, until it has answered."""
    tools = [_tool_info(tool["function"]) for tool in prompt.tools or ()]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        with env.another() as own:
            episode = ChatEpisode(own, prompt)
            state.messages = _messages(episode.begin(str(state.sample_id)))
            # Inspect's limits (messages, tokens, time) end the loop with an exception of its own.
            while not episode.done:
                state.output = await get_model().generate(state.messages, tools)
                turn = state.output.message
                state.messages.append(turn)
                read = await to_thread.run_sync(episode.reply, _text_of(turn))
                state.messages += _answers(read, turn.tool_calls or [])
        state.store.set(_RESULT, _outcome(episode.result()))
        state.completed = True
        return state

    return solve


@scorer(metrics=[accuracy(), stderr(), stderr(cluster="database")])
def verdict() -> Scorer:
    """The environment's own verdict, with the reward's parts and how the episode ended."""

    async def score(state: TaskState, target: Target) -> Score:
        outcome = state.store.get(_RESULT)
        if outcome is None:
            return Score(value=INCORRECT, explanation="the episode was cut off before its end")
        return Score(
            value=CORRECT if outcome["correct"] else INCORRECT,
            answer=outcome["answer"],
            explanation=outcome["verdict"] or outcome["stop_reason"],
            metadata={**outcome, "difficulty": state.metadata["difficulty"]},
        )

    return score


def _outcome(result: EpisodeResult) -> dict[str, Any]:
    last = result.steps[-1]
    return {
        "correct": result.correct,
        "verdict": result.verdict,
        "stop_reason": str(result.stop_reason),
        "answer": last.argument if last.action_type.upper() == "ANSWER" else "",
        "steps": len(result.steps),
        "operational": sum(step.operational for step in result.steps),
        "progress": sum(step.progress for step in result.steps),
        "terminal": sum(step.terminal for step in result.steps),
    }


def _tool_info(function: dict[str, Any]) -> ToolInfo:
    return ToolInfo(
        name=function["name"],
        description=function["description"],
        parameters=ToolParams.model_validate(function["parameters"]),
    )


def _text_of(turn: ChatMessageAssistant) -> str:
    """What the turn says, with its calls as text, one a line."""
    calls = [
        json.dumps({"name": call.function, "arguments": call.arguments})
        for call in turn.tool_calls or ()
    ]
    return "\n".join(calls) or turn.text


def _messages(messages: list[Message]) -> list[ChatMessage]:
    """Chat messages as Inspect has them; the example's calls get ids."""
    made: list[ChatMessage] = []
    waiting: list[ToolCall] = []
    for number, message in enumerate(messages):
        content = message["content"]
        if message["role"] == "tool":
            made += _answers([message], [waiting.pop(0)])
        elif message["role"] == "assistant":
            waiting = [
                ToolCall(
                    id=f"example_{number}_{n}",
                    function=call["function"]["name"],
                    arguments=call["function"]["arguments"],
                )
                for n, call in enumerate(message.get("tool_calls", ()))
            ]
            made.append(ChatMessageAssistant(content=content, tool_calls=waiting[:] or None))
        else:
            kind = ChatMessageSystem if message["role"] == "system" else ChatMessageUser
            made.append(kind(content=content))
    return made


def _answers(read: list[Message], calls: list[ToolCall]) -> list[ChatMessage]:
    """What the model reads next: one message for each of its calls, where it made calls."""
    if not calls:
        return [ChatMessageUser(content="\n".join(item["content"] for item in read))]
    texts = [item["content"] for item in read]
    if len(texts) != len(calls):  # a call may name several tables
        texts = ["\n".join(texts)] + ["see above"] * (len(calls) - 1)
    return [
        ChatMessageTool(content=text, tool_call_id=call.id, function=call.function)
        for text, call in zip(texts, calls, strict=True)
    ]
