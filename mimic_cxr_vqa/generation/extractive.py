"""The default engine: answers made from the report's own sentences, without a model.

`mentions` reads the polarity of the category. A short sentence (`frames`) states a finding if it loses no word of the
clause. Otherwise the clause, its sentence or the part with the finding is quoted (`quoting`), with its change,
measures, tips and alternatives, but without the words of Appendix B. A category that the report does not mention is
answered as absent (paper, Section 3.1), or as possible if the impression affirms or doubts it. Statements about another
image ("seen on CT") are answered as possible. The engine does not read labels, so an answer may contradict a label that
the text does not support.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.answer_request import AS_CONTEXT, AnswerRequest
from mimic_cxr_vqa.generation.frames import CATEGORY_NAMES, be, is_lossless, noun_phrase, with_article
from mimic_cxr_vqa.generation.lint import read_wording, read_words
from mimic_cxr_vqa.generation.quoting import capitalise, is_sentence, leave_out_changes, narrow, quote, uncapitalise
from mimic_cxr_vqa.labeling.mentions import (
    DEVICES,
    NEGATIVE,
    NOT_MENTIONED,
    OTHER_ABNORMALITY,
    POSITIVE,
    UNCERTAIN,
    Analysis,
    Mention,
    analyse,
)
from mimic_cxr_vqa.schema import CATEGORIES, HEART, NO_FINDING

PROMPT_VERSION = "extractive-8"

# {0} is the finding and {be} its verb.
_SHOWN, _DENIED, _DOUBTED, _EXPECTED, _DOUBTED_QUOTE, _NORMAL_CHEST = (
    tuple(text for text, _ in read_wording(level))
    for level in ("shown", "denied", "doubted", "expected", "doubted quote", "normal chest")
)
_LIKELY, _WEAKER = (re.compile(read_wording(level)[0][1]) for level in ("likely", "weaker"))
_LIKELY_BEHIND = re.compile(r" (?:is|are) (?:likely|probabl[ey])\b")
_HEDGED = re.compile(r"(?:[a-z ]+: )?(?:an? )?(?:possibl[ey]|probabl[ey]|questionable|suspected|equivocal)\b")
# A sentence with one of these describes something normal, the technique, or what should be done.
_ORDINARY = re.compile(
    rf"\b(?:{'|'.join(read_words('ordinary words'))})\b|"
    r"^\W*(?:(?:an?|the|this|single|two|frontal|lateral|and|chest) )*"
    r"(?:radiographs?|films?|views?|study|exam\w*|images?)\b",
    re.IGNORECASE,
)
_HEART = {POSITIVE: "the heart is enlarged in the radiograph", UNCERTAIN: "enlargement of the heart is possible"}
_UNKNOWN_SIZE = re.compile(read_wording("unknown size")[0][1], re.IGNORECASE)
_NO_HEART = "no enlargement of the heart is seen in the radiograph"


class ExtractiveEngine:
    """Answers by rules, in process and deterministically."""

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
        """Answer each request."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: AnswerRequest) -> Reply:
        if not request.findings or not request.findings.strip():
            return Reply(None, f"{request.qa_id}: no findings to answer from")
        if request.category not in CATEGORIES:
            return Reply(None, f"{request.qa_id}: category {request.category!r} is unknown")
        return Reply(answer_from(analyse(request.findings), request))


_DENIAL = re.compile(r"^(?:no|without) ((?:(?!\b(?:or|and|in|on|of|at)\b)[^,;(])+)")  # "No X", not a sentence
_NO_NEW = re.compile(r"\b(?:no|without) (new|larger)(?:ly)?\b", re.IGNORECASE)  # denies a change, not the finding


def is_closed(question: str) -> bool:
    """Whether a question asks for yes or no."""
    return not re.match(r"\W*(?:what|which|how|where|describe|list|name)\b", question.lower())


def asks_normal(question: str) -> bool:
    """Whether "yes" means that nothing is wrong ("Is the heart size normal?")."""
    return bool(
        re.search(r"\bnormal\b|\bexpected range\b|\bunremarkable\b|\bwithin (?:the )?limits\b", question.lower())
    )


