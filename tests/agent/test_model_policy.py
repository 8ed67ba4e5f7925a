"""A language model plays: real tokenizer, real (if untrained) transformer, scripted words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sql_env.agent.conversation import ChatLayout
from sql_env.agent.generation import Completion, Generator, Sampling, TransformersGenerator
from sql_env.agent.guided import TRIES
from sql_env.agent.model_policy import ModelPolicy
from sql_env.agent.parsing import format_action
from sql_env.agent.playing import PlannedEpisode, plan_of, play
from sql_env.agent.policies import OraclePolicy
from sql_env.agent.prompts import Prompt, get_system_prompt
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import EvaluationResult, evaluate
from sql_env.models import SQLAction
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model

torch = pytest.importorskip("torch")

SIZE = TinyModelSize(vocabulary=512, width=32, layers=2, heads=2, window=1024)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = [get_system_prompt(), "Which singers come from France? SELECT name FROM singer"]
    return train_tokenizer(texts, SIZE)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return untrained_model(tokenizer, SIZE)


class Actor:
    """Writes what the oracle does: looks the question up in the context.

    Args:
        slow: so many calls pass before a turn is finished.
        room: how many episodes fit into its memory.
    """

    def __init__(
        self, env: SQLEnvironment, tokenizer: Any, *, slow: int = 0, room: int = 1000
    ) -> None:
        self._tokenizer = tokenizer
        self._scripts = {}
        self._slow, self._room = slow, room
        self.contexts: list[list[list[int]]] = []
        self.releases = 0
        for episode in evaluate(env, OraclePolicy(env.questions)).episodes:
            lines = [
                format_action(SQLAction(action_type=s.action_type, argument=s.argument))
                for s in episode.steps
            ]
            self._scripts[episode.question] = lines

    def begin(self) -> None:
        pass

    def release(self) -> None:
        self.releases += 1

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        if len(contexts) > self._room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.contexts.append(list(contexts))
        return [self._speak(context, number) for number, context in enumerate(contexts)]

    def _speak(self, context: list[int], number: int) -> Completion:
        heard = self._tokenizer.decode(context)
        said = heard.rpartition("<|assistant|>")[2]
        (script,) = (lines for text, lines in self._scripts.items() if text in heard)
        line = script[heard.count("<|assistant|>") - 1]
        ids: list[int] = self._tokenizer.encode(line, add_special_tokens=False)
        ids = ids[len(self._tokenizer.encode(said, add_special_tokens=False)) :]
        if self._slow and number % 2 and len(ids) > self._slow:
            return Completion(ids[: self._slow], None, finished=False)
        return Completion([*ids, self._tokenizer.eos_token_id], None)


def policy_of(generator: Generator, tokenizer: Any, **options: Any) -> ModelPolicy:
    return ModelPolicy(generator, ChatLayout.of(tokenizer), **options)


def actions(result: EvaluationResult) -> list[list[tuple[str, str]]]:
    return [[(s.action_type, s.argument) for s in e.steps] for e in result.episodes]


class TestPlaying:
    def test_words_become_actions(self, music: SQLEnvironment, tokenizer: Any) -> None:
        result = evaluate(music, policy_of(Actor(music, tokenizer), tokenizer))
        assert result.success_rate == 1.0
        assert actions(result) == actions(evaluate(music, OraclePolicy(music.questions)))
        assert result.summary.parse_rate == 1.0

    def test_all_running_episodes_are_generated_together(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer)
        evaluate(music, policy_of(actor, tokenizer))
        assert [len(contexts) for contexts in actor.contexts] == [4, 4, 4, 1, 1]

    def test_turns_that_come_in_parts_make_the_same_episodes(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        slow = Actor(music, tokenizer, slow=3)
        result = evaluate(music, policy_of(slow, tokenizer))
        assert actions(result) == actions(evaluate(music, OraclePolicy(music.questions)))
        assert len(slow.contexts) > 5

    def test_an_episode_goes_on_from_turns_written_before(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        record = music.questions[0]
        (first,) = play(music, policy_of(Actor(music, tokenizer), tokenizer), plan_of([record]))
        talk = first.conversation
        actor = Actor(music, tokenizer)
        again = PlannedEpisode(record, turns=talk.turns[:2])
        (second,) = play(music, policy_of(actor, tokenizer), [again])
        assert second.episode.correct
        assert len(actor.contexts) == len(talk.turns) - 2
        assert second.conversation.prompt_ids == talk.prompt_ids
        assert second.conversation.completion_ids == talk.completion_ids
        written = len(talk.completion_ids) - len(talk.turns[2])
        assert second.conversation.env_mask == [0] * written + [1] * len(talk.turns[2])

    def test_the_context_grows_by_what_was_said(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer)
        result = evaluate(music, policy_of(actor, tokenizer), batch_size=1)
        first, second = actor.contexts[0][0], actor.contexts[1][0]
        assert second[: len(first)] == first
        trace = result.episodes[0].steps[0].trace
        assert trace["prompt_tokens"] == len(first)
        assert "cut_off" not in trace

    def test_words_without_an_action_cost_a_step(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        words = tokenizer.encode("singers come from", add_special_tokens=False)
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=3)
        result = evaluate(env, policy_of(Parrot(words), tokenizer))
        assert result.summary.parse_rate == 0.0
        assert result.summary.stop_reasons == {"out_of_budget": 4}
        assert all(step.error for episode in result.episodes for step in episode.steps)

    def test_a_turn_without_its_end_is_recorded_as_cut_off(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        words = tokenizer.encode("ANSWER: 4", add_special_tokens=False)
        result = evaluate(music, policy_of(Parrot(words), tokenizer))
        assert result.summary.cut_off == 4

    def test_a_question_too_long_for_the_window_breaks_off_alone(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        endless = music.questions[0].model_copy(
            update={"question_id": "endless", "question_text": "why " * 3000}
        )
        env = SQLEnvironment(db_dir=music.db_dir, questions=[endless, *music.questions])
        result = evaluate(env, policy_of(Actor(music, tokenizer), tokenizer, max_tokens=1024))
        assert [e.question_id for e in result.episodes if e.error] == ["endless"]
        assert result.n_completed == 4


class TestMemory:
    @pytest.mark.parametrize(("room", "releases"), [(4, 0), (3, 1), (2, 1), (1, 2)])
    def test_where_memory_is_short_fewer_episodes_play_at_once(
        self, room: int, releases: int, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer, room=room)
        result = evaluate(music, policy_of(actor, tokenizer))
        assert result.success_rate == 1.0
        assert result.n_completed == len(music.questions)
        assert actor.releases == releases

    def test_where_there_is_none_at_all_every_episode_says_so(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        result = evaluate(music, policy_of(Actor(music, tokenizer, room=0), tokenizer))
        assert result.n_completed == 0
        assert {e.error for e in result.episodes} == {"OutOfMemoryError: CUDA out of memory"}


class Parrot:
    """Says the same in every turn, or one thing after the other."""

    def __init__(self, *turns: list[int]) -> None:
        self._turns = turns
        self.calls = 0

    def begin(self) -> None:
        pass

    def release(self) -> None:
        pass

    def generate(self, contexts: Sequence[list[int]]) -> list[Completion]:
        turn = self._turns[self.calls % len(self._turns)]
        self.calls += 1
        return [Completion(turn, None) for _ in contexts]


class TestGuided:
    def play(
        self, music: SQLEnvironment, tokenizer: Any, always: str, *others: str, steps: int = 3
    ) -> list[Any]:
        def ids(text: str) -> list[int]:
            encoded = tokenizer.encode(text, add_special_tokens=False)
            return [*encoded, tokenizer.eos_token_id]

        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions[:1], step_budget=steps)
        policy = policy_of(
            Parrot(ids(always)), tokenizer, resampler=Parrot(*map(ids, others or (always,)))
        )
        return list(evaluate(env, policy).episodes[0].steps)

    def test_a_repeated_action_is_drawn_again(self, music: SQLEnvironment, tokenizer: Any) -> None:
        steps = self.play(music, tokenizer, "DESCRIBE: singer", "DESCRIBE: Singer", "ANSWER: 4")
        assert [step.action_type for step in steps] == ["DESCRIBE", "ANSWER"]
        replaced = steps[1].trace["replaced"]
        assert replaced["original"] == "DESCRIBE: singer"
        assert replaced["reason"] == "repeated"
        assert replaced["extra_tokens"] > 4
        assert "replaced" not in steps[0].trace

    def test_a_name_that_does_not_exist_is_not_used(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        (step,) = self.play(
            music, tokenizer, "QUERY: SELECT 1 FROM bands", "QUERY: SELECT 1 FROM singer", steps=1
        )
        assert step.argument == "SELECT 1 FROM singer"
        assert step.trace["replaced"]["reason"] == "no such table: bands"

    def test_where_nothing_better_is_found_the_turn_is_played_as_written(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        steps = self.play(music, tokenizer, "DESCRIBE: singer")
        assert [step.argument for step in steps] == ["singer"] * 3
        assert not any("replaced" in step.trace for step in steps)
        spent = TRIES * (len(tokenizer.encode("DESCRIBE: singer", add_special_tokens=False)) + 1)
        kept = [step.trace.get("kept") for step in steps]
        assert kept == [None, *[{"reason": "repeated", "extra_tokens": spent}] * 2]


class TestSeveralActions:
    def test_a_turn_is_generated_once_and_its_results_are_read_together(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        def ids(text: str) -> list[int]:
            return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]

        prompt = Prompt("v2")
        parrot = Parrot(ids("DESCRIBE: Singer, Concert\nQUERY: SELECT 4"), ids("ANSWER: @last"))
        layout = ChatLayout.of(tokenizer, **prompt.for_template)
        policy = ModelPolicy(parrot, layout, prompt=prompt)
        plan = plan_of([q for q in music.questions if q.question_id == "music_count"])
        (played,) = play(music, policy, plan)
        assert played.episode.correct and parrot.calls == 2
        assert [step.trace["turn"] for step in played.episode.steps] == [1, 1, 1, 2]
        talk = played.conversation
        assert talk is not None
        own = [i for i, mask in zip(talk.completion_ids, talk.env_mask, strict=True) if mask]
        assert own == [
            *ids("DESCRIBE: Singer, Concert\nQUERY: SELECT 4"),
            *ids("ANSWER: @last"),
        ]
        tokens = [step.trace.get("completion_tokens", 0) for step in played.episode.steps]
        assert sum(tokens) == len(own)


class TestTransformersGenerator:
    CONTEXTS = ([5, 9, 17], [30, 31, 32, 33, 34, 35, 36], [8])

    def generate(
        self, model: Any, contexts: Sequence[list[int]], *, stop: int = 4, temperature: float = 0.0
    ) -> list[list[int]]:
        generator = TransformersGenerator(
            model, stop_ids=[stop], pad_id=0, sampling=Sampling(12, temperature)
        )
        return [turn.ids for turn in generator.generate(list(contexts))]

    def test_a_batch_gives_what_each_gets_alone(self, model: Any) -> None:
        together = self.generate(model, self.CONTEXTS)
        assert together == [self.generate(model, [ids])[0] for ids in self.CONTEXTS]

    def test_ends_with_the_stop_token_or_at_the_limit(self, model: Any) -> None:
        (free,) = self.generate(model, [[5, 9, 17]])
        assert len(free) == 12
        for ids in self.generate(model, self.CONTEXTS, stop=free[3]):
            assert len(ids) == 12 or ids[-1] == free[3]
            assert free[3] not in ids[:-1]

    def test_sampling_follows_torchs_seed(self, model: Any) -> None:
        drawn = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            drawn.append(self.generate(model, [[5, 9, 17]] * 4, temperature=1.0))
        assert drawn[0] == drawn[1] != drawn[2]
        assert len({tuple(ids) for ids in drawn[0]}) > 1

    def test_a_whole_evaluation_with_an_untrained_model(
        self, music: SQLEnvironment, model: Any, tokenizer: Any
    ) -> None:
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=2)
        generator = TransformersGenerator(
            model, stop_ids=[tokenizer.eos_token_id], pad_id=tokenizer.pad_token_id,
            sampling=Sampling(8),
        )  # fmt: skip
        result = evaluate(env, policy_of(generator, tokenizer, max_new_tokens=8))
        assert result.n_completed == 4
        assert result.summary.policy_seconds > result.summary.environment_seconds
