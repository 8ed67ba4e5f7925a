"""`sql-env pack`: a trained model as a small difference to its base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sql_env.commands.train import command_console, training

if TYPE_CHECKING:
    from sql_env.agent.delta import PackedDelta


def register(app: typer.Typer) -> None:
    """Add the commands of this module to `app`."""
    app.command("pack")(pack_command)


def pack_command(
    trained: Annotated[str, typer.Argument(help="A trained model's folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to write the difference to.")],
    base: Annotated[str, typer.Option(help="The model it was trained from.")] = "smollm2-135m",
    megabytes: Annotated[
        float, typer.Option(min=0.001, help="Largest size of the difference.")
    ] = 38.0,
) -> None:
    """Store a trained model as a small difference to its base; of an adapter, that is itself.

    `--policy model:OUT` and model_name=OUT load it like any other model. Write a model card,
    OUT/README.md, to go with it.
    """
    console = command_console()
    with training(console):
        from sql_env.agent.delta import ADAPTER_CONFIG, DeltaError, pack_adapter
        from sql_env.agent.loading import ModelLoadError
        from sql_env.agent.prompts import prompt_of_model

        largest = round(megabytes * 1e6)
        try:
            if (Path(trained) / ADAPTER_CONFIG).is_file():
                size = pack_adapter(Path(trained), out, base_name=base, largest=largest)
                console.print(f"{out}: {size / 1e6:.1f} MB, an adapter of {base} in bfloat16")
            else:
                packed = _pack(trained, out, base, largest)
                console.print(
                    f"{out}: {packed.size / 1e6:.1f} MB, {packed.bits_per_weight:.2f} bits a "
                    f"weight, the difference to {base} is kept to within "
                    f"{packed.relative_error:.1%}"
                )
        except DeltaError as error:
            raise ModelLoadError(f"cannot pack {trained}: {error}") from error
        prompt_of_model(trained).save(out)


def _pack(trained: str, out: Path, base: str, largest: int) -> PackedDelta:
    from sql_env.agent.delta import pack_delta
    from sql_env.agent.loading import ModelLoadError, load_model_and_tokenizer

    base_model, base_tokenizer = load_model_and_tokenizer(base, device="cpu")
    model, tokenizer = load_model_and_tokenizer(trained, device="cpu")
    if _words(tokenizer) != _words(base_tokenizer):
        raise ModelLoadError(
            f"{trained} has another tokenizer or chat template than {base}, and a difference "
            "keeps neither: name the base that it was trained from"
        )
    return pack_delta(base_model, model, out, base_name=base, largest=largest)


def _words(tokenizer: Any) -> tuple[Any, ...]:
    return tokenizer.get_vocab(), tokenizer.chat_template, tokenizer.special_tokens_map
