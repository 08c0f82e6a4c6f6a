"""SwinVED for `parity.py`: tiny weights by the released objective, and full-size random weights."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from parity_cases import Case, Pairs, Way
from parity_gradients import make_full_size
from swin_ved import SwinVedProcessor, convert_swin_ved, load_vocabulary
from swin_ved_released import PAD, ReleasedSwinVed, cut, released_names, released_pixels, write_vocabulary

from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.families.checkpoint import open_checkpoint

STEPS = {"swin_ved_half_trained": 80, "swin_ved_trained": 400}
STUDIES_A_STEP, QUESTIONS_A_STUDY, RATE = 8, 6, 1e-3
ANSWER_PLACES = 72  # more than the 63 new tokens, so that [EOS] is not reached, as with the release's 256
IMAGES, SIDE, RESIZED = 3, 64, 69


class SwinVedPair:
    """The released module, and ours loaded from a checkpoint of the converted weights."""

    WAYS: ClassVar[dict[str, Way]] = {"released_pixels": Way(), "default_pixels": Way("default")}
    CONTROLS: ClassVar[dict[str, Way]] = {
        "beams_end_at_padding": Way(generate={"eos_token_id": PAD}),
        "beams_end_at_padding_and_are_normalised": Way(generate={"eos_token_id": PAD, "length_penalty": 1.0}),
        "questions_in_lower_case": Way(lower_case=True),
        "positions_without_padding": Way(config={"answer_position": None}),
        "other_images": Way(other_images=True),
    }
    END = PAD
    cut = staticmethod(cut)

    def __init__(self, released: ReleasedSwinVed, out: Path, name: str, words: str = "words.txt") -> None:
        self.released, folder = released, out / name
        torch.save(released_names(released.state_dict()), out / f"{name}.pt")
        model = convert_swin_ved(out / f"{name}.pt", released.config)
        model.save_pretrained(folder)
        SwinVedProcessor.from_config(released.config, load_vocabulary(out / words)).save_pretrained(folder)
        (folder / "governance.json").write_text(json.dumps({"governance": "open"}))
        self.answerer = StudyAnswerer(open_checkpoint(str(folder)), GenerationSettings(), "cpu")

    def released_answers(self, case: Case, beams: int) -> list[list[int]]:
        return self.released.decode(case.questions, self._features(case), beams)

    def released_images(self, case: Case) -> Mapping[str, torch.Tensor]:
        return study_images(case)

    def log_probabilities(self, case: Case, question: str, ids: list[int]) -> torch.Tensor:
        return self.released.log_probabilities(question, ids, self._features(case)).detach()

    def prompt_length(self, text: Mapping[str, torch.Tensor]) -> int:
        return text["input_ids"].shape[1]

    def to(self, dtype: torch.dtype) -> None:
        self.released.to(dtype)
        self.answerer.model.to(dtype)

    @torch.no_grad()
    def _features(self, case: Case) -> torch.Tensor:
        images = self.released_images(case)
        dtype = next(self.released.parameters()).dtype
        return self.released.features(images["pixel_values"].to(dtype), images["image_mask"])


class FullSizePair(SwinVedPair):
    """Swin-B 384 and the paper's decoder with random weights, so large that every answer is another one."""

    WAYS: ClassVar[dict[str, Way]] = {"released_pixels": Way()}
    CONTROLS: ClassVar[dict[str, Way]] = {"positions_without_padding": Way(config={"answer_position": None})}
    QUESTIONS = 2

    def __init__(self, out: Path) -> None:
        released, pairs, self.images = make_full_size(out)
        with torch.no_grad():
            for weight in released.decoder.parameters():
                if weight.ndim > 1:
                    weight *= 3
        super().__init__(released, out, "full_size", "full_words.txt")
        self.cases = [_Asked([question for question, _ in pairs[: self.QUESTIONS]])]

    def released_images(self, case: Any) -> Mapping[str, torch.Tensor]:
        return self.images


class _Asked:
    def __init__(self, questions: list[str]) -> None:
        self.questions = questions


def study_images(case: Case) -> dict[str, torch.Tensor]:
    """The first three images by the release's steps, `pixel_values` (1, 3, 3, H, W), missing ones zero."""
    images = [released_pixels(image, RESIZED, SIDE) for image in case.images[:IMAGES]]
    blank = [torch.zeros(3, SIDE, SIDE)] * (IMAGES - len(images))
    present = torch.arange(IMAGES) < len(images)
    return {"pixel_values": torch.stack(images + blank)[None], "image_mask": present[None]}


def train_swin_ved(cases: Sequence[Case], pairs: Pairs, out: Path) -> Iterator[tuple[str, ReleasedSwinVed]]:
    """Train encoder and decoder on every second study. Yields the module after each number of STEPS."""
    learned = range(0, len(cases), 2)
    texts = [text for study in learned for pair in pairs[study] for text in pair]
    torch.manual_seed(0)
    released = ReleasedSwinVed(write_vocabulary(out / "words.txt", texts, cased=False), answer_places=ANSWER_PLACES)
    with torch.no_grad():
        for weight in released.encoder.parameters():
            if weight.ndim > 1:  # with transformers' 0.02 all images have nearly the same features
                weight.normal_(std=0.1)
    pixels, present = (torch.cat(part) for part in zip(*(study_images(case).values() for case in cases), strict=True))
    optimizer = torch.optim.Adam(released.parameters(), RATE)
    generator = torch.Generator().manual_seed(0)
    for step in range(1, max(STEPS.values()) + 1):
        chosen = torch.randperm(len(learned), generator=generator)[:STUDIES_A_STEP] * 2
        batch: list[tuple[str, str]] = []
        for study in chosen.tolist():
            drawn = torch.randperm(len(pairs[study]), generator=generator)[:QUESTIONS_A_STUDY]
            batch += [pairs[study][place] for place in drawn.tolist()]
        features = released.features(pixels[chosen], present[chosen]).repeat_interleave(QUESTIONS_A_STUDY, 0)
        loss = released.loss(batch, features)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for name in (name for name, steps in STEPS.items() if steps == step):
            print(f"{name}: loss {loss.item():.3f}", flush=True)
            yield name, released
