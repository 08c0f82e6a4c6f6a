"""Scripted answerers whose behaviour is known, to test `medvqa-hub audit cxr`.

They see what a model sees: the pixels, the views, the indication and the question. A looker knows the original images
and compares pixels with them, so it notices whether a region is covered wherever the audit has put the patch.

    looker             reads the finding from its region
    looker_80          the same, but misreads one image in five
    random_if_unseen   a looker that answers at random if it cannot recognise the image
    pneumothorax_only  looks for pneumothorax and otherwise answers by the prior
    reversed           looks and states the opposite
    wrong_region       reads the finding, but only while the control region is visible
    shortcut           reads another finding that is often seen together with it
    file_memory        knows the label of every original image and nothing of changed ones
    patch_detector     answers negative if any patch is visible, and otherwise by the prior
    view_reader        positive for AP images and negative for others
    sharpness          positive for images with details and negative for others
    prior              the commoner label of the finding
    always_positive    positive
    random             at random, another answer for each image
    text               follows the indication, otherwise the prior
    text_over_image    follows an indication that states the finding, otherwise looks
    text_or_image      positive if the indication or the image is positive
    gibberish          answers that state nothing
    fails_if_changed   a prior whose answers fail for changed images
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from medvqa_core.governance import Governance
from medvqa_core.runs.predictions import Prediction
from medvqa_hub.evaluation.cxr.audit_boxes import Box, Boxes, find_controls, merge_boxes
from medvqa_hub.evaluation.cxr.audit_conditions import AuditItem
from medvqa_hub.evaluation.cxr.model_inference import read_image
from medvqa_hub.evaluation.cxr.studies import Study

POSITIVE, NEGATIVE = "positive", "negative"
OTHER = {POSITIVE: NEGATIVE, NEGATIVE: POSITIVE}
ANSWERS = {POSITIVE: "Yes.", NEGATIVE: "No.", "nothing": "The radiograph was taken.", "failure": None}


def chance(*parts: object) -> float:
    """A number from 0 to 1 that only depends on `parts`."""
    return int(hashlib.sha256(repr(parts).encode()).hexdigest()[:8], 16) / 16**8


def _names(study: Study) -> list[tuple[str, ...] | None]:
    """The study's images by folder and name, which do not depend on where the run is."""
    return [path and path.parts[-2:] for path in study.images]


@cache
def _pixels(path: Path) -> np.ndarray:
    return np.asarray(read_image(path))


