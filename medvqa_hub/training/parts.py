"""The parts of a model that a recipe gives learning rates to, and what rate 0 does to them.

A part with rate 0, or without a rate, is frozen: it takes no gradient, and it runs as in evaluation, without dropout
or dropped paths, so that a frozen encoder's features are those that it was trained to give.
"""

import re
from collections.abc import Mapping

from torch import nn

from medvqa_core.errors import ConfigError

# Part -> pattern of its parameters' names, tried in this order.
PATTERNS = {
    "swin-ved": {"encoder": r"(^|\.)model\.encoder\.", "decoder": r"(^|\.)decoder\."},
    "blip2-multiview": {
        "lora": r"\.lora_",
        "q_formers": r"branches\..*(qformer|query_tokens)",
        "projections": r"branches\..*projection",
        "prefix": r"prefix_embeddings",
    },
}
NO_DECAY = re.compile(r"bias$|norm", re.IGNORECASE)


def part_of(name: str, kind: str) -> str | None:
    """The part that a parameter belongs to; None: always frozen."""
    return next((part for part, pattern in PATTERNS[kind].items() if re.search(pattern, name)), None)


def freeze_parts(model: nn.Module, kind: str, rates: Mapping[str, float]) -> None:
    """Let exactly the parts with a rate above 0 take gradients.

    Raises:
        ConfigError: a part that is to be trained has no parameter in this model, or only quantised ones.
    """
    found = dict.fromkeys((part for part, rate in rates.items() if rate), 0)
    for name, parameter in model.named_parameters():
        part = part_of(name, kind)
        # peft keeps a frozen twin of each module that it trains whole.
        trained = part in found and parameter.is_floating_point() and ".original_module." not in name
        parameter.requires_grad_(trained)
        if trained:
            found[part] += parameter.numel()
    empty = [part for part, size in found.items() if not size]
    if empty:
        raise ConfigError(
            f"training.learning_rates.{empty[0]} is {rates[empty[0]]}, but this model has nothing there to train; set "
            "it to 0"
        )


def parameter_groups(
    model: nn.Module, kind: str, rates: Mapping[str, float], weight_decay: float
) -> list[dict[str, object]]:
    """Groups for an optimizer: per trained part its weights, and its biases and norms, which never decay."""
    groups = []
    for part, rate in rates.items():
        for decays in (True, False):
            parameters = [
                parameter
                for name, parameter in model.named_parameters()
                if parameter.requires_grad and part_of(name, kind) == part and (not NO_DECAY.search(name)) == decays
            ]
            if parameters:
                decay = weight_decay if decays else 0.0
                groups.append({"params": parameters, "lr": float(rate), "weight_decay": decay, "part": part})
    return groups


def frozen_modules(model: nn.Module) -> list[nn.Module]:
    """The largest modules without a trained parameter; those without any parameter at all only inside them."""
    parameters = list(model.parameters())
    if parameters and not any(parameter.requires_grad for parameter in parameters):
        return [model]
    return [module for child in model.children() for module in frozen_modules(child)]
