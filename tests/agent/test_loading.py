"""Models from folders, adapters and nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sql_env.agent.loading import ModelLoadError, load_model_and_tokenizer
from sql_env.training.config import LoraSettings


def test_a_folder_gives_a_model_and_its_tokenizer(model_dir: Path, chat_tokenizer: Any) -> None:
    model, tokenizer = load_model_and_tokenizer(str(model_dir))
    assert str(model.dtype) == "torch.float32"
    assert tokenizer.chat_template == chat_tokenizer.chat_template
    assert tokenizer.padding_side == "left"


def test_the_precision_may_be_the_checkpoints_own(
    model_dir: Path, chat_tokenizer: Any, tmp_path: Path
) -> None:
    model, _ = load_model_and_tokenizer(str(model_dir), dtype="bfloat16")
    model.save_pretrained(tmp_path)
    chat_tokenizer.save_pretrained(tmp_path)
    own, _ = load_model_and_tokenizer(str(tmp_path), dtype="auto", device="cpu")
    assert str(own.dtype) == "torch.bfloat16"


def test_an_adapter_folder_gives_its_base_with_the_adapter_on_it(
    model_dir: Path, tmp_path: Path
) -> None:
    import torch

    model, tokenizer = load_model_and_tokenizer(str(model_dir), lora=LoraSettings(r=2).to_peft())
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    again, _ = load_model_and_tokenizer(str(tmp_path))
    ids = torch.tensor([[5, 6, 7]])
    base, _ = load_model_and_tokenizer(str(model_dir))
    assert torch.allclose(again(ids).logits, model(ids).logits)
    assert not torch.allclose(again(ids).logits, base(ids).logits)
    trained = [name for name, item in again.named_parameters() if item.requires_grad]
    assert trained
    assert all("lora" in name for name in trained)


def test_the_shipped_adapter_fits_the_shape_of_its_base() -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from safetensors import safe_open
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = Path(__file__).parents[2] / "checkpoints" / "qwen2.5-coder-1.5b-sqlenv"
    config = Qwen2Config(
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        vocab_size=151_936,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = get_peft_model(Qwen2ForCausalLM(config), LoraConfig.from_pretrained(str(folder)))
    wanted = {
        name.replace(".default", ""): list(weight.shape)
        for name, weight in model.named_parameters()
        if "lora" in name
    }
    with safe_open(folder / "adapter_model.safetensors", "pt") as file:
        found = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    assert found == wanted


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("base_model_name_or_path", "other", "was trained on a model of another size than .*other"),
        ("target_modules", ["c_attn"], "Target modules .*c_attn.* not found in the base model"),
    ],
)
def test_an_adapter_of_another_model_is_one_line(
    field: str,
    value: object,
    reason: str,
    model_dir: Path,
    make_llama: Callable[..., Any],
    tmp_path: Path,
) -> None:
    make_llama(hidden_size=32).save_pretrained(tmp_path / "other")
    model, tokenizer = load_model_and_tokenizer(str(model_dir), lora=LoraSettings(r=2).to_peft())
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "other")
    path = tmp_path / "adapter" / "adapter_config.json"
    wanted = str(tmp_path / "other") if value == "other" else value
    path.write_text(json.dumps({**json.loads(path.read_text()), field: wanted}))
    with pytest.raises(ModelLoadError, match=reason) as caught:
        load_model_and_tokenizer(str(tmp_path / "adapter"))
    assert "\n" not in str(caught.value)


def test_a_hub_id_that_cannot_be_had_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelLoadError) as caught:
        load_model_and_tokenizer("nobody/no-such-model")
    message = str(caught.value)
    for part in ("nobody/no-such-model", "folder of that name", "hub", "smollm2-135m"):
        assert part in message


def test_the_folder_of_a_training_names_its_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match=f"this run's model is {tmp_path}/model"):
        load_model_and_tokenizer(str(tmp_path))


@pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "a/b/c"])
def test_a_path_that_is_not_there_is_no_hub_id(name: str) -> None:
    with pytest.raises(ModelLoadError, match="no such folder"):
        load_model_and_tokenizer(name)


def test_a_misspelt_folder_is_not_asked_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoints" / "small").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelLoadError, match=r"no such folder .*; checkpoints holds small"):
        load_model_and_tokenizer("checkpoints/smal")


def test_a_run_folder_points_to_the_models_in_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(ModelLoadError, match="holds models in model"):
        load_model_and_tokenizer(str(tmp_path))


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelLoadError, match="tried the folder"):
        load_model_and_tokenizer(str(tmp_path))
