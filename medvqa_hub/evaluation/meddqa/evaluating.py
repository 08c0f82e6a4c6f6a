"""Evaluation on RJUA-MedDQA: predictions first, then the paper's Tables 5 to 7.

OUT/predictions.jsonl    every answer
OUT/pages/               the images restored to text, if the engine reads text
OUT/results.json         figures, counts and settings, without texts
OUT/scored.jsonl         every question with answer, prediction, scores and cause of an error
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, check_not_lowered
from medvqa_core.json_files import write_json, write_json_lines
from medvqa_core.llm.chat_model import check_engine_allowed
from medvqa_core.metrics.meddqa_scores import COLUMNS, score_meddqa
from medvqa_core.metrics.scores import mean
from medvqa_core.metrics.soft_accuracy import ANSWER_TYPES, OURS, check_profile
from medvqa_core.registry import load_entry
from medvqa_core.runs.predictions import FILE, Prediction
from medvqa_hub.evaluation.answer_files import RecordedAnswers, read_answer_file
from medvqa_hub.evaluation.hashes import hash_rows
from medvqa_hub.evaluation.meddqa.inference import ImageSet, answer_questions
from medvqa_hub.evaluation.meddqa.models import (
    ModelOptions,
    connect_document_model,
    describe_shots,
    draw_examples,
    name_run,
)
from rjua_meddqa.inference.causes import CAUSES, find_cause
from rjua_meddqa.inference.engines import ENGINES, DocumentEngine
from rjua_meddqa.inference.language_model import WHOLE
from rjua_meddqa.inference.questions import DocumentQuestion, QuestionSet, by_image, load_questions
from rjua_meddqa.inference.replies import READER, read_recorded
from rjua_meddqa.schema import Annotation

PAGES_FOLDER, RESULTS, SCORED = "pages", "results.json", "scored.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class MeddqaOptions:
    """Attributes:
    model: name of an engine (`rjua_meddqa.inference.engines.ENGINES`); not used with `asking`.
    data: folder with questions.jsonl and images/, or the authors' release.
    workers: processes that read images.
    units: of our ROUGE-L: characters or words (jieba).
    retry_failed: ask questions again whose answer failed.
    profile: of the scores: ours, or released (equal to the authors' script).
    pages: folder that `meddqa esra --out` wrote, whose images are not read again. `out` may be such a folder.
    asking: options of a language model. None if `model` is one of our own engines.
    predictions: a file of answers that were generated elsewhere, instead of an engine.
    limit: number of images, the first ones. None asks about all.
    """

    model: str
    data: Path
    out: Path
    image_root: Path | None = None
    workers: int = 1
    units: str = "characters"
    retry_failed: bool = False
    profile: str = OURS
    pages: Path | None = None
    asking: ModelOptions | None = None
    predictions: Path | None = None
    limit: int | None = None


def evaluate_meddqa(options: MeddqaOptions) -> dict[str, Any]:
    """Answer the questions of a folder and score the answers. Call it again to resume.

    Raises:
        ConfigError: the engine is unknown, or the predictions in `out` were generated with other settings.
        InputError: questions or images are missing, or no answer can be scored.
        GovernanceError: see `check_engine_allowed`, or `out` has predictions of a stricter class.
        OutputError: `out` cannot be written.
    """
    if options.workers < 1:
        raise ConfigError(f"--workers is {options.workers}. It must be at least 1.")
    check_profile(options.profile)
    by_rules = options.asking is None and options.predictions is None
    if by_rules and options.model not in ENGINES:
        raise ConfigError(f"engine {options.model!r} is unknown. Available: {', '.join(ENGINES)}")
    questions = load_questions(options.data, options.image_root)
    recorded = options.predictions and _read_predictions(options.predictions, questions)
    engine: DocumentEngine | None = recorded or (load_entry(ENGINES[options.model])() if by_rules else None)
    if engine is None:
        assert options.asking is not None
        engine = connect_document_model(options.asking, questions.governance, options.out)
    check_engine_allowed(questions.governance, engine)
    asked = _select_questions(engine, questions, options.data, options.limit)
    make_folder(options.out, questions.governance.private)
    images = ImageSet(needed=False) if recorded else _restore(engine, asked, questions.governance, options)
    shots = draw_examples(engine, asked, images, options.asking)
    predictions, new = answer_questions(
        engine, asked, images, options.out / FILE, questions.governance, options.retry_failed, shots
    )
    is_read = options.profile == OURS if recorded else engine.asking.get("answers", WHOLE) != WHOLE
    if is_read:
        predictions = [_read_reply(row, prediction) for row, prediction in zip(asked, predictions, strict=True)]
    figures, scored = score(asked, predictions, options.units, options.profile)
    errors = find_causes(scored, asked, questions.annotations, images)
    results = {
        "kind": "meddqa-evaluation",
        "format": FORMAT,
        "governance": str(questions.governance),
        "model": {
            "name": name_run(engine),
            **engine.settings,
            **engine.asking,
            **describe_shots(shots, options.asking),
        },
        "data": _describe_data(questions, asked, images),
        "reader": READER if is_read else None,
        **figures,
        "errors": errors,
        "hashes": hash_rows(scored),
    }
    write_json_lines(options.out / SCORED, scored, private=questions.governance.private)
    write_json(options.out / RESULTS, results, private=questions.governance.private)
    return results | {"asked_now": new}


def score(
    asked: Sequence[DocumentQuestion],
    predictions: Sequence[Prediction],
    units: str = "characters",
    profile: str = OURS,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return figures and counts, and each row with its scores.

    Args:
        units, profile: see `medvqa_core.metrics.meddqa_scores`.

    Raises:
        InputError: no rows, or an unknown answer type.
        ConfigError: unknown units, or jieba is missing.
    """
    scores = score_meddqa(
        [p.answer for p in predictions],
        [row.answer for row in asked],
        [row.task for row in asked],
        [row.answer_type for row in asked],
        [row.quality for row in asked],
        units,
        [row.unanswerable for row in asked],
        profile,
        [row.is_laboratory for row in asked],
        [row.img_path for row in asked],
    )
    failures = Counter(p.error for p in predictions if p.error is not None)
    scored = [
        {
            "id": row.id,
            "image": row.img_path,
            **{name: getattr(row, name) for name in ("img_path", "task", "answer_type", "question", "answer")},
            "unanswerable": row.unanswerable,
            "prediction": prediction.answer,
            "failed": prediction.answer is None,
            "error": prediction.error,
            **{name: values[place] for name, values in scores.samples.items()},
        }
        for place, (row, prediction) in enumerate(zip(asked, predictions, strict=True))
    ]
    counts = {
        "asked": len(asked),
        "failed": failures.total(),
        "empty": sum(p.answer is not None and not p.answer.strip() for p in predictions),
    }
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in scored:
        by_name.setdefault(row["img_path"], []).append(row)
    images = {
        image: {
            "questions": len(rows),
            "failed": sum(row["error"] is not None for row in rows),
            "accuracy": mean([row["accuracy"] for row in rows]),
        }
        for image, rows in by_name.items()
    }
    return {"scores": scores.record, "by_image": images, "counts": counts, "failures": dict(failures)}, scored


def _read_reply(row: DocumentQuestion, prediction: Prediction) -> Prediction:
    """Read a reply by today's rules, also one that an earlier version has read."""
    said = prediction.details.get("said", prediction.answer)
    if said is None:
        return prediction
    answer, error = read_recorded(said, row.question, row.answer_type)
    return replace(prediction, answer=answer, error=error)


def _read_predictions(path: Path, questions: QuestionSet) -> RecordedAnswers:
    """The answers of a file as an engine. Raises GovernanceError if the file has a stricter class than the data."""
    file = read_answer_file(path, {row.id: row.answer for row in questions.rows})
    if file.governance is not None:
        check_not_lowered(file.governance, questions.governance, str(path))
    return RecordedAnswers(file, frozenset(row.task for row in questions.rows))


def find_causes(
    scored: Sequence[dict[str, Any]],
    asked: Sequence[DocumentQuestion],
    annotations: Mapping[str, Annotation],
    images: ImageSet,
) -> dict[str, dict[str, int]]:
    """Add the cause of the error to wrong rows of `scored`, and count the causes by column of Table 5.

    Failed answers and rows without an annotation of their page are left out.
    """
    counts: dict[str, Counter[str]] = {"entity": Counter(), "table": Counter()}
    for row, question in zip(scored, asked, strict=True):
        annotation = annotations.get(question.img_path)
        column = COLUMNS.get(question.task)
        if row["failed"] or row["accuracy"] in (None, 1.0) or annotation is None or column not in counts:
            continue
        page = images.page(question.image)
        text = None if page is None else page.restored.text
        kind = question.answer_type
        row["cause"] = find_cause(
            question.question, question.answer, question.task, kind, row["prediction"], annotation, text
        )
        counts[column][row["cause"]] += 1
    return {column: {cause: found[cause] for cause in CAUSES if found[cause]} for column, found in counts.items()}


def _select_questions(
    engine: DocumentEngine, questions: QuestionSet, data: Path, limit: int | None = None
) -> tuple[DocumentQuestion, ...]:
    """The questions of the engine's tasks about the first `limit` images. Raises InputError if they are missing or one
    cannot be scored."""
    shows_context = engine.asking.get("context", True)
    rows = questions.rows if shows_context else tuple(replace(row, context="") for row in questions.rows)
    asked = tuple(row for row in rows if row.task in engine.tasks)
    if not asked:
        raise InputError(f"{data} lacks questions of the tasks of {engine.name}: {', '.join(engine.tasks)}.")
    images = set(list(by_image(asked))[:limit])
    asked = tuple(row for row in asked if row.img_path in images)
    for row in asked:
        if row.answer_type not in ANSWER_TYPES:
            raise InputError(
                f"{data}, question {row.id}: answer type {row.answer_type!r} cannot be scored. Expected one of "
                f"{', '.join(ANSWER_TYPES)}."
            )
    return asked


def _describe_data(questions: QuestionSet, asked: Sequence[DocumentQuestion], images: ImageSet) -> dict[str, Any]:
    """The source and the counts of the dataset for results.json."""
    return {
        "source": questions.source,
        "fingerprint": questions.fingerprint,
        "questions": len(questions.rows),
        "images": len(by_image(asked)),
        "missing_images": len({row.img_path for row in asked if row.image is None}),
        "unreadable_images": len(images.unreadable),
        "absent": sorted({row.absent for row in asked if row.unanswerable}),
        "without_quality": sum(row.quality is None for row in asked),
    }


def _restore(
    engine: DocumentEngine, asked: Sequence[DocumentQuestion], governance: Governance, options: MeddqaOptions
) -> ImageSet:
    """The restored page of each image, and the reasons for unreadable images. Empty unless the engine reads text.

    Raises:
        ConfigError: two images have the same name, or the OCR engine is not installed.
        InputError: all images are missing or unreadable.
    """
    from rjua_meddqa.restoration.pages import READINGS, engine_of_pages, read_pages, restore_folder

    if not engine.reads_pages:
        return ImageSet()
    paths = list(dict.fromkeys(row.image for row in asked if row.image is not None))
    if not paths:
        raise InputError(f"The images of {options.data} are missing. Pass --image-root.")
    folder = options.out / PAGES_FOLDER
    known = options.pages or (options.out if (options.out / READINGS).is_file() else None)
    ocr = engine_of_pages(known)
    done = restore_folder(paths, folder, ocr, options.workers, governance=governance, known=known)
    images = {path.name: path for path in paths}  # restore_folder has checked that names are unique
    pages = {images[page.image]: page for page in read_pages(folder)}
    return ImageSet(pages, {images[name]: reason for name, reason in done.failed})
