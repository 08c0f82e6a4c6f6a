"""The contact sheet: everything that was asked for is on it, inside its card and clear of everything else."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor

from medvqa_core.errors import ConfigError, InputError
from mimic_cxr_vqa import contact_sheet
from mimic_cxr_vqa.contact_sheet import CARD, CARD_WIDTH, MARGIN, PAPER, draw_contact_sheet
from mimic_cxr_vqa.schema import CATEGORIES


def question(number: int, category: str = "Edema", answer: str = "Yes, edema is seen.") -> dict:
    return {"category": category, "label_value": "positive", "question": f"Question {number}?", "answer": answer}


def study(images=((80, 100),), questions=None) -> dict:
    views = [("PA", "LATERAL", None)[index % 3] for index in range(len(images))]
    pictures = [
        Image.new("L", item, 100 + place) if isinstance(item, tuple) else item for place, item in enumerate(images)
    ]
    asked = [question(1)] if questions is None else questions
    return {"study_id": 50000001, "split": "test", "images": pictures, "views": views, "questions": asked}


def texts(card) -> str:
    return " ".join(text for _, _, text, _, _ in card.texts)


def boxes(card) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of every image and the ink of every line of a card."""
    found = [(x, y, x + image.width, y + image.height) for x, y, image in card.images]
    for x, y, text, size, _ in card.texts:
        left, top, right, bottom = contact_sheet._font(size).getbbox(text)
        found.append((x + left, y + top, x + right, y + bottom))
    return found


long_text = st.text("abc WM.,é\n\t", min_size=1, max_size=250)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(5, 400), st.integers(5, 400)), max_size=7),
    st.lists(st.tuples(st.sampled_from(CATEGORIES), long_text), max_size=5),
)
def test_nothing_overlaps_or_leaves_its_card(sizes, asked):
    card = contact_sheet._lay_out(study(sizes, [question(1, *item) for item in asked]), questions=4)
    laid = boxes(card)
    for left, top, right, bottom in laid:
        assert left >= 0 and top >= 0 and right <= CARD_WIDTH and bottom <= card.height
    for one, other in combinations(laid, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


@settings(max_examples=60, deadline=None)
@given(long_text)
def test_wrapping_loses_no_letter(text):
    font = contact_sheet._font("text")
    lines = contact_sheet._wrap(text, font, 120)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(font.getlength(line) <= 120 or len(line) == 1 for line in lines)


def test_images_keep_their_shape_and_share_one_height():
    card = contact_sheet._lay_out(study([(1000, 2000), (3000, 2000), (1000, 1000)]), questions=1)
    sizes = [image.size for _, _, image in card.images]
    assert len({height for _, height in sizes}) == 1
    for (width, height), shape in zip(sizes, (0.5, 1.5, 1.0), strict=True):
        assert width / height == pytest.approx(shape, abs=0.02)
    assert "PA LATERAL view unknown" in texts(card)


def test_a_card_shows_as_many_categories_as_it_can_and_counts_the_rest():
    asked = [question(number, "Edema") for number in range(4)] + [question(9, "Heart")]
    shown = texts(contact_sheet._lay_out(study(questions=asked), questions=3))
    assert "Question 0?" in shown and "Question 1?" in shown and "Question 9?" in shown
    assert "Question 2?" not in shown and "and 2 more questions" in shown
    assert "and 1 more question" in texts(contact_sheet._lay_out(study(questions=asked), questions=4)).split("Heart")[1]


def test_what_is_not_there_is_said():
    shown = texts(contact_sheet._lay_out(study([], []), questions=3))
    assert shown == "Study 50000001 (test) no images no questions"


def test_the_sheet_is_a_png_of_cards_in_columns(tmp_path):
    path = tmp_path / "sheets" / "sheet.png"
    draw_contact_sheet([study(), study(questions=[question(n) for n in range(3)]), study()], path, columns=2)
    with Image.open(path) as sheet:
        assert sheet.format == "PNG"
        pixels = np.asarray(sheet)
    assert pixels.shape[1] == 3 * MARGIN + 2 * CARD_WIDTH
    paper, card = ImageColor.getrgb(PAPER), ImageColor.getrgb(CARD)
    gutters = np.concatenate(
        [pixels[:, :MARGIN], pixels[:, -MARGIN:], pixels[:, MARGIN + CARD_WIDTH :][:, :MARGIN]], axis=1
    )
    assert (gutters == paper).all()
    assert (pixels[MARGIN, MARGIN] == card).all() and (pixels[MARGIN, 2 * MARGIN + CARD_WIDTH] == card).all()
    assert (pixels[-MARGIN - 1, MARGIN] == card).all()  # the third study starts the second row
    assert (pixels[-MARGIN - 1, -MARGIN - 1] == paper).all()
    assert (pixels == 100).all(axis=-1).sum() > 3 * 80 * 100  # three films of grey 100, enlarged
    assert [found.name for found in path.parent.iterdir()] == ["sheet.png"]


def test_an_image_of_unknown_range_names_its_study(tmp_path):
    with pytest.raises(InputError, match="image 1 of study 50000001 .*'F'"):
        draw_contact_sheet([study([Image.new("F", (9, 9))])], tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("studies", "columns"), [([], 2), ([study()], 0)])
def test_an_empty_sheet_is_refused(tmp_path, studies, columns):
    with pytest.raises(ConfigError, match="at least 1"):
        draw_contact_sheet(studies, tmp_path / "a.png", columns=columns)
