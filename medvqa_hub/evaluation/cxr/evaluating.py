"""Evaluation on MIMIC-CXR-VQA: predictions first, then the row of the paper's Table 4 and the tables behind it.

    OUT/predictions.jsonl          every answer, with its own images and with the controls' (predictions.py)
    OUT/results.json               own images: the metrics, and what they were computed with
    OUT/results-shuffled.json      images of another patient      (--shuffle-images)
    OUT/results-blank.json         images without content         (--blank-images)
    OUT/chart.png                  text scores, and finding accuracy by category, for all of these
    OUT/examples.png               a few studies with their answers (examples-shuffled.png, examples-blank.png)
    OUT/scored.jsonl               every question with reference, answer, what the answer says and scores (--scored;
                                   scored-shuffled.jsonl, scored-blank.jsonl)
    OUT/baseline.csv               BERTScore's baseline              (--baseline computed)

With --radiology, results and scored rows have RadEval's scores too. The results hold metrics and counts, no text.
Scores are always made again from the predictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import make_folder
from medvqa_core.governance import Governance, strictest
from medvqa_core.json_files import write_json, write_json_lines
from medvqa_core.llm.options import NO_ENGINE, EngineOptions
from medvqa_core.runs.predictions import FILE, Prediction
from medvqa_hub.evaluation.cxr.answer_sources import AnswerSource, open_source
from medvqa_hub.evaluation.cxr.charts import draw_chart
from medvqa_hub.evaluation.cxr.evaluation_data import EvaluationData, open_data
from medvqa_hub.evaluation.cxr.examples import draw_examples
from medvqa_hub.evaluation.cxr.finding_accuracy import answer_polarity, score_findings, without_conflicts
from medvqa_hub.evaluation.cxr.generating import ProcessGroup, digest_images
from medvqa_hub.evaluation.cxr.model_inference import GenerationSettings
from medvqa_hub.evaluation.cxr.radiology import add_radiology, open_radiology
from medvqa_hub.evaluation.cxr.short_answers import chosen_option, score_rows, score_short
from medvqa_hub.evaluation.cxr.studies import Study, blank_images, shuffle_images
from medvqa_hub.evaluation.cxr.text_scores import COMPUTED, TextScorer, TextScores
from mimic_cxr_vqa.answer_types import CLOSED, OPEN
from mimic_cxr_vqa.images import FILM_SIDE
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES

FAILED_POLICIES = ("exclude", "empty")
FORMAT = 2


@dataclass(frozen=True)
class CxrOptions:
    """What to evaluate, and how.

    Attributes:
        model: checkpoint folder or Hub repository.
        data: a release, the workspace that it was built in, or the authors' CSV files; with `layout` the folder of a
            public dataset.
        layout: name of that dataset, see `layouts.registry`.
        engine: an image-text model in place of a checkpoint.
        predictions: a file of answers that were made elsewhere, see `answer_files`; images are not needed then.
        indication, image_side: of its prompt, see `StudyPrompt`.
        bare_question: ask as `train vlm` trains, the question and nothing else.
        limit: the first so many studies only.
        shuffle_images, blank_images: also evaluate with these controls.
        profile, encoder, layer, baseline: of the text scores, see `TextScorer`; a baseline is computed from the split's
            references.
        failed: rows whose answer failed are left out of the scores (`exclude`) or scored as empty answers, which are
            wrong.
        scored: also write every row with its texts and scores.
        radiology: also score with RadGraph and CheXbert, and the challenge's score.
    """

    model: str | None
    data: Path
    out: Path
    split: str = "test"
    image_root: Path | None = None
    limit: int | None = None
    shuffle_images: bool = False
    shuffle_seed: int = 0
    blank_images: bool = False
    profile: str = "default"
    encoder: str | None = None
    layer: int | None = None
    baseline: str | None = None
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    questions_per_batch: int = 96
    retry_failed: bool = False
    missing_images: str = "error"
    failed: str = "exclude"
    examples: int = 4
    scored: bool = False
    radiology: bool = False
    layout: str | None = None
    engine: EngineOptions = NO_ENGINE
    predictions: Path | None = None
    indication: bool = False
    bare_question: bool = False
    image_side: int = FILM_SIDE


def evaluate_cxr(options: CxrOptions) -> list[dict[str, Any]]:
    """Answer the split's questions and score the answers; the results, own images first.

    Of several processes (`ProcessGroup`) all answer, and only the first scores and returns results.

    Raises:
        ConfigError: an option is out of its range, the predictions there were made with other settings, or RadEval
            cannot be used and is asked for.
        InputError: the dataset, its split, an image, a reference or the checkpoint is not there or not usable.
        OutputError: `out` cannot be written.
        GovernanceError: `out` holds predictions of a stricter class.
    """
    if options.failed not in FAILED_POLICIES:
        raise ConfigError(f"failed is {options.failed!r}; allowed are {' and '.join(FAILED_POLICIES)}")
    if options.examples < 0:
        raise ConfigError(f"--examples is {options.examples}; allowed are 0 (no picture) and more studies")
    group = ProcessGroup()
    data = open_data(options)
    conditions = _conditions(options, data.studies)
    references = [row["answer"] or "" for study in conditions["own"] for row in study.rows]
    scoring = (options.profile, options.encoder, options.layer, options.baseline, references, group.device)
    scorer = TextScorer(*scoring) if group.is_first else None
    radiology = open_radiology() if options.radiology and group.is_first else None
    source = open_source(options, data.studies, data.governance, data.style, group)
    governance = strictest([data.governance, source.governance])
    make_folder(options.out, governance.private)
    digests = digest_images(conditions["own"])  # the controls have no images but these
    answered = []
    for name, studies in conditions.items():
        predictions, counts = source.predict(studies, options.out / FILE, governance, digests)
        answered.append((name, studies, predictions, counts))
    if scorer is None:
        return []
    if options.baseline == COMPUTED:
        scorer.write_baseline(options.out / "baseline.csv")
    results, scored = [], []
    for name, studies, predictions, counts in answered:
        described = _describe(options, source, data, governance, studies, name)
        metrics, rows = score(studies, predictions, scorer, options.failed)
        results.append({**described, **metrics, "asked_now": dict(counts)})
        scored.append(rows)
        _write(options, results[-1], rows, governance)
        if options.examples:
            draw_examples(studies, predictions, options.out / f"examples{_suffix(name)}.png", options.examples)
    draw_chart(results, options.out / "chart.png", private=governance.private)
    if radiology is not None:  # last: hours of RadGraph, or its failure, must not cost the row
        for result, rows in zip(results, scored, strict=True):
            add_radiology(result, rows, radiology, options.failed)
            _write(options, result, rows, governance)
    return results


def _suffix(images: str) -> str:
    """Of the files of a condition: nothing for the studies' own images."""
    return "" if images == "own" else f"-{images.split()[0]}"


