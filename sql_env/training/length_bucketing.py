"""TRL's trainers without the work their batches do not need.

TRL pads all episodes of a round to the longest of them, prompts on the left, and then cuts the
round into micro-batches of any lengths. None of that changes a gradient, and most of it is
arithmetic on padding. Here episodes of like length share a micro-batch, columns that are padding in
all its rows are cut off, and rows begin at the left: causal attention then never sees the padding
behind them and needs no mask, which lets torch take its fastest kernel. An episode that did as well
as all others of its question has an advantage of zero and no gradient: it is not computed at all.

The log-probabilities of sampling time are the old ones of the loss: where sampling is less precise
than training, TRL's importance ratio makes up for the difference, and its clipping limits that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer, SFTTrainer

from sql_env.agent.prompts import Prompt
from sql_env.training.resuming import KeepsArguments
from sql_env.training.run_log import HUB

Batch = dict[str, Any]

_NO_ADVANTAGE = 1e-6  # what rounding leaves of a difference of equal rewards


def forget_trainers(model: Any) -> None:
    """Undo what an earlier trainer did to `model`, so that the next one sets it up itself.

    Accelerate wraps `forward` in autocast once and never again; TRL replaces `forward`. A second
    trainer on the same model would silently train in fp32, at several times the memory.
    """
    for name in ("forward", "_original_forward", "_is_accelerate_prepared"):
        model.__dict__.pop(name, None)


class PushesTheModel(KeepsArguments):
    """A trainer that sends the hub a folder of its own: a run's folder is more than a model.

    The model's config.json would replace the run's, and transcripts would be published.

    Attributes:
        prompt: what the model is trained with; it is sent along.
    """

    prompt: Prompt | None = None

    def push_to_hub(self, *arguments: Any, **options: Any) -> Any:
        with self._own_folder():
            return super().push_to_hub(*arguments, **options)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        with self._own_folder():
            super()._push_from_checkpoint(checkpoint_folder)

    @contextmanager
    def _own_folder(self) -> Iterator[None]:
        run = self.args.output_dir
        folder = Path(run) / HUB
        folder.mkdir(parents=True, exist_ok=True)
        if self.prompt is not None:
            self.prompt.save(folder)
        self.args.output_dir = str(folder)
        try:
            yield
        finally:
            self.args.output_dir = run


class BucketedSFTTrainer(PushesTheModel, SFTTrainer):  # type: ignore[misc]
    """`SFTTrainer` on batches padded on the right, whose padding nothing attends to."""

    def compute_loss(self, model: Any, inputs: Batch, **options: Any) -> Any:
        mask = inputs.pop("attention_mask")
        inputs["position_ids"] = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
        # Without a mask TRL counts one row of every batch.
        self._total_train_tokens += int(mask.sum()) - mask.shape[1]
        return super().compute_loss(model, inputs, **options)


class BucketedGRPOTrainer(PushesTheModel, GRPOTrainer):  # type: ignore[misc]
    """`GRPOTrainer` on micro-batches that are only as wide as their own longest episode."""

    _buffered_inputs: list[Batch] | None
    _scored: Tensor  # log-probabilities of the last forward

    def _prepare_inputs(self, generation_batch: Any) -> Batch:
        before = self._buffered_inputs
        inputs: Batch = super()._prepare_inputs(generation_batch)
        played = self._buffered_inputs
        # All micro-batches of a round make one update: only then is their order of no account.
        one_update = self.args.steps_per_generation == self.args.gradient_accumulation_steps
        if played is None or played is before or not one_update:
            return inputs
        # Other losses divide by the rows or tokens of a micro-batch, and KL is about every row;
        # several processes gather their rows, and need as many each.
        alone = self.accelerator.num_processes == 1
        teaches_all = self.beta != 0 or self.loss_type not in ("dapo", "cispo") or not alone
        self._buffered_inputs = ordered = by_length(played, drop_idle=not teaches_all)
        return ordered[int(self._step % self.args.steps_per_generation)]

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        # A question's id lies on one message of two, and a table of wandb refuses that.
        prompts = self._logs["prompt"]
        for number, messages in enumerate(prompts):
            prompts[number] = [{key: m[key] for key in ("role", "content")} for m in messages]
        # TRL's own `clipped_ratio` is of the last turns alone.
        played = getattr(self.rollout_func, "play", [])
        for name in played[0] if played else ():
            self._metrics["train"][name] = [row[name] for row in played]
        played.clear()
        super().log(logs, start_time)

    def _compute_loss(self, model: Any, inputs: Batch) -> Tensor:
        batch = trimmed(inputs)
        trained = batch.get("old_per_token_logps")
        sampled = batch.get("sampling_per_token_logps")
        if sampled is None or self.use_vllm:  # TRL corrects vLLM's itself
            plain: Tensor = super()._compute_loss(model, batch)
            return plain
        if self.vllm_importance_sampling_correction:
            batch["old_per_token_logps"] = sampled
        loss: Tensor = super()._compute_loss(model, batch)
        mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
        self._log_mismatch((self._scored if trained is None else trained)[mask], sampled[mask])
        return loss

    def _log_mismatch(self, trained: Tensor, sampled: Tensor) -> None:
        """How far apart sampling and training are, under the names that TRL gives vLLM's."""
        if not self.model.training or not len(trained):
            return
        difference = trained - sampled
        own = {
            "sampling_logp_difference/mean": difference.abs().mean(),
            "sampling_logp_difference/max": difference.abs().max(),
            "importance_sampling_ratio/mean": difference.exp().mean(),
        }
        for name, value in own.items():
            self._metrics["train"][f"sampling/{name}"].append(value.item())

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        plain = batch_size is None and all(value is None for value in images.values())
        if compute_aux_loss or not plain:
            scores: tuple[Tensor, Tensor | None, Tensor | None] = (
                super()._get_per_token_logps_and_entropies(
                    model,
                    input_ids,
                    attention_mask,
                    logits_to_keep,
                    batch_size,
                    compute_entropy,
                    compute_aux_loss,
                    **images,
                )
            )
            return scores
        labels = input_ids.masked_fill(attention_mask == 0, -100)
        labels[:, :-logits_to_keep] = -100
        width = input_ids.shape[1]
        columns = torch.arange(width, device=input_ids.device)
        padding = attention_mask.argmax(dim=1, keepdim=True)  # how much of it on the left
        shifted = (columns + padding) % width
        with self.accelerator.autocast():
            outputs = model(
                input_ids=input_ids.gather(1, shifted),
                labels=labels.gather(1, shifted),
                fused_lm_head=True,
            )
        back = columns[-logits_to_keep:] - 1 - padding
        entropies = outputs.entropy.gather(1, back) if compute_entropy else None
        logps = outputs.log_probs.gather(1, back)
        self._scored = logps.detach()
        return logps, entropies, None


