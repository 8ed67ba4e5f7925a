"""Whole episodes: what is trained is what was sampled, under the context it was sampled in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerControl, TrainerState, TrainingArguments
from typer.testing import CliRunner

from sql_env.agent.conversation import ChatLayout
from sql_env.agent.episodes import EpisodeResult
from sql_env.agent.generation import Completion, Generator, Sampling, make_generator
from sql_env.agent.model_policy import ModelPolicy
from sql_env.cli import app
from sql_env.evaluation.run_folder import read_run
from sql_env.questions import Dataset, filter_questions
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_question_prompts
from sql_env.training.pipeline import evaluate_model
from sql_env.training.rewards import REWARD_FUNCTIONS
from sql_env.training.rollout import (
    REPEAT_PRICE,
    PromptError,
    Rollout,
    TRLRollout,
    model_policy,
    play_questions,
    play_rollouts,
    questions_by_id,
    rollout_func,
    with_retries,
)
from sql_env.training.run_log import RunLog
from sql_env.training.settings import ConfigError
from sql_env.training.visualization import LiveVisualizationCallback

os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"


@pytest.fixture
def make_trainer(
    taught_llama: Callable[[], Any], chat_tokenizer: Any
) -> Callable[..., tuple[Any, list[Rollout]]]:
    """Makes a GRPO trainer that plays, and the list its rollouts are put into."""

    def make(config: GRPOConfig, reward_funcs: Any = REWARD_FUNCTIONS) -> tuple[Any, list[Rollout]]:
        from trl import GRPOTrainer

        played: list[Rollout] = []
        weights = [1.0] * len(reward_funcs)
        trainer = GRPOTrainer(
            model=taught_llama(),
            args=replace(config, trl={**config.trl, "reward_weights": weights}).to_trl(),
            train_dataset=load_question_prompts(config),
            processing_class=chat_tokenizer,
            reward_funcs=list(reward_funcs),
            rollout_func=TRLRollout(config, on_rollouts=played.extend),
        )
        return trainer, played

    return make


def trainer_logprobs(trainer: Any, prompt: list[int], completion: list[int]) -> torch.Tensor:
    """What the trainer's own forward says about each token of a completion."""
    ids = torch.tensor([prompt + completion])
    with torch.no_grad():
        logprobs, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, torch.ones_like(ids), len(completion)
        )[:2]
    return logprobs[0]


