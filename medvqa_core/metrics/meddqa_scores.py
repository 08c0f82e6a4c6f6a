"""RJUA-MedDQA: accuracy and ROUGE-L by task and answer type, Tables 5 to 8, the hallucination rate.

There are two profiles (`soft_accuracy.py`): `released` equals the authors' script, and `ours` corrects its rules and
counts ROUGE-L on characters or words.

An unanswerable question has the answer 无. A prediction hallucinates on it unless it is 无 or states in other words
(ABSTENTIONS) that nothing is written. Failed predictions (None or empty) score 0 and are counted. They neither
hallucinate nor abstain. Marked questions, whose key or item is missing from the page, are also counted separately: most
other 无 are printed keys without a value.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from medvqa_core.errors import InputError
from medvqa_core.metrics.chinese import find_units, map_punctuation, map_released
from medvqa_core.metrics.paired import bootstrap, interval, mean_score
from medvqa_core.metrics.released_rouge import released_rouge_l
from medvqa_core.metrics.rouge import rouge_l
from medvqa_core.metrics.scores import mean
from medvqa_core.metrics.soft_accuracy import (
    MULTIPLE_CHOICE,
    NOTHING,
    OURS,
    RELEASED,
    check_aligned,
    check_profile,
    is_failed,
    soft_accuracy_scores,
)

SHORT_ANSWER = "SA"
COLUMNS = {"entity_qa": "entity", "table_qa": "table", "table_nr_qa": "table_nr"}  # a task's column in Tables 5, 6
REASONING_TASKS = {"disease_qa": "disease", "status_qa": "status", "advice_qa": "advice"}  # mc, sa in Tables 5 and 7
REPORTS = {True: "laboratory", False: "clinical"}
TABLE_5 = (
    ("entity", "rouge_l"),
    ("entity", "accuracy"),
    ("table", "rouge_l"),
    ("table", "accuracy"),
    ("table_nr", "accuracy"),
    ("mc", "accuracy"),
    ("sa", "rouge_l"),
)
TABLE_6 = (("entity", "rouge_l"), ("table", "accuracy"), ("table_nr", "accuracy"))
TABLE_7 = tuple(
    (column, metric, report, task)
    for column, metric in (("mc", "accuracy"), ("sa", "rouge_l"))
    for report in REPORTS.values()
    for task in REASONING_TASKS.values()
)
TABLE_8 = tuple(  # of one run, with context or without; the paper's table holds two
    (column, metric, report)
    for column, metric in (("mc", "accuracy"), ("sa", "rouge_l"))
    for report in REPORTS.values()
)
QUALITIES = ("high", "low")
RULES = {
    RELEASED: "the authors' script: first two parts of multi answers, ROUGE-L of the package rouge between white space",
    OURS: "the authors' rules corrected: every part counts, signs alike in every width; ROUGE-L F1",
}
ROUGE_BETA = 1.0  # plain F1

Tables = dict[str, dict[str, tuple[str, list[int]]]]  # table -> column -> (metric, rows)

ABSTENTIONS = (
    *("没有", "未提", "未给出", "未显示", "未找到", "未注明", "未标注", "未记录", "未包含", "不包含", "不存在"),
    *("无此", "无该", "无相关", "无对应", "无法找到", "无法得知", "无法获取", "无法确定", "找不到"),
)


@dataclass(frozen=True)
class MeddqaScores:
    """`record` is what is printed and written; `samples` has `accuracy` and `rouge_l` of every row."""

    record: dict[str, Any]
    samples: dict[str, Sequence[float | None]]


def score_meddqa(
    predictions: Sequence[str | None],
    answers: Sequence[str],
    tasks: Sequence[str],
    answer_types: Sequence[str],
    image_qualities: Sequence[str | None] | None = None,
    units: str = "characters",
    unanswerable: Sequence[bool] | None = None,
    profile: str = OURS,
    laboratory: Sequence[bool | None] | None = None,
    images: Sequence[str] | None = None,
) -> MeddqaScores:
    """Score predictions. All columns have one entry per question, as in the released files.

    Args:
        predictions: None for a failed question.
        image_qualities: "high", "low" (in any case) or None, for Table 6.
        units: of our ROUGE-L: "characters" or "words" (jieba).
        unanswerable: questions that were built without an answer, for their own hallucination rate.
        profile: "ours" or "released".
        laboratory: whether the report is a laboratory report (None: unknown), for Tables 7 and 8.
        images: the image of each question, for 95% intervals of every column (bootstrap over images).

    Raises:
        InputError: no rows, columns of different length, an unknown answer type or quality.
        ConfigError: an unknown profile, unknown units, or jieba is missing.

    Examples:
        >>> scores = score_meddqa(["正常"], ["正常"], ["table_nr_qa"], ["single_nr"])
        >>> scores.samples["accuracy"]
        [1.0]
    """
    check_profile(profile)
    reports = [None] * len(predictions) if laboratory is None else laboratory
    qualities = [None] * len(predictions) if image_qualities is None else image_qualities
    marks = [False] * len(predictions) if unanswerable is None else unanswerable
    check_aligned(
        predictions=predictions,
        answers=answers,
        tasks=tasks,
        answer_types=answer_types,
        image_qualities=qualities,
        unanswerable=marks,
        laboratory=reports,
        **({} if images is None else {"images": images}),
    )
    qualities = _check_qualities(qualities)
    measure_rouge = _released_rouge if profile == RELEASED else partial(_rouge, find_units(units))
    accuracy = soft_accuracy_scores(predictions, answers, answer_types, profile).samples["soft_accuracy"]
    failed = [is_failed(prediction) for prediction in predictions]
    texts = [prediction or "" for prediction in predictions]
    rouge = [
        None if score is None else 0.0 if failed[row] else measure_rouge(texts[row], answers[row])
        for row, score in enumerate(accuracy)
    ]
    samples: dict[str, Sequence[float | None]] = {"accuracy": accuracy, "rouge_l": rouge}
    columns = [find_column(task, answer_type) for task, answer_type in zip(tasks, answer_types, strict=True)]

    def summarize(rows: Sequence[int]) -> dict[str, Any]:
        means = {name: mean([values[row] for row in rows]) for name, values in samples.items()}
        counts = {
            "questions": len(rows),
            "failed": sum(failed[row] for row in rows),
            "unscorable": sum(accuracy[row] is None for row in rows),
        }
        return {**means, **counts}

    tables = _select_rows(columns, qualities, reports, tasks)
    by_task = _group(list(zip(tasks, answer_types, strict=True)))
    record = {
        **{
            name: {column: summarize(rows)[metric] for column, (metric, rows) in table.items()}
            for name, table in tables.items()
        },
        "intervals": _intervals(tables, samples, images) if images is not None else None,
        "by_task": {f"{task}/{answer_type}": summarize(rows) for (task, answer_type), rows in by_task.items()},
        "all": summarize(range(len(predictions))),
        "hallucination": _hallucination(texts, answers, failed, marks, columns),
        "profile": profile,
        "rules": RULES[profile],
        "units": "white space" if profile == RELEASED else units,
    }
    return MeddqaScores(record, samples)


def _check_qualities(qualities: Sequence[str | None]) -> list[str | None]:
    lowered = [quality and quality.strip().lower() for quality in qualities]  # the released files use both cases
    unknown = set(filter(None, lowered)) - set(QUALITIES)
    if unknown:
        raise InputError(f"image quality {sorted(unknown)[0]!r} is unknown. Allowed: {', '.join(QUALITIES)}")
    return lowered


def _select_rows(
    columns: Sequence[str | None],
    qualities: Sequence[str | None],
    reports: Sequence[bool | None],
    tasks: Sequence[str],
) -> Tables:
    """The rows that each column of Tables 5 to 8 is computed from."""
    names = [None if report is None else REPORTS[report] for report in reports]
    reasoning = map(REASONING_TASKS.get, tasks)
    by_column = _group(columns)
    by_quality = _group(list(zip(columns, qualities, strict=True)))
    by_report = _group(list(zip(columns, names, reasoning, strict=True)))
    by_kind = _group(list(zip(columns, names, strict=True)))
    return {
        "table_5": {f"{column}_{metric}": (metric, by_column.get(column, [])) for column, metric in TABLE_5},
        "table_6": {
            f"{column}_{metric}_{quality}": (metric, by_quality.get((column, quality), []))
            for column, metric in TABLE_6
            for quality in QUALITIES
        },
        "table_7": {
            f"{column}_{metric}_{report}_{task}": (metric, by_report.get((column, report, task), []))
            for column, metric, report, task in TABLE_7
        },
        "table_8": {
            f"{column}_{metric}_{report}": (metric, by_kind.get((column, report), []))
            for column, metric, report in TABLE_8
        },
    }


def _intervals(
    tables: Tables,
    samples: dict[str, Sequence[float | None]],
    images: Sequence[str],
) -> dict[str, dict[str, tuple[float, float] | None]]:
    """95% interval of each column by a bootstrap over images; None with fewer than two images."""
    places = {image: place for place, image in enumerate(dict.fromkeys(images))}
    sums = {}
    for name, table in tables.items():
        for column, (metric, rows) in table.items():
            counted = sums[name, column] = np.zeros((len(places), 2))
            for row in rows:
                score = samples[metric][row]
                if score is not None:
                    counted[places[images[row]]] += (score, 1)
    drawn = bootstrap(list(sums.values()), mean_score)
    found: dict[str, dict[str, tuple[float, float] | None]] = {name: {} for name in tables}
    for (name, column), values in zip(sums, drawn, strict=True):
        has_two = (sums[name, column][:, 1] > 0).sum() >= 2
        found[name][column] = interval(values) if has_two else None
    return found


def abstains(prediction: str) -> bool:
    """Whether the prediction states that nothing is written there."""
    bare = re.sub(r"[\s.,;:!?\"'()\[\]]+", "", map_punctuation(prediction))
    return bare == NOTHING or bare.endswith(("是无", "为无")) or any(phrase in bare for phrase in ABSTENTIONS)


def _released_rouge(prediction: str, answer: str) -> float:
    return released_rouge_l(map_released(prediction), map_released(answer))


def _rouge(tokenizer: Any, prediction: str, answer: str) -> float:
    return rouge_l(tokenizer(prediction), [tokenizer(answer)], ROUGE_BETA)


def find_column(task: str, answer_type: str) -> str | None:
    """The column of Table 5 that a question belongs to, or None."""
    if task in REASONING_TASKS:
        return {MULTIPLE_CHOICE: "mc", SHORT_ANSWER: "sa"}.get(answer_type)
    return COLUMNS.get(task)


def _group(keys: Sequence) -> dict[Any, list[int]]:
    rows = defaultdict(list)
    for row, key in enumerate(keys):
        rows[key].append(row)
    return dict(rows)


def _hallucination(
    predictions: Sequence[str],
    answers: Sequence[str],
    failed: Sequence[bool],
    marks: Sequence[bool],
    columns: Sequence[str | None],
) -> dict[str, Any]:
    """The share of hallucinations on unanswerable questions and of abstentions on the others.

    Entity and table questions are also counted separately, as in the paper (Section 5.4).
    """
    rows = [row for row, answer in enumerate(answers) if (answer or "").strip()]
    is_unanswerable = {row: marks[row] or answers[row].strip() == NOTHING for row in rows}
    answerable = [abstains(predictions[row]) for row in rows if not is_unanswerable[row] and not failed[row]]

    def count(wanted: Sequence[int]) -> dict[str, Any]:
        abstained = [abstains(predictions[row]) for row in wanted if not failed[row]]
        hallucinated = abstained.count(False)
        return {
            "unanswerable": len(wanted),
            "answered": len(abstained),
            "hallucinated": hallucinated,
            "rate": hallucinated / len(abstained) if abstained else None,
        }

    return {
        **count([row for row in rows if is_unanswerable[row]]),
        "marked": count([row for row in rows if marks[row]]),
        **{
            column: count([row for row in rows if is_unanswerable[row] and columns[row] == column])
            for column in ("entity", "table")
        },
        "abstained_on_answerable": answerable.count(True) / len(answerable) if answerable else None,
    }
