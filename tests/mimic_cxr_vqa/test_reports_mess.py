"""The mess of real reports: sub-headings, misspelt headings, headings in mid-line, titles; and what must still cut."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mimic_cxr_vqa.headings import find_misspelt_kind
from mimic_cxr_vqa.reports import partition, split_sections

SUB_HEADINGS = (
    "NG TUBE", "PICC", "PULMONARY VASCULATURE", "THORACIC SPINE", "PNEUMOTHORAX", "EFFUSION", "ET TUBE", "AORTA",
    "GREAT VESSELS", "STERNUM", "SHOULDERS", "CARDIOMEDIASTINAL SILHOUETTE", "INTERSTITIUM", "STOMACH", "CLAVICLES",
    "PACEMAKER", "LUNG VOLUMES", "CENTRAL VENOUS CATHETER", "COSTOPHRENIC ANGLES", "PA AND LATERAL CHEST",
)  # fmt: skip
SECTION_NAMES = (
    "IMPRESSION", "COMPARISON", "TECHNIQUE", "INDICATION", "HISTORY", "RECOMMENDATION(S)", "RECOMMENDATION",
    "NOTIFICATION", "ADDENDUM", "WET READ", "CONCLUSION", "EXAMINATION", "CLINICAL HISTORY", "REASON FOR EXAM",
    "FINAL IMPRESSION", "COMMENT", "DOSE", "SUMMARY", "NOTIFICATION(S)",
)  # fmt: skip


@pytest.mark.parametrize("name", SUB_HEADINGS)
def test_an_unknown_sub_heading_belongs_to_the_findings(name: str) -> None:
    text = f"FINDINGS:\n LUNGS: Clear.\n {name}: As is.\n HEART: Large.\n\nIMPRESSION: Large heart.\n"
    assert split_sections(text).findings == f"LUNGS: Clear. {name}: As is. HEART: Large."
    in_line = f"FINDINGS: LUNGS: Clear. {name}: As is. HEART: Large. IMPRESSION: Large heart."
    assert split_sections(in_line).findings == f"LUNGS: Clear. {name}: As is. HEART: Large."


@pytest.mark.parametrize("name", SECTION_NAMES)
def test_a_known_section_name_still_ends_the_findings(name: str) -> None:
    sections = split_sections(f"FINDINGS:\n LUNGS: Clear.\n\n {name}: Something else.\n")
    assert sections.findings == "LUNGS: Clear."


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("FINDGINGS", "findings"), ("FINDINS", "findings"), ("FIDNINGS", "findings"), ("FINDIGNS", "findings"),
        ("FINDNGS", "findings"), ("FNDINGS", "findings"), ("INDINGS", "findings"), ("FINDIINGS", "findings"),
        ("IMPRESION", "impression"), ("IMPRESSSION", "impression"), ("IMPRSSION", "impression"),
        ("IMRPESSION", "impression"), ("IMPESSION", "impression"), ("Impresson", "impression"),
        ("INDICAITON", "indication"), ("INIDCATION", "indication"), ("TECHNIUQE", "exam"), ("COMPARSION", "exam"),
        ("COMPARISION", "exam"), ("CLINCAL HISTORY", "clinical history"), ("HSITORY", "history"),
        ("CONCULSION", "impression"), ("ADENDUM", "addendum"), ("RECOMENDATION", "closing"),
        # right spellings of something else
        ("COMPRESSION", None), ("MEDICATION", None), ("OCCLUSION", None), ("LUNGS", None), ("EFFUSIONS", None),
        ("PNEUMOTHORAX", None), ("TECHNICIAN", None), ("OPTION", None), ("BINDING", None), ("FISSURES", None),
        ("", None),
    ],
)  # fmt: skip
def test_misspelt_headings_by_edit_distance(name: str, kind: str | None) -> None:
    assert find_misspelt_kind(name) == kind


@pytest.mark.parametrize("findings", ["FINDGINGS", "FINDINS", "FIDNINGS", "Findngs", "FINDINGSS"])
@pytest.mark.parametrize("impression", ["IMPRESION", "IMRPESSION", "Impresson"])
@pytest.mark.parametrize("gap", ["\n\n ", "\n", " "])
def test_a_misspelt_heading_opens_its_section(findings: str, impression: str, gap: str) -> None:
    text = f"INDICATION: Cough.{gap}{findings}: The heart is large.{gap}{impression}: Cardiomegaly."
    found = split_sections(text)
    assert (found.findings, found.impression, found.indication) == ("The heart is large.", "Cardiomegaly.", "Cough.")
    assert "misspelt heading" in found.rules


def test_a_heading_of_the_examination_in_mid_line_claims_its_own_sentence() -> None:
    for name in ("Comparison", "COMPARISON", "Technique", "History"):
        text = f"FINDINGS: Stable. {name}: none. Heart is large.\n\nIMPRESSION: Large heart."
        assert split_sections(text).findings == "Stable. Heart is large."
    assert split_sections("Stable. Comparison: none. Heart is large.").findings == "Stable. Heart is large."
    # at the start of a line it opens a section of its own
    assert split_sections("FINDINGS: Stable.\nCOMPARISON: none. Old films.\n").findings == "Stable."
    # the impression ends the findings wherever it stands
    assert split_sections("FINDINGS: Stable. Impression: none. Heart is large.").findings == "Stable."


@pytest.mark.parametrize("name", ["OTHER FINDINGS", "Other findings", "ADDITIONAL FINDINGS", "INCIDENTAL FINDINGS"])
@pytest.mark.parametrize("gap", [" ", "\n"])
def test_other_findings_are_findings(name: str, gap: str) -> None:
    text = f"FINDINGS: Lungs are clear.{gap}{name}: Heart is large. IMPRESSION: Large heart."
    assert split_sections(text).findings == f"Lungs are clear. {name}: Heart is large."
    behind = f"FINDINGS: Lungs are clear.\nIMPRESSION: Large heart.\n{name}: Scoliosis."
    assert split_sections(behind).findings == "Lungs are clear. Scoliosis."


def test_a_wrapped_line_of_capitals_hides_no_heading() -> None:
    assert split_sections("INDICATION: ___M with\n COPD FINDINGS: Clear. IMPRESSION: COPD.").findings == "Clear."


@pytest.mark.parametrize(
    "title",
    [
        "AP CHEST, 5:16 A.M., ___", "CHEST RADIOGRAPH", "PORTABLE CHEST", "PA AND LATERAL CHEST, ___ AT 16:00",
        "Chest, PA and lateral views, ___.", "CHEST X-RAY PORTABLE AP", "SINGLE FRONTAL VIEW OF THE CHEST",
        "STUDY: CHEST RADIOGRAPH.", "AP chest radiograph dated ___ at 5 a.m.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("history", ["", " HISTORY: Cough.\n\n"])
def test_a_title_is_no_finding(title: str, history: str) -> None:
    text = f"{' ' * 33}FINAL REPORT\n {title}\n\n{history} The lungs are clear.\n\n No effusion.\n"
    assert split_sections(text).findings == "The lungs are clear. No effusion."


@pytest.mark.parametrize(
    "sentence", ["Portable chest radiograph is clear.", "Frontal view: no effusion.", "CHEST TUBE IN PLACE."]
)
def test_a_sentence_that_begins_like_a_title_stays(sentence: str) -> None:
    assert split_sections(f"{sentence}\n\nNormal.").findings == f"{sentence} Normal."


def test_an_addendum_in_front_is_not_the_report() -> None:
    text = "     ADDENDUM\n\n Discussed.\n______\n   FINAL REPORT\n FINDINGS: Clear.\n\n IMPRESSION: Normal.\n"
    assert split_sections(text).findings == "Clear."
    only = "     ADDENDUM\n\n Discussed.\n______\n   FINAL REPORT\n Clear lungs.\n"
    assert split_sections(only).findings == "Clear lungs."


def test_organs_without_a_findings_heading_are_findings() -> None:
    text = "INDICATION: Cough.\n\nLUNGS: Clear.\nPICC: In the SVC.\nHEART: Large.\n\nIMPRESSION: Large heart.\n"
    assert split_sections(text).findings == "LUNGS: Clear. PICC: In the SVC. HEART: Large."


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("FINDINGS: Clear.", "findings heading"),
        ("FINDINGS AND IMPRESSION: Clear.", "findings and impression in one"),
        ("PORTABLE CHEST: Clear.", "view heading"),
        ("Clear.", "no heading"),
        ("HISTORY: Cough.\n\nClear.", "last paragraph"),
        ("IMPRESSION: Clear.", "no findings"),
        ("FINDINGS: Clear.\nPICC: None.", "sub-heading kept"),
        ("FINDINGS: Clear. Comparison: none. Fine.", "heading in mid-line"),
        ("FINDINGS: One.\nFINDINGS: Two.", "several findings sections"),
        ("FINDINGS: One.\nADDENDUM: x", "addendum"),
    ],
)
def test_the_rules_that_a_report_met_are_named(text: str, rule: str) -> None:
    assert rule in split_sections(text).rules


SENTENCES = tuple(f"Sentence number {number} of this text." for number in range(8))
_heading = st.sampled_from([*SUB_HEADINGS, *SECTION_NAMES, "FINDINGS", "FINDGINGS", "OTHER FINDINGS", "Comparison"])
_piece = st.tuples(st.sampled_from(["\n\n ", "\n ", " "]), _heading, st.sampled_from([": ", ":\n ", ":"]))


@given(st.text(max_size=20), st.lists(_piece, max_size=len(SENTENCES)))
@settings(max_examples=300, deadline=None)
def test_every_sentence_is_in_exactly_one_section(start: str, pieces: list[tuple[str, str, str]]) -> None:
    text = start + "".join(gap + name + colon + SENTENCES[number] for number, (gap, name, colon) in enumerate(pieces))
    sections = partition(text)
    assert "".join(part.heading + part.text for part in sections) == text.replace("\r\n", "\n").replace("\r", "\n")
    for sentence in SENTENCES[: len(pieces)]:
        assert sum(sentence in part.text for part in sections) == 1


@given(st.lists(st.tuples(st.sampled_from(SUB_HEADINGS), st.booleans()), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_no_sentence_of_structured_findings_is_lost(parts: list[tuple[str, bool]]) -> None:
    body = "".join(
        f"{chr(10) if own_line else ' '}{name}: {SENTENCES[number]}" for number, (name, own_line) in enumerate(parts)
    )
    findings = split_sections(f"INDICATION: Cough.\n\nFINDINGS:{body}\n\nIMPRESSION: Normal.").findings
    assert re.findall(r"Sentence number \d of this text\.", findings) == list(SENTENCES[: len(parts)])
