"""Table 3: the ratings of people, of the judge on the same answers and of the judge at large scale.

The paper reports the judge's percentages as they are. Here they are also corrected by the people's ratings: within
each cell (one verdict of the judge, one stratum of the people's sample) the share that people put into a category is
weighted by the size of the cell (`medvqa_core.metrics.judge_rates`). People's percentages of a stratified sample are
weighted by 1 / inclusion probability. The truth about an item is the median of the people's categories, the worse of
two.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, InputError
from medvqa_core.files import MANIFEST
from medvqa_core.metrics.agreement import measure_agreement
from medvqa_core.metrics.judge_rates import Cell, compute_rate, judged_interval
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Dimension, Verdict, is_flawless
from mimic_cxr_vqa.judging.independence import find_dependence
from mimic_cxr_vqa.judging.pairs import iterate_pairs, writer_settings
from mimic_cxr_vqa.judging.review import KeyEntry, Review, open_review
from mimic_cxr_vqa.judging.sampling import ALL, FLAWED, FLAWLESS
from mimic_cxr_vqa.judging.verdicts import (
    VERDICTS,
    JudgeRequest,
    iterate_verdicts,
    judge_folder,
    open_verdicts,
    read_sample,
    sampled_verdicts,
)
from mimic_cxr_vqa.workspace import Workspace

_COEFFICIENTS = ("fleiss_kappa", "ac1", "ac2", "ac1_published", "ac2_published")


@dataclass(frozen=True)
class People:
    """The people's ratings of a review sample.

    Attributes:
        ratings: rater -> item -> verdict, perhaps incomplete.
        key: item -> the answer behind it.
        judged: item -> the judge's verdict, if there is one.
        judge: the judge by whose verdicts the sample was stratified, if any.
    """

    ratings: Mapping[str, Mapping[str, Verdict]]
    key: Mapping[str, KeyEntry]
    judged: Mapping[str, Verdict]
    judge: str | None

    def truth(self, dimension: Dimension) -> dict[str, str]:
        """The median category of each item."""
        votes: dict[str, list[int]] = defaultdict(list)
        for ratings in self.ratings.values():
            for item, verdict in ratings.items():
                if dimension.name in verdict:
                    votes[item].append(dimension.categories.index(verdict[dimension.name]))
        return {item: dimension.categories[sorted(codes)[(len(codes) - 1) // 2]] for item, codes in votes.items()}


def measure_table3(workspace: Workspace, judge: str | None = None, resamples: int = 2000) -> dict[str, Any]:
    """Table 3 as JSON values, from people's ratings, a judge's verdicts, or both.

    Args:
        judge: the judge's name. It can be left out if there is only one.

    Raises:
        ConfigError: there are several judges, or the people's sample was stratified by another one.
        InputError: ratings are missing, or the answers have changed since people rated them.
    """
    judge = judge or _only_judge(workspace)
    large = list(sampled_verdicts(workspace, judge)) if judge else []
    people = _read_people(workspace, judge) if (workspace.review / MANIFEST).exists() else None
    if people is not None and not any(people.ratings.values()):
        people = None
    if not large and people is None:
        raise InputError(f"{workspace.root}: there are no ratings. Run: medvqa-hub cxr judge --out {workspace.root}")
    if people is not None and large and people.judge not in (None, judge):
        raise ConfigError(
            f"The people's sample was stratified by the judge {people.judge!r}. Use --judge {people.judge}."
        )
    sample = asdict(read_sample(workspace, judge)) if judge else None
    return {
        "answers": digest_file(workspace.answers),
        "judge": _describe_judge(workspace, judge) if judge else None,
        "sample": {**sample, "pairs": len(large)} if sample else None,
        "people": {"raters": len(people.ratings), "items": len(people.key), "stratified_by": people.judge}
        if people
        else None,
        "dimensions": {
            name: _measure(dimension, [(p.request.study_id, verdict) for p, verdict in large], people, resamples)
            for name, dimension in DIMENSIONS.items()
        },
    }


def _measure(
    dimension: Dimension, large: Sequence[tuple[int, Verdict]], people: People | None, resamples: int
) -> dict[str, Any]:
    """The part of one dimension."""
    found: dict[str, Any] = {"large_scale": _large_scale(dimension, large, people) if large else None}
    if people is None:
        return found | {"people": None, "judge_on_these": None, "agreement": None, "against_people": None}
    raters: dict[str, Mapping[str, Verdict]] = {name: rated for name, rated in people.ratings.items() if rated}
    studies = {item: entry.study_id for item, entry in people.key.items()}

    def agreement(of: Mapping[str, Mapping[str, Verdict]]) -> dict[str, Any] | None:
        ratings = {
            (rater, item): verdict[dimension.name]
            for rater, rated in of.items()
            for item, verdict in rated.items()
            if dimension.name in verdict
        }
        if max(Counter(item for _, item in ratings).values(), default=0) < 2:
            return None
        one = asdict(
            measure_agreement(
                ratings, dimension.categories, resamples=resamples, dimension=dimension.name, clusters=studies
            )
        )
        return {name: one[name] for name in (*_COEFFICIENTS, "intervals", "raw_agreement", "items", "raters")}

    with_judge = {**raters, "judge": people.judged} if people.judged else raters
    return found | {
        "people": {name: _shares(dimension, rated, people.key) for name, rated in raters.items()},
        "judge_on_these": _shares(dimension, people.judged, people.key) if people.judged else None,
        "agreement": {
            "people": agreement(raters),
            "people_and_judge": agreement(with_judge) if people.judged else None,
        },
        "against_people": _against_people(dimension, people) if people.judged else None,
    }


def _shares(dimension: Dimension, rated: Mapping[str, Verdict], key: Mapping[str, KeyEntry]) -> dict[str, float]:
    """Category -> share of the rated items, weighted by 1 / inclusion probability."""
    weights: dict[str, float] = dict.fromkeys(dimension.categories, 0.0)
    for item, verdict in rated.items():
        if dimension.name in verdict:
            weights[verdict[dimension.name]] += 1 / key[item].inclusion_probability
    total = sum(weights.values())
    return {category: weight / total if total else 0.0 for category, weight in weights.items()}


def _large_scale(
    dimension: Dimension, large: Sequence[tuple[int, Verdict]], people: People | None
) -> dict[str, dict[str, Any]]:
    """Category -> the judge's count, share and interval, and the rate corrected by the people."""
    found = {}
    counts = Counter(verdict[dimension.name] for _, verdict in large)
    studies = {study: row for row, study in enumerate(dict.fromkeys(study for study, _ in large))}
    for category in dimension.categories:
        table = np.zeros((len(studies), 2))
        for study, verdict in large:
            table[studies[study]] += (verdict[dimension.name] == category, 1)
        low, high = judged_interval(table)
        row = {"count": counts[category], "share": counts[category] / len(large), "low": low, "high": high}
        found[category] = row | {"corrected": _corrected(dimension, category, large, studies, people)}
    return found


