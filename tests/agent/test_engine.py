"""The engine writes what `generate` writes, whatever the turns, lengths and modes."""

from __future__ import annotations

import gc
import random
import shutil
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from sql_env.agent.engine import slot_cache
from sql_env.agent.engine.decode_loop import draw_tokens
from sql_env.agent.engine.lockstep import LockstepEngine, UnsupportedModelError
from sql_env.agent.generation import (
    READING,
    Completion,
    Sampling,
    TransformersGenerator,
    bytes_of_conversation,
    make_generator,
)
from sql_env.training.config import GRPOConfig
from sql_env.training.data_loading import load_for_training

STOP = [2, *range(7, 40)]  # many, so that random models finish turns at different lengths


def contexts_of(lengths: list[int], seed: int = 0, shared: int = 0) -> list[list[int]]:
    draw = random.Random(seed)
    start = [draw.randrange(40, 500) for _ in range(shared)]
    return [start + [draw.randrange(40, 500) for _ in range(length)] for length in lengths]


def ids_of(generator: Any, contexts: list[list[int]]) -> list[list[int]]:
    return [turn.ids for turn in generator.generate(contexts)]


def backends(model: Any, sampling: Sampling, **options: Any) -> tuple[LockstepEngine, Any]:
    engine = LockstepEngine(model, stop_ids=STOP, sampling=sampling, max_length=512, **options)
    return engine, TransformersGenerator(model, stop_ids=STOP, pad_id=0, sampling=sampling)


