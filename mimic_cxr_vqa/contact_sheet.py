"""Draws a contact sheet: a PNG with a few studies, their images and views, and some of their questions and answers.

Studies are cards in columns, in reading order. Each card is measured before it is drawn, and its text is wrapped.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from medvqa_core.errors import ConfigError
from medvqa_core.files import atomic_file
from mimic_cxr_vqa.images import to_gray

CARD_WIDTH = 720
IMAGE_HEIGHT = 300
MARGIN, GAP = 20, 10
TEXT_WIDTH = CARD_WIDTH - 2 * MARGIN
SIZES = {"title": 22, "small": 15, "text": 17}  # pixels
INK, FAINT, PAPER, CARD = "#1A1A1A", "#666666", "#E9E9E9", "#FFFFFF"
# The colours of Figure 1, darkened for thin letters on white.
VALUE_INK = {"positive": "#B34700", "negative": "#0060A0", "uncertain": "#7A6A00", "not_mentioned": "#666666"}


@dataclass
class _Card:
    """Texts and images relative to the card's upper left corner. `height` grows as they are added."""

    texts: list[tuple[int, int, str, str, str]] = field(default_factory=list)  # x, y, text, size, colour
    images: list[tuple[int, int, Image.Image]] = field(default_factory=list)
    height: int = MARGIN

    def add_text(
        self, text: str, size: str, colour: str, x: int = MARGIN, width: int = CARD_WIDTH - 2 * MARGIN
    ) -> None:
        """Add `text` below everything else, wrapped to `width` pixels."""
        for line in _wrap(text, _font(size), width):
            self.texts.append((x, self.height, line, size, colour))
            self.height += _line_height(size)


def draw_contact_sheet(studies: Sequence[dict], path: Path, columns: int = 2, questions: int = 6) -> None:
    """Draw studies as cards and write them to `path` as a PNG.

    Args:
        studies: dicts with `study_id`, `split`, `images` (PIL images), `views` (aligned with them, None if unknown) and
            `questions` (dicts with `category`, `label_value`, `question`, `answer`).
        columns: number of cards side by side.
        questions: number of questions shown per study, of as many categories as possible.

    Raises:
        ConfigError: studies are missing, or `columns` is below 1.
        InputError: an image has pixels without a known range of grey.
        OutputError: `path` cannot be written.
    """
    if not studies or columns < 1:
        raise ConfigError(f"a contact sheet needs at least 1 study and 1 column, got {len(studies)} and {columns}")
    cards = [_lay_out(study, questions) for study in studies]
    rows = [cards[start : start + columns] for start in range(0, len(cards), columns)]
    heights = [max(card.height for card in row) for row in rows]
    across = min(columns, len(cards))
    size = (MARGIN + across * (CARD_WIDTH + MARGIN), MARGIN + sum(height + MARGIN for height in heights))

    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    y = MARGIN
    for row, height in zip(rows, heights, strict=True):
        for column, card in enumerate(row):
            x = MARGIN + column * (CARD_WIDTH + MARGIN)
            draw.rectangle((x, y, x + CARD_WIDTH - 1, y + height - 1), fill=CARD)
            for left, top, image in card.images:
                sheet.paste(image, (x + left, y + top))
            for left, top, text, name, colour in card.texts:
                draw.text((x + left, y + top), text, fill=colour, font=_font(name))
        y += height + MARGIN
    with atomic_file(Path(path)) as file:
        sheet.save(file, format="PNG")


def _lay_out(study: dict, questions: int) -> _Card:
    card = _Card()
    card.add_text(f"Study {study['study_id']} ({study['split']})", "title", INK)
    card.height += GAP
    _add_images(card, study)
    shown = _pick(study["questions"], questions)
    for item in shown:
        card.height += GAP
        value = item["label_value"]
        card.add_text(f"{item['category']}: {value.replace('_', ' ')}", "small", VALUE_INK.get(value, FAINT))
        card.add_text(item["question"], "text", FAINT)
        card.add_text(item["answer"], "text", INK)
    more = len(study["questions"]) - len(shown)
    if more or not shown:
        card.height += GAP
        plural = "" if more == 1 else "s"
        card.add_text(f"and {more} more question{plural}" if more else "no questions", "small", FAINT)
    card.height += MARGIN
    return card


def _pick(questions: Sequence[dict], count: int) -> list[dict]:
    """Choose the first question of every category, then the second of every category, …, in the given order."""
    seen: Counter[str] = Counter()
    ranked = []
    for place, item in enumerate(questions):
        ranked.append((seen[item["category"]], place))
        seen[item["category"]] += 1
    chosen = sorted(place for _, place in sorted(ranked)[:count])
    return [questions[place] for place in chosen]


def _add_images(card: _Card, study: dict) -> None:
    """Add the images side by side at one height that fits the card, with their views below."""
    images = [
        to_gray(image, f"{index + 1} of study {study['study_id']}") for index, image in enumerate(study["images"])
    ]
    if not images:
        card.add_text("no images", "small", FAINT)
        return
    room = TEXT_WIDTH - GAP * (len(images) - 1)
    height = min(IMAGE_HEIGHT, room / sum(image.width / image.height for image in images))
    top = bottom = card.height
    x = MARGIN
    for image, view in zip(images, study["views"], strict=True):
        width = max(1, int(height * image.width / image.height))
        card.images.append((x, top, image.resize((width, max(1, int(height))))))
        card.height = top + int(height) + 4
        card.add_text(view or "view unknown", "small", FAINT, x, width)
        bottom = max(bottom, card.height)
        x += width + GAP
    card.height = bottom


def _wrap(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    """Break `text` at white space, and inside words that are wider than the line."""
    lines, line = [], ""
    for word in text.split():
        if line and font.getlength(f"{line} {word}") > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}" if line else word
        while font.getlength(line) > width and len(line) > 1:
            fitting = next(n for n in range(len(line) - 1, 0, -1) if n == 1 or font.getlength(line[:n]) <= width)
            lines.append(line[:fitting])
            line = line[fitting:]
    return [*lines, line] if line else lines


def _font(size: str) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(SIZES[size])
    assert isinstance(font, ImageFont.FreeTypeFont)  # Pillow without FreeType is not supported
    return font


def _line_height(size: str) -> int:
    ascent, descent = _font(size).getmetrics()
    return ascent + descent + 2
