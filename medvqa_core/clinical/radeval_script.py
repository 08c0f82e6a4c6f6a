"""Scores pairs of texts with RadEval, in an environment of its own that does not have this package.

    python radeval_script.py PAIRS SCORES [--metrics radgraph,f1chexbert]

    PAIRS     JSON lines with `prediction` (or `answer`) and `reference`, such as scored.jsonl of `evaluate --scored`.
              Lines without either text are left out.
    SCORES    JSON lines: {"kind": "clinical-scores", "metrics": …, "RadEval": …}, then {"pair": digest, "scores": …}
              for each distinct pair, and {"set": digest, "scores": …} with the scores of all pairs of PAIRS together

The file is safe to interrupt: pairs that SCORES has are not scored again. It contains digests and numbers, no texts.
Metrics that send texts to another company's API are not supported.
"""

import argparse
import contextlib
import hashlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import IO, Any

KIND = "clinical-scores"
METRICS = (
    "bertscore", "bleu", "f1chexbert", "f1radbert_ct", "green", "radcliq", "radeval_bertscore", "radgraph",
    "radgraph_radcliq", "ratescore", "rouge", "srrbert", "temporal",
)  # fmt: skip
OF_THE_SET = ("bleu", "f1chexbert", "f1radbert_ct", "srrbert")  # these have scores that no single pair has
CHUNK = 64  # pairs between two writes
Pair = tuple[str, str]  # prediction, reference


def digest_pair(prediction: str, reference: str) -> str:
    """SHA-256 of a pair of texts."""
    return hashlib.sha256(json.dumps([prediction.strip(), reference.strip()]).encode()).hexdigest()


