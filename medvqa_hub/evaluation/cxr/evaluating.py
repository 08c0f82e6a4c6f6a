"""Evaluation on MIMIC-CXR-VQA: predictions first, then the paper's Table 4 row and more detailed tables.

    OUT/predictions.jsonl          every answer, with the study's own images and with the controls' images
    OUT/results.json               metrics, and the settings they were computed with
    OUT/results-shuffled.json      with images of another patient  (--shuffle-images)
    OUT/results-blank.json         with images without content     (--blank-images)
    OUT/chart.png                  text scores and finding accuracy by category
    OUT/examples.png               some studies with their answers (also examples-shuffled.png, examples-blank.png)
    OUT/scored.jsonl               every question with its texts and scores (--scored, also for the controls)
    OUT/baseline.csv               BERTScore's baseline (--baseline computed)
    OUT/clinical.jsonl             RadEval's scores by digests of the texts (--clinical-python)

Results contain metrics and counts but no texts. Scores are computed from the predictions on every run.
"""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from medvqa_core.files import make_folder
from medvqa_core.governance import strictest
from medvqa_core.json_files import write_json, write_json_lines
from medvqa_core.runs.predictions import FILE
from medvqa_hub.evaluation.cxr.answer_sources import open_source
from medvqa_hub.evaluation.cxr.challenge import PROFILE as CHALLENGE
from medvqa_hub.evaluation.cxr.challenge import add_challenge
from medvqa_hub.evaluation.cxr.charts import draw_chart
from medvqa_hub.evaluation.cxr.clinical import add_clinical, open_clinical
from medvqa_hub.evaluation.cxr.evaluation_data import open_data
from medvqa_hub.evaluation.cxr.examples import draw_examples
from medvqa_hub.evaluation.cxr.generating import digest_images
from medvqa_hub.evaluation.cxr.options import AnswerOptions, DataOptions, ScoreOptions
from medvqa_hub.evaluation.cxr.scoring import score
from medvqa_hub.evaluation.cxr.studies import Study, blank_images, shuffle_images
from medvqa_hub.evaluation.cxr.text_scores import COMPUTED, TextScorer
from medvqa_hub.evaluation.hashes import hash_rows
from medvqa_hub.launching import ProcessGroup

FORMAT = 2


def evaluate_cxr(
    out: Path, data: DataOptions, answers: AnswerOptions, scores: ScoreOptions | None = None
) -> list[dict[str, Any]]:
    """Answer the questions of a split, score the answers and return the results, own images first.

    In a `ProcessGroup` of several processes all of them answer, and only the first scores and returns results.

    Raises:
        ConfigError: an option is out of range, or the predictions in `out` were generated with other settings.
        InputError: the dataset, an image or the checkpoint is missing or not usable.
        OutputError: `out` cannot be written.
        GovernanceError: `out` has predictions of a stricter class.
    """
    scores = scores or ScoreOptions()
    group = ProcessGroup()
    found = open_data(data, needs_images=answers.predictions is None)
    conditions = _conditions(data, found.studies)
    references = [row["answer"] or "" for study in found.studies for row in study.rows]
    scorer = TextScorer.from_options(scores, references, group.device) if group.is_first else None
    clinical = open_clinical(scores, out) if group.is_first else None
    source = open_source(answers, found, out, group, has_controls=len(conditions) > 1)
    governance = strictest([found.governance, source.governance])
    make_folder(out, governance.private)
    digests = digest_images(found.studies)  # the controls use the same images
    answered = {name: source.predict(studies, out / FILE, governance, digests) for name, studies in conditions.items()}
    if scorer is None:
        return []
    if scores.baseline == COMPUTED:
        scorer.write_baseline(out / "baseline.csv")
    results, scored = [], []
    for name, studies in conditions.items():
        predictions, counts = answered[name]
        described = {
            "kind": "cxr-evaluation",
            "format": FORMAT,
            "governance": str(governance),
            "images": name,
            "model": dict(source.model),
            "data": {**found.described, **_describe(studies), "limit": data.limit},
            "generation": dict(source.generation),
            "libraries": {name: version(name) for name in ("torch", "transformers", "medvqa-hub")},
        }
        metrics, rows = score(studies, predictions, scorer, scores.failed)
        results.append({**described, **metrics, "asked_now": dict(counts)})
        scored.append(rows)
        _write(out, results[-1], rows, scores.scored)
        if scores.examples:
            draw_examples(studies, predictions, out / f"examples{_suffix(name)}.png", scores.examples)
    draw_chart(results, out / "chart.png", private=governance.private)
    if clinical is not None:  # last, because RadGraph takes hours and may fail
        for result, rows in zip(results, scored, strict=True):
            add_clinical(result, rows, clinical, scores.failed)
            if scores.profile == CHALLENGE:
                add_challenge(result, rows, scores.radgraph_level)
            _write(out, result, rows, scores.scored)
    return results


def _conditions(data: DataOptions, studies: list[Study]) -> dict[str, list[Study]]:
    """The studies with each kind of images."""
    conditions = {"own": studies}
    if data.shuffle_images:
        conditions[f"shuffled (seed {data.shuffle_seed})"] = shuffle_images(studies, data.shuffle_seed)
    if data.blank_images:
        conditions["blank"] = blank_images(studies)
    return conditions


def _describe(studies: Sequence[Study]) -> dict[str, Any]:
    questions = sum(len(study.rows) for study in studies)
    return {"split": studies[0].split, "studies": len(studies), "questions": questions}


def _suffix(images: str) -> str:
    """Suffix of the files of a condition."""
    return "" if images == "own" else f"-{images.split()[0]}"


def _write(out: Path, result: dict[str, Any], rows: Sequence[dict[str, Any]], with_rows: bool) -> None:
    suffix, private = _suffix(result["images"]), result["governance"] == "credentialed"
    result["hashes"] = hash_rows(rows)
    write_json(out / f"results{suffix}.json", result, private=private)
    if with_rows:
        write_json_lines(out / f"scored{suffix}.jsonl", rows, private=private)