class Dummy:
    """An AnswerSource that answers each question by the strategy that a hash of its id chooses, in the given shares.

    Args:
        items: all items of the audited split.
        boxes: regions of the findings.
        shares: strategy -> share of the questions.
    """

    governance, needs_images = Governance.OPEN, False
    generation: Mapping[str, object] = {}

    def __init__(self, items: Sequence[AuditItem], boxes: Boxes, shares: Mapping[str, float]) -> None:
        self.model = {"name": " + ".join(f"{share:.0%} {name}" for name, share in shares.items())}
        self.boxes, self.shares = boxes, shares
        self.controls = {key: find_controls(merge_boxes(found)) for key, found in boxes.items()}
        self.originals = {path.stem: path for item in items for path in item.study.images if path is not None}
        self.labels = {(path.stem, i.category): i.label for i in items for path in i.study.images if path is not None}
        counts = Counter((item.category, item.label) for item in items)
        self.prior = {i.category: max(OTHER, key=lambda label: counts[i.category, label]) for i in items}
        self.companion = self._find_companions(items)

    def predict(self, studies: Sequence[Study], _path: Path, _governance: Governance, _digests: Mapping) -> tuple:
        return [[self._answer(study, row) for row in study.rows] for study in studies], {"asked": 0, "seconds": 0.0}

    def _answer(self, study: Study, row: Mapping) -> Prediction:
        question = row["qa_id"].partition("@")[0]
        ends = np.cumsum(list(self.shares.values()))
        strategy = list(self.shares)[int(np.searchsorted(ends[:-1], chance("share", question), side="right"))]
        say: Callable[[Study, str, str], str] = getattr(self, strategy)
        text = ANSWERS[say(study, row["category"], question)]
        return Prediction(row["qa_id"], row["qa_id"], text, "failed" if text is None else None)

    def looker(self, study: Study, category: str, question: str) -> str:
        return self._look(study, category, self.boxes.get) or self.prior[category]

    def looker_80(self, study: Study, category: str, question: str) -> str:
        seen = self.looker(study, category, question)
        return OTHER[seen] if chance("misread", question, _names(study)) < 0.2 else seen

    def random_if_unseen(self, study: Study, category: str, question: str) -> str:
        if all(path is None or self._is_changed(path) for path in study.images):
            return self.random(study, category, question)
        return self.looker(study, category, question)

    def pneumothorax_only(self, study: Study, category: str, question: str) -> str:
        return (self.looker if category == "Pneumothorax" else self._prior)(study, category, question)

    def reversed(self, study: Study, category: str, question: str) -> str:
        return OTHER[self.looker(study, category, question)]

    def wrong_region(self, study: Study, category: str, question: str) -> str:
        return self._look(study, category, self.controls.get) or self.prior[category]

    def shortcut(self, study: Study, category: str, question: str) -> str:
        return self.looker(study, self.companion[category], question)

    def file_memory(self, study: Study, category: str, question: str) -> str:
        known = [path for path in study.images if path is not None and not self._is_changed(path)]
        if len(known) < len(study.images) or not known:
            return self.prior[category]
        return self.labels.get((known[0].stem, category), self.prior[category])

    def patch_detector(self, study: Study, category: str, question: str) -> str:
        changed = any(path is not None and self._is_changed(path) for path in study.images)
        return NEGATIVE if changed else POSITIVE

    def view_reader(self, study: Study, category: str, question: str) -> str:
        return POSITIVE if "AP" in study.views else NEGATIVE

    def sharpness(self, study: Study, category: str, question: str) -> str:
        sharp = [np.abs(np.diff(_pixels(path).astype(int))).mean() > 2 for path in study.images if path is not None]
        return POSITIVE if any(sharp) else NEGATIVE

    def prior_answer(self, study: Study, category: str, question: str) -> str:
        return self.prior[category]

    _prior = prior_answer

    def always_positive(self, study: Study, category: str, question: str) -> str:
        return POSITIVE

    def random(self, study: Study, category: str, question: str) -> str:
        return POSITIVE if chance("random", question, _names(study), study.indication) < 0.5 else NEGATIVE

    def text(self, study: Study, category: str, question: str) -> str:
        return self._stated(study, category) or self.prior[category]

    def text_over_image(self, study: Study, category: str, question: str) -> str:
        return self._stated(study, category) or self.looker(study, category, question)

    def text_or_image(self, study: Study, category: str, question: str) -> str:
        both = (self._stated(study, category), self.looker(study, category, question))
        return POSITIVE if POSITIVE in both else NEGATIVE

    def gibberish(self, study: Study, category: str, question: str) -> str:
        return "nothing"

    def fails_if_changed(self, study: Study, category: str, question: str) -> str:
        changed = not study.images or any(path is None or self._is_changed(path) for path in study.images)
        return "failure" if changed else self.prior[category]

    def _look(self, study: Study, category: str, regions: Callable) -> str | None:
        """The label of the first known image, or negative if all regions in the study's images are covered."""
        label, visible, hidden = None, 0, 0
        for path in study.images:
            original = None if path is None else self._original(path)
            if path is None or original is None:
                continue
            label = label or self.labels.get((original.stem, category))
            for box in regions((original.stem, category), ()) or ():
                same = np.array_equal(_cut(_pixels(path), box), _cut(_pixels(original), box))
                visible, hidden = visible + same, hidden + (not same)
        return NEGATIVE if hidden and not visible else label

    def _original(self, path: Path) -> Path | None:
        return next((self.originals[stem] for stem in (path.stem, path.stem[:_STEM]) if stem in self.originals), None)

    def _is_changed(self, path: Path) -> bool:
        return path.stem not in self.originals

    @staticmethod
    def _stated(study: Study, category: str) -> str | None:
        found = re.match(rf"(Known|No) {category.lower()}\b", study.indication or "")
        return {"Known": POSITIVE, "No": NEGATIVE}[found[1]] if found else None

    def _find_companions(self, items: Sequence[AuditItem]) -> dict[str, str]:
        """For each finding the other finding whose labels agree with it in most studies."""
        by_study: dict[object, dict[str, str]] = defaultdict(dict)
        for item in items:
            by_study[item.study.study_id][item.category] = item.label
        agree: dict[str, Counter] = defaultdict(Counter)
        for labels in by_study.values():
            for one, label in labels.items():
                agree[one].update({other: 1 for other, value in labels.items() if other != one and value == label})
        return {name: max(agree[name], key=lambda other: agree[name][other], default=name) for name in self.prior}


_STEM = 44  # characters of a DICOM id, which the names of changed images begin with


def _cut(pixels: np.ndarray, box: Box) -> np.ndarray:
    height, width = pixels.shape
    left, top, right, bottom = box
    return pixels[round(top * height) : round(bottom * height), round(left * width) : round(right * width)]
