"""The engine without a model: clauses quoted whole, frames, and answers over generated and real reports."""

import asyncio
import csv
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import REAL_DATA

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine, asks_normal, is_closed
from mimic_cxr_vqa.generation.frames import is_lossless, noun_phrase
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.generation.quoting import quote
from mimic_cxr_vqa.labeling.mentions import analyse
from mimic_cxr_vqa.question_list import QUESTIONS

REAL = REAL_DATA / "iu_cxr"
needs_real_data = pytest.mark.skipif(not REAL.is_dir(), reason=f"the real collection is not at {REAL}")


def request(category: str, question: str, findings: str, number: int = 1, violations: tuple[str, ...] = ()):
    return AnswerRequest(f"s1-{category}-{number}", 1, category, question, None, findings, violations)


def replies(requests: list[AnswerRequest]) -> list[Reply]:
    return asyncio.run(ExtractiveEngine().answer(requests))


def answer(category: str, question: str, findings: str, number: int = 1) -> str:
    (reply,) = replies([request(category, question, findings, number)])
    assert reply.error is None
    return reply.answer


def all_requests(findings: str, study: int = 1) -> list[AnswerRequest]:
    return [
        AnswerRequest(f"s{study}-{category}-{number}", study, category, question, None, findings)
        for category, questions in QUESTIONS.items()
        for number, question in enumerate(questions, start=1)
    ]


def test_question_forms_are_told_by_words() -> None:
    assert {q for qs in QUESTIONS.values() for q in qs if asks_normal(q)} == {
        "Is the heart size normal?",
        "Is the heart size within the expected range?",
        "Does the radiograph suggest a normal heart size?",
    }
    open_questions = {q for qs in QUESTIONS.values() for q in qs if not is_closed(q)}
    assert open_questions == {q for qs in QUESTIONS.values() for q in qs if re.match(r"What|Which|How", q)}
    assert is_closed("Is the Cardiomedistinum abnormal in size?")
    assert not asks_normal("Is the Cardiomedistinum abnormal in size?")


@pytest.mark.parametrize(
    ("findings", "normal", "enlarged"),
    [("The heart is normal in size.", "Yes,", "No,"), ("The heart is severely enlarged.", "No,", "Yes,")],
)
def test_yes_and_no_turn_around_with_the_question(findings: str, normal: str, enlarged: str) -> None:
    assert answer("Heart", "Is the heart size normal?", findings).startswith(normal)
    assert answer("Heart", "Does the heart appear enlarged?", findings).startswith(enlarged)
    assert not re.match("Yes|No,", answer("Heart", "How is the size of the heart?", findings))


def test_answers_state_what_the_report_states() -> None:
    text = (
        "Stable moderate left pleural effusion. No large pneumothorax. The lungs are clear. Right PICC ends in the SVC."
    )
    for number in range(1, 7):
        effusion = answer("Pleural Effusion", "Is Pleural Effusion present?", text, number)
        assert effusion.startswith("Yes, ")
        assert "moderate left pleural effusion" in effusion
        assert "large pneumothorax" in answer("Pneumothorax", "Is Pneumothorax present?", text, number)
        assert answer("Pneumothorax", "Is Pneumothorax present?", text, number).startswith("No, ")
        assert re.search("no .*fracture", answer("Fracture", "Is a Fracture visible?", text, number))
        assert "PICC ends in the SVC" in answer("Support Devices", "Which Support Devices are found?", text, number)
        assert "moderate left pleural effusion" in answer("No Finding", "Are there any findings?", text, number)
        assert "pleural effusion" in answer("Pleural Other", "Is there any Pleural abnormality?", text, number)
    assert not re.match("Yes|No,", answer("Pleural Effusion", "What evidence of Pleural Effusion is visible?", text))


