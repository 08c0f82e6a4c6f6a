"""Prompts for models that were not trained on this dataset.

Images come first and the question last. All requests about a study share a prefix, which servers can cache. Images are
grey PNG files whose shorter side has at most `side` pixels, the same pixels that our own models read.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.llm.chat import ChatRequest, Image, Message
from medvqa_hub.evaluation.cxr.model_inference import read_image
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.images import FILM_SIDE
from mimic_cxr_vqa.schema import canonical_view

SYSTEM = (
    "You are a radiologist. You are shown the radiographs of one study and asked about them. "
    "Judge by these images alone. Answer the question directly in one or two plain sentences, without a preamble; "
    "if the finding is absent, say so."
)
SYSTEM_SHORT = (
    "You are a radiologist. You are shown one or more medical images and asked about them. Judge by these images "
    "alone. Answer with a word or a short phrase, without a preamble; answer yes-or-no questions with yes or no."
)
SYSTEM_CHOICE = (
    "You are a radiologist. You are shown the radiographs of one study and a question with options. Judge by these "
    "images alone. Answer with the letter of the best option and nothing else."
)
BARE = "bare"  # images and question alone, as in training with `train vlm`
STYLES = {"sentence": SYSTEM, "short": SYSTEM_SHORT, "choice": SYSTEM_CHOICE, BARE: ""}  # by the dataset's answers


@dataclass(frozen=True)
class StudyPrompt:
    """Attributes:
    style: one of STYLES.
    indication: whether to include the reason for the examination.
    side: most pixels of an image's shorter side.
    logprobs: ask for the probabilities of the answer, which does not depend on it.
    """

    style: str = "sentence"
    indication: bool = False
    side: int = FILM_SIDE
    max_tokens: int = 256
    logprobs: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that answers depend on, for their keys and for provenance."""
        return {
            "prompt": f"{self.style} {digest(STYLES[self.style])[:8]}",
            "indication": self.indication,
            "image_rule": f"grey, shorter side at most {self.side} pixels, PNG",
            "max_tokens": self.max_tokens,
            "temperature": 0.0,
        }

    def encode(self, study: Study) -> tuple[Image, ...]:
        """The study's images as they are sent. Raises InputError if an image cannot be read."""
        return tuple(_as_png(read_image(path, self.side)) for path in study.images)

    def request(self, study: Study, images: tuple[Image, ...], row: Mapping[str, Any]) -> ChatRequest:
        """The request for one question of `study` with its encoded images."""
        system = (Message("system", STYLES[self.style]),) if STYLES[self.style] else ()
        return ChatRequest(
            (*system, Message("user", self.text(study, row), images)),
            max_tokens=self.max_tokens,
            logprobs=self.logprobs,
        )

    def text(self, study: Study, row: Mapping[str, Any]) -> str:
        """The text below the images."""
        if self.style == BARE:
            return row["question"]
        names = study.captions or tuple(view_name(view) for view in study.views)
        lines = [f"Image {number}: {name}." for number, name in enumerate(names, start=1)]
        if self.indication and (stated := (study.indication or "").strip()):
            lines.append(f"Indication: {stated}")
        lines.append(f"Question: {row['question']}")
        lines += [f"{letter}. {option}" for letter, option in (row.get("options") or {}).items()]
        return "\n".join(lines)


def view_name(view: str | None) -> str:
    """`AP view`, `PA view`, `LAT view`, or another view in the source's spelling."""
    if not view or not view.strip():
        return "view not stated"
    return f"{canonical_view(view) or view.strip()} view"


def _as_png(image: Any) -> Image:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return Image(file.getvalue(), "image/png")
