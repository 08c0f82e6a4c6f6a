"""Run medvqa-hub in a process of a CPU group with FSDP version 2, which accelerate 1.15 allows on accelerators only."""

import os
import sys

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

os.environ |= {
    "ACCELERATE_USE_CPU": "true", "ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": os.environ.get("FSDP_VERSION", "2"),
    "FSDP_RESHARD_AFTER_FORWARD": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
}  # fmt: skip
_init = AcceleratorState.__init__


def init_sharded(self, *args, **kwargs) -> None:
    PartialState(cpu=True)
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_XPU
    _init(self, *args, **kwargs)


if __name__ == "__main__":
    AcceleratorState.__init__ = init_sharded
    from medvqa_hub.cli import main

    sys.exit(main())
