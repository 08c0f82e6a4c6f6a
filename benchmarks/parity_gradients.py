"""Gradients of the released objective and of the paper's self-critical loss: ours against the released module's.

Both have the same random weights and one batch. The tiny model computes in float64, the full-size one (Swin-B 384 and
three decoder layers of 1,024 with 12,510 words) in float32. The self-critical losses get the same sampled answers and
rewards. The released side pads every question to 64 tokens and every study to three images.

`cosine` is that of all gradients of a part. `largest_difference` is the largest difference of a weight's gradients,
relative to the largest gradient of its tensor, over tensors with gradients above 1e-6 of the part's largest.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from swin_ved import SwinVedConfig, SwinVedProcessor, convert_swin_ved, load_vocabulary
from swin_ved_released import EOS, QUESTION, ReleasedSwinVed, released_names, write_vocabulary

from medvqa_hub.training.recipes import ScstSettings
from medvqa_hub.training.scst_step import SelfCriticalLoss

ALPHA, GAMMA = 0.6, 0.4
ANSWER_PLACES = 256
FULL_VOCABULARY, NEW_TOKENS = 12_510, 12


def compare_tiny(folder: Path, pairs: Sequence[tuple[str, str]], images: Mapping[str, torch.Tensor]) -> dict:
    """Tiny models in float64, with (question, answer) pairs about one study of `pixel_values` and `image_mask`."""
    tokens = write_vocabulary(folder / "tiny_words.txt", [text for pair in pairs for text in pair], cased=False)
    torch.manual_seed(3)
    released = ReleasedSwinVed(tokens, answer_places=ANSWER_PLACES).double()
    return _compare(released, folder / "tiny_words.txt", pairs, images)


def make_full_size(folder: Path) -> tuple[ReleasedSwinVed, list[tuple[str, str]], dict[str, torch.Tensor]]:
    """The full-size module with random weights, four pairs of random words, and a study of two noise images."""
    generator = torch.Generator().manual_seed(0)
    words = [f"w{number}" for number in range(FULL_VOCABULARY - 7)]
    tokens = write_vocabulary(folder / "full_words.txt", words, cased=False)
    drawn = torch.randint(len(words), (4, 2, NEW_TOKENS), generator=generator).tolist()
    pairs = [(" ".join(words[i] for i in one), " ".join(words[i] for i in other)) for one, other in drawn]
    torch.manual_seed(0)
    config = SwinVedConfig.base(vocab_size=len(tokens), answer_position=QUESTION)
    released = ReleasedSwinVed(tokens, config, ANSWER_PLACES)
    present = torch.tensor([[True, True, False]])
    pixels = torch.randn(1, 3, 3, 384, 384, generator=generator) * present[..., None, None, None]
    return released, pairs, {"pixel_values": pixels, "image_mask": present}


def compare_full_size(folder: Path) -> dict:
    """The same at full size in float32."""
    released, pairs, images = make_full_size(folder)
    return _compare(released, folder / "full_words.txt", pairs, images)


def _compare(
    released: ReleasedSwinVed, words: Path, pairs: Sequence[tuple[str, str]], images: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    dtype = next(released.parameters()).dtype
    ours = convert_swin_ved(released_names(released.state_dict()), released.config).to(dtype)
    processor = SwinVedProcessor.from_config(released.config, load_vocabulary(words))
    questions, answers = ([pair[side] for pair in pairs] for side in (0, 1))
    images = {**images, "pixel_values": images["pixel_values"].to(dtype)}

    def batch(targets: bool) -> dict[str, Any]:
        index = [0] * len(pairs)
        return {
            **images,
            **processor(text=questions, answers=answers, study_index=index, released_targets=targets),
        }

    def features() -> torch.Tensor:
        return released.features(*images.values()).expand(len(pairs), -1, -1)

    wanted = _gradients(released, lambda: released.loss(list(pairs), features()))
    rollout = Rollout(ours, batch(False))
    scst = _gradients(released, lambda: rollout.released_loss(released, features(), pairs))
    return {
        "pairs": len(pairs),
        "sampled_tokens": sum(map(len, rollout.samples)),
        "released_objective": {
            "ours": _differ(wanted, _gradients(ours, lambda: ours(**batch(True)).loss)),
            "control_own_targets": _differ(wanted, _gradients(ours, lambda: ours(**batch(False)).loss)),
        },
        "self_critical": {
            "ours": _differ(scst, _gradients(ours, lambda: rollout.loss("answer"))),
            "control_mean_over_tokens": _differ(scst, _gradients(ours, lambda: rollout.loss("token"))),
        },
    }


class Rollout:
    """Self-critical losses with one set of samples. The reward of an answer is the share of its even token ids."""

    def __init__(self, model: Any, batch: dict[str, Any]) -> None:
        self.model, self.batch = model, batch
        self.decoded: list[list[list[int]]] = []
        self.loss("answer")
        self.samples, self.greedy = self.decoded

    def loss(self, normalize: str) -> torch.Tensor:
        """Ours. The seeds fix the samples."""
        self.decoded = []
        rows = [{"qa_id": str(number), "answer": ""} for number in range(len(self.batch["input_ids"]))]
        settings = ScstSettings(alpha=ALPHA, gamma=GAMMA, normalize=normalize, max_new_tokens=NEW_TOKENS)
        seeds = list(range(len(rows)))
        return SelfCriticalLoss(self._reward, self._decode, settings)(self.model, self.batch, rows, seeds)[0]

    def released_loss(
        self, released: ReleasedSwinVed, features: torch.Tensor, pairs: Sequence[tuple[str, str]]
    ) -> torch.Tensor:
        """Equations 1 and 2 of the paper, one question after the other."""
        reward_terms, losses, count = [], [], 0
        rows = zip(pairs, self.samples, self.greedy, strict=True)
        for number, ((question, answer), sample, greedy) in enumerate(rows):
            advantage = even_share(sample) - even_share(greedy)
            row = features[number : number + 1]
            reward_terms.append(-advantage * released.log_probabilities(question, sample, row).sum())
            reference = [*released.read(answer), EOS]
            losses.append(-released.log_probabilities(question, reference, row).sum())
            count += len(reference)
        return ALPHA * torch.stack(reward_terms).mean() + GAMMA * torch.stack(losses).sum() / count

    def _decode(self, answers: list[list[int]]) -> list[str]:
        self.decoded.append(answers)
        return [" ".join(map(str, ids)) for ids in answers]

    def _reward(self, completions: list[str], **columns: Any) -> list[float]:
        return [even_share([int(token) for token in text.split()]) for text in completions]


def even_share(ids: list[int]) -> float:
    return sum(token % 2 == 0 for token in ids) / max(1, len(ids))


def _gradients(module: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients by the release's names, moved out of the module."""
    module.zero_grad(set_to_none=True)
    loss().backward()
    found = {name.removeprefix("model."): weight.grad for name, weight in module.named_parameters()}
    module.zero_grad(set_to_none=True)
    return found


def _differ(wanted: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> dict[str, Any]:
    if wanted.keys() != found.keys():
        raise ValueError(f"The modules have different weights: {sorted(wanted.keys() ^ found.keys())[:5]}.")
    return {part: _differ_in_part(wanted, found, part) for part in ("encoder", "decoder")}


def _differ_in_part(wanted: dict[str, torch.Tensor], found: dict[str, torch.Tensor], part: str) -> dict[str, float]:
    names = [name for name in wanted if name.startswith(f"{part}.")]
    dot = squares = other_squares = 0.0
    for name in names:
        one, other = wanted[name].double().flatten(), found[name].double().flatten()
        dot, squares, other_squares = dot + one @ other, squares + one @ one, other_squares + other @ other
    most = {name: wanted[name].abs().max().item() for name in names}
    floor = 1e-6 * max(most.values())
    apart = [(wanted[name] - found[name]).abs().max().item() / most[name] for name in names if most[name] > floor]
    return {"cosine": (dot / (squares * other_squares) ** 0.5).item(), "largest_difference": max(apart)}
