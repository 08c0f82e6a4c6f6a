"""The engine without a model: answers from the report's own sentences, reworded to pass the lint. The offline default.

For each question: what the text says of the category (`mentions`: affirmed, denied, doubted, not spoken of), the
clauses that say so rewritten as statements about the radiograph (`rewriting`), put into the form that the question
asks for (`phrasing`). What the report does not speak of is answered as absent (paper, Section 3.1). Labels are not
looked at: an answer can contradict its label where label and text disagree, never its text.

What it does not do: join facts of several sentences, weigh them, or answer about anything but the 15 categories.
"""

import re
from collections.abc import Iterable, Sequence

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.engines import AnswerRequest
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.generation.phrasing import (
    AFFIRMED_PLAIN,
    CATEGORY_NAMES,
    DENIED_CLOSED,
    DENIED_OPEN,
    DENIED_QUOTED_CLOSED,
    DENIED_QUOTED_OPEN,
    DOUBTED,
    NORMAL_CHEST,
    SHOWN,
    QuestionForm,
    be,
    choose,
    denied_name,
    fill,
    head_of,
    noun_phrase,
    one,
    question_form,
    sentence,
    with_article,
)
from mimic_cxr_vqa.generation.rewriting import capitalise, rewrite
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, Mention, analyse
from mimic_cxr_vqa.schema import CATEGORIES, HEART, NO_FINDING

PROMPT_VERSION = "extractive-1"
_DEVICES = "Support Devices"
# A quoted "the lungs are clear, without ..." needs no list of what else is absent.
_WITHOUT = re.compile(r",?(?: and)? (?:with no|without)\b.*")
_HEART_PLAIN = {
    POSITIVE: "the heart is enlarged in the radiograph",
    UNCERTAIN: "the heart size is borderline in the radiograph",
    NEGATIVE: "no enlargement of the heart is seen in the radiograph",
    NOT_MENTIONED: "no enlargement of the heart is seen in the radiograph",
}


class ExtractiveEngine:
    """An engine that answers by rules, in process and deterministically."""

    name = "extractive"
    endpoint: str | None = None
    in_flight = 256

    def __init__(self) -> None:
        self.settings = {
            "engine": self.name,
            "model": "rules",
            "revision": PROMPT_VERSION,
            "prompt_version": PROMPT_VERSION,
            "temperature": 0.0,
            "seed": 0,
        }

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[Reply]:
        """Answer each request; a report is analysed once however many questions it has."""
        analyses: dict[str, Analysis] = {}
        replies = []
        for request in requests:
            problem = _find_problem(request)
            if problem:
                replies.append(Reply(None, f"{request.qa_id}: {problem}"))
                continue
            if request.findings not in analyses:
                analyses[request.findings] = analyse(request.findings)
            replies.append(Reply(answer_from(analyses[request.findings], request)))
        return replies


def _find_problem(request: AnswerRequest) -> str | None:
    """Why a request cannot be answered; checked first, so that a mistake of ours is not taken for a bad request."""
    if not isinstance(request.findings, str) or not request.findings.strip():
        return "no findings to answer from"
    if request.category not in CATEGORIES:
        return f"category {request.category!r} is unknown"
    if not isinstance(request.question, str):
        return f"the question is {type(request.question).__name__}, not text"
    return None


def answer_from(analysis: Analysis, request: AnswerRequest) -> str:
    """The answer to one request from its report's analysis. It passes the lint.

    Raises:
        ValueError: the category is none of the 15, or the report is empty.
    """
    if request.category not in CATEGORIES:
        raise ValueError(f"category {request.category!r} is unknown; allowed: {', '.join(CATEGORIES)}")
    if not request.findings.strip():
        raise ValueError(f"study {request.study_id} has no findings; ask only of studies that have them")
    form = question_form(request.question)
    quoted = _answer(analysis, request.category, form, request.qa_id, quote=not request.violations)
    if not lint(quoted):
        return quoted
    return _answer(analysis, request.category, form, request.qa_id, quote=False)


def _answer(analysis: Analysis, category: str, form: QuestionForm, qa_id: str, quote: bool) -> str:
    if category == NO_FINDING:
        return _findings_answer(analysis, form, qa_id, quote)
    if category == HEART:
        return _heart_answer(analysis, form, qa_id, quote)
    found = analysis.polarity(category)
    if category == "Pleural Other" and found != POSITIVE:
        # the six questions ask for any pleural abnormality, and an effusion or pneumothorax is one
        for other in ("Pleural Effusion", "Pneumothorax"):
            if analysis.polarity(other) == POSITIVE:
                category, found = other, POSITIVE
                break
    if found == POSITIVE:
        mentions = analysis.of(category, POSITIVE) + analysis.of(category, UNCERTAIN)
        return _affirm(category, _statements(mentions, quote), form, qa_id)
    if found == UNCERTAIN:
        return _doubt(category, _statements(analysis.of(category, UNCERTAIN), quote), qa_id)
    return _deny(category, analysis.of(category, NEGATIVE), form, qa_id, quote)


