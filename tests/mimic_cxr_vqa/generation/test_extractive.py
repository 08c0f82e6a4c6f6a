"""Text understanding and the engine without a model: polarity, rewriting, answers; over generated and real reports."""

import asyncio
import csv
import itertools
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import REAL_DATA

from medvqa_core.llm.engines import Engine, Reply
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine, answer_from
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.generation.phrasing import question_form
from mimic_cxr_vqa.generation.rewriting import rewrite
from mimic_cxr_vqa.labeling.mentions import analyse, polarity
from mimic_cxr_vqa.labeling.sentences import split_clauses, split_sentences
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import CATEGORIES, CHEXPERT_LABELS
from mimic_cxr_vqa.sources.openi import read_openi

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


def test_sentences_survive_abbreviations_decimals_blanks_and_lists() -> None:
    text = "1. Dr. ___ saw a 2.3 cm nodule. 2. XXXX XXXX. Effusion at 5.30 p.m. today.No edema! ___."
    assert split_sentences(text) == [
        "Dr. ___ saw a 2.3 cm nodule.",
        "XXXX XXXX.",
        "Effusion at 5.30 p.m. today.",
        "No edema!",
    ]


def test_clauses_end_at_contrast_and_at_an_organ_with_its_own_verb() -> None:
    assert split_clauses("No effusion, but there is edema; heart is large.") == [
        "No effusion",
        "there is edema",
        "heart is large.",
    ]
    assert split_clauses("The heart is large and the lungs are clear.") == [
        "The heart is large",
        "the lungs are clear.",
    ]
    assert split_clauses("Heart size and lungs are normal.") == ["Heart size and lungs are normal."]


@pytest.mark.parametrize(
    ("text", "category", "expected"),
    [
        # denial, its reach and its ends
        ("No pneumothorax or pleural effusion.", "Pleural Effusion", "negative"),
        ("The chest is without focal consolidation, effusion or pneumothorax.", "Pneumothorax", "negative"),
        ("No effusion but there is consolidation.", "Consolidation", "positive"),
        ("No effusion but there is consolidation.", "Pleural Effusion", "negative"),
        ("No pneumothorax, small left effusion.", "Pleural Effusion", "positive"),
        ("No pneumothorax, small effusion or edema.", "Pleural Effusion", "negative"),
        ("No consolidation with small left effusion.", "Pleural Effusion", "positive"),
        ("Removal of the tube with persistent tiny pneumothorax.", "Pneumothorax", "positive"),
        ("The study is negative for pneumothorax.", "Pneumothorax", "negative"),
        ("The lungs are clear of consolidation.", "Consolidation", "negative"),
        ("Negative for cardiac enlargement.", "Cardiomegaly", "negative"),
        # denial behind
        ("The left pleural effusion has resolved.", "Pleural Effusion", "negative"),
        ("The effusion is no longer seen.", "Pleural Effusion", "negative"),
        ("Effusion, pneumothorax, or consolidation is not seen.", "Pleural Effusion", "negative"),
        ("The PICC has been removed.", "Support Devices", "negative"),
        # denials of something else
        ("No change in the left opacity.", "Lung Opacity", "positive"),
        ("Left effusion, not present on the prior radiograph.", "Pleural Effusion", "positive"),
        ("No new consolidation.", "Consolidation", "negative"),
        # doubt
        ("Pneumonia cannot be excluded.", "Pneumonia", "uncertain"),
        ("Cannot exclude pneumonia.", "Pneumonia", "uncertain"),
        ("Opacity which may represent atelectasis.", "Atelectasis", "uncertain"),
        ("Opacity which may represent atelectasis.", "Lung Opacity", "positive"),
        ("Opacity suspicious for pneumonia.", "Pneumonia", "uncertain"),
        ("Possible pneumothorax.", "Pneumothorax", "uncertain"),
        ("Atelectasis versus pneumonia.", "Atelectasis", "uncertain"),
        ("Atelectasis versus pneumonia.", "Pneumonia", "uncertain"),
        ("The heart is borderline enlarged.", "Cardiomegaly", "uncertain"),
        ("Blunting of the costophrenic angle.", "Pleural Effusion", "uncertain"),
        ("Pulmonary vascular congestion.", "Edema", "uncertain"),
        # a denied doubt is a denial
        ("No findings to suggest pneumonia.", "Pneumonia", "negative"),
        ("No evidence of possible pneumonia.", "Pneumonia", "negative"),
        # said without naming it
        ("The lungs are clear.", "Pneumonia", "negative"),
        ("The lungs are not clear.", "Pneumonia", "not_mentioned"),
        ("Heart size is normal.", "Cardiomegaly", "negative"),
        ("Heart size is normal.", "Heart", "positive"),
        ("The heart is mildly enlarged.", "Cardiomegaly", "positive"),
        ("The heart is not enlarged.", "Cardiomegaly", "negative"),
        ("Heart and mediastinal contours are unremarkable.", "Enlarged Cardiomediastinum", "negative"),
        ("The mediastinum is widened.", "Enlarged Cardiomediastinum", "positive"),
        ("Osseous structures are intact.", "Fracture", "negative"),
        ("Normal pulmonary vasculature.", "Edema", "negative"),
        # words that belong to something else
        ("A pericardial effusion is seen.", "Pleural Effusion", "not_mentioned"),
        ("Thyroid mass.", "Lung Lesion", "not_mentioned"),
        ("The trachea is midline.", "Support Devices", "not_mentioned"),
        ("Low lung volumes.", "Lung Opacity", "not_mentioned"),
        # the whole
        ("Heart size normal. Scoliosis.", "No Finding", "negative"),
        ("Heart size normal. Lungs clear.", "No Finding", "positive"),
        ("Normal chest. PICC line in place.", "No Finding", "positive"),
        ("Possible pneumonia.", "No Finding", "uncertain"),
        ("", "No Finding", "not_mentioned"),
        ("Small effusion. No effusion on the right.", "Pleural Effusion", "positive"),
    ],
)
def test_polarity(text: str, category: str, expected: str) -> None:
    assert polarity(text, category) == expected


