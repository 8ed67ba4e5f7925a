"""`sql-env` with TRL's own use of vLLM, on a machine without vLLM and without a GPU.

TRL imports a few names of the package `vllm`; the modules made here have these and no more. Its
client sends weights from GPUs over NCCL; here the CPU passes for one, and they go over gloo. The
colocated `LLM` samples with a transformers model, and writes what it did into a file for each rank.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from datetime import timedelta
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from vllm_server import ServedModel

JOURNAL = "SQL_ENV_TEST_VLLM_JOURNAL"  # a folder


def trainer_init(init_info: dict[str, Any]) -> Any:
    """The trainer's end of the group that weights are sent through; it is rank 0."""
    size = init_info["world_size"]
    store = dist.TCPStore(
        init_info["master_address"],
        init_info["master_port"],
        size,
        is_master=True,
        wait_for_workers=False,
    )
    group = dist.ProcessGroupGloo(store, 0, size, timedelta(seconds=60))
    return SimpleNamespace(send=group, group=SimpleNamespace(store=store, socket=None))


def packed_nccl_broadcast_producer(
    iterator: Iterable[Any], group: Any, src: int, post_iter_func: Any
) -> None:
    """Send every tensor, in order."""
    for item in iterator:
        tensor = post_iter_func(item).detach().contiguous()
        group.send.broadcast([tensor], dist.BroadcastOptions()).wait()


class ColocatedLLM:
    """`vllm.LLM` as TRL uses it."""

    def __init__(self, model: str, **settings: Any) -> None:
        self._served = ServedModel(model)
        self._settings = settings
        self._loads = 0
        worker = SimpleNamespace(model_runner=SimpleNamespace(model=self))
        executor = SimpleNamespace(driver_worker=worker)
        self.llm_engine = SimpleNamespace(model_executor=executor)
        self._write({"max_model_len": settings["max_model_len"]})

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, tensor in weights:
            self._served.load(name, tensor)

    def reset_prefix_cache(self) -> None:
        self._loads += 1  # TRL's last call, after all weights

    def generate(self, prompts: list[Any], sampling_params: Any, **_: Any) -> list[Any]:
        options = vars(sampling_params)
        if self._settings["tensor_parallel_size"] > 1:  # all ranks of a model must draw the same
            torch.manual_seed(sum(sum(p["prompt_token_ids"]) for p in prompts))
        asked = [prompt["prompt_token_ids"] for prompt in prompts]
        outputs = []
        for ids, (sampled, logprobs) in zip(
            asked, self._served.sample(asked, options), strict=True
        ):
            self._write({"prompt": ids, "completion": sampled, "loads": self._loads})
            table = [
                {token: SimpleNamespace(rank=1, logprob=logprob)}
                for token, logprob in zip(sampled, logprobs, strict=True)
            ]
            output = SimpleNamespace(token_ids=sampled, logprobs=table)
            outputs.append(SimpleNamespace(prompt_token_ids=ids, outputs=[output]))
        return outputs

    def _write(self, row: dict[str, Any]) -> None:
        path = Path(os.environ[JOURNAL]) / f"rank-{os.environ['RANK']}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def stand_in(name: str, **names: Any) -> None:
    """Make `name` importable."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    module.__file__ = __file__
    vars(module).update(names)
    sys.modules[name] = module


def pretend_vllm() -> None:
    """Before TRL is imported."""
    stand_in(
        "vllm",
        __version__="0.28.0",
        LLM=ColocatedLLM,
        RequestOutput=None,
        SamplingParams=SimpleNamespace,
    )
    stand_in("vllm.sampling_params", StructuredOutputsParams=None)
    stand_in("vllm.utils")
    stand_in("vllm.utils.network_utils", get_ip=lambda: "127.0.0.1")
    stand_in("vllm.distributed")
    transfer = "vllm.distributed.weight_transfer"
    stand_in(transfer)
    stand_in(f"{transfer}.nccl_common", trainer_init=trainer_init)
    producer = packed_nccl_broadcast_producer
    stand_in(f"{transfer}.packed_tensor", packed_nccl_broadcast_producer=producer)

    from trl.generation import vllm_client

    # Used by the client for nothing but the check that weights leave from a GPU.
    on_gpu = SimpleNamespace(type="cuda", index=None)
    vllm_client.torch = SimpleNamespace(device=lambda _: on_gpu, Tensor=torch.Tensor)


if __name__ == "__main__":
    pretend_vllm()
    from sql_env.cli import main

    main()
