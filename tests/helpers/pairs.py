"""Question-answer pairs for tests of judging."""

from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.judging.pairs import Pair
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import category_slug


def pair(
    answer: str,
    findings: str = "The lungs are clear.",
    category: str = "Pleural Effusion",
    question: int = 1,
    study: int = 95_000_001,
    label_value: str = "positive",
    impression: str | None = None,
) -> Pair:
    """A pair about question `question` (1 … 6) of `category`."""
    qa_id = f"s{study}-{category_slug(category)}-{question}"
    text = QUESTIONS[category][question - 1]
    request = AnswerRequest(qa_id, study, category, text, "Cough.", findings, impression=impression)
    return Pair(request, answer, label_value, ())