@pytest.mark.parametrize(
    ("clause", "quoted"),
    [
        ("The heart is mildly enlarged.", "The heart is mildly enlarged"),
        ("HEART: The heart is large.", "The heart is large"),
        ("THE LUNGS ARE CLEAR.", "the lungs are clear"),
        ("There is a 4 mm nodule in the right upper lobe.", "There is a 4 mm nodule in the right upper lobe"),
        ("Cardiac Contours Are Unremarkable.", None),
        # a noun phrase
        ("Small left effusion.", "Small left effusion"),
        ("Right PICC, tip in the low SVC.", "Right PICC, tip in the low SVC"),
        # not a text of its own
        ("is seen in the left base", None),
        ("This may represent atelectasis.", None),
        ("It is calcified.", None),
        ("There is a nodule in the", None),
        ("There is a nodule of.", None),
        # words of Appendix B are left out, with what they refer to
        ("The small effusion is unchanged since ___.", "The small effusion is seen"),
        ("The heart remains enlarged.", "The heart is enlarged"),
        ("A new opacity is seen at the left base.", "an opacity is seen at the left base"),
        ("Slightly worse moderate edema, now with effusions.", "moderate edema, now with effusions"),
        ("Compared to the prior study, the effusion has increased.", "the effusion has increased"),
        ("The mass measures 4.0 cm, previously 3.2 cm.", "The mass measures 4.0 cm"),
        ("The edema has nearly resolved.", "The edema is minimal"),
        ("Opacities, worse on the left.", "Opacities, greater on the left"),
        ("There is no new consolidation.", None),  # without the word, it would deny an old one too
        # it speaks of another image or advises
        ("The nodule is seen on CT.", None),
        ("Follow-up CT is recommended for the nodule.", None),
        ("There is an opacity as described in the report.", None),
        # a hidden word
        ("There is XXXX opacity.", None),
        ("The tube is 3 cm above ___.", None),
    ],
)
def test_a_clause_is_quoted_whole_or_not_at_all(clause: str, quoted: str | None) -> None:
    assert quote(clause) == quoted


@pytest.mark.parametrize(
    ("text", "category", "phrase"),
    [
        ("Stable XXXX small left basilar effusion.", "Pleural Effusion", "a small left basilar pleural effusion"),
        ("Moderate-sized effusion in the left base.", "Pleural Effusion",
         "a moderate pleural effusion in the left base"),
        ("Old healed left rib fractures.", "Fracture", "old healed left rib fractures"),
        ("4 mm calcified nodule in the right upper lobe.", "Lung Lesion",
         "a 4 mm calcified nodule in the right upper lobe"),
        ("Heart severely enlarged.", "Cardiomegaly", "severe cardiomegaly"),
        ("Chest XXXX with tip in the SVC.", "Support Devices", "a support device"),
        ("Left pneumonia and effusion.", "Pleural Effusion", "a pleural effusion"),
        ("Unchanged opacity, 3 of 4.", "Lung Opacity", "an opacity"),
        ("Two nodules.", "Lung Lesion", "two nodules"),
        ("Small areas of patchy opacity.", "Lung Opacity", "a small patchy opacity"),
        ("Stable mild cardiac enlargement.", "Cardiomegaly", "mild cardiomegaly"),
        ("Prominent mediastinal contour near the right hilum.", "Enlarged Cardiomediastinum",
         "cardiomediastinal enlargement"),
        ("Tortuous aorta.", "Other", None),
    ],
)  # fmt: skip
def test_a_frame_takes_the_known_words_beside_the_finding(text: str, category: str, phrase: str | None) -> None:
    (mention,) = analyse(text).mentions[category]
    assert noun_phrase(mention) == phrase


@pytest.mark.parametrize("text", ["Nodule seen on CT.", "A nodule was seen on a prior radiograph."])
def test_what_is_said_of_another_image_is_neither_affirmed_nor_denied(text: str) -> None:
    for number in range(1, 7):
        found = answer("Lung Lesion", "Is a Lung Lesion observed?", text, number)
        assert re.search("nodule is possible", found) and not re.match("Yes|No", found)
        assert "CT" not in found and "change" not in found
        said = answer("No Finding", "Are there any findings?", text, number)
        assert "possible" in said and not re.match("Yes|No", said)
    both = "Nodule seen on CT. There is a small nodule in the left lung."
    assert answer("Lung Lesion", "Is a Lung Lesion observed?", both).startswith("Yes, there is a small nodule in the")