def by_length(batches: list[Batch], *, drop_idle: bool = False) -> list[Batch]:
    """The rows of all micro-batches, sorted by length and dealt out anew.

    Args:
        drop_idle: leave out rows without an advantage, as far as micro-batches stay of one size.
    """
    joined = {name: _joined([batch[name] for batch in batches]) for name in batches[0]}
    lengths = joined["prompt_mask"].sum(dim=1) + joined["completion_mask"].sum(dim=1)
    size = len(lengths) // len(batches)
    rows = torch.arange(len(lengths), device=lengths.device)
    if drop_idle:
        idle = joined["advantages"].abs() < _NO_ADVANTAGE
        size = min(size, max(1, -(-int((~idle).sum()) // len(batches))))
        rows = idle.int().argsort(stable=True)[: size * len(batches)]
    # The largest first: memory fails early.
    order = rows[lengths[rows].argsort(descending=True, stable=True)]
    return [
        {name: _rows(value, order[start : start + size]) for name, value in joined.items()}
        for start in range(0, len(order), size)
    ]


def trimmed(inputs: Batch) -> Batch:
    """`inputs` without the columns left of every prompt and right of every completion."""
    first = int(inputs["prompt_mask"].any(dim=0).int().argmax())
    width = inputs["completion_mask"].shape[1]
    last = width - int(inputs["completion_mask"].any(dim=0).flip(0).int().argmax())
    cut = dict(inputs)
    for name, value in inputs.items():
        if not isinstance(value, Tensor) or value.dim() != 2:
            continue
        if name in ("prompt_ids", "prompt_mask"):
            cut[name] = value[:, first:]
        elif value.shape[1] == width:
            cut[name] = value[:, :last]
    return cut


def _joined(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(values) if first.dim() else first
    return [item for value in values for item in value] if isinstance(first, list) else first


def _rows(value: Any, order: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[order] if value.dim() else value
    return [value[i] for i in order.tolist()] if isinstance(value, list) else value
