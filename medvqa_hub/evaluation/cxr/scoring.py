"""Scores of the answers to a split: the paper's Table 4 row, breakdowns, and scores of every row."""

from collections.abc import Sequence
from typing import Any

from medvqa_core.errors import InputError
from medvqa_core.runs.predictions import FILE, Prediction
from medvqa_hub.evaluation.cxr.finding_accuracy import answer_polarity, score_findings, without_conflicts
from medvqa_hub.evaluation.cxr.short_answers import chosen_option, score_rows, score_short
from medvqa_hub.evaluation.cxr.studies import Study
from medvqa_hub.evaluation.cxr.text_scores import TextScorer, TextScores
from mimic_cxr_vqa.answer_types import CLOSED, OPEN
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES

Row = dict[str, Any]


def score(
    studies: Sequence[Study], predictions: Sequence[Sequence[Prediction]], scorer: TextScorer, failed: str = "exclude"
) -> tuple[dict[str, Any], list[Row]]:
    """Return the metrics of one condition, and each row with its texts and scores.

    Returns:
        Metrics: `table_4`, `scored_with`, `counts`, and text scores `by_category`. With labels also `by_label`,
        `findings` and `ceiling` (finding accuracy of answers and references). Without labels, as in public datasets,
        `by_answer_type` and `short_answers`. Rows: see `_scored_row`.

    Raises:
        InputError: no row has both an answer and a reference.
    """
    rows = [row for study in studies for row in study.rows]
    found = [prediction for of_study in predictions for prediction in of_study]
    # Failed answers are None, or empty texts if they are scored
    answers = [p.answer if p.answer is not None or failed == "exclude" else "" for p in found]
    has_reference = [bool((row["answer"] or "").strip()) for row in rows]
    given = {i: answer for i, answer in enumerate(answers) if answer is not None and has_reference[i]}
    scored = list(given)
    counts = _count(found, has_reference, len(scored))
    if not scored:
        raise InputError(
            f"No answer can be scored: {counts['failed']} of {len(rows)} questions failed and "
            f"{counts['without_reference']} have no reference answer. See {FILE}. Questions without references can be "
            "answered with medvqa-hub predict."
        )
    texts = scorer.score([_in_words(given[i], rows[i]) for i in scored], [_reference(rows[i]) for i in scored])
    chosen = [rows[i] for i in scored]
    metrics: dict[str, Any] = {
        "table_4": texts.whole.row,
        "scored_with": {**scorer.description(texts), "failed_answers": failed},
        "counts": counts,
        **_score_by_kind(answers, rows, has_reference, chosen, texts),
    }
    ids = [study.study_id for study in studies for _ in study.rows]
    written = [_scored_row(*parts) for parts in zip(ids, rows, found, strict=True)]
    return metrics, _add_samples(written, scored, texts)


def _add_samples(rows: list[Row], scored: Sequence[int], texts: TextScores) -> list[Row]:
    """The rows with their text scores, which are None for rows that are not scored."""
    for row in rows:
        row.update(dict.fromkeys(texts.whole.samples))
    for place, i in enumerate(scored):
        rows[i].update({name: values[place] for name, values in texts.whole.samples.items()})
    return rows


def _score_by_kind(
    answers: Sequence[str | None],
    rows: Sequence[Row],
    has_reference: Sequence[bool],
    scored: Sequence[Row],
    texts: TextScores,
) -> Row:
    """Breakdowns and accuracy, of findings if the rows have labels and of short answers otherwise."""
    if any(row["label_value"] for row in rows):
        references = [row["answer"] if has else None for row, has in zip(rows, has_reference, strict=True)]
        return {
            "by_category": _group(scored, "category", CATEGORIES, texts),
            "by_label": _group(scored, "label_value", tuple(LABEL_VALUES.values()), texts),
            "findings": score_findings(answers, rows),
            "findings_without_conflicts": score_findings(*without_conflicts(answers, rows)),
            "ceiling": score_findings(references, rows),
        }
    return {
        "by_category": _group(scored, "category", sorted({row["category"] for row in scored}), texts),
        "by_answer_type": _group(scored, "answer_type", (CLOSED, OPEN), texts),
        "short_answers": score_short(answers, rows),
    }


def _count(predictions: Sequence[Prediction], has_reference: Sequence[bool], scored: int) -> dict[str, int]:
    answers = [prediction.answer for prediction in predictions]
    return {
        "questions": len(answers),
        "answered": sum(answer is not None for answer in answers),
        "failed": sum(answer is None for answer in answers),
        "empty_answers": sum(answer == "" for answer in answers),
        "truncated": sum(bool(prediction.details.get("truncated")) for prediction in predictions),
        "without_reference": len(answers) - sum(has_reference),
        "scored": scored,
    }


def _reference(row: Row) -> str:
    """The reference of the text scores. With options it is the text of the right one."""
    return row["options"][row["answer"]] if row.get("options") else row["answer"]


def _in_words(answer: str, row: Row) -> str:
    """The answer of the text scores. With options it is the text of the chosen one."""
    letter = chosen_option(answer, row["options"]) if row.get("options") else None
    return row["options"][letter] if letter else answer


def _scored_row(study_id: int | str, row: Row, prediction: Prediction) -> Row:
    """Question, reference, answer, and the answer's polarity or the measures of short answers.

    The polarity is None for failed answers and for Heart.
    """
    answer = prediction.answer
    details: Row = {}
    if row["label_value"]:
        readable = answer is not None and row["category"] != HEART
        details["polarity"] = answer_polarity(answer, row["category"]) if readable else None
    else:
        details = {**score_rows([answer], [row])[0]}
        details["answer_type"] = row["answer_type"]
        if row.get("options"):
            details |= {"right_option": row["answer"], "in_words": None if answer is None else _in_words(answer, row)}
    return {
        "qa_id": row["qa_id"],
        "study_id": study_id,
        **{name: row[name] for name in ("category", "label_value", "question")},
        "reference": _reference(row),
        "answer": answer,
        "error": prediction.error,
        **details,
    }


def _group(rows: Sequence[Row], column: str, values: Sequence[str], texts: TextScores) -> dict[str, Row]:
    """Text scores of the rows with each of `values` in `column`."""
    places = {value: [i for i, row in enumerate(rows) if row[column] == value] for value in values}
    return {value: {"rows": len(of), **texts.of(of)} for value, of in places.items() if of}
