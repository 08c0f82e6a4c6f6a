"""Sections of report texts: each rule of the module's docstring, the mess of real reports, and any string at all."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimic_cxr_vqa.reports import Sections, split_sections

USUAL = """                                 FINAL REPORT
 EXAMINATION:  CHEST (PA AND LAT)

 INDICATION:  ___F with cough,
   evaluate for pneumonia

 TECHNIQUE:  Chest PA and lateral

 COMPARISON:  ___

 FINDINGS:

 The lungs are clear.  Dr. ___ was
 informed.

 IMPRESSION:

 1. No acute process.
"""


def test_a_usual_report_with_hard_wrapped_lines_and_blanks() -> None:
    assert split_sections(USUAL) == Sections(
        findings="The lungs are clear. Dr. ___ was informed.",
        impression="1. No acute process.",
        indication="___F with cough, evaluate for pneumonia",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INDICATION: cough. FINDINGS: Clear. IMPRESSION: Normal.", Sections("Clear.", "Normal.", "cough.")),
        ("INDICATION: cough FINDINGS: Clear IMPRESSION: Normal", Sections("Clear", "Normal", "cough")),
        ("indication: cough. findings: clear. impression: normal.", Sections("clear.", "normal.", "cough.")),
        ("Findings : Clear.\nImpression ; Normal.", Sections("Clear.", "Normal.", None)),
        ("FINDINGS\nClear.\nIMPRESSION\nNormal.", Sections("Clear.", "Normal.", None)),
        ("FINDINGS:\r\nClear.\r\n\r\nIMPRESSION:\rNormal.", Sections("Clear.", "Normal.", None)),
    ],
)
def test_headings_in_every_shape(text: str, expected: Sections) -> None:
    assert split_sections(text) == expected


@pytest.mark.parametrize(
    ("text", "findings", "impression"),
    [
        ("FINDINGS (REPEAT): Clear.\nIMPRESSION (FINAL): Normal.", "Clear.", "Normal."),
        ("CHEST FINDINGS: Clear.\nIMPRESSION: Normal.", "Clear.", "Normal."),
        ("FINDINGS - Clear.\nIMPRESSION -- Normal.", "Clear.", "Normal."),
        ("Findings – Clear.\nImpression — Normal.", "Clear.", "Normal."),
        ("Findings\nClear.\n\nImpression\nNormal.\n", "Clear.", "Normal."),
        ("FINDINGS: A well-known finding - clear.", "A well-known finding - clear.", None),
        ("FINDINGS: Clear.\nIMPRESSION: Normal.\nI have personally reviewed the images.", "Clear.", "Normal."),
        ("FINDINGS: Clear.\n\nI, Dr. ___, have reviewed the images and agree with the above.", "Clear.", None),
        ("IMPRESSION: Normal.\nElectronically signed by ___ at 5:00 p.m.", None, "Normal."),
        ("FINDINGS: Clear. The attending radiologist reviewed the study.", "Clear.", None),
    ],
)  # fmt: skip
def test_qualifiers_dashes_titles_and_attestations(text: str, findings: str | None, impression: str | None) -> None:
    found = split_sections(text)
    assert (found.findings, found.impression) == (findings, impression)


def test_an_empty_findings_section_is_not_filled_from_the_impression() -> None:
    assert split_sections("FINDINGS:\n\nIMPRESSION:  No pneumothorax.") == Sections(None, "No pneumothorax.", None)


def test_a_report_with_an_impression_alone_has_no_findings() -> None:
    text = "HISTORY:  Fever.\n\nIMPRESSION:  AP chest compared to ___:\n\nClear lungs."
    assert split_sections(text) == Sections(None, "AP chest compared to ___: Clear lungs.", "Fever.")


@pytest.mark.parametrize(
    "heading", ["FINDINGS AND IMPRESSION:", "Impression and Findings:", "FINDINGS/IMPRESSION:", "IMPRESSION/FINDINGS:"]
)
def test_findings_and_impression_in_one_count_as_findings(heading: str) -> None:
    assert split_sections(f"{heading}  Clear.") == Sections("Clear.", None, None)


def test_no_heading_at_all_gives_the_body_without_its_title() -> None:
    assert (
        split_sections("      FINAL REPORT\n Clear lungs.\n\n No effusion.\n").findings == "Clear lungs. No effusion."
    )


def test_without_findings_or_impression_headings_the_last_paragraph_is_the_findings() -> None:
    text = "HISTORY:  Cough.\n\nCOMPARISON:  ___.\n\nThe lungs are clear."
    assert split_sections(text) == Sections("The lungs are clear.", None, "Cough.")
    assert split_sections("HISTORY:  Cough.\n\nCOMPARISON:  ___.").findings is None


def test_a_section_headed_by_the_view_is_findings() -> None:
    text = "INDICATION:  Cough.\n\nPA AND LATERAL CHEST RADIOGRAPHS:  Clear.\n\nIMPRESSION:  Normal."
    assert split_sections(text) == Sections("Clear.", "Normal.", "Cough.")


def test_body_parts_do_not_end_the_findings_and_other_headings_do() -> None:
    text = "FINDINGS:\nLUNGS: Clear.\nHEART AND MEDIASTINUM: Normal.\nRECOMMENDATION(S): CT.\n"
    assert split_sections(text).findings == "LUNGS: Clear. HEART AND MEDIASTINUM: Normal."


def test_times_and_ordinary_words_are_no_headings() -> None:
    text = "AP CHEST, 5:16 A.M., ___\n\nFINDINGS: In comparison: clear. No history: none. The findings: none."
    assert split_sections(text).findings == "In comparison: clear. No history: none. The findings: none."


def test_the_wet_read_is_dropped_and_an_addendum_ends_the_report() -> None:
    text = (
        "WET READ: ___ 5:12 PM\n  No pneumothorax.\n____________\n FINAL REPORT\n FINDINGS:  Small effusion.\n"
        "\n IMPRESSION:  Effusion.\n\n ADDENDUM:  Discussed with Dr. ___."
    )
    assert split_sections(text) == Sections("Small effusion.", "Effusion.", None)
    assert split_sections("WET READ: No pneumothorax.\n\nClear.").findings is None


def test_of_several_findings_sections_the_last_with_text_counts() -> None:
    assert split_sections("FINDINGS: One.\nIMPRESSION: A.\nADDENDUM:\nFINDINGS: Two.\nFINDINGS:\n").findings == "Two."


def test_indication_headings_are_tried_in_the_papers_order() -> None:
    headings = [
        "INDICATION",
        "HISTORY",
        "CLINICAL INFORMATION",
        "REASON FOR EXAMINATION",
        "CLINICAL HISTORY",
        "REASON FOR EXAM",
        "REASON FOR THE EXAM",
    ]
    for first in range(len(headings)):
        text = "\n\n".join(f"{name}: text {name.lower()}" for name in reversed(headings[first:]))
        assert split_sections(text).indication == f"text {headings[first].lower()}"


def test_an_empty_indication_gives_way_to_the_next_heading_and_ends_at_a_blank_line() -> None:
    assert split_sections("INDICATION:\n\nHISTORY; Cough.\nFever.\n\nBody.").indication == "Cough. Fever."
    assert split_sections("INDICATION:\n\nThe lungs are clear.").indication is None
    assert split_sections("INDICATION ___M with fever\n\nFINDINGS: Clear.").indication == "___M with fever"


_pieces = st.sampled_from(
    ["FINDINGS", "IMPRESSION", "INDICATION", "HISTORY", "WET READ", ":", ";", " ", "\n", "\n\n", "___", "The lungs."]
)


@given(st.one_of(st.text(), st.lists(_pieces).map("".join)))
@settings(max_examples=200, deadline=None)
def test_any_string_gives_folded_sections_whose_words_are_its_own(text: str) -> None:
    words = text.replace("\r", "\n")
    found = split_sections(text)
    for section in (found.findings, found.impression, found.indication):
        if section is not None:
            assert section == " ".join(section.split()) != ""
            assert all(word in words for word in section.split())


@pytest.mark.parametrize(
    "piece", ["A", "\n", " ", "FINDINGS", "FINDINGS:", "REASON FOR ", "\n" + " " * 39, ". ", "\nA,", "_", "\n \t"]
)
def test_a_long_text_is_split(piece: str) -> None:
    """Takes minutes if a pattern needs quadratic time."""
    split_sections(piece * (200_000 // len(piece)))
