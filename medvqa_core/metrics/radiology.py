"""RadGraph F1 and CheXbert agreement as RadEval computes them (extra `radiology`), and the score of CXR-ORACLE.

    radgraph_simple, radgraph_partial, radgraph_complete    RadGraph-XL: F1 of entities; of entities and whether they
                                                            take part in a relation; of entities and relations
    f1chexbert_sample_acc_5, f1chexbert_sample_acc_all      CheXbert: share of the 5 or 14 conditions that agree
    f1chexbert_{5,all}_{micro,macro,weighted}_f1            CheXbert: F1 over the whole set, no value per sample
    challenge_score                                         0.5 x BERTScore F1 + 0.5 x RadGraph F1

The names are RadEval's except the last. The challenge CXR-ORACLE does not define its RadGraph F1. Here it is `partial`,
as in most results on report generation. RadEval downloads its weights from the Hub and is imported when a scorer is
created.
"""

import contextlib
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.install_hint import install
from medvqa_core.metrics.scores import Scores, check_pairs, mean
from medvqa_core.progress import track

RADGRAPH, CHEXBERT = "radgraph", "f1chexbert"  # RadEval's names of the two
LEVELS = ("radgraph_simple", "radgraph_partial", "radgraph_complete")
LABEL_ACCURACY = ("f1chexbert_sample_acc_5", "f1chexbert_sample_acc_all")
LABEL_F1 = tuple(f"f1chexbert_{labels}_{kind}_f1" for kind in ("micro", "macro", "weighted") for labels in ("5", "all"))
CHALLENGE, CHALLENGE_LEVEL = "challenge_score", "radgraph_partial"
CHEXBERT_REMEDY = "CheXbert of RadEval 2.2.1 fails with scikit-learn 1.9: pip install 'scikit-learn<1.9'; "
CHUNK = 64  # pairs between steps of the progress bar; RadGraph reads one text at a time anyway
INSTALL = f"{install('radiology')}, or go on without the radiology scores"


class RadiologyScorer:
    """RadEval with its weights loaded, for any number of sets of answers.

    Args:
        chexbert: score with CheXbert too, which needs a GPU in RadEval 2.2.

    Raises:
        ConfigError: RadEval is not installed, or cannot fetch or load its weights.
    """

    def __init__(self, chexbert: bool = True) -> None:
        evaluator = _import_radeval().RadEval
        bar = sys.stderr.isatty()
        self._radgraph = _load(evaluator, RADGRAPH, show_progress=False)  # it would show none: see `score`
        self._chexbert = _load(evaluator, CHEXBERT, show_progress=bar) if chexbert else None
        self.notes = [] if chexbert else ["CheXbert left out: RadEval loads it onto a GPU only"]

    @property
    def description(self) -> dict[str, Any]:
        """Libraries and metrics, for a results file."""
        return {
            "libraries": {"RadEval": _version()},
            "metrics": [RADGRAPH, CHEXBERT] if self._chexbert else [RADGRAPH],
            CHALLENGE: f"0.5 x BERTScore F1 + 0.5 x {CHALLENGE_LEVEL}",
            "notes": self.notes,
        }

    def score(
        self, predictions: Sequence[str], references: Sequence[str], bertscore: Sequence[float | None] | None = None
    ) -> Scores:
        """RadGraph F1, CheXbert agreement and the challenge's score, per sample and over all.

        Args:
            references: one for each prediction; a row whose reference is empty is None in every score.
            bertscore: BERTScore F1 of each row, for the challenge's score.

        Returns:
            The names at the top of this file. The F1 of CheXbert have a corpus value only.

        Raises:
            ConfigError: RadEval fails on a text.
            InputError: see `check_pairs`; or a row has several references.
        """
        lists = check_pairs(predictions, references)
        if many := [row for row, texts in enumerate(lists) if len(texts) != 1]:
            raise InputError(f"row {many[0]}: {len(lists[many[0]])} references; RadEval takes one for each prediction")
        texts = [(prediction.strip(), of[0].strip()) for prediction, of in zip(predictions, lists, strict=True)]
        scored = [place for place, (_, reference) in enumerate(texts) if reference]
        samples = self._radgraph_samples(texts, scored)
        corpus: dict[str, float | None] = {}
        if self._chexbert is not None:
            accuracy, corpus = _chexbert_scores(self._chexbert, [texts[place] for place in scored])
            samples |= {name: _spread(values, scored, len(texts)) for name, values in accuracy.items()}
        if bertscore is not None:
            pairs = zip(bertscore, samples[CHALLENGE_LEVEL], strict=True)
            samples[CHALLENGE] = [None if a is None or b is None else 0.5 * a + 0.5 * b for a, b in pairs]
        means = {name: mean(values) for name, values in samples.items()}
        return Scores(means | corpus, samples, {name: values.count(None) for name, values in samples.items()})

    def _radgraph_samples(self, texts: list[tuple[str, str]], scored: list[int]) -> dict[str, list[float | None]]:
        """Empty predictions score 0, as in RadEval, without calling the model."""
        samples = {name: _spread([0.0] * len(scored), scored, len(texts)) for name in LEVELS}
        asked = [place for place in scored if texts[place][0]]
        chunks = [asked[start : start + CHUNK] for start in range(0, len(asked), CHUNK)]
        for chunk in track(chunks, "RadGraph, batches of answers"):
            found = _ask(self._radgraph, [texts[place] for place in chunk])
            for name in LEVELS:
                for place, value in zip(chunk, _values(found, name, len(chunk)), strict=True):
                    samples[name][place] = value
        return samples


