"""Generation of answers with a checkpoint, in batches of whole studies.

A batch consists of consecutive studies with at most `questions_per_batch` questions, unless one study has more. Its
images are encoded once, and its questions are answered in one generate call while the images of the next batches are
decoded. A resumed run computes the same batches as an uninterrupted one, and therefore the same answers.

In a `ProcessGroup` of n processes, process r takes batches r, r + n, … and writes its own file.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from medvqa_core.digests import blake2b_files
from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.progress import track
from medvqa_core.runs.predictions import (
    Prediction,
    PredictionStore,
    merge_parts,
    part_path,
    prediction_key,
)
from medvqa_hub.evaluation.cxr.model_inference import StudyAnswerer, UnusableStudyError
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.launching import ProcessGroup

PREFETCHED = 3  # batches whose images are decoded while the model generates
BLANK = "blank"  # key of a blank image's content
Answers = tuple[list[list[Prediction]], dict[str, float]]  # by study and row, and `asked`, `seconds`, `processes`


@dataclass(frozen=True)
class _Question:
    key: str
    id: str
    text: str


@dataclass(frozen=True)
class _StudyQuestions:
    """A study and its questions, without those that an earlier study asks about the same images."""

    study: Study
    questions: tuple[_Question, ...]


def digest_images(studies: Sequence[Study]) -> dict[Path, str]:
    """Digest of each image file's content. Raises InputError if a file cannot be read."""
    return blake2b_files([path for study in studies for path in study.images if path is not None], "Reading images")


