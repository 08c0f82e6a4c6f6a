"""A stand-in for RadEval 2.2.1, whose weights the tests cannot have: the same class, call, modes and keys, toy scores.

Signatures are those of `radeval.RadEval.__init__` and `__call__` in 2.2.1. `radgraph`: simple = F1 of the word sets,
partial = half of it, complete = 1 for equal texts. `f1chexbert`: acc_all = 1 for equal first words, acc_5 = half of it;
every F1 of the whole = the mean of acc_all.
"""

import sys
import warnings
from types import ModuleType, SimpleNamespace

F1_KEYS = [f"f1chexbert_{labels}_{kind}_f1" for kind in ("micro", "macro", "weighted") for labels in ("5", "all")]


def install(monkeypatch, **broken) -> SimpleNamespace:
    """Put the stand-in into sys.modules as `radeval`, the name that 2.2.1 is imported by.

    Args:
        load: metric -> an exception that loading it raises.
        answer: an exception that scoring raises, or a function of the scores that returns others.

    Returns:
        `asked`: (metric, mode, references, predictions) of each call; `made`: the arguments of each RadEval.
    """
    seen = SimpleNamespace(asked=[], made=[])

    class RadEval:
        def __init__(
            self,
            metrics=None,
            openai_api_key=None,
            gemini_api_key=None,
            per_sample=False,
            detailed=False,
            show_progress=True,
            cache_dir=None,
        ):
            print("Using device: cpu")
            warnings.filterwarnings("ignore")
            seen.made.append({"metrics": metrics, "per_sample": per_sample, "show_progress": show_progress})
            for metric in metrics:
                if metric in broken.get("load", {}):
                    raise broken["load"][metric]
            self.metrics, self.per_sample, self.detailed = metrics, per_sample, detailed

        def __call__(self, refs, hyps):
            if not (isinstance(hyps, list) and isinstance(refs, list)):
                raise TypeError("hyps and refs must be of type list")
            if len(hyps) != len(refs):
                raise ValueError("hyps and refs lists don't have the same size")
            if len(refs) == 0:
                return {}
            mode = "per_sample" if self.per_sample else "detailed" if self.detailed else "default"
            scores = {}
            for metric in self.metrics:
                seen.asked.append((metric, mode, list(refs), list(hyps)))
                scores |= {"radgraph": _radgraph, "f1chexbert": _chexbert}[metric](refs, hyps, mode)
            answer = broken.get("answer")
            if isinstance(answer, Exception):
                raise answer
            return answer(scores) if answer else scores

    module = ModuleType("radeval")
    module.RadEval = RadEval
    monkeypatch.setitem(sys.modules, "radeval", module)
    monkeypatch.setitem(sys.modules, "RadEval", module)  # so that the alias made by the adapter goes away with the test
    monkeypatch.delitem(sys.modules, "RadEval")
    return seen


def _radgraph(refs, hyps, mode):
    simple = []
    for reference, prediction in zip(refs, hyps, strict=True):
        if prediction.strip() != prediction or not prediction or not reference.strip():
            raise ValueError("the real model is not made for a text without words")
        words = [set(text.split()) for text in (reference, prediction)]
        simple.append(2 * len(words[0] & words[1]) / (len(words[0]) + len(words[1])))
    complete = [float(reference == prediction) for reference, prediction in zip(refs, hyps, strict=True)]
    values = dict(
        zip(
            ("radgraph_simple", "radgraph_partial", "radgraph_complete"),
            (simple, [v / 2 for v in simple], complete),
            strict=True,
        )
    )
    return values if mode == "per_sample" else {name: sum(v) / len(v) for name, v in values.items()}


def _chexbert(refs, hyps, mode):
    same = [float(r.split()[:1] == h.split()[:1]) for r, h in zip(refs, hyps, strict=True)]
    if mode == "per_sample":
        return {"f1chexbert_sample_acc_5": [v / 2 for v in same], "f1chexbert_sample_acc_all": same}
    found = dict.fromkeys(F1_KEYS, sum(same) / len(same))
    if mode == "default":
        return {name: round(value, 4) for name, value in found.items()}
    return {**found, "f1chexbert_label_scores_f1": {"f1chexbert_5": {}, "f1chexbert_all": {}}}
