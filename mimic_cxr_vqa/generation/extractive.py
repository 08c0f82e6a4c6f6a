"""The engine without a model: answers from the report's own sentences. The offline default.

For each question: what the text says of the category (`mentions`: affirmed, denied, doubted, not spoken of), then the
clauses that say so, each quoted whole where it can stand as an answer (`quoting`), and put into a frame from what is
known of the mention where it cannot (`frames`). Nothing is reworded. What the report does not speak of is answered as
absent (paper, Section 3.1), or left open where its impression affirms or doubts it; what it says of another image
("seen on CT", "no change in") is neither affirmed nor denied. Labels are not looked at: an answer can contradict its
label where label and text disagree, never its text.

What it does not do: join facts of several sentences, weigh them, or answer about anything but the 15 categories.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.engines import AS_CONTEXT, AnswerRequest
from mimic_cxr_vqa.generation.frames import CATEGORY_NAMES, be, noun_phrase, with_article
from mimic_cxr_vqa.generation.quoting import capitalise, quote, uncapitalise
from mimic_cxr_vqa.labeling.mentions import NEGATIVE, NOT_MENTIONED, POSITIVE, UNCERTAIN, Analysis, Mention, analyse
from mimic_cxr_vqa.schema import CATEGORIES, HEART, NO_FINDING

PROMPT_VERSION = "extractive-2"
_DEVICES = "Support Devices"

# {0}: what is shown, denied or doubted; {be}: its verb.
_SHOWN = ("{0} {be} seen in the radiograph", "the radiograph shows {0}", "the image shows {0}")
_DENIED = (
    "no {0} {be} seen in the radiograph",
    "the radiograph shows no {0}",
    "there {be} no {0} in the radiograph",
    "the image shows no {0}",
)
_DOUBTED = ("{0} {be} possible but cannot be confirmed in the radiograph", "{0} {be} possible in the radiograph")
_DOUBTED_QUOTE = ("it is uncertain: {0}", "possibly; {0}")
_NORMAL_CHEST = (
    "no abnormality is seen in the radiograph",
    "the radiograph shows no abnormal findings",
    "no abnormal findings are seen in the radiograph",
)
_HEART = {
    POSITIVE: "the heart is enlarged in the radiograph",
    UNCERTAIN: "the heart size is borderline in the radiograph",
    NEGATIVE: "no enlargement of the heart is seen in the radiograph",
    NOT_MENTIONED: "no enlargement of the heart is seen in the radiograph",
}


@dataclass(frozen=True)
class QuestionForm:
    """closed: asks for yes or no. asks_normal: "yes" means that nothing is wrong ("Is the heart size normal?")."""

    closed: bool
    asks_normal: bool


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
            "impression": AS_CONTEXT,
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


def question_form(question: str) -> QuestionForm:
    """Classify a question by its words: what, which, how and the like are open; normality turns yes and no around."""
    words = question.lower()
    closed = not re.match(r"\W*(?:what|which|how|where|describe|list|name)\b", words)
    return QuestionForm(
        closed, bool(re.search(r"\bnormal\b|\bexpected range\b|\bunremarkable\b|\bwithin (?:the )?limits\b", words))
    )


def answer_from(analysis: Analysis, request: AnswerRequest) -> str:
    """The answer to one request from its report's analysis. It passes the lint, and without a warning.

    Raises:
        ValueError: the category is none of the 15, or the report is empty.
    """
    if request.category not in CATEGORIES:
        raise ValueError(f"category {request.category!r} is unknown; allowed: {', '.join(CATEGORIES)}")
    if not request.findings.strip():
        raise ValueError(f"study {request.study_id} has no findings; ask only of studies that have them")
    form, category, qa_id = question_form(request.question), request.category, request.qa_id
    if category == NO_FINDING:
        return _findings_answer(analysis, form, qa_id)
    if category == HEART:
        return _heart_answer(analysis, form, qa_id)
    found = analysis.polarity(category)
    if category == "Pleural Other" and found != POSITIVE:
        # the six questions ask for any pleural abnormality, and an effusion or pneumothorax is one
        for other in ("Pleural Effusion", "Pneumothorax"):
            if analysis.polarity(other) == POSITIVE:
                category, found = other, POSITIVE
                break
    if found == POSITIVE and (statements := _affirmed(analysis.of(category, POSITIVE), qa_id)):
        return _join("Yes, " if form.closed else "", statements)
    if found in (POSITIVE, UNCERTAIN):
        mentions = analysis.of(category, UNCERTAIN) or analysis.of(category, POSITIVE)
        return _join("", _doubted(mentions, qa_id))
    if found == NOT_MENTIONED and analyse(request.impression or "").polarity(category) in (POSITIVE, UNCERTAIN):
        name = with_article(CATEGORY_NAMES[category], CATEGORY_NAMES[category])
        return _join("", [_fill(_choose(qa_id, _DOUBTED), name)])
    return _denied(category, analysis.of(category, NEGATIVE), form, qa_id)


def _findings_answer(analysis: Analysis, form: QuestionForm, qa_id: str) -> str:
    """All that is abnormal; where nothing is, the devices that are seen."""
    yes, no = ("Yes, ", "No, ") if form.closed else ("", "")
    certain, doubtful = analysis.abnormal(POSITIVE), analysis.abnormal(UNCERTAIN)
    if any(not mention.elsewhere for mention in certain):
        return _join(yes, _affirmed(certain, qa_id) or ["the radiograph shows abnormal findings"])
    if certain or doubtful:
        return _join("", _doubted(doubtful, qa_id) or ["an abnormality is possible in the radiograph"])
    if devices := _affirmed(analysis.of(_DEVICES, POSITIVE), qa_id):
        return _join(no, ["no abnormality is seen in the radiograph apart from support devices", *devices])
    return _join(no, [_choose(qa_id, _NORMAL_CHEST)])


def _heart_answer(analysis: Analysis, form: QuestionForm, qa_id: str) -> str:
    """Yes or no turns on the size of the heart; where its size is not spoken of, no enlargement is seen."""
    mentions = analysis.mentions.get("Cardiomegaly", ())
    found = analysis.polarity("Cardiomegaly")
    if found == POSITIVE and all(m.elsewhere for m in mentions if m.polarity == POSITIVE):
        found = UNCERTAIN
    quotes = _quotes(m for m in mentions if m.polarity == found)
    statements = quotes or [_HEART[found]]
    if not form.closed:
        return _join("", statements)
    if found == UNCERTAIN:
        return _join("this is uncertain: ", statements)
    return _join("Yes, " if (found == POSITIVE) != form.asks_normal else "No, ", statements)


def _affirmed(mentions: Iterable[Mention], qa_id: str) -> list[str]:
    """Statements of what is seen, each once, in the order of the report; none where all was seen elsewhere."""
    return _statements([m for m in mentions if not m.elsewhere], _SHOWN, qa_id)


def _doubted(mentions: Sequence[Mention], qa_id: str) -> list[str]:
    quotes = _quotes(mentions)
    if quotes:
        return [_choose(qa_id, _DOUBTED_QUOTE).format(quotes[0]), *quotes[1:]]
    return _statements(mentions, _DOUBTED, qa_id)


def _denied(category: str, mentions: Sequence[Mention], form: QuestionForm, qa_id: str) -> str:
    no = "No, " if form.closed else ""
    named = [m for m in mentions if m.named and not m.elsewhere]
    if quotes := _quotes(named[:1]):
        return _join(no, quotes)
    name = noun_phrase(named[0], article=False) if named else None
    if name is None:
        name = CATEGORY_NAMES[category] + ("s" if category == _DEVICES else "")
    return _join(no, [_fill(_choose(qa_id, _DENIED), name), *([] if named else _quotes(mentions[:1]))])


def _quotes(mentions: Iterable[Mention]) -> list[str]:
    """The clauses that can stand as answers, each once."""
    clauses = (m.clause for m in mentions if m.whole and not m.elsewhere)
    return list(dict.fromkeys(uncapitalise(quoted) for clause in clauses if (quoted := quote(clause))))


def _statements(mentions: Sequence[Mention], wordings: tuple[str, ...], qa_id: str) -> list[str]:
    """A quote for each clause that can be quoted, a frame for each mention of another."""
    statements: dict[str, None] = {}
    framed: dict[str, str] = {}  # noun phrase -> its category
    for mention in mentions:
        if quotes := _quotes([mention]):
            statements[quotes[0]] = None
        elif phrase := noun_phrase(mention):
            framed[phrase] = mention.category
    bare = {with_article(CATEGORY_NAMES[c], CATEGORY_NAMES[c]) for c in framed.values() if c in CATEGORY_NAMES}
    said = len(statements) + len(framed) > 1
    frames = [p for p, category in framed.items() if not (said and p in bare and _said_better(p, category, framed))]
    frames = [p for p in frames if not any(p.split(" ", 1)[-1] in quoted for quoted in statements)]
    shown = [_fill(_choose(f"{qa_id}/{n}", wordings), phrase) for n, phrase in enumerate(frames)]
    return [*statements, *shown]


def _said_better(phrase: str, category: str, framed: dict[str, str]) -> bool:
    """Whether another phrase of the same category says more."""
    return any(other != phrase and kind == category for other, kind in framed.items())


def _choose(qa_id: str, wordings: tuple[str, ...]) -> str:
    """One of `wordings`, by a hash of `qa_id`: the same on every machine and in every run."""
    return wordings[int.from_bytes(blake2b(qa_id.encode(), digest_size=8).digest()) % len(wordings)]


def _fill(wording: str, phrase: str) -> str:
    return wording.format(phrase, be=be(phrase))


def _join(lead: str, statements: Sequence[str]) -> str:
    """`lead` and the statements as sentences, each with a capital in front and one full stop behind."""
    first, *rest = statements
    return " ".join(capitalise(text.rstrip(".,;: ")) + "." for text in (lead + first, *rest))
