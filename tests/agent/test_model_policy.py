"""A language model plays: real tokenizer, real (if untrained) transformer, scripted words."""

from __future__ import annotations

from typing import Any

import pytest
from sql_env.agent.second_thoughts import Choices, SecondThoughts

from sql_env.agent.dialogue import Dialogue
from sql_env.agent.episodes import Step
from sql_env.agent.model_policy import HFGenerator, ModelPolicy
from sql_env.agent.parsing import format_action, parse_model_output
from sql_env.agent.policies import OraclePolicy
from sql_env.agent.prompts import format_observation, get_system_prompt
from sql_env.core.render import NO_ROWS
from sql_env.environment import SQLEnvironment
from sql_env.evaluation.green_agent import evaluate
from sql_env.models import SQLAction
from sql_env.training.tiny_model import TinyModelSize, train_tokenizer, untrained_model

torch = pytest.importorskip("torch")

DIALOGUE = Dialogue(get_system_prompt(), format_observation, parse_model_output)
SIZE = TinyModelSize(vocabulary=512, width=32, layers=2, heads=2, window=1024)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    texts = [get_system_prompt(), "Which singers come from France? SELECT name FROM singer"]
    return train_tokenizer(texts, SIZE)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return untrained_model(tokenizer, SIZE)


class Actor:
    """Says what the oracle does, in a model's words: looks the question up in the context."""

    def __init__(self, env: SQLEnvironment, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._scripts = {}
        self.contexts: list[list[list[int]]] = []
        self.choices: list[Choices] = []
        for episode in evaluate(env, OraclePolicy(env.questions)).episodes:
            lines = [
                format_action(SQLAction(action_type=s.action_type, argument=s.argument))
                for s in episode.steps
            ]
            self._scripts[episode.question] = lines

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        self.contexts.append(contexts)
        return [self._speak(self._tokenizer.decode(context)) for context in contexts]

    def _speak(self, heard: str) -> list[int]:
        (script,) = (lines for text, lines in self._scripts.items() if text in heard)
        turn = heard.count("<|assistant|>") - 1
        ids: list[int] = self._tokenizer.encode(script[turn], add_special_tokens=False)
        return [*ids, self._tokenizer.eos_token_id]


class _CrampedActor(Actor):
    """Has memory for so many episodes at once, until it is asked to give some back."""

    def __init__(self, env: SQLEnvironment, tokenizer: Any, room: int) -> None:
        super().__init__(env, tokenizer)
        self._room = room
        self.releases = 0

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        if len(contexts) > self._room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().__call__(contexts)

    def release(self) -> None:
        self.releases += 1


class _Doubter:
    """Always says the same. Other turns were possible, in this order; each begins with a blank."""

    def __init__(self, tokenizer: Any, always: str, others: list[str]) -> None:
        self.tokenizer = tokenizer
        self._always = self._ids(always)
        self._others = [
            self._ids(blank + text) for blank, text in zip("\n\t", others, strict=False)
        ]
        self.choices: list[Choices] = []

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return [*ids, self.tokenizer.eos_token_id]

    def __call__(self, contexts: list[list[int]]) -> list[list[int]]:
        first = [(turn[0], -float(n)) for n, turn in enumerate([self._always, *self._others])]
        rest = [[(token, 0.0)] for token in self._always[1:]]
        self.choices = [[first, *rest] for _ in contexts]
        return [self._always for _ in contexts]

    def write(self, begun: list[list[int]]) -> list[list[int]]:
        by_first = {turn[0]: turn[1:] for turn in self._others}
        return [by_first[context[-1]] for context in begun]


def _steps(env: SQLEnvironment, doubter: _Doubter, step_budget: int = 3) -> list[Step]:
    env = SQLEnvironment(db_dir=env.db_dir, questions=env.questions[:1], step_budget=step_budget)
    thoughts = SecondThoughts(doubter, doubter.write, stop_ids=[])
    policy = ModelPolicy(doubter, doubter.tokenizer, DIALOGUE, second_thoughts=thoughts)
    (episode,) = evaluate(env, policy).episodes
    return episode.steps


def _never(contexts: list[list[int]]) -> list[list[int]]:
    raise AssertionError("nothing was to be thought over")


class TestPolicy:
    def test_plays_all_episodes_in_one_conversation_each(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer)
        result = evaluate(music, ModelPolicy(actor, tokenizer, DIALOGUE))
        assert result.success_rate == 1.0
        assert [len(contexts) for contexts in actor.contexts] == [4, 4, 4, 1, 1]

    def test_a_context_goes_on_from_the_one_before(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer)
        evaluate(music, ModelPolicy(actor, tokenizer, DIALOGUE))
        for earlier, later in zip(actor.contexts[0], actor.contexts[1], strict=True):
            assert later[: len(earlier)] == earlier

    def test_same_with_a_small_batch(self, music: SQLEnvironment, tokenizer: Any) -> None:
        policy = ModelPolicy(Actor(music, tokenizer), tokenizer, DIALOGUE)
        assert evaluate(music, policy, batch_size=1, samples=2).success_rate == 1.0

    def test_keeps_what_the_model_wrote(self, music: SQLEnvironment, tokenizer: Any) -> None:
        result = evaluate(music, ModelPolicy(Actor(music, tokenizer), tokenizer, DIALOGUE))
        (count,) = (e for e in result.episodes if e.question_id == "music_count")
        trace = count.steps[-1].trace
        assert (trace["raw"], trace["parsed"]) == ("ANSWER: 4", True)
        assert trace["prompt_tokens"] > 50
        assert result.summary.parse_rate == 1.0
        assert result.summary.tokens["completion_tokens"] > 0

    def test_words_without_an_action_cost_a_step(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        words = tokenizer.encode("singers come from", add_special_tokens=False)
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=3)
        policy = ModelPolicy(lambda contexts: [words for _ in contexts], tokenizer, DIALOGUE)
        result = evaluate(env, policy)
        assert result.summary.parse_rate == 0.0
        assert result.summary.stop_reasons == {"out_of_budget": 4}
        assert all(step.error for episode in result.episodes for step in episode.steps)

    def test_a_turn_that_would_be_repeated_gives_way_to_the_likeliest_new_one(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        """It asks for all singers for ever; its second thought asks for less, its third answers."""
        always = "QUERY: SELECT * FROM singer"
        others = ["QUERY: SELECT name FROM singer", "ANSWER: 4"]
        steps = _steps(music, _Doubter(tokenizer, always, others))
        assert [step.argument for step in steps] == [
            "SELECT * FROM singer",
            "SELECT name FROM singer",
            "4",
        ]
        assert [step.trace.get("redrawn", False) for step in steps] == [False, True, True]

    def test_a_name_that_does_not_exist_is_not_used(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        wrong = "QUERY: SELECT * FROM bands"
        others = ["QUERY: SELECT 1 FROM bands", "QUERY: SELECT name FROM singer"]
        (step,) = _steps(music, _Doubter(tokenizer, wrong, others), step_budget=1)
        assert step.argument == "SELECT name FROM singer"

    def test_a_table_that_is_nearly_spelt_right_is_spelt_right(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        wrong = "QUERY: SELECT singr.name FROM singr JOIN perfomance"
        others = ["QUERY: SELECT name FROM singer"]
        (step,) = _steps(music, _Doubter(tokenizer, wrong, others), step_budget=1)
        assert step.argument == "SELECT Singer.name FROM Singer JOIN Performance"
        assert step.trace["redrawn"]

    def test_also_where_nothing_better_is_found(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        wrong = "QUERY: SELECT 1 FROM singr WHERE name = ' Ann'"
        others = ["QUERY: SELECT 1 FROM bands", "QUERY: SELECT 2 FROM singr WHERE name = ' Ann'"]
        (step,) = _steps(music, _Doubter(tokenizer, wrong, others), step_budget=1)
        assert step.argument == "SELECT 1 FROM Singer WHERE name = ' Ann'"

    def test_another_turn_is_spelt_right_too(self, music: SQLEnvironment, tokenizer: Any) -> None:
        wrong = "QUERY: SELECT 1 FROM bands"
        others = ["QUERY: SELECT name FROM singr"]
        (step,) = _steps(music, _Doubter(tokenizer, wrong, others), step_budget=1)
        assert step.argument == "SELECT name FROM Singer"

    def test_an_empty_result_is_not_believed_at_once(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        nobody = "QUERY: SELECT name FROM singer WHERE name = 'nobody'"
        others = ["ANSWER: @last", "QUERY: SELECT name FROM singer"]
        first, second, _ = _steps(music, _Doubter(tokenizer, nobody, others))
        assert first.result.endswith(NO_ROWS)
        assert second.argument == "SELECT name FROM singer"

    def test_where_every_thought_leads_nowhere_it_repeats_itself(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        steps = _steps(music, _Doubter(tokenizer, "DESCRIBE: singer", ["DESCRIBE:  Singer"]))
        assert [step.argument for step in steps] == ["singer"] * 3
        assert not any("redrawn" in step.trace for step in steps)

    def test_what_another_episode_played_is_new_in_this_one(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = Actor(music, tokenizer)
        thoughts = SecondThoughts(actor, _never, stop_ids=[])
        policy = ModelPolicy(actor, tokenizer, DIALOGUE, second_thoughts=thoughts)
        # Where nothing is to be found, that is thought over.
        found = [question for question in music.questions if question.gold_answer != []]
        env = SQLEnvironment(db_dir=music.db_dir, questions=found)
        assert evaluate(env, policy, batch_size=1, samples=2).success_rate == 1.0

    @pytest.mark.parametrize(("room", "releases"), [(4, 0), (3, 1), (2, 1), (1, 2)])
    def test_where_memory_is_short_fewer_episodes_play_at_once(
        self, room: int, releases: int, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = _CrampedActor(music, tokenizer, room)
        policy = ModelPolicy(actor, tokenizer, DIALOGUE, release=actor.release)
        result = evaluate(music, policy)
        assert result.success_rate == 1.0
        assert result.n_completed == len(music.questions)
        assert actor.releases == releases

    def test_where_there_is_none_at_all_every_episode_says_so(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        actor = _CrampedActor(music, tokenizer, room=0)
        result = evaluate(music, ModelPolicy(actor, tokenizer, DIALOGUE))
        assert result.n_completed == 0
        assert {e.error for e in result.episodes} == {"OutOfMemoryError: CUDA out of memory"}

    def test_a_question_too_long_for_the_window_breaks_off_alone(
        self, music: SQLEnvironment, tokenizer: Any
    ) -> None:
        endless = music.questions[0].model_copy(
            update={"question_id": "endless", "question_text": "why " * 3000}
        )
        env = SQLEnvironment(db_dir=music.db_dir, questions=[endless, *music.questions])
        actor = Actor(music, tokenizer)
        result = evaluate(env, ModelPolicy(actor, tokenizer, DIALOGUE, max_tokens=1024))
        assert [e.question_id for e in result.episodes if e.error] == ["endless"]
        assert result.n_completed == 4


class TestGenerator:
    CONTEXTS = ([5, 9, 17], [30, 31, 32, 33, 34, 35, 36], [8])

    def generator(self, model: Any, **options: Any) -> HFGenerator:
        return HFGenerator(model, stop_ids=[4], pad_id=0, max_new_tokens=12, **options)

    def test_a_batch_gives_what_each_gets_alone(self, model: Any) -> None:
        generate = self.generator(model)
        together = generate([list(ids) for ids in self.CONTEXTS])
        assert together == [generate([list(ids)])[0] for ids in self.CONTEXTS]

    def test_ends_with_the_stop_token_or_at_the_limit(self, model: Any) -> None:
        (free,) = self.generator(model)([[5, 9, 17]])
        assert len(free) == 12
        stop = free[3]
        generate = HFGenerator(model, stop_ids=[stop], pad_id=0, max_new_tokens=12)
        for ids in generate([list(ids) for ids in self.CONTEXTS]):
            assert len(ids) == 12 or ids[-1] == stop
            assert stop not in ids[:-1]

    def test_sampling_repeats_with_its_seed(self, model: Any) -> None:
        drawn = [
            self.generator(model, temperature=1.0, seed=seed)([[5, 9, 17]] * 4)
            for seed in (1, 1, 2)
        ]
        assert drawn[0] == drawn[1]
        assert drawn[0] != drawn[2]
        assert len({tuple(ids) for ids in drawn[0]}) > 1

    def test_a_whole_evaluation_with_an_untrained_model(
        self, music: SQLEnvironment, model: Any, tokenizer: Any
    ) -> None:
        env = SQLEnvironment(db_dir=music.db_dir, questions=music.questions, step_budget=2)
        generate = HFGenerator(
            model, stop_ids=[tokenizer.eos_token_id], pad_id=tokenizer.pad_token_id,
            max_new_tokens=8,
        )  # fmt: skip
        result = evaluate(env, ModelPolicy(generate, tokenizer, DIALOGUE, max_new_tokens=8))
        assert result.n_completed == 4
        assert result.summary.policy_seconds > result.summary.environment_seconds
