"""Generating: the questions of studies go to a model in batches of whole studies, and each answer is kept as it comes.

A batch is consecutive studies with at most `questions_per_batch` questions (one study may have more): its images are
encoded once and its questions, sorted by length, answered in one generate call; the next batches' images are decoded
meanwhile. Batches are laid out over all studies, whatever is done already, and a batch that a kill cut through is
computed whole again: so a killed and restarted run computes the same batches and leaves the same set of records.

With several processes (`ProcessGroup`), process r takes batches r, r + n, … and writes a file of its own.
"""

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest_files
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

AHEAD = 3  # batches whose images are decoded while the model works
LONGEST_WAIT = timedelta(days=7)  # for the slowest process; the default gives up after minutes
BLANK = "blank"  # stands for a blank image's content in keys


@dataclass(frozen=True)
class _Question:
    key: str
    id: str
    text: str


@dataclass(frozen=True)
class _Asked:
    """A study and those of its questions that no earlier study asks of the same images."""

    study: Study
    questions: tuple[_Question, ...]


def digest_images(studies: Sequence[Study]) -> dict[Path, str]:
    """A digest of each image file's content. Raises InputError where one cannot be read."""
    return digest_files([path for study in studies for path in study.images if path is not None], "Reading images")


def request_keys(
    studies: Sequence[Study],
    settings: Mapping[str, Any],
    digests: Mapping[Path, str],
    content: Callable[[Study, Mapping[str, Any]], Mapping[str, Any]] | None = None,
) -> list[list[str]]:
    """The content key of every question of every study: of the images' content, their views, and the question's text.

    Args:
        digests: of the studies' images, from `digest_images`.
        content: what else the answer to a row depends on.
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
    group: "ProcessGroup | None" = None,
) -> tuple[list[list[Prediction]], Counter]:
    """Answer every question of `studies` that has no prediction in `path` yet.

    Args:
        path: `predictions.jsonl`.
        settings: what answers depend on besides images and question, for `PredictionStore`.
        open_model: loads the model; called only if there is something to answer.
        retry_failed: ask those again whose prediction is a failure.
        digests: of the studies' images, where they are known already: reading thousands of films takes minutes.
        group: the processes of this run; None: what was started.

    Returns:
        The predictions, aligned with the studies and their rows; and counts: `asked` (distinct requests made
        now, by all processes), `processes`, and `seconds` (that this process took, loading aside).

    Raises:
        ConfigError: `questions_per_batch` is below one, or the predictions there were made with other settings.
        InputError: an image cannot be read, the checkpoint cannot be loaded.
        OutputError: the predictions cannot be written.
    """
    if questions_per_batch < 1:
        raise ConfigError(f"questions_per_batch is {questions_per_batch}; it must be at least 1")
    group = group or ProcessGroup()
    if group.is_first:
        merge_parts(path, governance, settings)  # what a killed run of several processes left
    group.wait()
    keys = request_keys(studies, settings, digest_images(studies) if digests is None else digests)
    found = _find_all(keys, path, governance, settings)
    wanted = {
        key
        for key, made in zip(chain(*keys), chain(*found), strict=True)
        if made is None or (retry_failed and made.error is not None)
    }
    batches = _batches(_ask_once(studies, keys), questions_per_batch)
    batches = [batch for batch in batches if any(q.key in wanted for one in batch for q in one.questions)]
    counts = Counter(asked=len(wanted), seconds=0, processes=group.size)
    group.wait()  # nobody writes before everybody has read
    if mine := batches[group.rank :: group.size]:
        model = open_model()
        with PredictionStore(group.own_path(path), governance, settings) as store:
            counts["seconds"] = _answer_batches(mine, wanted, store, model)
    group.wait()
    if group.is_first:
        merge_parts(path, governance, settings)
    group.wait()
    return _find_all(keys, path, governance, settings), counts


def _find_all(
    keys: Sequence[Sequence[str]], path: Path, governance: Governance, settings: dict[str, Any]
) -> list[list[Prediction | None]]:
    """What became of each request; the file is only read, so that a model that cannot be loaded leaves none behind."""
    if not path.exists():
        return [[None] * len(of_study) for of_study in keys]
    with PredictionStore(path, governance, settings, read_only=True) as store:
        return [[store.find(key) for key in of_study] for of_study in keys]


class ProcessGroup:
    """The processes of this run: one, or as many as `--launch`, `accelerate launch` or `torchrun` started.

    Attributes:
        size, rank: how many there are, and which this one is.
        device: "cpu" where the launcher was told to use CPUs; None: the process's GPU, or the CPU where there is none.

    Raises:
        ConfigError: several processes were started, and they do not find each other.
    """

    def __init__(self) -> None:
        self.size, self.rank, self._state = 1, 0, None
        self.device = "cpu" if os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes") else None
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if started > 1:
            import torch
            from accelerate import PartialState

            # Without cpu=True and without a GPU, accelerate takes every process for the only one.
            cpu = self.device == "cpu" or not torch.cuda.is_available()
            self._state = PartialState(cpu=cpu, timeout=LONGEST_WAIT)
            self.size, self.rank = self._state.num_processes, self._state.process_index
            if self.size != started:
                raise ConfigError(
                    f"{started} processes were started, and this one finds {self.size}; start them with --launch, "
                    "such as --launch '--num_processes 8'"
                )

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self._state is not None:
            self._state.wait_for_everyone()

    def own_path(self, path: Path) -> Path:
        """The file that this process writes to."""
        return path if self.size == 1 else part_path(path, self.rank)


def _ask_once(studies: Sequence[Study], keys: Sequence[Sequence[str]]) -> Iterator[_Asked]:
    """Each distinct request with the first study that makes it: blank images make few distinct ones."""
    seen: set[str] = set()
    for study, of_study in zip(studies, keys, strict=True):
        questions = []
        for key, row in zip(of_study, study.rows, strict=True):
            if key not in seen:
                seen.add(key)
                questions.append(_Question(key, row["qa_id"], row["question"]))
        if questions:
            yield _Asked(study, tuple(questions))


def _batches(asked: Iterator[_Asked], questions_per_batch: int) -> Iterator[list[_Asked]]:
    batch: list[_Asked] = []
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
    batches: Sequence[list[_Asked]], wanted: set[str], store: PredictionStore, model: StudyAnswerer
) -> float:
    """Answer `batches` and append the predictions whose key is `wanted`, one sync per batch; returns the seconds."""
    start = time.monotonic()

    def answered() -> Iterator[Prediction]:
        with ThreadPoolExecutor(AHEAD) as pool:
            waiting: deque[Future] = deque()
            coming = iter(batches)
            for batch in islice(coming, AHEAD):
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
    return time.monotonic() - start


@dataclass(frozen=True)
class _Prepared:
    """Studies with their encoder inputs, or with the reason why they have none."""

    batch: list[_Asked]
    images: dict[str, Any] | None
    error: str | None = None


def _prepare(model: StudyAnswerer, batch: list[_Asked]) -> list[_Prepared]:
    """Decode a batch's images; where a study spoils it, each study is tried alone, so that only that one fails."""
    try:
        return [_Prepared(batch, model.prepare_images([one.study for one in batch]))]
    except UnusableStudyError as error:
        if len(batch) == 1:
            return [_Prepared(batch, None, str(error))]
    return [prepared for one in batch for prepared in _prepare(model, [one])]


def _answer(model: StudyAnswerer, prepared: _Prepared) -> list[Prediction]:
    """Predictions for all questions of a prepared batch; blank questions and unusable studies become failures."""
    asked = [(question, place) for place, one in enumerate(prepared.batch) for question in one.questions]
    if prepared.error is not None:
        return [Prediction(question.key, question.id, None, prepared.error) for question, _ in asked]
    failed = [Prediction(q.key, q.id, None, "the question is empty") for q, _ in asked if not q.text.strip()]
    asked = sorted((pair for pair in asked if pair[0].text.strip()), key=lambda pair: len(pair[0].text))
    if not asked:
        return failed
    answers = model.answer(prepared.images, [q.text for q, _ in asked], [place for _, place in asked])
    return failed + [
        Prediction(q.key, q.id, answer.text, details={"tokens": answer.tokens, "truncated": answer.truncated})
        for (q, _), answer in zip(asked, answers, strict=True)
    ]
