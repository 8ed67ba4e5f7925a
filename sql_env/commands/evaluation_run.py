"""Play what a run's configuration says, with a progress bar, into a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sql_env.agent.choice import ModelOptions, build_policy, prompt_of
from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.playing import PlannedEpisode
from sql_env.commands.evaluate import EMBEDDED
from sql_env.commands.evaluation_display import LiveLine
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import EvaluationResult, evaluate
from sql_env.evaluation.ray_pool import Job, connect, play_on_ray
from sql_env.evaluation.run_folder import Run, RunConfig, RunError, RunFolder, dataset_hash
from sql_env.provenance import current_commit, current_machine, current_versions, now
from sql_env.questions import Dataset, choose_questions

EPISODES_ON_A_CPU = 32
EPISODES_ON_A_GPU = 128


@dataclass(frozen=True)
class Means:
    """What a run is played with; it does not change what is played.

    Attributes:
        workers: processes, or workers of a cluster.
        concurrency, timeout, retries: of an endpoint's requests.
        on: a cluster; None is this machine.
    """

    workers: int | None = None
    concurrency: int = 16
    timeout: float = 120.0
    retries: int = 5
    on: str | None = None


@dataclass(frozen=True)
class PlayedRun:
    """A run that was just played."""

    config: RunConfig
    result: EvaluationResult
    folder: Path

    def to_dict(self) -> dict[str, Any]:
        about = {"policy": self.config.policy, "run": str(self.folder)}
        return {**about, **self.result.summary.to_dict(), "interrupted": self.result.interrupted}


def play_run(
    config: RunConfig, runs: Path, name: str | None, means: Means, line: LiveLine
) -> PlayedRun:
    """Play a new run into a new folder under `runs`, called `name` or after time and policy."""
    env, data = _environment(config)
    options = _options(config, means)
    policy = _policy(config, env, means)
    prompt = prompt_of(config.policy, options)
    config = replace(
        config,
        weights=weights_hash(config.policy),
        dataset_hash=data,
        prompt=prompt.version if prompt else None,
        actions=prompt.actions if prompt else None,
        commit=current_commit(),
        created=now(),
        versions=current_versions(),
        machine=current_machine(),
    )
    folder = RunFolder.at(runs / name, config) if name else RunFolder.create(runs, config)
    return _play(config, env, policy, folder, means, line)


def resume_run(earlier: Run, other_code: bool, means: Means, line: LiveLine) -> PlayedRun:
    """Play what is missing from an interrupted run.

    Raises:
        RunError: the dataset, the weights or, unless `other_code`, the code and its libraries are
            not those that the run began with.
    """
    config, folder = earlier.config, RunFolder(earlier.folder)
    env, data = _environment(config)
    policy = _policy(config, env, means)
    _check_same(earlier, f"the dataset {config.dataset}", config.dataset_hash, data)
    _check_same(earlier, "the weights of the model", config.weights, weights_hash(config.policy))
    commit, versions = current_commit(), current_versions()
    if (commit, versions) != (config.commit, config.versions):
        if not other_code:
            changed = _changed(
                {"commit": config.commit, **(config.versions or {})}, {"commit": commit, **versions}
            )
            raise RunError(
                f"{earlier.folder} was started with other code: {changed}. Continue with "
                "--other-code, which the run records, or start a new run"
            )
        again = {"commit": commit, "versions": versions}
        config = replace(config, resumed_with=[*config.resumed_with, again])
        folder.write_config(config)
    return _play(config, env, policy, folder, means, line, earlier.episodes)


def _check_same(earlier: Run, what: str, then: str, found: str) -> None:
    # Runs of version 0.1 do not know the weights they were played with.
    if then and then != found:
        raise RunError(
            f"{earlier.folder} cannot be resumed: {what} has changed since "
            f"({then} then, {found} now). Start a new run"
        )


def _changed(then: dict[str, str], found: dict[str, str]) -> str:
    pairs = [(name, then.get(name, "-"), found.get(name, "-")) for name in {**then, **found}]
    return ", ".join(f"{name} {old[:12]} → {new[:12]}" for name, old, new in pairs if old != new)


def weights_hash(policy: str) -> str:
    """Tells apart the models that lay in one folder one after the other; empty without a folder."""
    folder = Path(policy.removeprefix("model:"))
    if not policy.startswith("model:") or not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in (".safetensors", ".bin", ".gguf"):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _environment(config: RunConfig) -> tuple[SQLEnvironment, str]:
    """The environment over the questions that are chosen, and the hash of the whole split."""
    dataset = Dataset.at(None if config.dataset == EMBEDDED else config.dataset)
    questions = dataset.load_split(config.split)
    chosen = choose_questions(
        questions,
        ids=config.ids,
        databases=config.databases,
        difficulties=config.difficulties,
    )
    env = SQLEnvironment(
        db_dir=dataset.db_dir,
        step_budget=config.step_budget,
        allow_last=config.allow_last,
        questions=chosen,
    )
    return env, dataset_hash(questions, dataset.db_dir)


def _policy(config: RunConfig, env: SQLEnvironment, means: Means) -> Any:
    """Who plays here; None where a cluster's workers make their own. Either way it can play."""
    if means.on is not None:
        connect(means.on)
        if config.policy.startswith("model:"):
            return None  # it may be too large for this machine
    policy = build_policy(config.policy, env.questions, _options(config, means))
    return None if means.on is not None else policy