def tokens_read_by(engine: LockstepEngine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every forward of the engine, by how many tokens it is given."""
    read: list[int] = []
    forward = engine._forward

    def counted(tokens: torch.Tensor, *rest: Any) -> torch.Tensor:
        read.append(tokens.numel())
        return forward(tokens, *rest)

    monkeypatch.setattr(engine, "_forward", counted)
    return read


@pytest.fixture(params=["llama", "qwen3"])
def make_model(
    request: pytest.FixtureRequest,
    make_llama: Callable[..., Any],
    make_qwen3: Callable[..., Any],
) -> Callable[..., Any]:
    return make_llama if request.param == "llama" else make_qwen3


def test_greedy_tokens_equal_generate_over_several_turns(make_model: Callable[..., Any]) -> None:
    engine, reference = backends(make_model(), Sampling(20, temperature=0))
    talks = contexts_of([3, 40, 17, 1, 90, 40], shared=20)
    draw = random.Random(1)
    lengths = set()
    for _ in range(4):
        mine, theirs = engine.generate(talks), reference.generate(talks)
        assert [turn.ids for turn in mine] == [turn.ids for turn in theirs]
        lengths |= {len(turn.ids) for turn in mine}
        grown = [
            talk + turn.ids + contexts_of([draw.randrange(1, 30)], seed=draw.randrange(99))[0]
            for talk, turn in zip(talks, mine, strict=True)
        ]
        # Some episodes end, others go on.
        talks = [talk for talk in grown if draw.random() < 0.8]
    assert len(lengths) > 1, "no turn ended early: the test says nothing about shrinking"


def test_sampled_logprobs_equal_a_full_forward(make_model: Callable[..., Any]) -> None:
    model = make_model()
    engine, _ = backends(model, Sampling(16, temperature=0.7))
    torch.manual_seed(3)
    talks = contexts_of([5, 30, 30])
    for _ in range(2):
        for talk, turn in zip(talks, engine.generate(talks), strict=True):
            logits = model(torch.tensor([talk + turn.ids])).logits[0].detach()
            logprobs = functional.log_softmax(logits / 0.7, dim=-1)[len(talk) - 1 : -1]
            expected = logprobs.gather(1, torch.tensor(turn.ids)[:, None]).squeeze(1)
            torch.testing.assert_close(torch.tensor(turn.logprobs), expected, atol=1e-4, rtol=1e-4)
            talk += [*turn.ids, 77, 78]


def test_contexts_that_begin_anew_are_read_anew(make_llama: Callable[..., Any]) -> None:
    engine, reference = backends(make_llama(), Sampling(8, temperature=0))
    first = contexts_of([60, 70, 80])
    turns = engine.generate(first)
    # The second conversation was cut to another beginning; the third goes on.
    cut = first[1][:10] + first[1][40:] + turns[1].ids + [99]
    longer = [cut, first[2] + turns[2].ids + [88, 89]]
    assert ids_of(engine, longer) == ids_of(reference, longer)


def test_another_turn_than_the_one_written_is_read_from_where_it_parts(
    make_llama: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, reference = backends(make_llama(), Sampling(8, temperature=0))
    first = contexts_of([60, 70, 80])
    engine.generate(first)
    # Twice as many of each, and none goes on with what was written.
    others = [[*talk, 450 + n] for talk in first for n in range(2)]
    read = tokens_read_by(engine, monkeypatch)
    assert ids_of(engine, others) == ids_of(reference, others)
    read_again = sum(read) - 8 * len(others)  # all but the decoding
    assert read_again < 1.5 * sum(map(len, first)), "what was cached is read again"
    assert ids_of(engine, first) == ids_of(reference, first)


def test_stragglers_go_on_when_asked_again(make_model: Callable[..., Any]) -> None:
    engine, reference = backends(make_model(), Sampling(20, temperature=0), stragglers=0.5)
    talks = contexts_of([3, 40, 17, 1, 90, 40, 22, 8], shared=20)
    draw = random.Random(1)
    parts_of_turns = set()
    for _ in range(3):
        expected = ids_of(reference, talks)
        turns: dict[int, Completion] = {}
        parts = [0] * len(talks)
        while going := [i for i in range(len(talks)) if i not in turns or not turns[i].finished]:
            asked = [talks[i] + (turns[i].ids if i in turns else []) for i in going]
            for i, part in zip(going, engine.generate(asked), strict=True):
                turns[i] = turns[i].then(part) if i in turns else part
                parts[i] += 1
            assert sum(not turns[i].finished for i in going) <= len(going) // 2
        assert [turns[i].ids for i in range(len(talks))] == expected
        assert all(len(turn.logprobs or []) == len(turn.ids) for turn in turns.values())
        parts_of_turns |= set(parts)
        talks = [
            talk + ids + contexts_of([draw.randrange(1, 30)], seed=draw.randrange(99))[0]
            for talk, ids in zip(talks, expected, strict=True)
        ]
    assert len(parts_of_turns) > 1, "no turn was left unfinished: the test says nothing"


def test_turns_can_be_written_a_few_tokens_at_once(make_model: Callable[..., Any]) -> None:
    engine, reference = backends(make_model(), Sampling(20, temperature=0), at_once=2)
    first, second = contexts_of([40, 25], shared=10)
    whole = dict(enumerate(ids_of(reference, [first, second])))
    turns = {0: engine.generate([first])[0]}
    assert len(turns[0].ids) == 2 and not turns[0].finished
    # Another comes in the middle; the first goes on where it was.
    turns[1] = Completion([], [], finished=False)
    while going := [n for n, turn in turns.items() if not turn.finished]:
        asked = [(first, second)[n] + turns[n].ids for n in going]
        for n, part in zip(going, engine.generate(asked), strict=True):
            assert len(part.ids) <= 2
            turns[n] = turns[n].then(part)
    assert {n: turn.ids for n, turn in turns.items()} == whole


def test_a_straggler_may_fill_the_window(make_llama: Callable[..., Any]) -> None:
    model = make_llama()
    sampling = Sampling(60, temperature=0)
    options: dict[str, Any] = {"stop_ids": [1], "sampling": sampling, "max_length": 128}
    engine = LockstepEngine(model, stragglers=0.5, **options)
    first, second = contexts_of([68, 68])
    engine._loop._stop_ids = torch.tensor([engine.generate([first])[0].ids[5]])
    turn, other = engine.generate([first, second])
    assert turn.finished != other.finished
    late, context = (turn, first) if other.finished else (other, second)
    (rest,) = engine.generate([context + late.ids])
    whole = late.then(rest)
    assert whole.finished and len(whole.ids) <= 60
    assert whole.ids == engine.generate([context])[0].ids


def test_one_long_part_does_not_make_the_others_long(
    make_llama: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, reference = backends(make_llama(), Sampling(4, temperature=0))
    talks = contexts_of([400, *[5] * 12])
    read = tokens_read_by(engine, monkeypatch)
    assert ids_of(engine, talks) == ids_of(reference, talks)
    decoded = 4 * len(talks)
    assert sum(read) - decoded < 1.5 * sum(map(len, talks)), "padded to the longest"


def test_equal_contexts_sample_independently(make_llama: Callable[..., Any]) -> None:
    engine, _ = backends(make_llama(initializer_range=0.05), Sampling(8, temperature=1.0))
    context = contexts_of([50])[0]
    assert len({tuple(turn.ids) for turn in engine.generate([context] * 8)}) > 1


def test_begin_takes_over_new_weights(make_llama: Callable[..., Any]) -> None:
    model, other = make_llama(seed=0), make_llama(seed=1)
    engine, _ = backends(model, Sampling(8, temperature=0))
    _, reference = backends(other, Sampling(8, temperature=0))
    talks = contexts_of([30, 20])
    before = ids_of(engine, talks)
    model.load_state_dict(other.state_dict())
    engine.begin()
    assert ids_of(engine, talks) == ids_of(reference, talks) != before


def test_an_inference_copy_follows_the_weights_and_leaves_the_model_alone(
    make_llama: Callable[..., Any],
) -> None:
    # Weights so large that no two tokens are alike to bf16, whose rounding differs by processor.
    make = partial(make_llama, initializer_range=0.2)
    model = make()
    engine, _ = backends(model, Sampling(8, temperature=0), copy_dtype=torch.bfloat16)
    halved = make().to(torch.bfloat16)
    _, reference = backends(halved, Sampling(8, temperature=0))
    talks = contexts_of([30, 20])
    assert ids_of(engine, talks) == ids_of(reference, talks)
    assert next(model.parameters()).dtype == torch.float32
    other = make(seed=1)
    model.load_state_dict(other.state_dict())
    engine.begin()
    _, reference = backends(other.to(torch.bfloat16), Sampling(8, temperature=0))
    assert ids_of(engine, talks) == ids_of(reference, talks)


def test_a_model_in_training_is_left_in_training(make_llama: Callable[..., Any]) -> None:
    model = make_llama(attention_dropout=0.5)
    _, reference = backends(model.eval(), Sampling(8, temperature=0))
    talks = contexts_of([30, 20])
    expected = ids_of(reference, talks)
    model.gradient_checkpointing_enable()
    model.train()
    attention = model.config._attn_implementation
    engine, _ = backends(model, Sampling(8, temperature=0))
    assert ids_of(engine, talks) == expected
    assert model.training and model.config._attn_implementation == attention
    loss = model(torch.tensor([talks[0]]), labels=torch.tensor([talks[0]])).loss
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_an_adapter_is_played_as_generate_plays_it(make_llama: Callable[..., Any]) -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    plain = make_llama()
    talks = contexts_of([30, 20])
    without = ids_of(backends(plain, Sampling(8, temperature=0))[0], talks)
    model = get_peft_model(plain, settings)
    engine, reference = backends(model, Sampling(8, temperature=0))
    assert ids_of(engine, talks) == ids_of(reference, talks) != without


def test_a_cache_grows_with_the_conversations(make_llama: Callable[..., Any]) -> None:
    model = make_llama()
    sampling = Sampling(8, temperature=0)
    engine = LockstepEngine(model, stop_ids=STOP, sampling=sampling, max_length=3000)
    reference = TransformersGenerator(model, stop_ids=STOP, pad_id=0, sampling=sampling)
    talks = contexts_of([400, 20])
    talks = [talk + ids for talk, ids in zip(talks, ids_of(engine, talks), strict=True)]
    talks[0] += contexts_of([1500], seed=5)[0]
    talks[1] += [50]
    assert ids_of(engine, talks) == ids_of(reference, talks)
    grown = engine._cache.length
    engine.release()
    assert ids_of(engine, talks[1:]) == ids_of(reference, talks[1:])
    assert engine._cache.length < grown


def test_released_it_holds_nothing(make_llama: Callable[..., Any]) -> None:
    engine, reference = backends(make_llama(), Sampling(8, temperature=0))
    talks = contexts_of([30, 50, 12, 40, 9])
    turns = engine.generate(talks)
    assert engine._cache.size
    engine.release()
    assert not engine._cache.size
    longer = [talk + turn.ids + [77, 78] for talk, turn in zip(talks, turns, strict=True)]
    mine, theirs = engine.generate(longer), reference.generate(longer)
    assert [turn.ids for turn in mine] == [turn.ids for turn in theirs]


def test_the_last_long_conversations_do_not_make_room_for_all(
    make_llama: Callable[..., Any],
) -> None:
    """A cache that grows keeps no slot of a conversation that is over."""
    model = make_llama()
    sampling = Sampling(8, temperature=0)
    engine = LockstepEngine(model, stop_ids=STOP, sampling=sampling, max_length=4000)
    reference = TransformersGenerator(model, stop_ids=STOP, pad_id=0, sampling=sampling)
    talks = contexts_of([50] * 64)
    turns = ids_of(engine, talks)
    for_all = engine._cache.size
    # The last three lie in the last slots.
    last = [talks[n] + turns[n] + contexts_of([2000], seed=n)[0] for n in (61, 62, 63)]
    assert ids_of(engine, last) == ids_of(reference, last)
    assert engine._cache.size < for_all / 4


def test_growing_never_holds_the_old_and_the_new_cache(make_llama: Callable[..., Any]) -> None:
    layers = 16
    model = make_llama(num_hidden_layers=layers, hidden_size=32, head_dim=32)
    engine, _ = backends(model, Sampling(4, temperature=0))
    cache = engine._cache
    cache.resize(64, 1024, [], [])
    small = cache.size
    largest = 0

    def noted(*arguments: Any) -> torch.Tensor:
        nonlocal largest
        made = torch.zeros(*arguments[:1], dtype=arguments[1])
        largest = max(largest, made.nbytes + cache.size)
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(slot_cache, "_empty", noted)
        cache.resize(64, 1280, list(range(64)), list(range(64)))
    assert largest <= cache.size + small / layers


def test_what_a_conversation_takes_is_known_before(make_qwen3: Callable[..., Any]) -> None:
    model = make_qwen3(head_dim=32)
    engine, _ = backends(model, Sampling(4, temperature=0))
    engine._cache.resize(10, 512, [], [])
    logits = model.config.vocab_size * 4 * 4
    told = 10 * (bytes_of_conversation(model, 512) - logits)
    assert told <= engine._cache.size <= 1.02 * told


def test_a_small_gpu_has_slots_for_a_few_long_conversations_of_a_small_model() -> None:
    """Qwen3-0.6B on 15 GB, beside its weights: each conversation may take up the whole window."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
    )
    with torch.device("meta"):
        model = Qwen3ForCausalLM(shape).to(torch.float16)
    assert 20 <= (15e9 - 1.2e9 - READING) // bytes_of_conversation(model, 4096) <= 30
    assert bytes_of_conversation(model.float(), 4096) > 1.9 * bytes_of_conversation(
        model.half(), 4096
    )


