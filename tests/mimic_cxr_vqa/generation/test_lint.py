"""The lint: every prohibited word and its inflections, report references, verbs, and words that only look alike."""

import pytest

from mimic_cxr_vqa.generation.lint import RULES, lint, warnings

# Appendix B of the paper, in its order.
PAPER_WORDS = (
    "unchanged",
    "new",
    "previous",
    "compared",
    "remains",
    "alteration",
    "progressive",
    "stable",
    "worsening",
    "improving",
    "evolving",
    "resolving",
    "persistent",
    "ongoing",
    "recurrent",
    "interval",
    "follow-up",
)


def test_each_of_the_papers_words_has_its_rule_and_is_found() -> None:
    assert [rule for rule, _ in RULES[:17]] == [f"prohibited:{word}" for word in PAPER_WORDS]
    for word in PAPER_WORDS:
        assert lint(f"The effusion is {word} in size.") == [f"prohibited:{word}"]
        assert lint(word.upper()) == [f"prohibited:{word}"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The heart remained enlarged.", "remains"),
        ("The heart sizes remain normal.", "remains"),
        ("In comparison, the lungs are clear.", "compared"),
        ("Comparing both lungs shows no opacity.", "compared"),
        ("The opacity has worsened.", "worsening"),
        ("The opacity is worse on the left.", "worsening"),
        ("Aeration has improved.", "improving"),
        ("There is improvement in aeration.", "improving"),
        ("The edema progressed.", "progressive"),
        ("Progression of disease is seen.", "progressive"),
        ("A newly placed catheter is seen.", "new"),
        ("A previously seen nodule.", "previous"),
        ("The effusion has resolved.", "resolving"),
        ("Resolution of the effusion is seen.", "resolving"),
        ("The opacity persists.", "persistent"),
        ("Recurrence of the effusion.", "recurrent"),
        ("Evolution of the infarct.", "evolving"),
        ("A followup radiograph.", "follow-up"),
        ("Follow up is advised.", "follow-up"),
        ("The stability of the nodule.", "stable"),
        ("Altered lung markings.", "alteration"),
        ("Intervals are short.", "interval"),
    ],
)
def test_inflections_break_the_rule_of_their_word(text: str, rule: str) -> None:
    assert lint(text) == [f"prohibited:{rule}"]


@pytest.mark.parametrize(
    "text",
    [
        "A newborn's chest is seen.",
        "Renewed attention goes to the apex.",
        "Unstable rib fragments are seen.",
        "The remainder of the lungs is clear.",
        "Degenerative changes of the spine are seen.",
        "High-resolution CT is the better test.",
        "Alternating lucency is seen.",
        "The support devices include a chest tube.",
        "The findings show cardiomegaly.",
        "No pleural effusion is noted in the radiograph.",
    ],
)
def test_words_that_only_look_alike_pass(text: str) -> None:
    assert lint(text) == []


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("As mentioned in the report, no effusion.", ["report_reference:report", "verb:mentioned"]),
        ("The findings section describes edema.", ["report_reference:section", "verb:described"]),
        ("As documented in the findings, edema is seen.", ["report_reference:text"]),
        ("The radiologist sees edema.", ["report_reference:radiologist"]),
        ("The edema is reportedly mild.", ["report_reference:report"]),
        ("A nodule is described.", ["verb:described"]),
    ],
)
def test_references_to_the_report_and_verbs(text: str, rules: list[str]) -> None:
    assert lint(text) == rules


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_answer_without_words_breaks_empty_alone(text: str) -> None:
    assert lint(text) == ["empty"]


def test_several_broken_rules_come_in_the_tables_order_and_once_each() -> None:
    text = "The stable, unchanged report is stable; unchanged."
    assert lint(text) == ["prohibited:unchanged", "prohibited:stable", "report_reference:report"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Consolidation has developed in the left base.", "has changed"),
        ("The tube has been removed.", "has changed"),
        ("The effusion appears increased.", "appears changed"),
        ("The effusion is slightly larger.", "appears changed"),
        ("The opacity is more prominent.", "more"),
        ("An enlarging nodule is seen.", "increasing"),
        ("The nodule was there since the last study.", "since"),
        ("There is a known nodule.", "known"),
        ("The nodule is again seen.", "again"),
        ("The effusion is still there.", "still"),
        ("The prior nodule is not seen.", "prior"),
        ("The effusion is similar.", "similar"),
        ("No significant change is seen.", "change"),
    ],
)
def test_words_of_comparison_beyond_the_17_are_warnings_of_their_own(text: str, rule: str) -> None:
    assert f"relative:{rule}" in warnings(text)
    assert lint(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Degenerative changes of the spine are seen.",
        "Increased interstitial markings are seen.",
        "The heart is large.",
        "There is an old fracture.",
    ],
)
def test_plain_wording_is_not_warned_of(text: str) -> None:
    assert warnings(text) == []
