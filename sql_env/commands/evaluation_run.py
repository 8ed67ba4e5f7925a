"""Play what a run's configuration says, with a progress bar, into a run folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sql_env.agent.choice import ModelOptions, build_policy, prompt_of
from sql_env.agent.episodes import EpisodeResult
from sql_env.commands.dataset_choice import load_split
from sql_env.commands.evaluate import EMBEDDED
from sql_env.commands.evaluation_display import LiveLine
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import EvaluationResult, evaluate
from sql_env.evaluation.run_folder import Run, RunConfig, RunError, RunFolder, dataset_hash
from sql_env.provenance import current_commit, current_machine, current_versions, now

EPISODES_ON_A_CPU = 32


@dataclass(frozen=True)
class PlayedRun:
    """A run that was just played."""

    config: RunConfig
    result: EvaluationResult
    folder: Path

    def to_dict(self) -> dict[str, Any]:
        about = {"policy": self.config.policy, "run": str(self.folder)}
        return {**about, **self.result.summary.to_dict(), "interrupted": self.result.interrupted}


def play_run(config: RunConfig, runs: Path, workers: int, line: LiveLine) -> PlayedRun:
    """Play a new run into a new folder under `runs`."""
    env = _environment(config)
    policy = _policy(config, env)
    prompt = prompt_of(config.policy, _options(config))
    config = replace(
        config,
        prompt=prompt and prompt.version,
        actions=prompt and prompt.actions,
        dataset_hash=dataset_hash(env.questions, env.db_dir),
        commit=current_commit(),
        created=now(),
        versions=current_versions(),
        machine=current_machine(),
    )
    return _play(config, env, policy, RunFolder.create(runs, config), workers, line)


def resume_run(earlier: Run, workers: int, line: LiveLine) -> PlayedRun:
    """Play what is missing from an interrupted run.

    Raises:
        RunError: the dataset is not the one that the run began with.
    """
    env = _environment(earlier.config)
    found = dataset_hash(env.questions, env.db_dir)
    if found != earlier.config.dataset_hash:
        raise RunError(
            f"{earlier.folder} cannot be resumed: the dataset {earlier.config.dataset} has changed "
            f"({earlier.config.dataset_hash} then, {found} now). Start a new run"
        )
    policy = _policy(earlier.config, env)
    folder = RunFolder(earlier.folder)
    return _play(earlier.config, env, policy, folder, workers, line, earlier.episodes)


def _environment(config: RunConfig) -> SQLEnvironment:
    folder = None if config.dataset == EMBEDDED else Path(config.dataset)
    questions, db_dir = load_split(folder, config.split)
    return SQLEnvironment(
        db_dir=db_dir,
        step_budget=config.step_budget,
        allow_last=config.allow_last,
        questions=questions,
    )


def _policy(config: RunConfig, env: SQLEnvironment) -> Any:
    return build_policy(config.policy, env.questions, _options(config))


def _options(config: RunConfig) -> ModelOptions:
    return ModelOptions(
        base=config.base,
        prompt=config.prompt,
        actions=config.actions,
        temperature=config.temperature,
        decoding=config.decoding,
        max_new_tokens=config.max_new_tokens,
        device=config.device,
        dtype=config.dtype,
        seed=config.seed,
    )


def _episodes_together(config: RunConfig) -> int | None:
    """A CPU is no faster with more, and its memory has to hold every conversation."""
    if not config.policy.startswith("model:"):
        return None
    import torch

    on_cpu = not torch.cuda.is_available() or (config.device or "").startswith("cpu")
    return EPISODES_ON_A_CPU if on_cpu else None


def _play(
    config: RunConfig,
    env: SQLEnvironment,
    policy: Any,
    folder: RunFolder,
    workers: int,
    line: LiveLine,
    done: tuple[EpisodeResult, ...] = (),
) -> PlayedRun:
    with env:

        def on_episode(episode: EpisodeResult) -> None:
            folder.append(episode)
            line.count(episode)

        result = evaluate(
            env,
            policy,
            config.n_questions,
            seed=config.seed,
            progress_callback=line.advance,
            on_episode=on_episode,
            samples=config.samples,
            workers=workers,
            batch_size=config.batch_size or _episodes_together(config),
            done=done,
        )
    folder.finish(result)
    return PlayedRun(config, result, folder.path)