def test_an_engine_is_gone_when_nobody_holds_it(make_llama: Callable[..., Any]) -> None:
    """Without a collection: a cycle would keep the cache of a GPU until one."""
    model = with_lora(make_llama())
    engine, _ = backends(model, Sampling(4, temperature=0))
    other, _ = backends(model, Sampling(4, temperature=0))
    held = []
    for one in (engine, other):
        one.generate(contexts_of([30, 20]))
        held += [weakref.ref(one), weakref.ref(one._cache.stores[0])]
    held += [weakref.ref(weight) for weight in engine._copy.parameters()]
    gc.disable()
    try:
        del engine, other, one
        assert [thing() for thing in held] == [None] * len(held)
    finally:
        gc.enable()


# -- several engines over one model ----------------------------------------------------------

COPIES = {"the weights themselves": None, "a copy": torch.float32, "an adapter": None}


@pytest.fixture(params=COPIES)
def shared(
    request: pytest.FixtureRequest, make_llama: Callable[..., Any]
) -> tuple[Any, dict[str, Any]]:
    """A model, and how an engine is made that plays from `COPIES` of it."""
    model = make_llama()
    if request.param == "an adapter":
        model = with_lora(model)
    return model, {"copy_dtype": COPIES[request.param]}


def with_lora(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    return get_peft_model(model, settings)


def bytes_of_tensors() -> int:
    """What all tensors of this process take."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]
    memory = [tensor.untyped_storage() for tensor in tensors]
    return sum({part.data_ptr(): part.nbytes() for part in memory}.values())


def test_engines_over_one_model_hold_one_copy_and_one_cache(
    shared: tuple[Any, dict[str, Any]],
) -> None:
    model, options = shared
    talks = contexts_of([30] * 6)
    without = bytes_of_tensors()
    first, _ = backends(model, Sampling(8, temperature=0), **options)
    first.generate(talks)
    with_one = bytes_of_tensors()
    second, _ = backends(model, Sampling(8, temperature=0.5), **options)
    second.generate(talks)
    assert bytes_of_tensors() < with_one + (with_one - without) / 50
    first.begin()
    first.generate(talks)
    assert bytes_of_tensors() < with_one + (with_one - without) / 50
    del first, second
    assert bytes_of_tensors() <= without


@pytest.mark.parametrize("begins", [False, True], ids=["is made", "begins"])
def test_an_engine_under_way_goes_on_after_another(
    shared: tuple[Any, dict[str, Any]], begins: bool
) -> None:
    model, options = shared
    engine, reference = backends(model, Sampling(12, temperature=0), **options)
    other, _ = backends(model, Sampling(6, temperature=0), **options) if begins else (None, None)
    talks = contexts_of([60, 70, 80])
    for seed in range(3):
        turns = ids_of(engine, talks)
        assert turns == ids_of(reference, talks)
        talks = [talk + ids + [77, 78] for talk, ids in zip(talks, turns, strict=True)]
        if other is None:
            another, _ = backends(model, Sampling(6, temperature=0), **options)
        else:
            another = other
            another.begin()
        assert not engine._cache.size
        strangers = contexts_of([50, 20], seed=seed)
        expected = [ids[:6] for ids in ids_of(reference, strangers)]
        assert ids_of(another, strangers) == expected


def test_engines_over_one_model_follow_its_weights(shared: tuple[Any, dict[str, Any]]) -> None:
    model, options = shared
    engine, reference = backends(model, Sampling(12, temperature=0), **options)
    talks = contexts_of([60, 70, 80])
    seen = [ids_of(engine, talks)]

    def train() -> None:
        for weight in model.parameters():
            if weight.requires_grad:
                weight.data += 0.1 * torch.randn_like(weight)

    torch.manual_seed(0)
    train()
    other, _ = backends(model, Sampling(12, temperature=0), **options)
    seen.append(ids_of(other, talks))
    assert seen[-1] == ids_of(reference, talks)
    # What is under way in the first goes on with the weights of the second.
    longer = [talk + ids + [77] for talk, ids in zip(talks, seen[0], strict=True)]
    assert ids_of(engine, longer) == ids_of(reference, longer)
    for one in (engine, other):
        train()
        one.begin()
        seen.append(ids_of(one, talks))
        assert seen[-1] == ids_of(reference, talks)
    assert len({str(turns) for turns in seen}) == 4, "the weights make no difference"


def test_a_turn_that_another_engine_interrupts_ends_where_it_would_have(
    make_llama: Callable[..., Any],
) -> None:
    model = make_llama()
    options: dict[str, Any] = {"stop_ids": [1], "max_length": 88}
    engine = LockstepEngine(model, sampling=Sampling(20), at_once=8, **options)
    (context,) = contexts_of([68])
    turn = engine.generate([context])[0]
    while not turn.finished:
        LockstepEngine(model, sampling=Sampling(4), **options)
        turn = turn.then(engine.generate([context + turn.ids])[0])
    reference = TransformersGenerator(model, stop_ids=[1], pad_id=0, sampling=Sampling(20))
    assert [turn.ids] == ids_of(reference, [context])
    assert len(turn.ids) == 20


def test_engines_that_take_turns_keep_their_caches(
    make_llama: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in guided decoding, where a second engine writes some turns of the same episodes."""
    model = make_llama()
    engine, reference = backends(model, Sampling(8, temperature=0))
    other, _ = backends(model, Sampling(4, temperature=0))
    talks = contexts_of([60, 70, 80])
    engine.begin()
    turns = ids_of(engine, talks)
    other.generate(talks)
    backends(make_llama(), Sampling(4, temperature=0))[0].begin()  # nor does another model matter
    longer = [talk + ids + [77] for talk, ids in zip(talks, turns, strict=True)]
    read = tokens_read_by(engine, monkeypatch)
    assert ids_of(engine, longer) == ids_of(reference, longer)
    assert sum(read) < 20 * len(talks), "what was cached is read again"


def test_a_model_without_its_adapter_has_another_copy(make_llama: Callable[..., Any]) -> None:
    model = with_lora(make_llama())
    talks = contexts_of([60, 70, 80])
    how: dict[str, Any] = {"copy_dtype": torch.float32}
    engine, reference = backends(model, Sampling(8, temperature=0), **how)
    expected = ids_of(reference, talks)
    with model.disable_adapter():
        bare, reference_bare = backends(model, Sampling(8, temperature=0), **how)
        assert ids_of(bare, talks) == ids_of(reference_bare, talks) != expected
    assert ids_of(engine, talks) == expected
    del engine
    again, _ = backends(model, Sampling(8, temperature=0), **how)
    assert ids_of(again, talks) == expected


@pytest.mark.parametrize("given_back", [False, True])
def test_weights_put_elsewhere_are_found_without_two_slots(
    make_llama: Callable[..., Any], given_back: bool
) -> None:
    """The short cut is tried out again, on two conversations."""
    model, other = make_llama(seed=1), make_llama(seed=2)
    sampling = Sampling(8, temperature=0)
    engine = LockstepEngine(model, stop_ids=STOP, sampling=sampling, max_length=3000)
    reference = TransformersGenerator(other, stop_ids=STOP, pad_id=0, sampling=sampling)
    engine.generate(contexts_of([1500]))
    assert engine._cache.slots == 1
    if given_back:
        backends(model, sampling)
    model.load_state_dict(other.state_dict(), assign=True)
    engine.begin()
    talks = contexts_of([60, 70, 80])
    assert engine._llama_step is not None
    assert ids_of(engine, talks) == ids_of(reference, talks)


def test_after_a_cache_that_did_not_fit_the_engine_begins_anew(
    make_llama: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, reference = backends(make_llama(), Sampling(8, temperature=0))
    talks = contexts_of([60, 70, 80])
    engine.generate(talks)
    real, made = slot_cache._empty, []

    def too_little(*arguments: Any) -> torch.Tensor:
        made.append(arguments)
        if len(made) == 2:
            raise torch.OutOfMemoryError("too little")
        return real(*arguments)

    more = contexts_of([60] * 9)
    with monkeypatch.context() as patched, pytest.raises(torch.OutOfMemoryError):
        patched.setattr(slot_cache, "_empty", too_little)
        engine.generate(more)
    assert ids_of(engine, more) == ids_of(reference, more)


def test_a_context_longer_than_the_window_is_refused(make_llama: Callable[..., Any]) -> None:
    engine, _ = backends(make_llama(), Sampling(8))
    with pytest.raises(ValueError, match="max_length 512"):
        engine.generate(contexts_of([505]))


SLIDING = {
    "all layers": ("mistral", {"sliding_window": 24}),
    "some layers": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 24, "max_window_layers": 1},
    ),
}