def test_what_the_impression_affirms_is_not_denied_because_the_findings_are_silent() -> None:
    def said(findings: str) -> str:
        asked = AnswerRequest("s1-pneumonia-1", 1, "Pneumonia", "Is Pneumonia observed?", None, findings,
                              impression="Right upper lobe pneumonia.")  # fmt: skip
        return replies([asked])[0].answer

    assert "pneumonia is possible" in said("Right upper lobe opacity.").lower()
    assert said("There is no pneumonia.") == "No, there is no pneumonia."


@pytest.mark.parametrize(
    ("text", "category", "kept"),
    [
        # (sentence, asked finding, a detail that no short form has)
        ("Left effusion, increased from 1.1 cm.", "Pleural Effusion", "increased from 1.1 cm"),
        ("The tip of the NG tube has been pushed into the right lower lobe bronchus.", "Support Devices", "bronchus"),
        ("Right IJ line, tip in the low SVC.", "Support Devices", "tip in the low SVC"),
        ("Moderate right and trace left effusions.", "Pleural Effusion", "moderate right and trace left"),
        ("Ground-glass opacities, left greater than right.", "Lung Opacity", "left greater than right"),
        ("Large left pneumothorax with tension.", "Pneumothorax", "with tension"),
        ("Nodule at the right apex, though it may be a rib end.", "Lung Lesion", "may be a rib end"),
    ],
)
def test_an_answer_keeps_every_detail_of_the_clause(text: str, category: str, kept: str) -> None:
    for number, question in enumerate(QUESTIONS[category]):
        assert kept in answer(category, question, text, number).lower().replace("svc", "SVC")


@pytest.mark.parametrize(
    ("text", "phrase", "is_kept"),
    [
        ("There is a small left effusion.", "a small left pleural effusion", True),
        ("Stable small left effusion.", "a small left pleural effusion", True),
        ("Small left effusion with tension.", "a small left pleural effusion", False),
        ("Small left effusion.", "a left pleural effusion", False),
        ("Left effusion.", "a small left pleural effusion", False),
    ],
)
def test_a_short_form_is_lossless_if_the_words_are_the_same(text: str, phrase: str, is_kept: bool) -> None:
    (mention,) = analyse(text).mentions["Pleural Effusion"]
    assert is_lossless(phrase, mention) == is_kept


