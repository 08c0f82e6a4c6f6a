"""Evaluation on RJUA-MedDQA: predictions first, then a row of the paper's Table 5 and the tables behind it.

OUT/predictions.jsonl    every answer (predictions.py)
OUT/pages/               the images restored to text, where the engine reads text
OUT/results.json         figures and counts, and what they were computed with; no text
OUT/scored.jsonl         every question with answer, prediction and scores, to see what is wrong and why
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import atomic_file, make_folder
from medvqa_core.governance import Governance, refuse_remote
from medvqa_core.metrics.scores import mean
from medvqa_core.progress import track
from medvqa_hub.evaluation.meddqa_engines import DocumentEngine, DocumentReply, DocumentRequest, load_engine
from medvqa_hub.evaluation.meddqa_questions import DocumentQuestion, by_image, load_questions
from medvqa_hub.evaluation.predictions import FILE, Prediction, PredictionStore, digest_files
from rjua_meddqa.restoration.pages import Page

PAGES_FOLDER, RESULTS, SCORED = "pages", "results.json", "scored.jsonl"
NO_IMAGE = "the image is not there"
FORMAT = 1


@dataclass(frozen=True)
class MeddqaOptions:
    """What to evaluate, and how.

    Attributes:
        model: name of an engine, see `meddqa_engines`.
        data: folder with questions.jsonl and images/, or the authors' release.
        workers: processes that read images.
        units: of ROUGE-L: characters, words (jieba) or released (white space).
        retry_failed: ask failed questions again.
    """

    model: str
    data: Path
    out: Path
    image_root: Path | None = None
    workers: int = 1
    units: str = "characters"
    retry_failed: bool = False


def evaluate_meddqa(options: MeddqaOptions) -> dict[str, Any]:
    """Answer the questions of a folder and score the answers; a stopped run goes on where it was.

    Raises:
        ConfigError: no such engine, or the predictions there were made with other settings.
        InputError: questions or images are missing, or nothing can be scored.
        GovernanceError: the engine would send restricted data away, or `out` holds predictions of a stricter class.
        OutputError: `out` cannot be written.
    """
    if options.workers < 1:
        raise ConfigError(f"{options.workers} workers; at least 1 is needed")
    engine = load_engine(options.model)
    questions = load_questions(options.data, options.image_root)
    refuse_remote(questions.governance, engine.endpoint, f"engine {engine.name}")
    asked = tuple(row for row in questions.rows if row.task in engine.tasks)
    if not asked:
        raise InputError(f"{options.data}: no question of a task that {engine.name} answers: {', '.join(engine.tasks)}")
    make_folder(options.out)
    pages, unreadable = _restore(engine, asked, questions.governance, options)
    predictions, new = _predict(engine, asked, pages, unreadable, questions.governance, options)
    figures, scored = score(asked, predictions, options.units)
    results = {
        "kind": "meddqa-evaluation",
        "format": FORMAT,
        "governance": str(questions.governance),
        "model": {"name": engine.name, **engine.settings},
        "data": {
            "source": questions.source,
            "fingerprint": questions.fingerprint,
            "questions": len(questions.rows),
            "images": len(by_image(asked)),
            "unreadable_images": len(unreadable),
        },
        **figures,
    }
    private = questions.governance is Governance.CREDENTIALED
    with atomic_file(options.out / SCORED, "w", private=private) as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in scored)
    with atomic_file(options.out / RESULTS, "w", private=private) as file:
        json.dump(results, file, ensure_ascii=False, indent=1)
    return results | {"asked_now": new}


def score(
    asked: Sequence[DocumentQuestion], predictions: Sequence[Prediction], units: str = "characters"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Figures and counts of the rows that were asked, and each row with its scores.

    Args:
        units: of ROUGE-L, see `medvqa_core.metrics.meddqa_scores`.

    Raises:
        InputError: nothing to score, or an unknown answer type.
        ConfigError: unknown units, or jieba is missing.
    """
    from medvqa_core.metrics.meddqa_scores import score_meddqa

    scores = score_meddqa(
        [p.answer for p in predictions],
        [row.answer for row in asked],
        [row.task for row in asked],
        [row.answer_type for row in asked],
        [row.quality for row in asked],
        units,
    )
    failures = Counter(p.error for p in predictions if p.error is not None)
    scored = [
        {
            "id": row.id,
            **{name: getattr(row, name) for name in ("img_path", "task", "answer_type", "question", "answer")},
            "prediction": prediction.answer,
            "error": prediction.error,
            **{name: values[place] for name, values in scores.samples.items()},
        }
        for place, (row, prediction) in enumerate(zip(asked, predictions, strict=True))
    ]
    counts = {
        "asked": len(asked),
        "failed": failures.total(),
        "marked_unanswerable": sum(r.unanswerable for r in asked),
    }
    of_image: dict[str, list[float | None]] = {}
    for row in scored:
        of_image.setdefault(row["img_path"], []).append(row["accuracy"])
    images = {image: {"questions": len(values), "accuracy": mean(values)} for image, values in of_image.items()}
    return {"scores": scores.record, "by_image": images, "counts": counts, "failures": dict(failures)}, scored