def answer_from(analysis: Analysis, request: AnswerRequest) -> str:
    """The answer to one request, from the analysis of its report. A quote may have words that the lint warns of."""
    closed, category, qa_id = is_closed(request.question), request.category, request.qa_id
    if category == NO_FINDING:
        return _findings_answer(analysis, closed, qa_id)
    if category == HEART:
        return _heart_answer(analysis, request.question, qa_id)
    found = analysis.polarity(category)
    known = {analysis.polarity(name): name for name in reversed(_PARTS.get(category, ()))}
    if category == "Pleural Other" and found != POSITIVE:  # its questions ask for any pleural abnormality
        known[found] = category
        allowed = (POSITIVE, UNCERTAIN) if found != NEGATIVE else (POSITIVE,)
        found = next((value for value in allowed if value in known), found)
        category = known.get(found, category)
    if found == POSITIVE and (statements := _affirmed(analysis.of(category, POSITIVE), qa_id)):
        return _join("Yes, " if closed else "", statements)
    if found in (POSITIVE, UNCERTAIN):
        mentions = analysis.of(category, UNCERTAIN) or analysis.of(category, POSITIVE)
        # "no pneumothorax is seen, although a small one may be missed"
        denied = [m for m in analysis.of(category, NEGATIVE) if m.named and m.sentence == mentions[0].sentence]
        doubted = _doubted(mentions, qa_id)
        return _join("", [*doubted, *(text for text in _quotes(denied) if text not in doubted[0])])
    if found == NOT_MENTIONED and analyse(request.impression or "").polarity(category) in (POSITIVE, UNCERTAIN):
        name = with_article(CATEGORY_NAMES[category], CATEGORY_NAMES[category])
        return _join("", [_fill(_choose(qa_id, _DOUBTED), name)])
    if category == "Cardiomegaly" and found == NOT_MENTIONED and (unknown := _unknown_heart(analysis)):
        return _join("", unknown)
    if found == NOT_MENTIONED and (part := known.get(POSITIVE) or known.get(UNCERTAIN)):
        doubtful = analysis.of(part, UNCERTAIN)
        stated = _affirmed(analysis.of(part, POSITIVE), qa_id) or (_doubted(doubtful, qa_id) if doubtful else [])
        return _join("", [*stated, _fill(_choose(qa_id, _DENIED), f"other {CATEGORY_NAMES[category]}")])
    return _denied(analysis, category, closed, qa_id)


_PARTS = {  # the findings that a category includes, as in CheXpert's hierarchy, the most specific first
    "Lung Opacity": ("Pneumonia", "Lung Lesion", "Edema", "Atelectasis"),
    "Enlarged Cardiomediastinum": ("Cardiomegaly",),
    "Pleural Other": ("Pleural Effusion", "Pneumothorax"),
}


def _findings_answer(analysis: Analysis, closed: bool, qa_id: str) -> str:
    """All abnormal findings. Without any, the support devices."""
    yes, no = ("Yes, ", "No, ") if closed else ("", "")
    certain, doubtful = analysis.abnormal(POSITIVE), analysis.abnormal(UNCERTAIN)
    unread = _unread(analysis)
    others = [text for text in unread if text]
    if any(not mention.elsewhere for mention in certain):
        said = {m.clause for m in certain} | {m.category for m in certain if m.category != OTHER_ABNORMALITY}
        said |= {noun_phrase(m) or "" for m in certain}
        rest = [
            m for m in doubtful if not m.elsewhere and not {m.clause, m.category, noun_phrase(m) or m.clause} & said
        ]
        more = _statements(rest, _DOUBTED, qa_id)
        shown = [*_affirmed(certain, qa_id), *more, *others]
        return _join(yes, shown or ["the radiograph shows abnormal findings"])
    if certain or doubtful:
        return _join("", _doubted(doubtful, qa_id) or ["an abnormality is possible in the radiograph"])
    devices = _affirmed(analysis.of(DEVICES, POSITIVE), qa_id)
    if others:
        return _join("", [*others, "no other abnormality is seen in the radiograph", *devices])
    if unread:
        return _join("", ["an abnormality is possible in the radiograph", *devices])
    if devices:
        return _join(no, ["no abnormality is seen in the radiograph apart from support devices", *devices])
    return _join(no, [_choose(qa_id, _NORMAL_CHEST)])


