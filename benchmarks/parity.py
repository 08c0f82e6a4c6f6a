"""Do converted weights answer as in the authors' code? Ours against independent copies of the released modules.

The copies (`swin_ved_released.py` and `blip2_multiview_released.py` in tests/helpers) are made of transformers' parts.
They share configurations and names of weights with our models, but no code of models, decoding, pixels or losses. They
learn by the released objective on half of 40 synthetic studies. Then both sides answer 360 questions, half of them on
other studies. Ours are loaded from a saved checkpoint as `evaluate cxr` loads it.

Pixels are "released" (both sides get the same tensors, made from copies of 512 pixels as the authors had them) or
"default" (ours reads the original files as `evaluate cxr` does). Controls are known differences, which must lower
the number of equal answers. Every other difference is listed with the log-probabilities of both answers, the gap of the
logits where they part, and its cause: "pixels" if the released pixels give the equal answer, "rounding" if float64
does, else "unexplained".

`parity_swin_ved.py` and `parity_blip2_multiview.py` train and convert the models. `parity_gradients.py` compares
gradients.

Run: python benchmarks/parity.py [--out out/parity]    (about 15 CPU minutes. Finished parts are kept)
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from parity_cases import Case, Pairs, Way, make_cases

# isort: split
# The first import puts tests/helpers on the path.
from parity_blip2_multiview import Blip2Pair
from parity_gradients import compare_full_size, compare_tiny
from parity_swin_ved import FullSizePair, SwinVedPair, study_images, train_swin_ved
from timing import write_result

CONTROL_EVERY = 4  # controls are asked about every fourth study


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}. Default: all")
    parser.add_argument("--out", type=Path, default=Path("out/parity"))
    options = parser.parse_args()
    cases, pairs = make_cases(options.out)
    files = {part: options.out / f"{part}.json" for part in PARTS}
    for part in options.parts or PARTS:
        if not files[part].exists():
            figures = PARTS[part](cases, pairs, options.out)
            print(json.dumps(figures, indent=1), flush=True)
            files[part].write_text(json.dumps(figures), encoding="utf-8")
    if all(file.exists() for file in files.values()):
        write_result("parity", {part: json.loads(file.read_text(encoding="utf-8")) for part, file in files.items()})


def swin_ved(cases: Sequence[Case], pairs: Pairs, out: Path) -> dict[str, Any]:
    return {
        name: compare(SwinVedPair(released, out, name), cases) for name, released in train_swin_ved(cases, pairs, out)
    }


def blip2_multiview(cases: Sequence[Case], pairs: Pairs, out: Path) -> dict[str, Any]:
    return compare(Blip2Pair(cases, pairs, out), cases)


def gradients(cases: Sequence[Case], pairs: Pairs, out: Path) -> dict[str, Any]:
    tiny = compare_tiny(out, pairs[0][:8], study_images(cases[0]))
    return {"tiny_float64": tiny, "full_size_float32": compare_full_size(out)}


def full_size(cases: Sequence[Case], pairs: Pairs, out: Path) -> dict[str, Any]:
    pair = FullSizePair(out)
    return compare(pair, pair.cases)


PARTS: dict[str, Callable[[Sequence[Case], Pairs, Path], dict[str, Any]]] = {
    "swin_ved": swin_ved,
    "blip2_multiview": blip2_multiview,
    "gradients": gradients,
    "full_size": full_size,
}


def compare(pair: Any, cases: Sequence[Case]) -> dict[str, Any]:
    """Equal answers of each decoding and way, and the differences that are not planted."""
    found: dict[str, Any] = {}
    for beams in (1, 2):
        changes = {name: way for name, way in pair.CONTROLS.items() if beams > 1 or not way.generate}
        equal, controls = dict.fromkeys(pair.WAYS, 0), dict.fromkeys(changes, 0)
        questions, controlled, differences = 0, 0, []
        for number, case in enumerate(cases):
            expected = pair.released_answers(case, beams)
            questions += len(expected)
            for name, way in pair.WAYS.items():
                answers = _answer(pair, case, case, way, beams)
                equal[name] += _count_equal(expected, answers)
                differences += _trace(pair, case, name, beams, expected, answers)
            if number % CONTROL_EVERY:
                continue
            controlled += len(expected)
            for name, way in changes.items():
                answers = _answer(pair, case, cases[(number + 1) % len(cases)], way, beams)
                controls[name] += _count_equal(expected, answers)
        found["greedy" if beams == 1 else "beam_2"] = {
            "questions": questions,
            "equal": equal,
            "controls": {"questions": controlled, "equal": controls},
            "differences": differences,
        }
    return found


def _count_equal(expected: list[list[int]], answers: list[list[int]]) -> int:
    return sum(one == other for one, other in zip(expected, answers, strict=True))


def _answer(pair: Any, case: Case, other: Case, way: Way, beams: int) -> list[list[int]]:
    """Our answers in one batch, as ids up to the end token."""
    model, processor = pair.answerer.model, pair.answerer.processor
    before = {name: getattr(model.config, name) for name in way.config}
    shown = other if way.other_images else case
    images = pair.answerer.prepare_images([shown.study]) if way.pixels == "default" else pair.released_images(shown)
    questions = [question.lower() if way.lower_case else question for question in case.questions]
    text = processor(text=questions, study_index=[0] * len(questions))
    for name, value in way.config.items():
        setattr(model.config, name, value)
    with torch.inference_mode():
        images = {name: value.to(model.dtype) if value.is_floating_point() else value for name, value in images.items()}
        encoded = model.encode(**images)
        sequences = model.generate(
            **text, encoder_outputs=encoded, do_sample=False, **{"num_beams": beams, **way.generate}
        )
    for name, value in before.items():
        setattr(model.config, name, value)
    return [pair.cut(ids) for ids in sequences[:, pair.prompt_length(text) :].tolist()]


def _trace(
    pair: Any, case: Case, name: str, beams: int, expected: list[list[int]], answers: list[list[int]]
) -> Iterator[dict[str, Any]]:
    """What the answers that differ have in common with a tie."""
    wrong = [place for place, (one, other) in enumerate(zip(expected, answers, strict=True)) if one != other]
    same_pixels = _answer(pair, case, case, Way(), beams) if wrong else []
    for place in wrong:
        one, other = [*expected[place], pair.END], [*answers[place], pair.END]
        question = case.questions[place]
        log_probs = [pair.log_probabilities(case, question, ids) for ids in (one, other)]
        part = next(at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
        if same_pixels[place] == expected[place]:
            cause = "pixels"
        else:
            cause = "rounding" if _is_equal_in_float64(pair, case, beams, place) else "unexplained"
        yield {
            "pixels": name,
            "cause": cause,
            "log_probability": round(log_probs[0].sum().item(), 5),
            "log_probability_of_ours": round(log_probs[1].sum().item(), 5),
            "logit_gap": round((log_probs[0][part] - log_probs[1][part]).item(), 5),
        }


def _is_equal_in_float64(pair: Any, case: Case, beams: int, place: int) -> bool:
    pair.to(torch.float64)
    ours, expected = _answer(pair, case, case, Way(), beams), pair.released_answers(case, beams)
    pair.to(torch.float32)
    return ours[place] == expected[place]


if __name__ == "__main__":
    main()