@pytest.mark.parametrize(
    ("text", "category", "said"),
    [
        ("No pneumothorax.", "Pneumothorax", "no pneumothorax"),
        ("No focal consolidation, effusion or pneumothorax.", "Pneumothorax", "no pneumothorax"),
        ("No definite effusion or pneumothorax.", "Pneumothorax", "there is no definite effusion or pneumothorax"),
        ("No pneumothorax, although the supine view limits assessment.", "Pneumothorax",
         "there is no pneumothorax, although the supine view limits assessment"),
        ("No large effusions or pneumothorax.", "Pneumothorax", "there are no large effusions or pneumothorax"),
        ("I do not see a definite pneumothorax.", "Pneumothorax", "there is no definite pneumothorax"),
        ("No acute osseous abnormality.", "Fracture", "There is no acute osseous abnormality"),
    ],
)  # fmt: skip
def test_a_denial_keeps_what_limits_it(text: str, category: str, said: str) -> None:
    for number, question in enumerate(QUESTIONS[category]):
        found = answer(category, question, text, number)
        assert said.lower() in found.lower()
        assert ("although" in found, "definite" in found) == ("although" in text, "definite" in text)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("HEART: Mildly enlarged.", "Heart: mildly enlarged"),  # the heading is the subject
        ("HEART: The heart is mildly enlarged.", "The heart is mildly enlarged"),
        ("TUBES AND LINES: Right PICC, tip in the SVC.", "Right PICC, tip in the SVC"),
        ("As compared to the film of last night, there is a right effusion.", "there is a right effusion"),
    ],
)
def test_a_heading_is_kept_where_it_is_the_subject(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_the_part_with_the_finding_is_quoted_if_the_sentence_cannot_be() -> None:
    text = "The right effusion has decreased, with a small amount remaining, and the left lung is clear."
    assert answer("Pleural Effusion", "Is Pleural Effusion present?", text) == "Yes, the right effusion has decreased."
    # the denial is in another part, so this part would affirm what is denied
    text = "There is no edema, and as described in the report, effusion, persisting."
    assert not answer("Pleural Effusion", "Is Pleural Effusion present?", text).startswith("Yes")


@pytest.mark.parametrize(
    ("text", "category", "said"),
    [
        # the place of a change is not the place of the finding
        ("Bibasilar atelectasis has improved on the right only.", "Atelectasis", "bibasilar atelectasis is seen."),
        ("Edema is improving, more in the left than in the right lung.", "Edema", "edema is seen."),
        ("Opacities have worsened, particularly in the left lung.", "Lung Opacity", "opacities are seen."),
        ("Opacities in the left lung have worsened.", "Lung Opacity", "opacities in the left lung are seen."),
        ("The opacity is unchanged in the left lung.", "Lung Opacity", "the opacity is seen in the left lung."),
    ],
)
def test_a_side_of_a_change_is_left_out_with_the_change(text: str, category: str, said: str) -> None:
    found = answer(category, f"Is {category} present?", text).lower()
    assert ("left" in found) == ("left" in said) and "right" not in found
    assert said.split(" is ")[0].split(" are ")[0] in found


def test_abnormalities_that_no_table_knows_are_quoted_as_findings() -> None:
    text = "PA and lateral views. The lungs are clear. A bullet fragment projects over the left scapula."
    found = answer("No Finding", "Are there any findings?", text)
    assert found == (
        "A bullet fragment projects over the left scapula. No other abnormality is seen in the radiograph."
    )
    found = answer("No Finding", "Are there any findings?", f"{text} There is a small effusion.")
    assert "Yes" in found and "small effusion" in found and "bullet" in found
    ordinary = "PA and lateral views of the chest. The lungs are clear. The study is limited by rotation."
    assert answer("No Finding", "Are there any findings?", ordinary).startswith("No, ")


def test_a_part_of_a_category_is_stated_before_other_parts_are_denied() -> None:
    found = answer("Enlarged Cardiomediastinum", "Is the mediastinum enlarged?", "The heart is mildly enlarged.")
    assert found.startswith("The heart is mildly enlarged. ") and "no other cardiomediastinal enlargement" in found
    assert "no large" in answer("Pleural Other", "Is there any pleural abnormality?", "No large effusion.")


@pytest.mark.parametrize("text", ["Heart size is difficult to assess.", "The heart is probably normal in size."])
def test_a_heart_of_unknown_size_is_neither_normal_nor_enlarged(text: str) -> None:
    assert answer("Heart", "Is the heart size normal?", text) == text
    assert answer("Cardiomegaly", "Is Cardiomegaly present?", text) == text


def test_a_side_refers_to_a_finding_only_where_a_clause_begins() -> None:
    found = answer("Pleural Effusion", "Is Pleural Effusion present?", "No effusion. Traction to the right is chronic.")
    assert found.startswith("No, ")


def test_a_sentence_with_an_exception_is_quoted_with_it() -> None:
    text = "The lungs are clear except for a small opacity in the left base."
    said = answer("Consolidation", "Is Consolidation observed?", text)
    assert ("clear" in said) == ("except for a small opacity" in said)
    assert "small opacity in the left base" in answer("Lung Opacity", "Is Lung Opacity present?", text)


def test_doubt_is_neither_yes_nor_no() -> None:
    for number in range(1, 7):
        text = answer("Pneumonia", "Is Pneumonia observed?", "Left basilar opacity may represent pneumonia.", number)
        assert not re.match("Yes|No,", text)
        assert re.search("possible|possibly|uncertain|cannot be confirmed", text, re.IGNORECASE)


def test_wordings_vary_over_questions_and_not_over_runs() -> None:
    requests = [request("Edema", "Is Edema observed?", "The heart is large.", number) for number in range(40)]
    first, second = replies(requests), replies(requests)
    assert first == second
    assert len({reply.answer for reply in first}) >= 4


def test_a_bad_request_is_an_error_and_the_others_are_answered() -> None:
    good = request("Edema", "Is Edema observed?", "No edema.")
    found = replies(
        [good, request("Tumor", "Is a tumor seen?", "x"), request("Edema", "Is Edema observed?", " "), good]
    )
    assert [reply.answer is None for reply in found] == [False, True, True, False]
    assert "Tumor" in found[1].error
    assert "no findings" in found[2].error
    assert replies([]) == []


_subjects = ("Left pleural effusion", "Right apical pneumothorax", "The cardiac silhouette", "Bibasilar opacities",
             "The PICC", "Pulmonary edema", "A 4 mm nodule", "Old rib fractures", "XXXX consolidation")  # fmt: skip
_verbs = (
    "is unchanged", "has worsened since the prior study", "remains stable", "is new compared to ___", "persists",
    "has resolved in the interval", "is progressively improving", "may represent pneumonia, as described in the report",
    "is recurrent on follow-up", "shows evolving alteration", "was previously mentioned", "is not seen", "is mild",
)  # fmt: skip


def test_every_answer_passes_the_lint_over_generated_texts() -> None:
    for number, (subject, verb) in enumerate(itertools.product(_subjects, _verbs)):
        text = f"{subject} {verb}. Interval increase in {subject.lower()}; no new {subject.lower()}."
        requests = all_requests(text, number)
        for asked, reply in zip(requests, replies(requests), strict=True):
            assert reply.error is None
            assert lint(reply.answer) == [], (asked, reply)


@given(st.text(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_findings_text_is_answered_and_passes_the_lint(text: str) -> None:
    for reply in replies(all_requests(text)):
        if text.strip():
            assert lint(reply.answer) == []
        else:
            assert reply.error is not None


@pytest.fixture(scope="module")
def real_findings() -> list[str]:
    with open(REAL / "indiana_reports.csv", encoding="utf-8", newline="") as stream:
        return [row["findings"] for row in csv.DictReader(stream) if row["findings"]]


@pytest.mark.slow
@needs_real_data
def test_every_answer_over_the_real_collection_passes_the_lint(real_findings: list[str]) -> None:
    for number, text in enumerate(real_findings):
        requests = all_requests(text, number)
        for asked, reply in zip(requests, replies(requests), strict=True):
            assert reply.error is None, asked
            assert lint(reply.answer) == [], (asked, reply)
            assert reply.answer[0].isupper()
            assert reply.answer.endswith(".")
            assert "XXXX" not in reply.answer


@pytest.mark.parametrize(
    ("finding", "text", "lead"),
    [
        ("Edema", "The opacity is likely atelectasis and possibly mild edema.", ("Possibly", "It is uncertain")),
        ("Pneumothorax", "A lucency suggests a hiatal hernia or, less likely, a pneumothorax.", ("Possibly", "It is")),
        ("Atelectasis", "The opacity is likely atelectasis and possibly mild edema.", ("Probably",)),
    ],
)
def test_a_weaker_doubt_before_a_finding_counts_more_than_a_likely_neighbour(finding, text, lead):
    request = AnswerRequest("s1-x-1", -1, finding, f"Is {finding} present?", None, text)
    (reply,) = asyncio.run(ExtractiveEngine().answer([request]))
    assert reply.answer.startswith(lead)