@pytest.mark.parametrize("kind", SLIDING)
def test_layers_that_look_back_a_little_keep_their_cache_too(
    make_family: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    family, values = SLIDING[kind]
    model = make_family(family, **values)
    engine, reference = backends(model, Sampling(8, temperature=0))
    assert (engine._llama_step is not None) == (kind == "all layers")
    talks = contexts_of([3, 90, 40, 61])
    whole, _ = backends(make_family(family), Sampling(8, temperature=0))
    assert ids_of(reference, talks) != ids_of(whole, talks), "the window makes no difference"
    for _ in range(3):
        turns = ids_of(engine, talks)
        assert turns == ids_of(reference, talks)
        talks = [talk + ids + [77, 78, 79] for talk, ids in zip(talks, turns, strict=True)]
    read = tokens_read_by(engine, monkeypatch)
    engine.generate(talks)
    assert sum(read) < sum(map(len, talks)) / 2, "what was cached is read again"


def test_capped_attention_is_refused() -> None:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    with pytest.raises(UnsupportedModelError, match="softcap"):
        backends(Gemma2ForCausalLM(config), Sampling(8))


def test_attention_that_the_engine_would_get_wrong_is_refused() -> None:
    """A difference smaller than what bf16 may make; in fp32 it is none of rounding."""
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    torch.manual_seed(0)
    config = GPTNeoConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=32,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        bos_token_id=0,
        eos_token_id=0,
    )
    with pytest.raises(UnsupportedModelError, match=r"does not agree .* logits differ by \d"):
        backends(GPTNeoForCausalLM(config), Sampling(8))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_rounding_of_a_deep_model_in_half_precision_is_no_reason_to_refuse(
    make_llama: Callable[..., Any], seed: int
) -> None:
    """In bf16 the logits of such a model differ by a tenth between two orders of summing up."""
    model = make_llama(seed=seed, num_hidden_layers=24, initializer_range=0.5)
    engine, _ = backends(model, Sampling(4, temperature=0), copy_dtype=torch.bfloat16)
    assert all(turn.ids for turn in engine.generate(contexts_of([12, 5])))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="torch compiles with gcc on a CPU")