def _chexbert_scores(
    chexbert: Any, pairs: list[tuple[str, str]]
) -> tuple[dict[str, list[float]], dict[str, float | None]]:
    """Label accuracy of each pair, and F1 over all (two modes of RadEval)."""
    if not pairs:
        return {name: [] for name in LABEL_ACCURACY}, dict.fromkeys(LABEL_F1)
    found = _ask(chexbert, pairs, CHEXBERT_REMEDY)
    accuracy = {name: _values(found, name, len(pairs)) for name in LABEL_ACCURACY}
    chexbert.per_sample, chexbert.detailed = False, True  # detailed does not round
    try:
        found = _ask(chexbert, pairs, CHEXBERT_REMEDY)
    finally:
        chexbert.per_sample, chexbert.detailed = True, False
    return accuracy, {name: _values({name: [found.get(name)]}, name, 1)[0] for name in LABEL_F1}


def _import_radeval() -> Any:
    try:
        with _quiet():
            import radeval
    except ImportError as error:
        if error.name == "radeval":
            raise ConfigError(f"RadGraph and CheXbert need RadEval, which is not installed; {INSTALL}") from None
        raise ConfigError(f"RadEval cannot be imported ({one_line(error)}); {INSTALL}") from error
    # Version 2.2.1 imports its copy of RadGraph under another name than its own (issue 27).
    sys.modules.setdefault("RadEval", radeval)
    return radeval


def _load(evaluator: Any, metric: str, show_progress: bool) -> Any:
    try:
        with _quiet():
            return evaluator(metrics=[metric], per_sample=True, show_progress=show_progress)
    except Exception as error:
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
        raise ConfigError(
            f"RadEval {_version()} cannot load {metric}{offline}: {one_line(error)[:200]}. Its weights come from the "
            "Hub (StanfordAIMI/RRG_scorers and the text encoders that these name): load them once with a network, "
            "they stay in the user's cache folder. Or run without the radiology scores"
        ) from error


def _ask(evaluator: Any, pairs: list[tuple[str, str]], remedy: str = "") -> dict[str, Any]:
    try:
        with _quiet():
            return evaluator(refs=[reference for _, reference in pairs], hyps=[prediction for prediction, _ in pairs])
    except Exception as error:  # the message may contain a text
        raise ConfigError(
            f"RadEval {_version()} failed on {len(pairs)} pairs ({type(error).__name__}); "
            f"{remedy}go on without the radiology scores, or report it to RadEval"
        ) from error


def _values(found: dict[str, Any], name: str, number: int) -> list[float]:
    """`number` finite values under `name`. Raises ConfigError for other results of RadEval."""
    try:
        values = [float(value) for value in found[name]]
    except (KeyError, TypeError, ValueError):
        values = []
    if len(values) != number or not all(map(math.isfinite, values)):
        raise ConfigError(
            f"RadEval {_version()} did not return {number} finite values of {name}. Install version 2.2 or later"
        )
    return values


def _spread(values: Sequence[float], places: Sequence[int], number: int) -> list[float | None]:
    """`values` at their `places` among `number`, None elsewhere."""
    spread: list[float | None] = [None] * number
    for place, value in zip(places, values, strict=True):
        spread[place] = value
    return spread


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """RadEval prints to standard output and disables all warnings."""
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        yield


def _version() -> str:
    try:
        return version("RadEval")
    except PackageNotFoundError:
        return "of unknown version"
