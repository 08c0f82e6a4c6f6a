"""BLIP-2-MultiView for `parity.py`: tiny weights, all trained, since a frozen random language model cannot learn."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from blip2_multiview import Blip2MultiViewConfig, Blip2MultiViewProcessor, convert_blip2_multiview
from blip2_multiview_released import EOS, ReleasedBlip2, cut, released_pixels
from parity_cases import Case, Pairs, Way

from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer
from medvqa_hub.evaluation.cxr.options import GenerationSettings
from medvqa_hub.families.checkpoint import open_checkpoint

STEPS, STUDIES_A_STEP, QUESTIONS_A_STUDY, RATE = 200, 4, 4, 3e-3
SIDE = 28
VIEW_NUMBERS = {"AP": 0, "PA": 1, "LAT": 2, "LATERAL": 2, "LL": 2, "L": 2}


class Blip2Pair:
    """The released module, trained on every second study, and ours from a checkpoint of its converted weights."""

    WAYS: ClassVar[dict[str, Way]] = {"released_pixels": Way(), "default_pixels": Way("default")}
    CONTROLS: ClassVar[dict[str, Way]] = {
        "length_penalty_0": Way(generate={"length_penalty": 0.0}),
        "questions_in_lower_case": Way(lower_case=True),
        "missing_views_masked": Way(config={"mask_missing_views": True}),
        "other_images": Way(other_images=True),
    }
    END = EOS
    cut = staticmethod(cut)

    def __init__(self, cases: Sequence[Case], pairs: Pairs, out: Path) -> None:
        texts = [text for study in pairs[::2] for pair in study for text in pair]
        processor = Blip2MultiViewProcessor.tiny(texts)
        config = Blip2MultiViewConfig.tiny()
        config.text_config.vocab_size = len(processor.tokenizer)
        self.released = ReleasedBlip2(processor.tokenizer, config.text_config)
        _train(self.released, cases[::2], pairs[::2])
        folder = out / "blip2_multiview"
        torch.save(self.released.state_dict(), out / "blip2_multiview.pt")
        convert_blip2_multiview(out / "blip2_multiview.pt", config).model.save_pretrained(folder)
        processor.save_pretrained(folder)
        (folder / "governance.json").write_text(json.dumps({"governance": "open"}))
        self.answerer = StudyAnswerer(open_checkpoint(str(folder)), GenerationSettings(), "cpu")

    def released_answers(self, case: Case, beams: int) -> list[list[int]]:
        prefix = self._prefix(case)
        return [self.released.answer(prefix, question, beams) for question in case.questions]

    def released_images(self, case: Case) -> Mapping[str, torch.Tensor]:
        pairs = zip(case.images, case.study.views, strict=True)
        shown = [(image, VIEW_NUMBERS[view]) for image, view in pairs if view in VIEW_NUMBERS]
        return {
            "pixel_values": torch.stack([released_pixels(image, SIDE) for image, _ in shown]),
            "num_images": torch.tensor([len(shown)]),
            "image_view": torch.tensor([number for _, number in shown]),
        }

    def log_probabilities(self, case: Case, question: str, ids: list[int]) -> torch.Tensor:
        return self.released.log_probabilities(self._prefix(case), question, ids).detach()

    def prompt_length(self, text: Mapping[str, torch.Tensor]) -> int:
        return 1  # the token that starts the decoder

    def to(self, dtype: torch.dtype) -> None:
        self.released.to(dtype)
        self.answerer.model.to(dtype)

    @torch.no_grad()
    def _prefix(self, case: Case) -> torch.Tensor:
        dtype = self.released.query_tokens.dtype
        images = [released_pixels(image, SIDE).to(dtype) for image in case.images]
        return self.released.prefix(images, list(case.study.views))


def _train(released: ReleasedBlip2, cases: Sequence[Case], pairs: Pairs) -> None:
    images = [[released_pixels(image, SIDE) for image in case.images] for case in cases]
    optimizer = torch.optim.Adam(released.parameters(), RATE)
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        loss, tokens = torch.zeros(()), 0
        for study in torch.randperm(len(cases), generator=generator)[:STUDIES_A_STEP].tolist():
            prefix = released.prefix(images[study], list(cases[study].study.views))
            for place in torch.randperm(len(pairs[study]), generator=generator)[:QUESTIONS_A_STUDY].tolist():
                question, answer = pairs[study][place]
                ids = released.tokenizer(answer).input_ids
                loss, tokens = loss - released.log_probabilities(prefix, question, ids).sum(), tokens + len(ids)
        optimizer.zero_grad()
        (loss / tokens).backward()
        optimizer.step()
        if (step + 1) % 50 == 0:
            print(f"blip2_multiview, step {step + 1}: loss {loss.item() / tokens:.3f}", flush=True)
