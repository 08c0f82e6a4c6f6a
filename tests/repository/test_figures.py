"""Figures in the docs equal those in benchmarks/results/, rounded.

Tables are compared elsewhere (test_readme.py, test_real_data.py).
"""

import json
import re
from typing import Any

import pytest
from paths import REPOSITORY


def read(name: str) -> Any:
    return json.loads((REPOSITORY / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def explore() -> list[str]:
    found = read("explore")
    return [
        f"Importing took {found['imports_seconds']:.1f} s",
        f"Memory was {found['resident_before_mib']} MiB before reading all over the release and "
        f"{found['resident_after_mib']} MiB after, {found['resident_after_again_mib']} MiB after doing so again",
        f"at most {found['search_longest_answer_ms'] / 1000:.2f} s an answer and "
        f"{found['search_whole_seconds']:.1f} s in all",
    ]


def reports() -> list[str]:
    """The table of docs/meddqa.md."""
    found = read("meddqa")
    parts = [found["synthetic"]["all"], found["hard"]["held_out"]["all"], found["released"]["all"]]
    rows = " | ".join(f"{part['rows_on_one_line']} of {part['rows']}" for part in parts)
    pairs = " | ".join(f"{part['key_values_found']} of {part['key_values']}" for part in parts)
    return [
        f"| table rows on a line of their own | {rows} |",
        f"| key-values in the draft | {pairs} |",
        f"| drafted verdicts that are wrong | | {parts[1]['wrong_verdicts']} of {parts[1]['rows_with_verdict']} | |",
    ]


def audit() -> list[str]:
    """The table of docs/audit.md."""
    rows = {
        "reads the finding in the image": "looker",
        "the same, with one error in five": "looker_80",
        "always the more frequent label": "prior_answer",
        "repeats the indication": "text",
        "reads another place of the image": "wrong_region",
        "states the opposite of the image": "reversed",
        "25% reads, 75% more frequent label": "25% looker + 75% prior_answer",
        "50% of each": "50% looker + 50% prior_answer",
        "75% reads, 25% more frequent label": "75% looker + 25% prior_answer",
        "tiny SwinVED, stage 1": "SwinVED stage 1",
        "tiny SwinVED, stage 2": "SwinVED stage 2",
        "tiny SwinVED, stage 3": "SwinVED stage 3",
        "tiny BLIP-2-MultiView": "BLIP-2-MultiView",
        "tiny image-text model (`train vlm`)": "image-text model",
    }
    audits = read("audit")["audits"]
    measures = ("accuracy", "looking", "guessing", "following_text", "region")

    def value(name: str, measure: str) -> str:
        found = audits[name][measure]
        return f"{found['value']:.2f}" if found else ""

    return [
        f"| {text} | " + " | ".join(value(name, measure) for measure in measures) + " |" for text, name in rows.items()
    ]


PAGES = {"docs/performance.md": explore, "docs/meddqa.md": reports, "docs/audit.md": audit}


def contains(text: str, wanted: str) -> bool:
    """Whether `text` contains `wanted`, wherever its lines break."""
    return re.search(r"\s+".join(map(re.escape, wanted.split())), text) is not None


@pytest.mark.parametrize(("page", "figures"), PAGES.items())
def test_figures_of_a_page_equal_the_result_file(page, figures):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert [wanted for wanted in figures() if not contains(text, wanted)] == []


def test_converted_weights_answer_and_learn_as_released():
    """What is planted lowers the figures, so that equal answers mean something."""
    found = read("parity")
    models = {**found["swin_ved"], "blip2_multiview": found["blip2_multiview"], "full_size": found["full_size"]}
    for name, decodings in models.items():
        for decoding, figures in decodings.items():
            place, questions, controls = f"{name}, {decoding}", figures["questions"], figures["controls"]
            assert figures["equal"]["released_pixels"] == questions, place
            assert figures["equal"].get("default_pixels", questions) >= questions * 358 / 360, place
            assert min(controls["equal"].values()) < controls["questions"], place
    for size in found["gradients"].values():
        for loss in ("released_objective", "self_critical"):
            ours, control = (size[loss][name] for name in sorted(size[loss], reverse=True))
            for part in ("encoder", "decoder"):
                assert ours[part]["cosine"] > 0.9999 > 0.9 > control[part]["cosine"]
