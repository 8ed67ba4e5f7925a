"""`sql-env` with TRL's own vLLM client, on a machine without vLLM and without a GPU.

TRL imports a few names of the package `vllm`; the modules made here have these and no more. Its
client sends weights from GPUs over NCCL; here the CPU passes for one, and they go over gloo.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import timedelta
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist


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
    stand_in("vllm", __version__="0.28.0", LLM=None, RequestOutput=None, SamplingParams=None)
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
