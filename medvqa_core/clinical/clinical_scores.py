"""Scores of radiology texts that RadEval computed in an environment of its own (`radeval_script.py`).

    radgraph_simple, radgraph_partial, radgraph_complete    RadGraph-XL: F1 of entities; of entities and whether they
                                                            take part in a relation; of entities and relations
    f1chexbert_sample_acc_5, f1chexbert_sample_acc_all      CheXbert: share of the 5 or 14 conditions that agree
    f1chexbert_{5,all}_{micro,macro,weighted}_f1            CheXbert: F1 over the whole set, no value per pair

The names are RadEval's. Scores are found by the digests of their texts, so that those of other answers are refused.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.clinical import radeval_script
from medvqa_core.clinical.radeval_script import digest_pair, digest_set
from medvqa_core.errors import ConfigError, InputError, one_line
from medvqa_core.json_files import write_json_lines
from medvqa_core.json_lines import parse_line, read_lines
from medvqa_core.metrics.scores import Scores, mean

SCRIPT = Path(radeval_script.__file__)
METRICS = ("radgraph", "f1chexbert")  # by default
LEVELS = ("simple", "partial", "complete")  # of RadGraph
Pair = tuple[str, str]  # prediction, reference
SETUP = "python3.11 -m venv ~/radeval && ~/radeval/bin/pip install RadEval 'scikit-learn<1.9'"


@dataclass(frozen=True)
class ClinicalScores:
    """The content of a file of scores.

    Attributes:
        described: metrics and version of RadEval.
        pairs: digest of a pair -> its scores.
        sets: digest of a set of pairs -> scores of the whole set.
    """

    path: Path
    described: Mapping[str, Any]
    pairs: Mapping[str, Mapping[str, float]]
    sets: Mapping[str, Mapping[str, float]]

    def score(self, pairs: Sequence[Pair]) -> Scores:
        """The scores of these pairs. Scores without a value per pair are left out if the file has another set.

        Raises:
            InputError: a pair is not in the file.
        """
        digests = [digest_pair(*pair) for pair in pairs]
        missing = sum(digest not in self.pairs for digest in digests)
        if missing:
            raise InputError(
                f"{self.path} does not have {missing} of the {len(digests)} pairs. It was computed from other answers "
                f"or references: run {SCRIPT.name} on these"
            )
        names = sorted({name for digest in digests for name in self.pairs[digest]})
        samples: dict[str, list[float | None]] = {
            name: [self.pairs[digest].get(name) for digest in digests] for name in names
        }
        whole = self.sets.get(digest_set(digests), {})
        corpus = {name: mean(values) for name, values in samples.items()} | dict(whole)
        return Scores(corpus, samples, {name: values.count(None) for name, values in samples.items()})


def read_clinical_scores(path: Path) -> ClinicalScores:
    """Read a file that `radeval_script.py` wrote. Raises InputError if it is another or a broken file."""
    remedy = f"Expected the output of {SCRIPT.name}"
    described: Mapping[str, Any] | None = None
    pairs: dict[str, Mapping[str, float]] = {}
    sets: dict[str, Mapping[str, float]] = {}
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        row = parse_line(line, where)
        if not isinstance(row, dict):
            raise InputError(f"{where} is not a JSON object. {remedy}")
        if row.get("kind") == radeval_script.KIND:
            stated = {name: row.get(name) for name in ("metrics", "RadEval")}
            if described not in (None, stated):
                raise InputError(f"{where}: another version or other metrics than above. Do not join such files")
            described = stated
            continue
        scores, kind = row.get("scores"), "pair" if "pair" in row else "set"
        if described is None or not isinstance(scores, dict) or not isinstance(row.get(kind), str):
            raise InputError(f"{where} is not a line of scores. {remedy}")
        if not all(isinstance(value, int | float) for value in scores.values()):
            raise InputError(f"{where} has a score that is not a number. {remedy}")
        (pairs if kind == "pair" else sets)[row[kind]] = scores
    if described is None:
        raise InputError(f"{path} is empty. {remedy}")
    return ClinicalScores(path, described, pairs, sets)


def check_clinical_python(python: Path, metrics: Sequence[str]) -> None:
    """Score one pair in the environment of `python`. Raises ConfigError, with what RadEval reports."""
    _run(python, "--check", "--metrics", ",".join(metrics))


def run_clinical_python(python: Path, pairs: Path, scores: Path, metrics: Sequence[str]) -> ClinicalScores:
    """Score the pairs in a file and return all scores of `scores`, which is resumed. Raises ConfigError, InputError."""
    _run(python, str(pairs), str(scores), "--metrics", ",".join(metrics))
    return read_clinical_scores(scores)


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write pairs for the script, readable for this user only. Raises OutputError."""
    rows = ({"prediction": prediction, "reference": reference} for prediction, reference in pairs)
    write_json_lines(path, rows, private=True)


def _run(python: Path, *arguments: str) -> None:
    """Run the script and show what it reports. Its last line is the reason of a failure."""
    command, last = [str(python), str(SCRIPT), *arguments], "no message"
    try:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            for line in process.stderr:
                last = line.strip() or last
                print(line.rstrip(), file=sys.stderr)
    except OSError as error:
        raise ConfigError(
            f"--clinical-python {python} cannot be started ({error.strerror or error}). Expected the Python of an "
            f"environment with RadEval: {SETUP}"
        ) from None
    if process.returncode:
        raise ConfigError(f"--clinical-python {python}: {one_line(last)}")