def _restore(
    engine: DocumentEngine, asked: Sequence[DocumentQuestion], governance: Governance, options: MeddqaOptions
) -> tuple[dict[Path, Page], dict[Path, str]]:
    """The restored page of each image that is there, and why others have none. Empty for engines that read no text."""
    from rjua_meddqa.restoration.ocr import RapidOcrEngine
    from rjua_meddqa.restoration.pages import read_pages, restore_folder

    if not engine.reads_pages:
        return {}, {}
    images = {row.image.name: row.image for row in asked if row.image is not None}
    if not images:
        raise InputError(f"{options.data}: not one of its images is there; pass --image-root")
    folder = options.out / PAGES_FOLDER
    done = restore_folder(list(images.values()), folder, RapidOcrEngine(), options.workers, governance=governance)
    pages = {images[page.image]: page for page in read_pages(folder)}
    return pages, {images[name]: reason for name, reason in done.failed}


def _predict(
    engine: DocumentEngine,
    asked: Sequence[DocumentQuestion],
    pages: dict[Path, Page],
    unreadable: dict[Path, str],
    governance: Governance,
    options: MeddqaOptions,
) -> tuple[list[Prediction], int]:
    """A prediction per row of `asked`, and how many of them were made now. Each image's answers are synced at once."""
    digests = digest_files([row.image for row in asked if row.image is not None], "Reading images' content")
    with PredictionStore(options.out / FILE, governance, engine.settings) as store:
        keys = {row.id: _key(store, row, digests, pages) for row in asked}
        groups = by_image(asked)
        new = 0
        for rows in track(groups.values(), "Answering, image by image", total=len(groups)):
            todo = {keys[r.id]: r for r in rows if store.is_open(keys[r.id], options.retry_failed)}
            if not todo:
                continue
            replies = _ask(engine, list(todo.values()), pages, unreadable)
            found = zip(todo.items(), replies, strict=True)
            store.append([Prediction(key, row.id, reply.answer, reply.error) for (key, row), reply in found])
            new += len(todo)
        return [replace(store.find(keys[row.id]), id=row.id) for row in asked], new


def _key(store: PredictionStore, row: DocumentQuestion, digests: dict[Path, str], pages: dict[Path, Page]) -> str:
    page = pages.get(row.image)
    return store.key(
        image=digests.get(row.image),
        text=None if page is None else page.restored.text,
        question=row.question,
        task=row.task,
        answer_type=row.answer_type,
        context=row.context,
    )


def _ask(
    engine: DocumentEngine,
    rows: Sequence[DocumentQuestion],
    pages: dict[Path, Page],
    unreadable: dict[Path, str],
) -> list[DocumentReply]:
    """Replies to the questions about one image; an image that is not there or not readable fails them all."""
    image = rows[0].image
    problem = NO_IMAGE if image is None else unreadable.get(image)
    if problem is not None:
        return [DocumentReply(None, problem)] * len(rows)
    requests = [
        DocumentRequest(row.id, image, row.question, row.task, row.answer_type, row.context, pages.get(image))
        for row in rows
    ]
    return asyncio.run(_answer(engine, requests))


async def _answer(engine: DocumentEngine, requests: Sequence[DocumentRequest]) -> list[DocumentReply]:
    replies = await engine.answer(requests)
    assert len(replies) == len(requests), (engine.name, len(replies), len(requests))
    return replies