def test_compiled_layers_are_for_training_only(
    make_llama: Callable[..., Any],
    chat_tokenizer: Any,
    tiny_config: Callable[..., GRPOConfig],
    tmp_path: Path,
) -> None:
    from torch._dynamo.utils import counters

    make_llama().save_pretrained(tmp_path)
    chat_tokenizer.save_pretrained(tmp_path)
    plain, _ = load_for_training(tiny_config(model_name=str(tmp_path)))
    compiled, _ = load_for_training(tiny_config(model_name=str(tmp_path), compile_layers=True))
    torch.compiler.reset()
    counters.clear()
    talks = contexts_of([30, 20])
    engine, _ = backends(compiled.train(), Sampling(8, temperature=0))
    _, reference = backends(plain, Sampling(8, temperature=0))
    assert ids_of(engine, talks) == ids_of(reference, talks)
    backends(compiled, Sampling(8, temperature=0))[1].generate(talks)
    assert not counters["stats"], "layers were compiled to play"

    tokens = torch.tensor(contexts_of([24, 24]))
    losses = [
        model.train()(tokens, labels=tokens, use_cache=False).loss for model in (compiled, plain)
    ]
    assert counters["stats"]["unique_graphs"] == 1, "the layers share what is compiled"
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    for mine, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-4, rtol=1e-3)

    compiled_so_far = dict(counters["stats"])
    engine.begin()
    assert ids_of(engine, talks) == ids_of(reference, talks)
    assert counters["stats"] == compiled_so_far