def _write(options: CxrOptions, result: dict[str, Any], rows: Sequence[dict[str, Any]], governance: Governance) -> None:
    suffix = _suffix(result["images"])
    write_json(options.out / f"results{suffix}.json", result, private=governance.private)
    if options.scored:
        write_json_lines(options.out / f"scored{suffix}.jsonl", rows, private=governance.private)


def score(
    studies: Sequence[Study], predictions: Sequence[Sequence[Prediction]], scorer: TextScorer, failed: str = "exclude"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The metrics of one condition, and each row with its texts and scores.

    Returns:
        Metrics: `table_4` (the row), `scored_with`, `counts`, `by_category` and `by_label` (rows, text scores),
        `findings` and `ceiling` (finding accuracy of the answers, and of the references); of public datasets, whose
        rows have no label, `short_answers` in place of the last four. Rows: `qa_id`, `study_id`, `category`,
        `label_value`, `question`, `reference`, `answer`, `error`, `polarity` (None for a failure and for Heart), and a
        value of each text score, None where the row has none.

    Raises:
        InputError: no row has both an answer and a reference.
    """
    rows = [row for study in studies for row in study.rows]
    found = [prediction for of_study in predictions for prediction in of_study]
    answers = [p.answer for p in found]
    spoken = [answer if answer is not None or failed == "exclude" else "" for answer in answers]
    has_reference = [bool((row["answer"] or "").strip()) for row in rows]
    scored = [i for i, answer in enumerate(spoken) if answer is not None and has_reference[i]]
    counts = {
        "questions": len(rows),
        "answered": sum(answer is not None for answer in answers),
        "failed": sum(answer is None for answer in answers),
        "empty_answers": sum(answer == "" for answer in answers),
        "truncated": sum(bool(p.details.get("truncated")) for p in found),
        "without_reference": len(rows) - sum(has_reference),
        "scored": len(scored),
    }
    if not scored:
        raise InputError(
            f"nothing can be scored: of {len(rows)} questions {counts['failed']} failed and "
            f"{counts['without_reference']} have no reference answer; see {FILE}"
        )
    texts = scorer.score([_in_words(spoken[i], rows[i]) for i in scored], [_reference(rows[i]) for i in scored])
    chosen = [rows[i] for i in scored]
    metrics: dict[str, Any] = {
        "table_4": texts.whole.row,
        "scored_with": {**scorer.description(texts), "failed_answers": failed},
        "counts": counts,
    }
    if any(row["label_value"] for row in rows):
        references = [row["answer"] if has else None for row, has in zip(rows, has_reference, strict=True)]
        metrics |= {
            "by_category": _by(chosen, "category", CATEGORIES, texts),
            "by_label": _by(chosen, "label_value", tuple(LABEL_VALUES.values()), texts),
            "findings": score_findings(spoken, rows),
            "findings_without_conflicts": score_findings(*without_conflicts(spoken, rows)),
            "ceiling": score_findings(references, rows),
        }
    else:
        metrics |= {
            "by_category": _by(chosen, "category", sorted({row["category"] for row in chosen}), texts),
            "by_answer_type": _by(chosen, "answer_type", (CLOSED, OPEN), texts),
            "short_answers": score_short(spoken, rows),
        }
    places = {row: place for place, row in enumerate(scored)}
    ids = [study.study_id for study in studies for _ in study.rows]
    return metrics, [_scored_row(ids[i], rows[i], found[i], texts, places.get(i)) for i in range(len(rows))]


def _reference(row: dict[str, Any]) -> str:
    """What the text scores compare with: of a question with options the text of the right one."""
    return row["options"][row["answer"]] if row.get("options") else row["answer"]


def _in_words(answer: str, row: dict[str, Any]) -> str:
    """The answer as the text scores read it: of a question with options the text of the one that it chooses."""
    letter = chosen_option(answer, row["options"]) if row.get("options") else None
    return row["options"][letter] if letter else answer


def _scored_row(
    study_id: int | str, row: dict[str, Any], prediction: Prediction, texts: TextScores, place: int | None
) -> dict[str, Any]:
    """A row of scored.jsonl; `place` is the row's among the scored ones."""
    answer = prediction.answer
    of_answer: dict[str, Any] = {}
    if row["label_value"]:
        readable = answer is not None and row["category"] != HEART
        of_answer["polarity"] = answer_polarity(answer, row["category"]) if readable else None
    else:
        (of_answer,) = score_rows([answer], [row])
        of_answer["answer_type"] = row["answer_type"]
        if row.get("options"):
            of_answer |= {"right_option": row["answer"], "in_words": None if answer is None else _in_words(answer, row)}
    return {
        "qa_id": row["qa_id"],
        "study_id": study_id,
        **{name: row[name] for name in ("category", "label_value", "question")},
        "reference": _reference(row),
        "answer": answer,
        "error": prediction.error,
        **of_answer,
        **{name: None if place is None else values[place] for name, values in texts.whole.samples.items()},
    }


def _by(rows: Sequence[dict], column: str, values: Sequence[str], texts: TextScores) -> dict[str, dict[str, Any]]:
    """Text scores of the rows with each of `values` in `column`."""
    places = {value: [i for i, row in enumerate(rows) if row[column] == value] for value in values}
    return {value: {"rows": len(of), **texts.of(of)} for value, of in places.items() if of}


def _conditions(options: CxrOptions, studies: list[Study]) -> dict[str, list[Study]]:
    """What the images are -> the studies with those images."""
    conditions = {"own": studies}
    if options.shuffle_images:
        conditions[f"shuffled (seed {options.shuffle_seed})"] = shuffle_images(studies, options.shuffle_seed)
    if options.blank_images:
        conditions["blank"] = blank_images(studies)
    return conditions


def _describe(
    options: CxrOptions,
    source: AnswerSource,
    data: EvaluationData,
    governance: Governance,
    studies: Sequence[Study],
    images: str,
) -> dict[str, Any]:
    return {
        "kind": "cxr-evaluation",
        "format": FORMAT,
        "governance": str(governance),
        "images": images,
        "model": dict(source.model),
        "data": {
            **data.described,
            "split": studies[0].split,
            "studies": len(studies),
            "questions": sum(len(study.rows) for study in studies),
            "limit": options.limit,
        },
        "generation": dict(source.generation),
        "libraries": {name: version(name) for name in ("torch", "transformers", "medvqa-hub")},
    }
