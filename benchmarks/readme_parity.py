"""The tables that compare converted weights with the authors' code, from `parity.py`'s results."""

from pathlib import Path
from typing import Any

from medvqa_core.json_files import read_json

RESULT = Path(__file__).parent / "results" / "parity.json"
MODELS = {
    "swin_ved_half_trained": "tiny SwinVED, 80 steps",
    "swin_ved_trained": "tiny SwinVED, 400 steps",
    "blip2_multiview": "tiny BLIP-2-MultiView",
    "full_size": "SwinVED at full size, random weights",
}
DECODINGS = {"greedy": "greedy", "beam_2": "2 beams"}
LOSSES = {"released_objective": "released objective", "self_critical": "self-critical loss of the paper"}
SIZES = {"tiny_float64": "tiny, float64", "full_size_float32": "full size, float32"}
CONTROLS = {
    "beams_end_at_padding": "beams that end at [PAD]",
    "beams_end_at_padding_and_are_normalised": "beams that end at [PAD], normalised by length",
    "length_penalty_0": "beams not normalised",
    "questions_in_lower_case": "questions in lower case",
    "positions_without_padding": "positions without padding",
    "missing_views_masked": "missing views masked",
    "other_images": "another study's images",
}


def make_parity() -> str:
    """The Markdown tables and the sentences under them."""
    result = read_json(RESULT, "run the benchmark that writes it")
    result = {**result, **result["swin_ved"]}
    lines = [
        "| weights | decoding | equal answers, released pixels | … our pixels | with a planted difference |",
        "|---|---|---|---|---|",
        *(
            _answers(text, decoding, result[model][name])
            for model, text in MODELS.items()
            for name, decoding in DECODINGS.items()
        ),
        "",
        "| gradient | size | cosine: encoder, decoder | largest difference of a weight | cosine of a control |",
        "|---|---|---|---|---|",
        *(
            _gradient(text, size, result["gradients"][key][loss])
            for loss, text in LOSSES.items()
            for key, size in SIZES.items()
        ),
        "",
        _causes(result),
    ]
    return "\n".join(lines) + "\n"


def _answers(text: str, decoding: str, figures: dict[str, Any]) -> str:
    questions, equal = figures["questions"], figures["equal"]
    default = f"{equal['default_pixels']} of {questions}" if "default_pixels" in equal else ""
    controls = figures["controls"]
    planted = ", ".join(f"{CONTROLS[name]}: {count}" for name, count in controls["equal"].items())
    planted += f" (of {controls['questions']})"
    return f"| {text} | {decoding} | {equal['released_pixels']} of {questions} | {default} | {planted} |"


def _gradient(text: str, size: str, figures: dict[str, Any]) -> str:
    ours = figures["ours"]
    control = next(value for name, value in figures.items() if name != "ours")
    parts = ("encoder", "decoder")
    cosines = ", ".join(f"{ours[part]['cosine']:.8f}" for part in parts)
    planted = ", ".join(f"{control[part]['cosine']:.2f}" for part in parts)
    return (
        f"| {text} | {size} | {cosines} | {max(ours[part]['largest_difference'] for part in parts):.1e} | {planted} |"
    )


def _causes(result: dict[str, Any]) -> str:
    found = [cell for model in MODELS for name in DECODINGS for cell in result[model][name]["differences"]]
    if not found:
        return "No answer differs without a planted difference."
    counts = {cause: sum(cell["cause"] == cause for cell in found) for cause in ("pixels", "rounding", "unexplained")}
    gaps = [abs(cell["logit_gap"]) for cell in found]
    return (
        f"Of the {len(found)} answers that differ, {counts['pixels']} differ by their pixels, {counts['rounding']} by "
        f"rounding (equal in float64), and {counts['unexplained']} are unexplained. The logits of the two answers are "
        f"at most {max(gaps):.1e} apart where they part."
    )
