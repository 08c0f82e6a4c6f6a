"""A stand-in for RadEval 2.2.1, whose weights the tests cannot have: the same class, call, modes and keys, toy scores.

`radgraph`: simple = F1 of the word sets, partial = half of it, complete = 1 for equal texts. `f1chexbert`: acc_all = 1
for equal first words, acc_5 = half of it, and every F1 of the whole = the mean of acc_all. Each call is a line of
`asked.jsonl` in the stand-in's folder.
"""

import json
from pathlib import Path

F1_KEYS = [f"f1chexbert_{labels}_{kind}_f1" for kind in ("micro", "macro", "weighted") for labels in ("5", "all")]
SOURCE = """
import json, math, pathlib
F1_KEYS = {keys}
FAIL_LOADING, FAIL_SCORING, SPOIL = {load!r}, {score!r}, {spoil!r}

class RadEval:
    def __init__(self, metrics=None, openai_api_key=None, gemini_api_key=None, per_sample=False, detailed=False,
                 show_progress=True, cache_dir=None):
        print("Using device: cpu")
        if FAIL_LOADING in metrics:
            raise OSError("could not connect\\nto the Hub")
        self.metrics, self.per_sample, self.detailed = metrics, per_sample, detailed

    def __call__(self, refs, hyps):
        if not (isinstance(hyps, list) and isinstance(refs, list)):
            raise TypeError("hyps and refs must be of type list")
        (metric,) = self.metrics
        with open(pathlib.Path(__file__).with_name("asked.jsonl"), "a") as file:
            file.write(json.dumps([metric, self.per_sample, len(refs)]) + "\\n")
        if metric == FAIL_SCORING:
            raise KeyError("a patient's text")
        found = {{"radgraph": radgraph, "f1chexbert": chexbert}}[metric](refs, hyps, self.per_sample)
        if SPOIL == "nan":
            return {{name: [math.nan] * len(refs) for name in found}}
        if SPOIL == "short" or (SPOIL == "several" and len(refs) > 1):
            return {{name: values[1:] for name, values in found.items()}}
        return found

def radgraph(refs, hyps, per_sample):
    simple = []
    for reference, prediction in zip(refs, hyps):
        if not prediction.strip() or not reference.strip():
            raise ValueError("the real model is not made for a text without words")
        words = [set(text.split()) for text in (reference, prediction)]
        simple.append(2 * len(words[0] & words[1]) / (len(words[0]) + len(words[1])))
    complete = [float(reference == prediction) for reference, prediction in zip(refs, hyps)]
    return {{"radgraph_simple": simple, "radgraph_partial": [v / 2 for v in simple], "radgraph_complete": complete}}

def chexbert(refs, hyps, per_sample):
    same = [float(r.split()[:1] == h.split()[:1]) for r, h in zip(refs, hyps)]
    if per_sample:
        return {{"f1chexbert_sample_acc_5": [v / 2 for v in same], "f1chexbert_sample_acc_all": same}}
    return {{**dict.fromkeys(F1_KEYS, sum(same) / len(same)), "f1chexbert_label_scores_f1": {{"f1chexbert_5": {{}}}}}}
"""


def write_stand_in(folder: Path, monkeypatch, load: str = "", score: str = "", spoil: str = "") -> Path:
    """Write the stand-in and put it on the path of the processes that the test starts.

    Args:
        load, score: metric that cannot be loaded, or fails on a text.
        spoil: "nan" or "short" results, or short ones of "several" pairs.
    """
    metadata = folder / "RadEval-2.2.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True, exist_ok=True)
    metadata.write_text("Metadata-Version: 2.1\nName: RadEval\nVersion: 2.2.1\n")
    (folder / "radeval.py").write_text(SOURCE.format(keys=F1_KEYS, load=load, score=score, spoil=spoil))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def asked(folder: Path) -> list[list]:
    """(metric, whether per pair, number of pairs) of each call."""
    path = folder / "asked.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
