"""The prompt of a language model as judge (after Section 4 of the paper, in our own words), and its reply.

The report comes first and the pair last, so that a server's prefix cache holds the report. The prompt version is a
digest of the texts, so verdicts of two prompts are never mixed.
"""

import re
from collections.abc import Mapping
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.llm.chat import object_schema
from medvqa_core.llm.json_reply import ReplyError, parse_objects, split_reasoning
from mimic_cxr_vqa.generation.prompts import NO_INDICATION
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Dimension, Verdict, find_problems
from mimic_cxr_vqa.judging.pairs import Pair

PREAMBLE = """\
You check a visual question answering dataset about chest radiographs. You are given the indication of a study, the \
findings that a radiologist saw in its images, a question, and an answer that somebody wrote from the findings alone. \
You rate the answer on four dimensions. The findings are the only truth: what they are silent about counts as absent, \
and a good style does not make up for a wrong statement. Neither a long nor a short answer is better for its length."""
_SYSTEM = """\
{preamble}

{dimensions}

Compare every statement of the answer with the findings: is it affirmed, denied or doubted there, on that side, of \
that size and number? Then look for what the findings say about the question and the answer does not. Reply with one \
JSON object, {form}, and nothing behind it."""
_USER = "indication: {indication}\nfindings: {findings}{impression}\nquestion: {question}\nanswer: {answer}"
_IMPRESSION = "\nimpression: {impression}"
_REMARKS = {"analysis", "comment", "explanation", "justification", "notes", "rationale", "reason", "reasoning"}
# "I cannot rate this", "no rating": the verdict in such a reply is a quote.
_DECLINES = re.compile(
    r"(?:\b(?:i|we)(?:['’]m| am|['’]re| are)?\s+|(?:\A|[.!?:;\n\"])\s*)(?:(?:must |have to |will )?(?:decline|refuse)\b"
    r"|(?:can(?:no|['’])?t|won['’]t|will not|unable to|not able to)\s+(?:\w+ )?"
    r"(?:rate|judge|assess|evaluate|score|grade|comply|help|assist|provide|give)\b)"
    r"|\bno (?:rating|verdict|judge?ment)\b|\b(?:rating|verdict)s? (?:(?:is|are|was|were) )?(?:withheld|refused|not\b)"
    r"|(?:无法|不能|拒绝|不予)(?:进行|给出)?(?:评分|评价|评判|评估|打分)",
    re.IGNORECASE,
)
# "the answer contains {": a quote from the answer under judgement, but for the escaped quotes of a remark.
_QUOTES = re.compile(
    r"\b(?:answer|text|it)\b[^.{}\n]{0,60}\b(?:sa(?:ys|id)|contain(?:s|ed)|reads?|claim(?:s|ed)|includ(?:es|ed)|quotes?"
    r"|asks|asked|tells|told|tries|tried)\b[^.{}\n]{0,60}\s*(?:```\w*\s*)?\{(?!\\)",
    re.IGNORECASE,
)
# Behind a verdict: "Actually, correctness should be Incorrect".
_RETRACTS = re.compile(
    r"\bactually\b|\bon (?:reflection|second thought)|\bcorrection\b|\bshould (?:be|have been)\b", re.I
)


def system_prompt(reverse: bool = False) -> str:
    """The instructions, with the best category first or, with `reverse`, last."""
    blocks = [_describe(dimension, reverse) for dimension in DIMENSIONS.values()]
    form = "{" + ", ".join(f'"{name}": "<category>"' for name in DIMENSIONS) + "}"
    return _SYSTEM.format(preamble=PREAMBLE, dimensions="\n\n".join(blocks), form=form)


def user_prompt(pair: Pair) -> str:
    """The user message with the pair."""
    request = pair.request
    impression = _IMPRESSION.format(impression=request.impression) if request.impression else ""
    return _USER.format(
        indication=request.indication or NO_INDICATION,
        findings=request.findings,
        impression=impression,
        question=request.question,
        answer=pair.answer,
    )


def schema(reverse: bool = False) -> dict[str, Any]:
    """The JSON schema of the reply."""
    return object_schema(**{n: {"type": "string", "enum": list(_ordered(d, reverse))} for n, d in DIMENSIONS.items()})


def prompt_version() -> str:
    """A digest of all texts of the prompt."""
    return f"judge-{digest(chr(0).join((system_prompt(), system_prompt(True), _USER, _IMPRESSION)))[:12]}"


def read_reply(text: str) -> Verdict:
    """The verdict in a reply: a JSON object with the four dimensions, a category of each, and perhaps an explanation.

    The last object counts if the others are equal or not verdicts. A different verdict may be a draft, or a quote from
    the answer under judgement, so the reply is rejected. A dimension may have its title from Table 3 ("Answer
    Completeness"). Case, white space and a full stop after a category are ignored.

    Raises:
        ReplyError: the reply declines to rate, quotes a verdict, or does not contain exactly one valid verdict.
    """
    *others, last = parse_objects(text)
    verdict = _read_verdict(last)
    for other in others:
        try:
            differs = _read_verdict(other) != verdict
        except ReplyError:
            continue
        if differs:
            raise ReplyError("the reply gives two verdicts that differ")
    said = split_reasoning(text)[1]
    if _DECLINES.search(said):
        raise ReplyError("the model refused to rate")
    if _QUOTES.search(said):
        raise ReplyError("the reply quotes a verdict")
    if _RETRACTS.search(said.rpartition("}")[2]):
        raise ReplyError("the reply retracts its verdict")
    return verdict


def _read_verdict(given: Mapping[str, Any]) -> Verdict:
    titles = {dimension.title.lower(): name for name, dimension in DIMENSIONS.items()}
    plain = {name: " ".join(name.lower().replace("_", " ").split()) for name in given}
    rated = [name for name in given if plain[name] not in _REMARKS]
    found = {titles.get(plain[name], plain[name]): given[name] for name in rated}
    if len(found) < len(rated):
        raise ReplyError("a dimension occurs twice in the JSON object")
    verdict = {name: _find(value, DIMENSIONS.get(name)) for name, value in found.items()}
    if problems := find_problems(verdict):
        raise ReplyError(problems[0])
    return verdict


def _find(value: Any, dimension: Dimension | None) -> Any:
    """The category in Table 3's spelling, or `value` if it is not a category."""
    if dimension is None or not isinstance(value, str):
        return str(value)
    by_name: Mapping[str, str] = {category.lower(): category for category in dimension.categories}
    return by_name.get(" ".join(value.lower().split()).removesuffix("."), value)


def _describe(dimension: Dimension, reverse: bool) -> str:
    lines = [f'- "{category}": {dimension.meanings[category]}' for category in _ordered(dimension, reverse)]
    return "\n".join([f"{dimension.name}. {dimension.asks}", *lines])


def _ordered(dimension: Dimension, reverse: bool) -> tuple[str, ...]:
    return dimension.categories if reverse else dimension.categories[::-1]
