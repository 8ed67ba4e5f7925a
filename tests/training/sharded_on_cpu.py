"""`sql-env` under FSDP2 without GPUs: accelerate shards on accelerators only, torch on gloo too.

accelerate launch --use_fsdp … tests/training/sharded_on_cpu.py train …
"""

from __future__ import annotations

from typing import Any

from accelerate import state
from accelerate.utils import DistributedType

from sql_env.cli import main

begin = state.PartialState.__init__


def begin_as_if_on_gpus(self: Any, *arguments: Any, **options: Any) -> None:
    begin(self, *arguments, **options)
    if self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = DistributedType.MULTI_GPU


if __name__ == "__main__":
    state.PartialState.__init__ = begin_as_if_on_gpus  # type: ignore[method-assign]
    main()