def _unread(analysis: Analysis) -> list[str | None]:
    """Sentences with neither a known finding nor something normal ("A bullet is seen"). None if one is unquotable."""
    texts = (text for text in analysis.unread if not _ORDINARY.search(text) and len(text.split()) > 2)
    return [text and uncapitalise(text) for text in map(quote, texts)]


def _heart_answer(analysis: Analysis, question: str, qa_id: str) -> str:
    """The size of the heart. If the report does not mention it, the heart is not enlarged."""
    mentions = analysis.mentions.get("Cardiomegaly", ())
    if not mentions and (unknown := _unknown_heart(analysis)):
        return _join("", unknown)
    found = analysis.polarity("Cardiomegaly")
    if found == POSITIVE and all(m.elsewhere for m in mentions if m.polarity == POSITIVE):
        found = UNCERTAIN
    mentions = tuple(m for m in mentions if m.polarity == found)
    statements = (
        _quotes(mentions) or (_affirmed(mentions, qa_id) if found == POSITIVE else []) or [_HEART.get(found, _NO_HEART)]
    )
    if not is_closed(question):
        return _join("", statements)
    if found == UNCERTAIN:
        return _join("this is uncertain: ", statements)
    return _join("Yes, " if (found == POSITIVE) != asks_normal(question) else "No, ", statements)


def _unknown_heart(analysis: Analysis) -> list[str]:
    """What the report states of a heart whose size it cannot tell ("is difficult to assess", "is probably normal")."""
    return _quotes(m for m in analysis.mentions.get(HEART, ()) if _UNKNOWN_SIZE.search(m.clause))


def _affirmed(mentions: Iterable[Mention], qa_id: str) -> list[str]:
    """Statements of what this image shows, in the order of the report."""
    return _statements([m for m in mentions if not m.elsewhere], _SHOWN, qa_id)


def _doubted(mentions: Sequence[Mention], qa_id: str) -> list[str]:
    quoted = {text: mention for mention in mentions if (text := _quote(mention))}
    if not quoted:
        return _statements(mentions, _EXPECTED if _is_likely(mentions[0]) else _DOUBTED, qa_id)
    first, *rest = quoted
    if _HEDGED.match(first):
        return [*quoted]
    if quoted[first].is_sign and not quoted[first].is_doubted:
        return [*quoted]  # "mild fluid overload"
    lead = "probably: {0}" if _is_likely(quoted[first]) else _choose(qa_id, _DOUBTED_QUOTE)
    return [lead.format(first), *rest]


def _is_likely(mention: Mention) -> bool:
    clause, (start, end) = mention.clause.lower(), mention.span
    *_, likely = [-1, *(found.end() for found in _LIKELY.finditer(clause, 0, start))]
    doubted = likely < 0 or _WEAKER.search(clause, likely, start)
    return not doubted or bool(_LIKELY_BEHIND.match(clause, end))


def _denied(analysis: Analysis, category: str, closed: bool, qa_id: str) -> str:
    no = "No, " if closed else ""
    for part in (category, *_PARTS[category]) if category == "Pleural Other" else (category,):
        if limited := _limited_denial(analysis, part):
            return _join(no, [limited])
        if part != category and any(m.fields.size for m in analysis.of(part, NEGATIVE)):
            return _denied(analysis, part, closed, qa_id)  # "no large effusion"
    mentions = analysis.of(category, NEGATIVE)
    named = next((m for m in mentions if m.named and not m.elsewhere), None)
    if named is None:
        plain = CATEGORY_NAMES[category] + ("s" if category == DEVICES else "")
        return _join(no, [_fill(_choose(qa_id, _DENIED), plain), *_quotes(mentions[:1], _deny)])
    phrase = noun_phrase(named, article=False) or CATEGORY_NAMES[category]
    if change := _NO_NEW.search(named.clause[: named.span[0]]):
        phrase = f"{change[1].lower()} {phrase}"
    return _join(no, [_fill(_choose(qa_id, _DENIED), phrase)])