def digest_set(digests: Iterable[str]) -> str:
    """SHA-256 of the digests of pairs, in their order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def main(arguments: list[str] | None = None) -> None:
    """Score PAIRS into SCORES, or check with --check that the metrics can be loaded."""
    parser = argparse.ArgumentParser(description="Score pairs of texts with RadEval.")
    parser.add_argument("pairs", nargs="?")
    parser.add_argument("scores", nargs="?")
    parser.add_argument("--metrics", default="radgraph,f1chexbert")
    parser.add_argument("--check", action="store_true", help="load the metrics, score one pair and write nothing")
    given = parser.parse_args(arguments)
    metrics = given.metrics.split(",")
    unknown = sorted(set(metrics) - set(METRICS))
    if unknown:
        sys.exit(f"unknown metrics: {', '.join(unknown)}. Expected some of {', '.join(METRICS)}")
    if not given.check and not given.scores:
        parser.error("name PAIRS and SCORES")
    if given.check:
        _score(_load(metrics), [("no effusion", "no effusion is seen")])
        return
    pairs = list(_read_pairs(given.pairs))
    if not pairs:
        sys.exit(f"{given.pairs} does not have a pair of texts")
    done = _open_scores(given.scores, metrics)
    _score_all(pairs, given.scores, metrics, done)


def _score_all(pairs: list[Pair], path: str, metrics: list[str], done: set[str]) -> None:
    """Append the scores of the pairs and of their set that the file does not have."""
    digests = [digest_pair(*pair) for pair in pairs]
    todo = [pair for digest, pair in dict(zip(digests, pairs, strict=True)).items() if digest not in done]
    whole = digest_set(digests)
    of_the_set = [metric for metric in metrics if metric in OF_THE_SET and whole not in done]
    if not todo and not of_the_set:
        return
    with open(path, "a", encoding="utf-8") as file:
        models: dict[str, Any] = _load(metrics) if todo else {}
        for start in range(0, len(todo), CHUNK):
            chunk = todo[start : start + CHUNK]
            for pair, scores in zip(chunk, _score(models, chunk), strict=True):
                file.write(json.dumps({"pair": digest_pair(*pair), "scores": scores}) + "\n")
            _sync(file)
            print(f"RadEval: {min(start + CHUNK, len(todo))} of {len(todo)} pairs", file=sys.stderr)
        if of_the_set:
            found: dict[str, Any] = {}
            for metric in of_the_set:
                model = models.get(metric) or _load([metric])[metric]
                model.per_sample, model.detailed = False, True  # values of `detailed` are not rounded
                found.update(_call(model, metric, pairs))
            scores = {name: value for name, value in found.items() if _is_number(value)}
            file.write(json.dumps({"set": whole, "scores": scores}) + "\n")
            _sync(file)


def _read_pairs(path: str) -> Iterator[Pair]:
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            prediction, reference = row.get("prediction", row.get("answer")), row.get("reference")
            if prediction is not None and (reference or "").strip():
                yield prediction.strip(), reference.strip()


def _open_scores(path: str, metrics: list[str]) -> set[str]:
    """The digests in the file, which gets its first line if it is new. A line that was cut off is removed."""
    header = {"kind": KIND, "metrics": metrics, "RadEval": version("RadEval")}
    if not os.path.exists(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(header) + "\n")
        return set()
    with open(path, "r+b") as file:
        data = file.read()
        file.truncate(data.rfind(b"\n") + 1)
    lines = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
    if not lines or lines[0] != header:
        found = {name: lines[0].get(name) for name in header} if lines else "nothing"
        sys.exit(f"{path} was written with {found}, not with {header}. Choose another file or delete it")
    return {line.get("pair", line.get("set")) for line in lines[1:]}


def _load(metrics: list[str]) -> dict[str, Any]:
    """A RadEval object for each metric."""
    loaded = {}
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with contextlib.redirect_stdout(sys.stderr):
        try:
            import radeval
        except ImportError as error:
            sys.exit(f"RadEval cannot be imported ({error}): pip install RadEval 'scikit-learn<1.9'")
        sys.modules.setdefault("RadEval", radeval)  # version 2.2.1 imports parts of itself under this name
        for metric in metrics:
            try:
                loaded[metric] = radeval.RadEval(metrics=[metric], per_sample=True, show_progress=False)
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                sys.exit(
                    f"RadEval {version('RadEval')} cannot load {metric}: {type(error).__name__}: {reason}. Its weights "
                    "come from the Hub: load them once with a network"
                )
    return loaded


def _score(models: dict[str, Any], pairs: list[Pair]) -> list[dict[str, float]]:
    """A dict of scores for each pair."""
    scores: list[dict[str, float]] = [{} for _ in pairs]
    for metric, model in models.items():
        # RadGraph does not read empty texts, whose score it sets to 0
        asked = [i for i, pair in enumerate(pairs) if pair[0] or metric != "radgraph"]
        found = _call(model, metric, [pairs[i] for i in asked]) if asked else {}
        lists = {
            name: values for name, values in found.items() if isinstance(values, list) or hasattr(values, "tolist")
        }
        if asked and not lists:
            sys.exit(f"RadEval {version('RadEval')} returned no score of single pairs for {metric}")
        if not asked:
            lists = {f"radgraph_{level}": [] for level in ("simple", "partial", "complete")}
        for name, values in lists.items():
            values = [float(value) for value in values]
            if len(values) != len(asked) or not all(map(math.isfinite, values)):
                sys.exit(f"RadEval {version('RadEval')} did not return {len(asked)} finite values of {name}")
            by_pair = dict(zip(asked, values, strict=True))
            for i, of_pair in enumerate(scores):
                of_pair[name] = by_pair.get(i, 0.0)
    return scores


def _call(model: Any, metric: str, pairs: list[Pair]) -> dict[str, Any]:
    with contextlib.redirect_stdout(sys.stderr):
        try:
            return model(refs=[reference for _, reference in pairs], hyps=[prediction for prediction, _ in pairs])
        except Exception as error:  # its message may contain a text
            known = " (known with scikit-learn 1.9: pip install 'scikit-learn<1.9')" if metric == "f1chexbert" else ""
            sys.exit(
                f"RadEval {version('RadEval')} failed on {len(pairs)} pairs: {metric}, {type(error).__name__}{known}"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _sync(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


if __name__ == "__main__":
    main()