def test_polarity_refuses_unknown_categories() -> None:
    with pytest.raises(ValueError, match="Tumor.*allowed: Atelectasis"):
        polarity("Clear.", "Tumor")


@pytest.mark.parametrize(
    ("clause", "statement"),
    [
        ("Stable small left effusion.", "small left effusion"),
        ("The heart remains enlarged.", "the heart is enlarged"),
        ("Bibasilar opacities have worsened.", "bibasilar opacities are seen"),
        ("There has been interval placement of a right chest tube.", "there is a right chest tube"),
        ("There is a small effusion, unchanged from the prior study.", "there is a small effusion"),
        ("As compared to the previous radiograph, the edema persists.", "the edema is seen"),
        ("Heart size is stable and within normal limits.", "the heart size is within normal limits"),
        ("Heart size normal", "the heart size is normal"),
        ("An unchanged nodule is again seen in the left apex.", "a nodule is seen in the left apex"),
        ("Left pleural effusion has resolved.", "left pleural effusion is not seen"),
        ("Blunting of the costophrenic XXXX.", "blunting of the costophrenic angle"),
        ("PICC tip is in the SVC.", "PICC tip is in the SVC"),
        ("Nodule, unchanged since ___.", "nodule"),
        # nothing is left, or it no longer reads
        ("The heart is unchanged.", None),
        ("The cardiomediastinal silhouette is stable.", None),
        ("The pulmonary XXXX and mediastinum are normal.", None),
        ("Follow-up CT is recommended for the nodule.", None),
        ("On the previous radiograph, a nodule was seen.", None),
    ],
)
def test_rewriting(clause: str, statement: str | None) -> None:
    assert rewrite(clause) == statement


def test_question_forms_are_told_by_words() -> None:
    assert {q for qs in QUESTIONS.values() for q in qs if question_form(q).asks_normal} == {
        "Is the heart size normal?",
        "Is the heart size within the expected range?",
        "Does the radiograph suggest a normal heart size?",
    }
    open_questions = {q for qs in QUESTIONS.values() for q in qs if not question_form(q).closed}
    assert open_questions == {q for qs in QUESTIONS.values() for q in qs if re.match(r"What|Which|How", q)}
    assert question_form("Is the Cardiomedistinum abnormal in size?") == question_form("Is Edema observed?")


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