def _corrected(
    dimension: Dimension,
    category: str,
    large: Sequence[tuple[int, Verdict]],
    studies: Mapping[int, int],
    people: People | None,
) -> dict[str, float] | None:
    if people is None or not people.judged:
        return None
    truth = people.truth(dimension)

    def kind(verdict: Verdict) -> tuple[str, str]:
        stratum = ALL if people.judge is None else FLAWLESS if is_flawless(verdict) else FLAWED
        return stratum, verdict[dimension.name]

    kinds = {kind: column for column, kind in enumerate(sorted({kind(verdict) for _, verdict in large}))}
    table = np.zeros((len(studies), len(kinds)))
    for study, verdict in large:
        table[studies[study], kinds[kind(verdict)]] += 1
    rated: Counter[Any] = Counter()
    hits: Counter[Any] = Counter()
    for item, category_of_people in truth.items():
        if item in people.judged and kind(people.judged[item]) in kinds:
            rated[kind(people.judged[item])] += 1
            hits[kind(people.judged[item])] += category_of_people == category
    if not rated:
        return None
    cells = [Cell(int(table[:, column].sum()), rated[one], hits[one]) for one, column in kinds.items()]
    share = sum(verdict[dimension.name] == category for _, verdict in large) / len(large)
    rate = compute_rate(cells, share, len(dimension.categories), table)
    return {"rate": rate.corrected, "low": rate.low, "high": rate.high}


def _against_people(dimension: Dimension, people: People) -> dict[str, Any]:
    """The judge's confusion matrix, sensitivity and specificity for the best category."""
    both = [
        (truth, people.judged[item], item) for item, truth in people.truth(dimension).items() if item in people.judged
    ]
    confusion = {truth: dict.fromkeys(dimension.categories, 0) for truth in dimension.categories}
    weights: dict[tuple[bool, bool], float] = defaultdict(float)
    for truth, verdict, item in both:
        confusion[truth][verdict[dimension.name]] += 1
        right = (truth == dimension.best, verdict[dimension.name] == dimension.best)
        weights[right] += 1 / people.key[item].inclusion_probability

    def share(hit: tuple[bool, bool], miss: tuple[bool, bool]) -> float | None:
        total = weights[hit] + weights[miss]
        return weights[hit] / total if total else None

    return {
        "items": len(both),
        "confusion": confusion,  # people's category -> judge's category -> items, unweighted
        "sensitivity": share((True, True), (True, False)),
        "specificity": share((False, False), (False, True)),
    }


def _only_judge(workspace: Workspace) -> str | None:
    names = sorted(folder.name for folder in workspace.judge.glob("*") if (folder / VERDICTS).exists())
    if len(names) > 1:
        raise ConfigError(f"Several judges rated these answers: {', '.join(names)}. Choose one with --judge.")
    return names[0] if names else None


def _describe_judge(workspace: Workspace, judge: str) -> dict[str, Any]:
    with open_verdicts(judge_folder(workspace, judge) / VERDICTS, workspace.governance()) as store:
        settings = {name: store.settings.get(name) for name in ("model", "revision", "prompt_version")}
    problem = find_dependence(writer_settings(workspace), settings)
    return {"name": judge, **settings, **({"not_independent": problem} if problem else {})}


def _read_people(workspace: Workspace, judge: str | None) -> People:
    review = open_review(workspace.review)
    key = review.key()
    ratings = {rater: review.ratings(rater) for rater in review.raters}
    judged = _judged_items(workspace, judge, review, key) if judge else {}
    return People(ratings, key, judged, review.judge)


def _judged_items(workspace: Workspace, judge: str, review: Review, key: Mapping[str, KeyEntry]) -> dict[str, Verdict]:
    """The judge's verdict on each item. Raises InputError if an answer has changed since people rated it."""
    item_of = {entry.qa_id: item for item, entry in key.items()}
    judged: dict[str, Verdict] = {}
    with open_verdicts(judge_folder(workspace, judge) / VERDICTS, workspace.governance()) as store:
        for study in iterate_pairs(workspace, {entry.study_id for entry in key.values()}):
            pairs = [pair for pair in study if pair.id in item_of]
            for pair in pairs:
                if pair.answer != review.item(item_of[pair.id]).answer:
                    raise InputError(f"{pair.id} has changed since people rated it. Export a new review sample.")
            for request, _, verdict in iterate_verdicts(store, map(JudgeRequest, pairs)):
                if verdict is not None:
                    judged[item_of[request.id]] = verdict
    return judged
