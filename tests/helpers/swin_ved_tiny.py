"""A tiny SwinVED whose answers depend on everything, and inputs for it."""

import torch
from swin_ved import SwinVedConfig, SwinVedForConditionalGeneration, SwinVedProcessor, train_tokenizer

TEXTS = (
    "Is there evidence of edema?", "No, the lungs are clear.", "Does the patient have a pneumothorax?",
    "There is a small left pneumothorax.", "What support devices are present?", "A tube and two lines.",
)  # fmt: skip


def tiny_model(seed: int = 0, **config) -> SwinVedForConditionalGeneration:
    """In evaluation mode, with weights so large that tokens differ between questions and between images."""
    torch.manual_seed(seed)
    model = SwinVedForConditionalGeneration(SwinVedConfig.tiny(vocab_size=50, **config)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.2)
    return model


def exact_model(seed: int = 0, **config) -> SwinVedForConditionalGeneration:
    """`tiny_model` in float64, where what is computed in another order differs by some 1e-13 on any CPU.

    In float32 it differs by up to 1e-4, by the CPU's kind: the logits of these weights are in the tens.
    """
    return tiny_model(seed, **config).double()


def studies(number: int = 2, images: int = 3, seed: int = 1) -> torch.Tensor:
    """Random pixels (studies, images, 3, 64, 64)."""
    return torch.randn(number, images, 3, 64, 64, generator=torch.Generator().manual_seed(seed))


def questions(lengths: tuple[int, ...] = (3, 5, 2, 4), seed: int = 2) -> list[torch.Tensor]:
    """`[CLS] words [BOS]` of each length, ids above the special ones."""
    generator = torch.Generator().manual_seed(seed)
    words = [torch.randint(7, 50, (length,), generator=generator) for length in lengths]
    return [torch.cat([torch.tensor([0]), ids, torch.tensor([5])]) for ids in words]


def pad(rows: list[torch.Tensor], left: bool, value: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows padded to the longest, and their mask."""
    longest = max(len(row) for row in rows)
    padded = torch.full((len(rows), longest), value)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(0, len(row))
        padded[number, place], mask[number, place] = row, 1
    return padded, mask


def tiny_processor(**arguments) -> tuple[SwinVedProcessor, SwinVedConfig]:
    """A processor with a vocabulary of TEXTS, and the configuration that goes with it."""
    tokenizer = train_tokenizer(TEXTS)
    config = SwinVedConfig.tiny(vocab_size=len(tokenizer))
    return SwinVedProcessor.from_config(config, tokenizer, **arguments), config