def _affirm(category: str, statements: list[str], form: QuestionForm, qa_id: str) -> str:
    yes = "Yes, " if form.closed else ""
    if not statements:
        return fill(yes + choose(qa_id, AFFIRMED_PLAIN), CATEGORY_NAMES[category])
    first, *rest = _show_all(statements, qa_id)
    return _join(yes + first, rest)


def _doubt(category: str, statements: list[str], qa_id: str) -> str:
    name = CATEGORY_NAMES[category]
    if not statements:
        return sentence(f"{one(name)} {be(name)} possible but cannot be confirmed in the radiograph")
    first, *rest = _show_all(statements, qa_id)
    return _join(choose(qa_id, DOUBTED).format(capitalise(one(name)), first), rest)


def _deny(category: str, mentions: Sequence[Mention], form: QuestionForm, qa_id: str, quote: bool) -> str:
    name = CATEGORY_NAMES[category]
    denied = next((m.phrase for m in mentions if m.phrase), None) if quote else None
    if denied:
        name = denied_name(denied, category)
    elif statements := _statements(mentions[:1], quote):
        if mentions[0].named:  # "the heart is not enlarged", "effusion is not seen"
            return sentence(("No, " if form.closed else "") + _show(statements[0], qa_id))
        said = _show(_WITHOUT.sub("", statements[0]), qa_id)
        return fill(choose(qa_id, DENIED_QUOTED_CLOSED if form.closed else DENIED_QUOTED_OPEN), name, said)
    return fill(choose(qa_id, DENIED_CLOSED if form.closed else DENIED_OPEN), name)


def _heart_answer(analysis: Analysis, form: QuestionForm, qa_id: str, quote: bool) -> str:
    """Yes or no turns on the size of the heart; where its size is not spoken of, no enlargement is seen."""
    found = analysis.polarity("Cardiomegaly")
    statements = _show_all(_statements(analysis.of("Cardiomegaly", found), quote), qa_id)
    first, *rest = statements or [_HEART_PLAIN[found]]
    if not form.closed:
        return _join(first, rest)
    if found == UNCERTAIN:
        return _join(f"This is uncertain: {first}", rest)
    yes = (found == POSITIVE) != form.asks_normal
    return _join(f"{'Yes' if yes else 'No'}, {first}", rest)


def _findings_answer(analysis: Analysis, form: QuestionForm, qa_id: str, quote: bool) -> str:
    """All that is abnormal; where nothing is, the devices that are seen."""
    certain, doubtful = analysis.abnormal(POSITIVE), analysis.abnormal(UNCERTAIN)
    statements = _statements(certain + doubtful, quote)
    yes, no = ("Yes, ", "No, ") if form.closed else ("", "")
    if certain and statements:
        return _affirm(NO_FINDING, statements, form, qa_id)
    if certain:
        return sentence(yes + "the radiograph shows abnormal findings")
    if doubtful:
        return _doubt(NO_FINDING, statements, qa_id)
    devices = _show_all(_statements(analysis.of(_DEVICES, POSITIVE), quote), qa_id)
    if devices:
        return _join(no + "no abnormality is seen in the radiograph apart from support devices", devices)
    return sentence(no + choose(qa_id, NORMAL_CHEST))


def _statements(mentions: Iterable[Mention], quote: bool) -> list[str]:
    """The clauses of `mentions` as statements of the image, each once, in the order of the report."""
    if not quote:
        return []
    ordered = sorted(dict.fromkeys((m.sentence, m.clause) for m in mentions), key=lambda item: item[0])
    return list(dict.fromkeys(statement for _, clause in ordered if (statement := rewrite(clause))))


def _show_all(statements: Sequence[str], qa_id: str) -> list[str]:
    return [_show(statement, f"{qa_id}/{number}") for number, statement in enumerate(statements)]


def _show(statement: str, salt: str) -> str:
    """A statement as a clause with a verb: a bare noun phrase is put into one of several frames."""
    shown = noun_phrase(statement)
    if shown is None:
        return with_article(statement)
    if len(shown.split()) > 7 or "," in shown:  # a long subject before "is seen" reads badly
        return SHOWN[0].format(shown)
    return choose(salt, SHOWN).format(shown, be="are" if " and " in shown else be(head_of(shown)))


def _join(first: str, rest: Iterable[str]) -> str:
    """Several statements as sentences."""
    return " ".join(map(sentence, (first, *rest)))