def _options(config: RunConfig, means: Means) -> ModelOptions:
    return ModelOptions(
        base=config.base,
        prompt=config.prompt,
        actions=config.actions,
        temperature=config.temperature,
        top_p=config.top_p,
        decoding=config.decoding,
        max_new_tokens=config.max_new_tokens,
        device=config.device,
        dtype=config.dtype,
        seed=config.seed,
        body=config.body,
        price=config.price,
        concurrency=means.concurrency,
        timeout=means.timeout,
        retries=means.retries,
    )


def _episodes_together(config: RunConfig, means: Means) -> int | None:
    """More are hardly faster, and the memory has to hold every conversation.

    From here on a GPU spends a step on reading the conversations, not on the weights. More than an
    endpoint answers at once would all end late, and an interruption would lose them.
    """
    if config.policy.startswith("endpoint:"):
        return means.concurrency
    if not config.policy.startswith("model:"):
        return None
    import torch

    on_cpu = not torch.cuda.is_available() or (config.device or "").startswith("cpu")
    return EPISODES_ON_A_CPU if on_cpu else EPISODES_ON_A_GPU


def _play(
    config: RunConfig,
    env: SQLEnvironment,
    policy: Any,
    folder: RunFolder,
    means: Means,
    line: LiveLine,
    done: tuple[EpisodeResult, ...] = (),
) -> PlayedRun:
    with env:
        together = config.batch_size or _episodes_together(config, means)

        def on_cluster(
            plan: Sequence[PlannedEpisode],
        ) -> Generator[EpisodeResult, None, None]:
            options = _options(config, means)
            make_policy = partial(build_policy, config.policy, env.questions, options)
            on_gpu = config.policy.startswith("model:") and not (config.device or "").startswith(
                "cpu"
            )
            job = Job(env.another(), make_policy, config.seed, together, on_gpu)
            return play_on_ray(job, plan, means.workers)

        def on_episode(episode: EpisodeResult) -> None:
            folder.append(episode)
            line.count(episode)

        result = evaluate(
            env,
            policy,
            config.n_questions and min(config.n_questions, len(env.questions)),
            seed=config.seed,
            progress_callback=line.advance,
            on_episode=on_episode,
            samples=config.samples,
            workers=means.workers or 1,
            batch_size=together,
            done=done,
            play_elsewhere=on_cluster if means.on is not None else None,
        )
    folder.finish(result)
    return PlayedRun(config, result, folder.path)
