"""Studies of a release: pages of the list, and a study with its report, images, questions and the answers of runs."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from medvqa_core.errors import InputError
from medvqa_core.governance import Governance, strictest
from medvqa_hub.explore.pictures import ImageRoot
from medvqa_hub.explore.row_filters import FilterResult, RowFilter, RowSearch
from medvqa_hub.explore.row_index import LABELS, RowIndex
from medvqa_hub.explore.row_reader import RowReader
from medvqa_hub.explore.runs import Run, classify, differs, get_polarity
from medvqa_hub.explore.verdicts import CHOICES, AnswerVerdict, JudgeView, matches_verdict
from mimic_cxr_vqa.schema import CATEGORIES

_TEXTS = pa.schema([(name, pa.string()) for name in ("qa_id", "question", "answer")])
PROVENANCE = ("engine", "model", "revision")  # in the manifest


class StudyView:
    """A release with its runs and judges. Thread-safe.

    Args:
        scratch: object to keep alive, such as a temporary folder with the rows.
    """

    def __init__(
        self,
        index: RowIndex,
        images: ImageRoot,
        runs: tuple[Run, ...] = (),
        judges: tuple[JudgeView, ...] = (),
        scratch: object = None,
    ) -> None:
        self.index, self.images, self.runs, self.judges, self._scratch = index, images, runs, judges, scratch
        self._reader = RowReader(index)
        self._search = RowSearch(index, self._test_answers)

    @property
    def _name(self) -> str:
        folder = self.index.release.folder
        return folder.parent.name if folder.name == "release" else folder.name

    @property
    def governance(self) -> Governance:
        """The strictest class of the release, the runs and the judges."""
        parts = [*(run.governance for run in self.runs), *(judge.governance for judge in self.judges)]
        return strictest([self.index.release.governance, *parts])

    def describe(self) -> dict[str, Any]:
        """The choices of the filters, with counts of rows."""
        index = self.index
        flags, _, codes = index.flags
        counts = np.bincount(index.category.astype(np.int16) * len(LABELS) + index.label, minlength=15 * len(LABELS))
        table = counts.reshape(len(CATEGORIES), len(LABELS)).tolist()
        per_flag = Counter(codes.tolist()) if len(codes) < 1 << 20 else dict(enumerate(np.bincount(codes).tolist()))
        return {
            "folder": self._name,
            "source": str(index.release.manifest.get("source", "unknown")),
            "rows": index.rows,
            "studies": index.studies,
            "splits": list(index.splits),
            "categories": list(CATEGORIES),
            "labels": list(LABELS),
            "counts": table,
            "flags": [{"name": name, "rows": int(per_flag.get(number, 0))} for number, name in enumerate(flags)],
            "runs": [{"name": run.name, "answers": len(run)} for run in self.runs],
            "judges": [{"name": judge.name, "verdicts": len(judge)} for judge in self.judges],
            "verdicts": CHOICES,
            "has_images": self.images.prefix is not None,
        }

    def page(self, wanted: RowFilter, at: int = 0) -> dict[str, Any]:
        """A page of studies from position `at`. Raises InputError if the filter is not valid."""
        index = self.index
        hits = self._jump(wanted) or self._search.page(wanted, at)
        return {
            "studies": [
                self._line(place, rows, index.row_range(place))
                for place, rows in zip(hits.studies, hits.rows, strict=True)
            ],
            "next": hits.next,
            "previous": hits.previous,
            "total": hits.total,
            "looked": hits.looked,
        }

    def _jump(self, wanted: RowFilter) -> FilterResult | None:
        """The studies of an id, if the search text is one: of a study, patient or question, with or without letter."""
        text = wanted.text.strip().lower()
        number = text.removeprefix("s").removeprefix("p").split("-")[0]
        if not number.isdecimal() or len(number) < 5:
            return None
        place = self.index.find(int(number))
        places = [place] if place is not None else self.index.of_patient(int(number)).tolist()
        ends = [self.index.row_range(place) for place in places]
        return (
            FilterResult(places, [end - first for first, end in ends], None, None, len(places), 1.0) if places else None
        )

    def _line(self, place: int, wanted: int, rows: tuple[int, int]) -> dict[str, Any]:
        """A line of the list, with the label of each category."""
        index, (first, end) = self.index, rows
        labels = dict(zip(index.category[first:end].tolist(), index.label[first:end].tolist(), strict=True))
        return {
            "place": place,
            "study_id": int(index.study_id[place]),
            "subject_id": int(index.subject_id[place]),
            "split": index.splits[index.split[place]],
            "questions": end - first,
            "wanted": wanted,
            "labels": [labels.get(number, -1) for number in range(len(CATEGORIES))],
        }

    def study(self, study_id: int, wanted: RowFilter) -> dict[str, Any]:
        """A study with all its questions. Raises InputError if the id is unknown."""
        place = self._place(study_id)
        report = self._reader.study(place)
        first, end = self.index.row_range(place)
        rows = self._reader.rows(first, end)
        films = StudyImages.of(report)
        digests = self._digests([row["qa_id"] for row in rows], films)
        texts = pa.table({name: [row[name] for row in rows] for name in ("qa_id", "question", "answer")}, _TEXTS)
        mask = self._search.mask(wanted, place, texts)
        return {
            **{name: report[name] for name in ("study_id", "subject_id", "split")},
            "place": place,
            **{name: report[name] for name in ("indication", "findings", "impression")},
            "labels": report["labels"],
            "images": [{"view": view} for view in films.views],
            "questions": [
                self._question(row, number, report, digests, is_wanted)
                for number, (row, is_wanted) in enumerate(zip(rows, mask, strict=True), start=first)
            ],
            "provenance": {
                name: str(self.index.release.manifest.get("answers", {}).get(name, "")) for name in PROVENANCE
            },
        }

    def report(self, study_id: int) -> tuple[dict[str, Any], "StudyImages"]:
        """A study's report (STUDY_SCHEMA) and its images. Raises InputError if the id is unknown."""
        found = self._reader.study(self._place(study_id))
        return found, StudyImages.of(found)

    def image_path(self, study_id: int, number: int) -> str:
        """Path of a study's image in the release. Raises InputError if the number is out of range."""
        paths = self.report(study_id)[1].paths
        if not 0 <= number < len(paths):
            raise InputError(f"study {study_id} has {len(paths)} images, so that number {number} does not exist")
        return paths[number]

    def _place(self, study_id: int) -> int:
        place = self.index.find(study_id)
        if place is None:
            raise InputError(f"study {study_id} is not in {self._name}")
        return place

    def _question(
        self,
        row: dict[str, Any],
        number: int,
        study: dict[str, Any],
        digests: list[str] | None,
        is_wanted: bool,
    ) -> dict[str, Any]:
        category, label = CATEGORIES[self.index.category[number]], LABELS[self.index.label[number]]
        reference, views = get_polarity(row["answer"], category), StudyImages.of(study).views
        judged = [judge.find(row, category, study) for judge in self.judges]
        answers = []
        for run in self.runs:
            found = run.find(row["qa_id"], digests, views, row["question"])
            said = classify(found, category)
            answers.append(
                {
                    "run": run.name,
                    "answer": found.answer if found else None,
                    "error": found.error if found else None,
                    "is_unclear": found is None and run.is_ambiguous(row["qa_id"]),
                    "says": said,
                    "differs": differs("from reference", [said], reference, label),
                }
            )
        return {
            **{name: row[name] for name in ("qa_id", "question", "answer", "answer_type")},
            "category": category,
            "label": label,
            "says": reference,
            "flags": row["lint"],
            "wanted": is_wanted,
            "runs": answers,
            "judged": [one.to_json() for one in judged if one is not None],
        }

    def _digests(self, qa_ids: list[str], films: "StudyImages") -> list[str] | None:
        """Digests of a study's images, if a run has several answers to one of its questions."""
        if not any(run.is_ambiguous(qa_id) for run in self.runs for qa_id in qa_ids):
            return None
        return self.images.digests(films.paths)

    def _test_answers(self, table: pa.Table, first: int, wanted: np.ndarray, looked_for: RowFilter) -> np.ndarray:
        """The candidate rows whose answers and verdicts match the filter (`row_filters.AnswerTest`)."""
        found = np.zeros(len(table), bool)
        for number in np.flatnonzero(wanted).tolist():
            qa_id = table["qa_id"][number].as_py()
            by_run = any(run.has(qa_id) for run in self.runs)
            by_judge = any(judge.has(qa_id) for judge in self.judges)
            if (looked_for.difference and not by_run) or (looked_for.verdict and not by_judge):
                continue
            row, place = table.slice(number, 1).to_pylist()[0], first + number
            found[number] = (not looked_for.difference or self._differs(row, place, looked_for.difference)) and (
                not looked_for.verdict or matches_verdict(looked_for.verdict, self._judged(row, place))
            )
        return found

    def _differs(self, row: dict[str, Any], place: int, difference: str) -> bool:
        films = StudyImages([], [])
        if any(run.is_ambiguous(row["qa_id"]) for run in self.runs):
            films = StudyImages.of(self._read_study(place))
        digests = self._digests([row["qa_id"]], films)
        category, label = CATEGORIES[self.index.category[place]], LABELS[self.index.label[place]]
        said = [classify(run.find(row["qa_id"], digests, films.views, row["question"]), category) for run in self.runs]
        return differs(difference, said, get_polarity(row["answer"], category), label)

    def _judged(self, row: dict[str, Any], place: int) -> list[AnswerVerdict]:
        study, category = self._read_study(place), CATEGORIES[self.index.category[place]]
        return [one for judge in self.judges if (one := judge.find(row, category, study)) is not None]

    def _read_study(self, row: int) -> dict[str, Any]:
        return self._reader.study(int(np.searchsorted(self.index.starts, row, side="right")) - 1)


@dataclass(frozen=True)
class StudyImages:
    """Image paths of a study in the release, and their views."""

    paths: list[str]
    views: list[str | None]

    @classmethod
    def of(cls, study: dict[str, Any]) -> "StudyImages":
        images = study["images"] or []
        return cls([image["path"] for image in images], [image["view"] for image in images])