def test_a_quoted_normal_lung_is_cut_before_what_else_is_absent() -> None:
    text = "The lungs are clear, and without effusion."
    for number in range(1, 13):
        assert "without" not in answer("Consolidation", "Is Consolidation observed?", text, number)
        assert "clear, and." not in answer("Consolidation", "Is Consolidation observed?", text, number)


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


def test_a_re_ask_is_answered_without_quoting() -> None:
    (reply,) = replies([request("Edema", "Is Edema observed?", "Severe edema of the bases.", 1, ("prohibited:new",))])
    assert "bases" not in reply.answer
    assert reply.answer.startswith("Yes, ")


def test_a_bad_request_is_an_error_and_the_others_are_answered() -> None:
    good = request("Edema", "Is Edema observed?", "No edema.")
    found = replies(
        [good, request("Tumor", "Is a tumor seen?", "x"), request("Edema", "Is Edema observed?", " "), good]
    )
    assert [reply.answer is None for reply in found] == [False, True, True, False]
    assert "Tumor" in found[1].error
    assert "no findings" in found[2].error
    assert replies([]) == []


def test_the_engine_is_an_engine_and_a_reply_is_an_answer_or_an_error() -> None:
    engine = ExtractiveEngine()
    assert isinstance(engine, Engine)
    assert (engine.name, engine.endpoint, engine.settings["temperature"]) == ("extractive", None, 0.0)
    with pytest.raises(ValueError, match="either"):
        Reply("yes", "no")
    with pytest.raises(ValueError, match="either"):
        Reply(None)


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


def test_a_long_text_takes_time_in_proportion() -> None:
    for piece in ("_", "XXXX ", "no ", "effusion, ", "a", "heart is ", "stable ", ", ", "opacity versus ", " "):
        start = time.process_time()
        analyse(piece * (100_000 // len(piece)))
        rewrite(piece * (100_000 // len(piece)))
        # measured: below 0.6 s; without a bound on the clause some of these take minutes
        assert time.process_time() - start < 5


@pytest.fixture(scope="module")
def real_findings() -> list[str]:
    with open(REAL / "indiana_reports.csv", encoding="utf-8", newline="") as stream:
        return [row["findings"] for row in csv.DictReader(stream) if row["findings"]]


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


@needs_real_data
def test_polarity_finds_what_the_annotators_found() -> None:
    rows = [
        row | {"analysis": analyse(row["findings"])} for row in read_openi(REAL).table.to_pylist() if row["findings"]
    ]
    # Positive or uncertain, among studies annotated with the label. What is missed is in the impression alone, mostly.
    least = {"Atelectasis": 0.65, "Cardiomegaly": 0.88, "Lung Lesion": 0.95, "Lung Opacity": 0.94, "No Finding": 0.92,
             "Pleural Effusion": 0.85, "Fracture": 0.85, "Support Devices": 0.92, "Pneumothorax": 0.99}  # fmt: skip
    for category, share in least.items():
        found = [row["analysis"].polarity(category) for row in rows if row["labels"][category] == 1]
        assert sum(value in ("positive", "uncertain") for value in found) >= share * len(found), category
    # and what the text affirms without the annotators is rare
    for category in set(CHEXPERT_LABELS) - {"No Finding", "Support Devices"}:
        others = [row["analysis"] for row in rows if row["labels"][category] != 1]
        extra = sum(analysis.polarity(category) == "positive" for analysis in others)
        assert extra <= 10, category


def test_a_verb_in_the_sentence_is_not_put_behind_shows() -> None:
    text = "A small opacity in the right mid lung raises the possibility of pneumonia."
    request = AnswerRequest("s1-lung_opacity-5", 1, "Lung Opacity", "Does the image indicate Lung Opacity?", None, text)
    assert answer_from(analyse(text), request).startswith("Yes, a small opacity in the right mid lung raises")


def test_the_lexicon_covers_every_category() -> None:
    assert set(QUESTIONS) == set(CATEGORIES)
    text = (
        "Atelectasis. Cardiomegaly. Consolidation. Edema. Widened mediastinum. Fracture. Nodule. Opacity. Effusion. "
        "Pleural thickening. Pneumonia. Pneumothorax. Pacemaker. Heart."
    )
    assert {category for category in CATEGORIES if polarity(text, category) == "positive"} == set(CATEGORIES) - {
        "No Finding"
    }
