"""Conditions of an audit: the images and the indication that each question is asked with.

own                  the study's images
same, opposite       images of another patient with the same, or with the opposite label of the finding, in the same
                     views. Every image is used about equally often.
blank, noise         images without content, and random noise
low_pass             images without details
none                 no images (only for models that can be asked without)
covered              a uniform patch over the region of the finding (positive rows with a known region)
control              a patch of the same size over another place
supporting, contradicting                      own images with an indication that agrees, or disagrees, with the label
opposite_supporting, opposite_contradicting    the same with the images of `opposite`

In every condition but own the id of a question ends with `@` and the condition.
"""

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medvqa_core.errors import InputError
from medvqa_core.files import make_folder
from medvqa_hub.evaluation.cxr.audit_boxes import Boxes, find_controls, merge_boxes
from medvqa_hub.evaluation.cxr.audit_images import LOW_PASSED, NOISE, PATCHED, ImageWriter
from medvqa_hub.evaluation.cxr.finding_accuracy import SCORED_LABELS
from medvqa_hub.evaluation.cxr.studies import Study
from mimic_cxr_vqa.labeling.answer_polarity import OPPOSITE
from mimic_cxr_vqa.schema import HEART, NO_FINDING

STATEMENTS = {"positive": "Known {}.", "negative": "No {} on a recent examination."}
NO_IMAGES = "none"
TEXTS = ("supporting", "contradicting", "opposite_supporting", "opposite_contradicting")
CHANGES = {"opposite": True, "covered": True, "same": False, "control": False, **dict.fromkeys(TEXTS[:2], False)}


@dataclass(frozen=True)
class AuditItem:
    """All questions about one finding of a study. `label` is positive or negative."""

    study: Study
    category: str
    label: str


def list_items(studies: Sequence[Study]) -> list[AuditItem]:
    """The items of studies, for questions with a positive or negative label about one finding."""
    items = []
    for study in studies:
        rows: dict[tuple[str, str], list[dict]] = defaultdict(list)
        for row in study.rows:
            if row["label_value"] in SCORED_LABELS and row["category"] not in (HEART, NO_FINDING):
                rows[row["category"], row["label_value"]].append(row)
        items += [
            AuditItem(replace(study, rows=tuple(found)), category, label) for (category, label), found in rows.items()
        ]
    if not items:
        raise InputError("The split does not have questions with a positive or negative label.")
    return items


def make_conditions(
    items: Sequence[AuditItem],
    boxes: Boxes,
    folder: Path,
    digests: Mapping[Path, str],
    seed: int = 0,
    private: bool = False,
) -> dict[str, dict[int, Study]]:
    """The study of each item (by its number) in each condition. Items without a donor or a region are left out.

    Args:
        folder: changed images are written there.
        digests: of the images, from `digest_images`.
        private: write them for their owner alone.
    """
    make_folder(folder, private)
    writer = ImageWriter(folder, digests, private)
    donors = {name: _choose_donors(items, name == "same", f"{seed} {name}") for name in ("same", "opposite")}
    conditions: dict[str, dict[int, Study]] = defaultdict(dict)
    for number, item in enumerate(items):
        study = item.study
        found = {
            "own": study,
            "blank": replace(study, images=(None,) * len(study.images)),
            NO_IMAGES: replace(study, images=(), views=(), captions=()),
            "noise": replace(study, images=tuple(writer.write(path, NOISE) for path in study.images)),
            "low_pass": replace(study, images=tuple(writer.write(path, LOW_PASSED) for path in study.images)),
            **_cover(item, boxes, writer),
        }
        for name, chosen in donors.items():
            if (donor := chosen.get(number)) is not None:
                found[name] = replace(study, images=donor.images, views=donor.views)
        for name in TEXTS:
            shown = found.get("opposite") if name.startswith("opposite") else study
            if shown is not None:
                stated = item.label if name.endswith("supporting") else OPPOSITE[item.label]
                found[name] = replace(shown, indication=STATEMENTS[stated].format(item.category.lower()))
        for name, changed in found.items():
            conditions[name][number] = changed if name == "own" else _rename(changed, name)
    return dict(conditions)


def _rename(study: Study, condition: str) -> Study:
    return replace(study, rows=tuple({**row, "qa_id": f"{row['qa_id']}@{condition}"} for row in study.rows))


def _choose_donors(items: Sequence[AuditItem], same: bool, seed: str) -> dict[int, Study]:
    """For each item the study of another patient with the same views that was used least so far."""
    pools: dict[tuple, list[Study]] = defaultdict(list)
    for item in items:
        pools[item.category, item.label, _views(item.study)].append(item.study)
    for key, pool in pools.items():
        random.Random(f"{seed} {key}").shuffle(pool)
    chosen = {}
    for number, item in enumerate(items):
        label = item.label if same else OPPOSITE[item.label]
        pool = pools.get((item.category, label, _views(item.study)), [])
        place = next((n for n, study in enumerate(pool) if study.subject_id != item.study.subject_id), None)
        if place is not None:
            chosen[number] = pool.pop(place)
            pool.append(chosen[number])
    return chosen


def _views(study: Study) -> tuple[str, ...]:
    return tuple(sorted(view or "" for view in study.views))


def _cover(item: AuditItem, boxes: Boxes, writer: ImageWriter) -> dict[str, Study]:
    """The item's study with its regions covered and with controls covered, if it is positive and controls fit."""
    study = item.study
    regions = [merge_boxes(boxes.get((path.stem, item.category), ())) if path else [] for path in study.images]
    controls = [find_controls(found) for found in regions]
    if item.label != "positive" or not any(regions) or None in controls:
        return {}
    return {
        name: replace(
            study,
            images=tuple(
                writer.write(path, PATCHED, found) if found else path
                for path, found in zip(study.images, patches, strict=True)
            ),
        )
        for name, patches in (("covered", regions), ("control", controls))
    }
