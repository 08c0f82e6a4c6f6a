"""Draws descriptions and conclusions of synthetic clinical reports."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rjua_meddqa.phantom.contents import CONTENTS

ORGANS = ("肾", "输尿管", "膀胱", "前列腺")


@dataclass(frozen=True)
class Kind:
    """One kind of clinical report.

    Attributes:
        header: keys printed above the sections, with their possible values.
        description, conclusion: headings of the two sections.
        normal: sentences for descriptions without a finding about the same organ.
        findings: (sentence of the description, sentence of the conclusion, title of the context) each.
    """

    report_type: str
    title: str
    header: Mapping[str, Sequence[str]]
    description: str
    conclusion: str
    normal: Sequence[str]
    findings: Sequence[Sequence[str]]

    def draw(self, draw: random.Random) -> tuple[str, str, list[str]]:
        """Draw a description, a conclusion and the titles of their contexts."""
        found = draw.sample(self.findings, draw.randint(1, min(3, len(self.findings))))
        ill = "".join(text for text, _, _ in found)
        normal = [text for text in self.normal if not any(organ in text and organ in ill for organ in ORGANS)]
        description = ill + "".join(draw.sample(normal, draw.randint(min(2, len(normal)), len(normal))))
        conclusion = "".join(f"{number}.{text}" for number, (_, text, _) in enumerate(found, start=1))
        return description, conclusion, [title for _, _, title in found if title]


KINDS = tuple(Kind(**kind) for kind in CONTENTS["clinical"])