def request_keys(
    studies: Sequence[Study],
    settings: Mapping[str, Any],
    digests: Mapping[Path, str],
    content: Callable[[Study, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> list[list[str]]:
    """The key of every question of every study: a digest of the images' content, their views, and the question.

    Args:
        digests: of the studies' images, from `digest_images`.
        content: further values that the answer to a row depends on.
    """
    keys = []
    for study in studies:
        images = [BLANK if path is None else digests[path] for path in study.images]
        keys.append(
            [
                prediction_key(
                    settings,
                    images=images,
                    views=list(study.views),
                    question=row["question"],
                    **(content(study, row) if content else {}),
                )
                for row in study.rows
            ]
        )
    return keys


def generate_predictions(
    studies: Sequence[Study],
    path: Path,
    governance: Governance,
    settings: dict[str, Any],
    open_model: Callable[[], StudyAnswerer],
    questions_per_batch: int = 96,
    retry_failed: bool = False,
    digests: Mapping[Path, str] | None = None,
    group: ProcessGroup | None = None,
) -> Answers:
    """Answer every question of `studies` that lacks a prediction in `path` yet.

    Args:
        path: `predictions.jsonl`.
        settings: what answers depend on besides images and question, for `PredictionStore`.
        open_model: loads the model. It is only called if a question has to be answered.
        retry_failed: also answer questions whose prediction failed.
        digests: of the studies' images, if they are known already.
        group: the processes of this run.

    Returns:
        The predictions, aligned with the studies and their rows, and counts: `asked` (distinct requests of this run),
        `processes`, and `seconds` that this process took without loading the model.

    Raises:
        ConfigError: `questions_per_batch` is below one, or the predictions were generated with other settings.
        InputError: an image cannot be read, or the checkpoint cannot be loaded.
        OutputError: the predictions cannot be written.
    """
    if questions_per_batch < 1:
        raise ConfigError(f"questions_per_batch is {questions_per_batch}. It must be at least 1.")
    group = group or ProcessGroup()
    if group.is_first:
        merge_parts(path, governance, settings)  # from an interrupted run of several processes
    group.wait()
    keys = request_keys(studies, settings, digest_images(studies) if digests is None else digests)
    found = _find_records(keys, path, governance, settings)
    wanted = {
        key
        for key, made in zip(chain(*keys), chain(*found), strict=True)
        if made is None or (retry_failed and made.error is not None)
    }
    made = _make_batches(_list_distinct_questions(studies, keys), questions_per_batch)
    batches = [batch for batch in made if any(q.key in wanted for one in batch for q in one.questions)]
    counts: dict[str, float] = {"asked": len(wanted), "seconds": 0, "processes": group.size}
    group.wait()  # all processes read before any process writes
    if mine := batches[group.rank :: group.size]:
        own_path = path if group.size == 1 else part_path(path, group.rank)
        model = open_model()
        with PredictionStore(own_path, governance, settings) as store:
            counts["seconds"] = _answer_batches(mine, wanted, store, model)
    group.wait()
    if group.is_first:
        merge_parts(path, governance, settings)
    group.wait()
    with PredictionStore(path, governance, settings, read_only=True) as store:
        return [[store.read(key) for key in of_study] for of_study in keys], counts


def _find_records(
    keys: Sequence[Sequence[str]], path: Path, governance: Governance, settings: dict[str, Any]
) -> list[list[Prediction | None]]:
    """The record of each request. The file is not created, in case the model cannot be loaded."""
    if not path.exists():
        return [[None] * len(of_study) for of_study in keys]
    with PredictionStore(path, governance, settings, read_only=True) as store:
        return [[store.find(key) for key in of_study] for of_study in keys]


def _list_distinct_questions(studies: Sequence[Study], keys: Sequence[Sequence[str]]) -> Iterator[_StudyQuestions]:
    """Each distinct request with its first study. With blank images many requests are equal."""
    seen: set[str] = set()
    for study, of_study in zip(studies, keys, strict=True):
        questions = []
        for key, row in zip(of_study, study.rows, strict=True):
            if key not in seen:
                seen.add(key)
                questions.append(_Question(key, row["qa_id"], row["question"]))
        if questions:
            yield _StudyQuestions(study, tuple(questions))


def _make_batches(asked: Iterator[_StudyQuestions], questions_per_batch: int) -> Iterator[list[_StudyQuestions]]:
    batch: list[_StudyQuestions] = []
    size = 0
    for one in asked:
        if batch and size + len(one.questions) > questions_per_batch:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one.questions)
    if batch:
        yield batch


def _answer_batches(
    batches: Sequence[list[_StudyQuestions]], wanted: set[str], store: PredictionStore, model: StudyAnswerer
) -> float:
    """Answer `batches`, append the predictions whose key is `wanted`, and return the seconds that it took."""
    start = time.monotonic()

    def answered() -> Iterator[Prediction]:
        with ThreadPoolExecutor(PREFETCHED) as pool:
            waiting: deque[Future] = deque()
            coming = iter(batches)
            for batch in islice(coming, PREFETCHED):
                waiting.append(pool.submit(_prepare, model, batch))
            while waiting:
                prepared = waiting.popleft().result()
                waiting.extend(pool.submit(_prepare, model, batch) for batch in islice(coming, 1))
                predictions = [p for part in prepared for p in _answer(model, part) if p.key in wanted]
                store.append(predictions)
                yield from predictions

    total = sum(question.key in wanted for batch in batches for one in batch for question in one.questions)
    for _ in track(answered(), "Answering questions", total=total):
        pass
    model.flush()
    return time.monotonic() - start


@dataclass(frozen=True)
class _Prepared:
    """Studies with their encoder inputs, or with the reason why these are missing."""

    batch: list[_StudyQuestions]
    images: dict[str, Any] | None
    error: str | None = None


def _prepare(model: StudyAnswerer, batch: list[_StudyQuestions]) -> list[_Prepared]:
    """Decode a batch's images. If that fails, prepare each study separately, so that only one study fails."""
    try:
        return [_Prepared(batch, model.prepare_images([one.study for one in batch]))]
    except UnusableStudyError as error:
        if len(batch) == 1:
            return [_Prepared(batch, None, str(error))]
    return [prepared for one in batch for prepared in _prepare(model, [one])]


def _answer(model: StudyAnswerer, prepared: _Prepared) -> list[Prediction]:
    """Predictions for all questions of a prepared batch. Empty questions and unusable studies are failures."""
    asked = [(question, place) for place, one in enumerate(prepared.batch) for question in one.questions]
    if prepared.error is not None:
        return [Prediction(question.key, question.id, None, prepared.error) for question, _ in asked]
    failed = [Prediction(q.key, q.id, None, "the question is empty") for q, _ in asked if not q.text.strip()]
    asked = sorted((pair for pair in asked if pair[0].text.strip()), key=lambda pair: len(pair[0].text))
    if not asked:
        return failed
    assert prepared.images is not None
    answers = model.answer(prepared.images, [q.text for q, _ in asked], [place for _, place in asked])
    return failed + [
        Prediction(q.key, q.id, answer.text, details=answer.details)
        for (q, _), answer in zip(asked, answers, strict=True)
    ]
