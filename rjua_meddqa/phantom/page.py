"""One synthetic page: content, layout and photo of a report."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from rjua_meddqa.phantom.difficulties import Difficulty, draw_difficulties
from rjua_meddqa.phantom.hard_report import draw_hard_report
from rjua_meddqa.phantom.layout import lay_out
from rjua_meddqa.phantom.photo import draw_effects, photograph
from rjua_meddqa.phantom.report import Report, draw_report
from rjua_meddqa.phantom.style import draw_style, harden
from rjua_meddqa.schema import Annotation, Box

IMAGE_TYPE_SHARES = {"photo": 0.5, "pdf": 0.3, "screenshot": 0.2}  # similar to the paper's Table 2


@dataclass(frozen=True)
class SyntheticReport:
    """A finished page: a grey image, its boxes and its exact annotation.

    Attributes:
        lines: the printed texts of each row, in reading order.
        difficulties: empty for plain pages.
        tables: the printed cells of varied pages, by table and row.
    """

    image: Image.Image
    boxes: list[Box]
    annotation: Annotation
    report: Report
    lines: tuple[tuple[str, ...], ...]
    difficulties: frozenset[Difficulty] = frozenset()
    tables: tuple[tuple[tuple[str, ...], ...], ...] = ()


def draw_page(seed: int, number: int, fonts: Path | Sequence[Path], hard: bool = False) -> SyntheticReport:
    """Draw report `number` (from 1) of `seed`, a pure function of its arguments.

    Args:
        fonts: plain pages use the first one. Hard pages with the difficulty FONT use another one.
        hard: add difficulties of real pages.
    """
    fonts = [fonts] if isinstance(fonts, Path) else list(fonts)
    name = f"meddqa {seed} {number} {'hard ' * hard}"
    flags = draw_difficulties(random.Random(f"{name}difficulties"), number) if hard else frozenset()
    content = random.Random(f"{name}content")
    report = draw_hard_report(content, flags) if hard else draw_report(content)
    draw = random.Random(f"{name}looks")
    image_type = draw.choices(list(IMAGE_TYPE_SHARES), list(IMAGE_TYPE_SHARES.values()))[0]
    if Difficulty.SIDE_BY_SIDE in flags and image_type == "screenshot":
        image_type = "pdf"
    style = draw_style(draw, report, narrow=image_type == "screenshot")
    style = harden(style, draw, flags) if hard else style
    font = draw.choice(fonts[1:] or fonts) if Difficulty.FONT in flags else fonts[0]
    page = lay_out(report, style, font, flags, draw.randrange(2**32) if hard else 0)
    image, boxes, quality = page.image, page.boxes, "high"
    if image_type == "photo":
        image, boxes, quality = photograph(image, boxes, draw_effects(draw), draw.randrange(2**32))
    annotation = Annotation(
        idx=str(number),
        img_path=f"report{number:04}.{'jpg' if image_type == 'photo' else 'png'}",
        key_values=report.key_values,
        table=report.table,
        report_type=report.report_type,
        image_type=image_type,
        image_quality=quality,
    )
    return SyntheticReport(image, boxes, annotation, report, page.lines, flags)
