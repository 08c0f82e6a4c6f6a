"""Models whose weights and optimizer are sharded over processes by FSDP (version 2).

Checkpoints hold whole tensors, so a run may be resumed on any number of processes, sharded or not. Each process has the
whole weights while it validates, since processes then work on different numbers of batches.

All functions communicate: every process must call them, in the same order.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import DistributedType, broadcast_object_list
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from medvqa_core.errors import ConfigError

# Keep weights or optimizer in another way than checkpoints expect.
UNSUPPORTED = (DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM)


def check_distribution(accelerator: Any) -> None:
    """Raise a ConfigError if checkpoints do not support how `accelerator` distributes the model."""
    kind = accelerator.distributed_type
    if kind in UNSUPPORTED:
        raise ConfigError(
            f"training does not support {kind.value}. Its checkpoints must be unpickled, and hold one part for each "
            "process. Use --launch fsdp, which shares weights and optimizer too, or --launch eight_gpus"
        )
    if kind == DistributedType.FSDP and accelerator.state.fsdp_plugin.fsdp_version != 2:
        raise ConfigError("training supports FSDP version 2. Add fsdp_version: 2 to the configuration of accelerate")


def shard(model: nn.Module, plugin: Any) -> None:
    """Shard `model` in place: each of its `_no_split_modules` on its own, and the rest together.

    accelerate would shard the output layer on its own, which fails where a bias is shared (SwinVED's decoder).

    Args:
        plugin: accelerate's FullyShardedDataParallelPlugin.
    """
    options = {"mp_policy": plugin.mixed_precision_policy or MixedPrecisionPolicy()}
    if plugin.cpu_offload:
        options["offload_policy"] = plugin.cpu_offload
    names = set(model._no_split_modules or ())
    for module in reversed(list(model.modules())):  # inner modules first
        if type(module).__name__ in names:
            fully_shard(module, reshard_after_forward=plugin.reshard_after_forward, **options)
    plain = type(model)
    fully_shard(model, **options)
    # save_pretrained copies the class's file and writes its name.
    type(model).__module__, type(model).__name__ = plain.__module__, plain.__name__
    plugin.auto_wrap_policy = None  # accelerate finds the model sharded


def gather(value: Any) -> Any:
    """A sharded tensor as a whole one in the CPU's memory. Anything else is returned as it is."""
    from torch.distributed.tensor import DTensor

    return value.full_tensor().cpu() if isinstance(value, DTensor) else value


def gather_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The whole weights of a sharded model. Tied weights remain one tensor, as `save_pretrained` expects."""
    found: dict[int, torch.Tensor] = {}
    weights = model.state_dict(keep_vars=True)
    for value in weights.values():
        if id(value) not in found:
            found[id(value)] = gather(value.detach())
    return {name: found[id(value)] for name, value in weights.items()}


def gather_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The whole state of the AdamW of a sharded model, as `state_dict` returns it for a model that is not sharded.

    A process without a row of a small parameter has no moments of it, and gathers those of the others.
    """
    state = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    known = [sorted(state["state"])]
    broadcast_object_list(known)  # the first process has a row of every parameter
    whole = {}
    for number in known[0]:
        blank = dict.fromkeys(("exp_avg", "exp_avg_sq"), torch.zeros_like(parameters[number]))
        moments = state["state"].get(number, blank)
        whole[number] = {name: gather(moments[name]) for name in sorted(moments)}
    return {"state": whole, "param_groups": state["param_groups"]}


def shard_like(value: Any, parameter: torch.Tensor) -> Any:
    """The shard of a whole `value` that belongs to `parameter`. Scalars and unsharded parameters keep the value."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(parameter, DTensor) or value.shape != parameter.shape:
        return value
    return distribute_tensor(value.to(parameter.device), parameter.device_mesh, parameter.placements)


def load_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Load a whole optimizer state into the optimizer of a model that may be sharded."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    shards = {
        number: {name: shard_like(value, parameters[number]) for name, value in moments.items()}
        for number, moments in state["state"].items()
    }
    optimizer.load_state_dict({"state": shards, "param_groups": state["param_groups"]})


@contextmanager
def whole_weights(model: nn.Module) -> Iterator[None]:
    """Keep the whole weights of a sharded `model` in every process. Other models are left as they are."""
    if not isinstance(model, FSDPModule):
        yield
        return
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    model.set_reshard_after_forward(False)
    for part in parts:
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            part.set_reshard_after_forward(part is not model, recurse=False)