@pytest.mark.parametrize("window", [1024, 360])
def test_the_trainer_sees_the_probabilities_of_sampling_time(
    window: int,
    make_trainer: Callable[..., tuple[Any, list[Rollout]]],
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    config = tiny_config(
        step_budget=8, max_context_tokens=window, max_new_tokens=24, trl={"temperature": 1.5}
    )
    trainer, played = make_trainer(config)
    prompts = [row["prompt"] for row in trainer.train_dataset] * 2
    trainer.model.train()
    rows = TRLRollout(config, on_rollouts=played.extend)(prompts, trainer)
    trainer.model.eval()
    assert len(rows["prompt_ids"]) == len(prompts)
    cut = [rollout for rollout in played if len(rollout.conversation.segments) > 1]
    assert bool(cut) == (window == 360)
    for number, rollout in enumerate(played):
        for segment in rollout.conversation.segments:
            if not any(segment.env_mask):
                continue
            mine = torch.tensor(segment.logprobs)
            theirs = trainer_logprobs(trainer, segment.prompt_ids, segment.completion_ids)
            own = torch.tensor(segment.env_mask).bool()
            torch.testing.assert_close(mine[own], theirs[own], atol=2e-4, rtol=1e-3)
        last = rollout.conversation.segments[-1]
        assert rows["prompt_ids"][number] == last.prompt_ids
        assert rows["completion_ids"][number] == last.completion_ids
        assert rows["env_mask"][number] == last.env_mask


def test_environment_tokens_carry_no_gradient(
    make_trainer: Callable[..., tuple[Any, list[Rollout]]],
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    def first_of_a_pair_wins(completions: list[Any], **_: Any) -> list[float]:
        return [float(number % 2) for number in range(len(completions))]

    config = tiny_config(step_budget=4, trl={"temperature": 1.2})
    trainer, _ = make_trainer(config, [first_of_a_pair_wins])
    inputs = next(iter(trainer.get_train_dataloader()))
    batch = trainer._generate_and_score_completions(inputs)
    states: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        output.last_hidden_state.retain_grad()
        states.append(output.last_hidden_state)

    # What comes out of the transformer at a position feeds the prediction of the next token, and
    # nothing else.
    hook = trainer.model.model.register_forward_hook(keep)
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # which train() sets
    trainer.compute_loss(trainer.model, batch).backward()
    hook.remove()
    mask = batch["tool_mask"] * batch["completion_mask"]
    (state,) = states
    felt = state.grad[:, -mask.shape[1] - 1 : -1].abs().sum(dim=-1)
    real = batch["completion_mask"].bool()
    assert (felt[real & (mask == 0)] == 0).all()
    assert (felt[mask == 1] > 0).all()
    assert (real & (mask == 0)).any() and (mask == 1).any()


@pytest.mark.parametrize("engine", ["auto", "generate"])
def test_two_grpo_steps_move_the_weights(
    engine: str,
    make_trainer: Callable[..., tuple[Any, list[Rollout]]],
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    config = tiny_config(
        engine=engine,
        max_steps=2,
        step_budget=4,
        num_generations=4,
        per_device_train_batch_size=8,
        max_new_tokens=24,
    )
    trainer, played = make_trainer(config)
    before = [parameter.detach().clone() for parameter in trainer.model.parameters()]
    trainer.train()
    assert trainer.state.global_step == 2
    assert len(played) == 16
    moved = [
        not torch.equal(old, new)
        for old, new in zip(before, trainer.model.parameters(), strict=True)
    ]
    assert all(moved)
    first = trainer.state.log_history[0]
    expected = [rollout.metadata["correctness"] for rollout in played[:8]]
    assert first["rewards/reward_correctness/mean"] == pytest.approx(sum(expected) / 8)


def test_finished_episodes_drop_out_and_the_others_go_on(
    taught_llama: Callable[[], Any], chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(step_budget=6, max_new_tokens=24, trl={"temperature": 0.9})
    prompts = [row["prompt"] for row in load_question_prompts(config)] * 3
    torch.manual_seed(1)
    rows = rollout_func(prompts, taught_llama(), chat_tokenizer, config)
    assert [row["question_id"] for row in rows] == [p[1]["question_id"] for p in prompts]
    assert len({row["steps"] for row in rows}) > 1
    for row in rows:
        assert row["steps"] == len(row["episode"].steps) <= 6
        assert row["correctness"] == float(row["stop_reason"] == "correct")
        assert 0 <= row["progress"] <= 1
        assert row["env_reward"] == pytest.approx(row["episode"].reward)
    assert any(row["correctness"] for row in rows)


def greedy_rollouts(generator: Generator, tokenizer: Any, config: GRPOConfig) -> list[Rollout]:
    policy = ModelPolicy(
        generator,
        ChatLayout.of(tokenizer),
        max_tokens=config.max_context_tokens,
        max_new_tokens=config.max_new_tokens,
    )
    return play_rollouts(list(questions_by_id(config).values()), policy, config)


@pytest.mark.parametrize(
    ("engine", "name"), [(True, "LockstepEngine"), (False, "TransformersGenerator")]
)
def test_both_generators_play_the_same_greedy_episodes(
    engine: bool,
    name: str,
    taught_llama: Callable[[], Any],
    chat_tokenizer: Any,
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    generator = make_generator(
        taught_llama(), chat_tokenizer, Sampling(24), max_length=1024, engine=engine
    )
    played = greedy_rollouts(generator, chat_tokenizer, tiny_config(max_new_tokens=24))
    actions = [[step.action_type for step in rollout.episode.steps] for rollout in played]
    assert actions == [["DESCRIBE", "QUERY", "ANSWER"]] * len(played)
    assert type(generator).__name__ == name


def test_episodes_whose_turns_come_in_parts_are_the_same(
    taught_llama: Callable[[], Any], chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    from sql_env.agent.engine.lockstep import LockstepEngine

    config = tiny_config(max_new_tokens=24)
    model = taught_llama()
    played, left_unfinished = [], []
    for stragglers in (0.0, 0.5):
        engine = LockstepEngine(
            model,
            stop_ids=[chat_tokenizer.eos_token_id],
            sampling=Sampling(24, temperature=0),
            max_length=1024,
            stragglers=stragglers,
        )
        generate = engine.generate
        unfinished: list[int] = []

        def counted(
            contexts: Sequence[list[int]],
            generate: Any = generate,
            unfinished: list[int] = unfinished,
        ) -> list[Completion]:
            turns: list[Completion] = generate(contexts)
            unfinished.append(sum(not turn.finished for turn in turns))
            return turns

        engine.generate = counted  # type: ignore[method-assign]
        rollouts = greedy_rollouts(engine, chat_tokenizer, config)
        played.append([rollout.conversation.completion_ids for rollout in rollouts])
        left_unfinished.append(sum(unfinished))
    assert played[0] == played[1]
    assert left_unfinished[0] == 0 < left_unfinished[1]


def test_play_questions_returns_the_actions(
    taught_llama: Callable[[], Any], chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config()
    records = list(questions_by_id(config).values())[:3]
    played = play_questions(records, taught_llama(), chat_tokenizer, config, temperature=0.0)
    assert [len(actions) > 0 for actions in played] == [True] * 3


def test_a_prompt_without_its_question_says_how_to_build_one(
    taught_llama: Callable[[], Any], chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    prompt = [{"role": "user", "content": "How many?"}]
    with pytest.raises(PromptError, match="load_question_prompts"):
        rollout_func([prompt], taught_llama(), chat_tokenizer, tiny_config())


class Recital:
    """A generator that writes from a script: for each question, what to say turn after turn."""

    def __init__(self, tokenizer: Any, script: dict[str, list[str]]) -> None:
        self._tokenizer = tokenizer
        self._turns = {question: iter(turns) for question, turns in script.items()}

    def begin(self) -> None:
        pass

    def release(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        texts = [self._tokenizer.decode(context) for context in contexts]
        said = [next(self._turns[q]) for text in texts for q in self._turns if q in text]
        ends = [self._tokenizer.eos_token_id]
        return [
            Completion(self._tokenizer.encode(text, add_special_tokens=False) + ends, None)
            for text in said
        ]


@pytest.mark.parametrize("end_on_repeat", [True, False])
def test_an_episode_that_repeats_itself_can_end_there(
    end_on_repeat: bool, chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(step_budget=6, end_on_repeat=end_on_repeat)
    table = questions_by_id(config)
    wrong = "QUERY: SELECT max(height) FROM student"
    straight = ["DESCRIBE: student", "QUERY: SELECT max(age) FROM student", "ANSWER: 16"]
    recital = Recital(
        chat_tokenizer,
        {
            "How many students are there?": ["DESCRIBE: student", wrong, f" {wrong}", "ANSWER: 4"],
            "How old is the oldest student?": straight,
        },
    )
    records = [table["train_0"], table["train_1"]]
    policy = ModelPolicy(recital, ChatLayout.of(chat_tokenizer))
    repeated, other = play_rollouts(records, policy, config)
    assert (other.episode.stop_reason, len(other.episode.steps)) == ("correct", 3)
    if end_on_repeat:
        assert (repeated.episode.stop_reason, len(repeated.episode.steps)) == ("repeated", 3)
        assert repeated.metadata["correctness"] == 0.0
    else:
        assert (repeated.episode.stop_reason, len(repeated.episode.steps)) == ("correct", 4)
        assert repeated.metadata["correctness"] == 1.0
    # Nothing follows the model's last turn, whatever ended the episode.
    talk = repeated.conversation
    assert talk.completion_ids[-1] == chat_tokenizer.eos_token_id
    assert talk.env_mask[-1] == 1


def test_evaluation_and_training_play_the_same_episodes(
    taught_llama: Callable[[], Any],
    chat_tokenizer: Any,
    tiny_config: Callable[..., GRPOConfig],
    tiny_dataset: Dataset,
    tmp_path: Path,
) -> None:
    """`sql-env eval`, the evaluation during training and a greedy rollout: one loop, same steps."""
    config = tiny_config(step_budget=6, max_new_tokens=24)
    model = taught_llama()
    model.save_pretrained(tmp_path / "model")
    chat_tokenizer.save_pretrained(tmp_path / "model")
    config.prompt_of_run.save(tmp_path / "model")
    questions = filter_questions(tiny_dataset.load(), split="eval")

    where = ["--dataset", str(tiny_dataset.db_dir.parent), "--out", str(tmp_path / "runs")]
    how = ["--step-budget", "6", "--max-new-tokens", "24"]
    command = ["eval", "--policy", f"model:{tmp_path / 'model'}", *where, *how]
    played = CliRunner().invoke(app, command)
    assert played.exit_code == 0, played.output
    (run,) = (tmp_path / "runs").iterdir()
    from_command = steps_of(read_run(run).episodes)
    from_trainer = steps_of(evaluate_model(config, model, chat_tokenizer, questions).episodes)
    greedy = model_policy(model, chat_tokenizer, config, temperature=0.0)
    rollouts = play_rollouts(questions, greedy, config)
    assert from_command == from_trainer == steps_of([item.episode for item in rollouts])
    assert len(from_command) == len(questions)

    RunLog(config.output_dir).begin(config)
    shown: list[EpisodeResult] = []
    watching = replace(config, evaluate_every=1, evaluate_episodes=len(questions))
    live = LiveVisualizationCallback(
        watching, chat_tokenizer, questions, questions, display=KeepsEpisodes(shown)
    )
    state = TrainerState(global_step=1)
    live.on_step_end(TrainingArguments(report_to="none"), state, TrainerControl(), model=model)
    assert steps_of(shown) == from_command[:1]
    (row,) = RunLog(config.output_dir).success()
    assert row["eval"]["n"] == len(questions)


class KeepsEpisodes:
    """A display that keeps what is shown."""

    def __init__(self, shown: list[EpisodeResult]) -> None:
        self._shown = shown

    def figure(self, name: str, figure: Any) -> None:
        pass

    def episode(self, title: str, episode: EpisodeResult) -> None:
        self._shown.append(episode)


def steps_of(episodes: Sequence[EpisodeResult]) -> list[Any]:
    return [
        [(s.action_type, s.argument, s.result, s.error, round(s.reward, 6)) for s in e.steps]
        for e in episodes
    ]


class Retrying:
    """Sends a query that fails; behind that, in every second context, the right one."""

    def __init__(self, tokenizer: Any, wrong: str = "QUERY: SELECT hat FROM nowhere") -> None:
        self._tokenizer = tokenizer
        self._wrong = wrong

    def begin(self) -> None:
        pass

    def release(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        return [self._turn(context, number) for number, context in enumerate(contexts)]

    def _turn(self, context: list[int], number: int) -> Completion:
        heard = self._tokenizer.decode(context)
        line = self._wrong
        if "no such table: nowhere" in heard:
            line = "QUERY: SELECT count(*) FROM student" if number % 2 else "ANSWER: 99"
        if "count(*)\n4" in heard:
            line = "ANSWER: @last"
        ids = self._tokenizer.encode(line, add_special_tokens=False)
        return Completion([*ids, self._tokenizer.eos_token_id], [-1.0] * (len(ids) + 1))


def retrying_policy(
    generator: Retrying, tokenizer: Any, config: GRPOConfig
) -> tuple[ModelPolicy, list[Any]]:
    records = [questions_by_id(config)["train_0"]] * config.num_generations
    return ModelPolicy(generator, ChatLayout.of(tokenizer), prompt=config.prompt_of_run), records


def test_groups_that_teach_nothing_go_on_from_a_failed_query(
    chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(num_generations=4, step_budget=2, retry_groups=1)
    policy, records = retrying_policy(Retrying(chat_tokenizer), chat_tokenizer, config)
    played = play_rollouts(records, policy, config)
    assert not any(rollout.episode.correct for rollout in played)
    longer = replace(config, step_budget=4)
    round_, again = with_retries(played, questions_by_id(config), policy, longer)
    assert round_ == again
    assert [rollout.episode.correct for rollout in round_] == [False, True, False, True]
    for rollout in round_:
        talk = rollout.conversation
        failed = len(played[0].conversation.turns[0])
        assert talk.completion_ids[:failed] == talk.turns[0]
        assert talk.env_mask[:failed] == [0] * failed
        assert sum(talk.env_mask) == sum(map(len, talk.turns[1:]))


def test_groups_that_differ_stay_as_they_are(
    chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(num_generations=4, step_budget=4, retry_groups=1)
    policy, records = retrying_policy(Retrying(chat_tokenizer), chat_tokenizer, config)
    played = play_rollouts(records, policy, config)
    assert with_retries(played, questions_by_id(config), policy, config) == (played, [])


def test_an_empty_result_that_is_right_is_no_failure(
    chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(num_generations=2, step_budget=1)
    nobody = "SELECT name FROM student WHERE id = 9"
    policy, (record, *_) = retrying_policy(
        Retrying(chat_tokenizer, f"QUERY: {nobody}"), chat_tokenizer, config
    )
    empty = record.model_copy(update={"gold_sql": nobody, "gold_answer": []})
    (expected,) = play_rollouts([empty], policy, config)
    (failed,) = play_rollouts([record], policy, config)
    assert expected.failed_start is None
    assert failed.failed_start == failed.conversation.turns


def test_a_repeat_costs_more_than_another_failure(
    chat_tokenizer: Any, tiny_config: Callable[..., GRPOConfig]
) -> None:
    config = tiny_config(num_generations=4, end_on_repeat=True, reward="binary")
    same = "QUERY: SELECT name FROM nobody"
    policy, records = retrying_policy(Retrying(chat_tokenizer, same), chat_tokenizer, config)
    (repeated, *_) = play_rollouts(records, policy, config)
    assert repeated.repeated
    assert repeated.metadata["operational"] == -REPEAT_PRICE < 0


def test_retries_and_vllm_are_refused_together(
    make_trainer: Callable[..., tuple[Any, list[Rollout]]],
    tiny_config: Callable[..., GRPOConfig],
) -> None:
    config = tiny_config(engine="generate", retry_groups=1)
    trainer, _ = make_trainer(config)
    with pytest.raises(ConfigError, match="retry_groups needs the engine"):
        trainer.train()
