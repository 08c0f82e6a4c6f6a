"""Choose the questions of each study (paper, Section 3.1, with the balancing rule of the release).

A study gets all six questions of every category whose label is 1, 0 or -1. Heart counts as 1 if the findings contain
"heart". Then each label equal to 1 adds four draws: a random not-mentioned category (never No Finding or Heart), and
one of its questions that this study does not have yet. A draw from an exhausted category is lost.

The random numbers are hashes of (seed, study_id, counter). The order of the studies and the sharding therefore do not
matter, and all studies are drawn at once on arrays.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mimic_cxr_vqa.question_list import QUESTION_SLUGS, QUESTION_TEXTS, QUESTIONS_PER_CATEGORY
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS, HEART, LABEL_VALUES, NO_FINDING, QUESTION_SCHEMA

NOT_MENTIONED = 2  # a missing label in the int8 label matrix
DRAWS_PER_POSITIVE = 4
STUDIES_PER_BATCH = 4096  # about 60,000 questions, which fit into the cache

_CATEGORY_NAMES = pa.array(CATEGORIES)
_VALUE_NAMES = pa.array([LABEL_VALUES[v] for v in (-1, 0, 1, None)])  # index = value + 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # increment and multipliers of SplitMix64 (Steele, Lea, Flood 2014)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_NAN_CANDIDATES = np.array([label != NO_FINDING for label in CHEXPERT_LABELS])


@dataclass(frozen=True)
class QuestionIndex:
    """Questions as four aligned arrays, sorted by study, category and question number."""

    study: np.ndarray  # (questions,) row of the study in the input arrays
    category: np.ndarray  # (questions,) index into CATEGORIES
    number: np.ndarray  # (questions,) 0..5
    value: np.ndarray  # (questions,) 1, 0, -1 or NOT_MENTIONED


def draw_questions(study_ids: np.ndarray, labels: np.ndarray, heart: np.ndarray, seed: int) -> QuestionIndex:
    """Choose the questions of all studies at once.

    Args:
        study_ids: (studies,) int64.
        labels: (studies, 14) int8 in the order of CHEXPERT_LABELS: 1, 0, -1 or NOT_MENTIONED.
        heart: (studies,) bool, whether the findings contain the word "heart".
        seed: any integer. The same seed gives a study the same questions in every run.
    """
    values = np.concatenate([labels, np.where(heart, 1, NOT_MENTIONED).astype(np.int8)[:, None]], axis=1)
    stated = values != NOT_MENTIONED
    asked = np.repeat(stated[:, :, None], QUESTIONS_PER_CATEGORY, axis=2)  # (studies, categories, 6)

    candidate = ~stated[:, : len(CHEXPERT_LABELS)] & _NAN_CANDIDATES
    candidates = candidate.sum(axis=1)  # (studies,) number of categories to draw from
    nth_candidate = np.argsort(~candidate, axis=1, kind="stable").astype(np.int8)  # candidates first, in label order
    draws = DRAWS_PER_POSITIVE * (values == 1).sum(axis=1) * (candidates > 0)
    keys = _mix(study_ids.astype(np.uint64))
    for word in _split_seed(seed):
        keys = _mix(keys ^ _mix(np.array([word], np.uint64) + _GOLDEN))

    for draw in range(int(draws.max(initial=0))):
        rows = np.flatnonzero(draws > draw)
        category = nth_candidate[rows, _below(candidates[rows], keys[rows], 2 * draw)]
        free = ~asked[rows, category]  # (rows, 6) questions not drawn yet
        nth = _below(free.sum(axis=1), keys[rows], 2 * draw + 1)
        chosen = (free & (np.cumsum(free, axis=1) == nth[:, None] + 1)).argmax(axis=1)
        # an exhausted category gives question 0, which is already asked: the draw is lost
        asked[rows, category, chosen] = True

    study, category, number = np.nonzero(asked)
    return QuestionIndex(study, category, number, values[study, category])


def label_matrix(studies: pa.Table) -> np.ndarray:
    """The `labels` column as (studies, 14) int8, with NOT_MENTIONED for null."""
    labels = studies["labels"].combine_chunks()
    columns = [pc.fill_null(pc.struct_field(labels, label), NOT_MENTIONED).to_numpy(False) for label in CHEXPERT_LABELS]
    return np.stack(columns, axis=1).astype(np.int8) if len(studies) else np.zeros((0, len(CHEXPERT_LABELS)), np.int8)


def eligible_studies(studies: pa.Table) -> pa.Table:
    """The studies with a findings section. Only these get questions."""
    return studies.filter(
        pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(studies["findings"])), 0), False)
    )


def question_batches(
    studies: pa.Table, seed: int, studies_per_batch: int = STUDIES_PER_BATCH
) -> Iterator[pa.RecordBatch]:
    """Yield batches of question rows (QUESTION_SCHEMA) of `studies` (STUDY_SCHEMA), in the order of the studies."""
    studies = eligible_studies(studies)
    heart = pc.match_substring(studies["findings"], HEART.lower(), ignore_case=True)
    for start in range(0, len(studies), studies_per_batch):
        batch = studies.slice(start, studies_per_batch)
        index = draw_questions(
            batch["study_id"].to_numpy(),
            label_matrix(batch),
            heart.slice(start, studies_per_batch).to_numpy().astype(bool),
            seed,
        )
        yield _question_rows(batch, index)


def _question_rows(studies: pa.Table, index: QuestionIndex) -> pa.RecordBatch:
    rows = pa.array(index.study)
    copied = ("subject_id", "study_id", "split", "indication")
    columns = {name: studies[name].combine_chunks().take(rows) for name in copied}
    images = studies["images"].combine_chunks()
    flat, offsets = images.flatten(), _offsets(images)
    for name, field in (("images", "path"), ("views", "view")):
        columns[name] = pa.ListArray.from_arrays(offsets, pc.struct_field(flat, field)).take(rows)
    text = pa.array(index.category * QUESTIONS_PER_CATEGORY + index.number)
    prefix = pc.binary_join_element_wise("s", pc.cast(studies["study_id"].combine_chunks(), pa.string()), "")
    columns["qa_id"] = pc.binary_join_element_wise(prefix.take(rows), QUESTION_SLUGS.take(text), "-")
    columns["category"] = _CATEGORY_NAMES.take(pa.array(index.category))
    columns["label_value"] = _VALUE_NAMES.take(pa.array(index.value + 1))
    columns["question"] = QUESTION_TEXTS.take(text)
    return pa.RecordBatch.from_arrays([columns[name] for name in QUESTION_SCHEMA.names], schema=QUESTION_SCHEMA)


def _offsets(lists: pa.ListArray) -> pa.Array:
    """Offsets of `lists`, starting at 0 also for a sliced array."""
    offsets = lists.offsets.to_numpy()
    return pa.array(offsets - offsets[0], pa.int32())


def _split_seed(seed: int) -> list[int]:
    """The 64-bit words of `seed`, lowest first. Outside of 0 to 2^64 - 1 a last word encodes the sign."""
    if 0 <= seed < 2**64:
        return [seed]
    size = abs(seed)
    return [size >> shift & 2**64 - 1 for shift in range(0, size.bit_length(), 64)] + [1 if seed > 0 else 2]


def _mix(x: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser, a bijection of 64-bit numbers."""
    x = (x ^ (x >> np.uint64(30))) * _MIX[0]
    x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return x ^ (x >> np.uint64(31))


def _below(limits: np.ndarray, keys: np.ndarray, counter: int) -> np.ndarray:
    """(n,) integers in [0, limit): random number `counter` of each key's stream, scaled to the limit."""
    step = np.array([counter + 1], np.uint64) * _GOLDEN
    high = _mix(keys + step) >> np.uint64(32)
    return ((high * limits.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