def test_a_model_with_attention_of_its_own_is_refused() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(vocab_size=100, hidden_size=32, n_layer=1, n_head=2)
    with pytest.raises(UnsupportedModelError, match="Bloom"):
        backends(BloomForCausalLM(config), Sampling(8))


def test_drawn_tokens_follow_the_distribution() -> None:
    torch.manual_seed(0)
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    logits = probabilities.log().expand(40_000, 4)
    drawn, logprobs = draw_tokens(logits, Sampling(1, temperature=1.0))
    counts = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(counts, probabilities, atol=0.01, rtol=0)
    torch.testing.assert_close(logprobs, probabilities.log()[drawn])


def test_top_p_leaves_only_the_likeliest() -> None:
    torch.manual_seed(0)
    probabilities = torch.tensor([0.5, 0.3, 0.15, 0.05])
    logits = probabilities.log().expand(20_000, 4)
    drawn, _ = draw_tokens(logits, Sampling(1, temperature=1.0, top_p=0.7))
    counts = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(counts, torch.tensor([0.625, 0.375, 0, 0]), atol=0.012, rtol=0)


def test_temperature_flattens_the_distribution() -> None:
    logits = torch.tensor([[2.0, 0.0]])
    _, logprobs = draw_tokens(logits.expand(100, 2), Sampling(1, temperature=2.0))
    expected = functional.log_softmax(torch.tensor([1.0, 0.0]), dim=0)
    assert set(logprobs.tolist()) <= set(expected.tolist())


def test_what_the_engine_cannot_run_is_played_through_generate(
    chat_tokenizer: Any,
    tiny_config: Callable[..., GRPOConfig],
    caplog: pytest.LogCaptureFixture,
) -> None:
    from transformers import BloomConfig, BloomForCausalLM

    shape = BloomConfig(vocab_size=len(chat_tokenizer), hidden_size=32, n_layer=1, n_head=2)
    backend = make_generator(BloomForCausalLM(shape), chat_tokenizer, Sampling(8), max_length=64)
    assert "it plays through generate" in caplog.text
    (turn,) = backend.generate([[40, 41, 42]])
    assert 1 <= len(turn.ids) <= 12


def test_gemma_3_plays_in_the_engine() -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=600,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        sliding_window=24,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        initializer_range=0.3,
    )
    engine, reference = backends(Gemma3ForCausalLM(config).eval(), Sampling(8, temperature=0))
    talks = contexts_of([3, 90, 40, 61])
    for _ in range(2):
        turns = ids_of(engine, talks)
        assert turns == ids_of(reference, talks)
        talks = [talk + ids + [77, 78, 79] for talk, ids in zip(talks, turns, strict=True)]