def _limited_denial(analysis: Analysis, category: str) -> str | None:
    """The report's own denial of a category, if a short one would lose words of it ("no large effusion")."""
    named = next((m for m in analysis.of(category, NEGATIVE) if m.named and not m.elsewhere), None)
    if named is None or not (text := _quote(named)):
        return None
    name = noun_phrase(named, article=False)
    others = [m for found in analysis.mentions.values() for m in found if m.clause == named.clause and m != named]
    is_short = name and not is_sentence(text) and is_lossless(name, named, others)
    return None if is_short else _deny(text)


def _deny(text: str) -> str:
    """`text` with a verb if it is a denial without one ("no effusion or pneumothorax")."""
    return text if is_sentence(text) else _DENIAL.sub(lambda found: f"there {be(found[1].strip())} no {found[1]}", text)


def _quotes(mentions: Iterable[Mention], complete: Callable[[str], str] = str) -> list[str]:
    """The quotes that are whole sentences once they are made `complete`, without duplicates."""
    texts = (complete(text) for mention in mentions if (text := _quote(mention)))
    return list(dict.fromkeys(text for text in texts if is_sentence(text)))


def _quote(mention: Mention) -> str | None:
    """The clause or the sentence of a mention, whichever works as an answer, or else the part of it that does."""
    if mention.elsewhere:
        return None
    quoted = next((text for passage in mention.passages if (text := quote(passage))), None)
    if quoted is None and mention.named and mention.clause in mention.passages:
        part = narrow(mention.clause, mention.span)
        alike = analyse(part).of(mention.category, mention.polarity)
        quoted = quote(part) if any(m.fields == mention.fields for m in alike) else None
    return quoted and uncapitalise(quoted)


def _statements(mentions: Sequence[Mention], wordings: tuple[str, ...], qa_id: str) -> list[str]:
    """A statement for each mention: a sentence of the report, or a short one if it loses no detail, or a quote."""
    quoted: dict[str, str] = {}  # text -> its category
    framed: dict[str, str] = {}
    for mention in mentions:
        phrase, text = noun_phrase(mention), _quote(mention)
        is_whole = text and is_sentence(text) and leave_out_changes(mention.clause) == mention.clause
        if text and not (phrase and not is_whole and is_lossless(phrase, mention)):
            quoted.setdefault(text, mention.category)
        elif phrase:
            framed[phrase] = mention.category
    bare = {with_article(CATEGORY_NAMES[c], CATEGORY_NAMES[c]) for c in framed.values() if c in CATEGORY_NAMES}
    kinds = [*(quoted | framed).values()]
    frames = [p for p, kind in framed.items() if p not in bare or kinds.count(kind) == 1]
    frames = [p for p in frames if not any(re.sub("^an? ", "", p) in text for text in quoted)]
    shown = [_fill(_choose(f"{qa_id}/{n}", wordings), phrase) for n, phrase in enumerate(frames)]
    whole = [text for text in quoted if not any(text != other and text in other for other in quoted)]
    return [*whole, *shown]


def _choose(qa_id: str, wordings: tuple[str, ...]) -> str:
    """One of `wordings`, chosen by a hash of `qa_id`."""
    return wordings[int.from_bytes(blake2b(qa_id.encode(), digest_size=8).digest()) % len(wordings)]


def _fill(wording: str, phrase: str) -> str:
    return wording.format(phrase, be=be(phrase))


def _join(lead: str, statements: Sequence[str]) -> str:
    """`lead` and the statements as sentences."""
    first, *rest = statements
    return " ".join(capitalise(text.rstrip(".,;: ")) + "." for text in (lead + first, *rest))
