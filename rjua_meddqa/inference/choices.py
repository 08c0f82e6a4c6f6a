"""Multiple choice: the options of a question, and which of them a reply names, by letter, by text or by both.

A question holds its options as the released ones do: 选项:A.text;B.text, letters in order though not without gaps. What
a reply chose is written back as the options are ("B.text"), several of them in the options' order with ";" between.
"""

import re
import unicodedata
from dataclasses import dataclass

from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.schema import ANSWER_SEPARATOR

LETTER, TEXT, BOTH = FORMS = ("letter", "text", "letter and text")
_OPTIONS = re.compile(r"选项\s*[:：]")
_OPTION = re.compile(r"(?:^|[;；\n])\s*([A-Z])\s*[.．、:：]\s*")
# A letter alone: 维生素D and T3b are none. What stands before it says that it is a choice.
_CHOSEN = re.compile(
    r"(?:选项|选择|应选|选|为|是)\s*(?:应该?)?(?:是|为)?\s*[:：]?\s*[(（\[【“\"'*]*([A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*)"
    r"(?![A-Za-z0-9])(?!\s*(?:型|期|级|超|族))"
)
# "A patient with …" begins with an article
_LEADING = re.compile(
    r"^(?!A\s+(?!(?:is|and|or|because|since|as)\b)[a-z]{2})[\s(（\[【“\"'*]*([A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*)(?![A-Za-z0-9\-])(?!\s*(?:型|期|级|超|族))"
)
_LETTERS = r"[(（\[【“\"'*]*[A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*(?![A-Za-z0-9])"
# 不选A, 不是A, 排除A, 除了A: whatever else a reply says, these are not its choice
_DENIED = re.compile(rf"(?:不(?:能|应该?|该|可以?)?(?:选择?|是|为)|并?非|排除了?|除了?)\s*(?:选项)?\s*{_LETTERS}")
# A不对，选B: A is none where the reply names another; alone it may answer which of them is wrong
_CALLED_WRONG = re.compile(
    rf"{_LETTERS}[)）\]】”\"'*]*\s*(?:选?项)?\s*[:：]?\s*(?:[是为都均])*\s*(?:不对|不正确|不符|错误?|有误|不选|排除)"
)
# B或C, "A or B": chooses neither
_LEFT_OPEN = re.compile(r"(?<![A-Za-z0-9])[A-Z]\s*(?:或者?|/|or)\s*(?:选项?)?\s*[A-Z](?![A-Za-z0-9])")
# 不是恶性, 不能排除恶性: what stands before the text of an option that is not chosen
_DENIES = re.compile(
    r"(?:不(?:能|应该?|该)?(?:选择?|是|为|属于|考虑|支持|排除|除外)|并?非|排除了?|除了?|未(?:见|发现|提示)"
    r"|没有(?:发现|见到)?|无(?:明显)?)\s*[“\"]?\Z"
)


@dataclass(frozen=True)
class Choice:
    """What a reply chose, as the options are written, and how it said so: one of FORMS."""

    answer: str
    form: str


def read_options(question: str) -> dict[str, str]:
    """{letter: text} of a question, in its order; empty where it has no options."""
    found = _OPTIONS.search(question)
    if found is None:
        return {}
    _, *pieces = _OPTION.split(question[found.end() :].strip())
    return {letter: text.strip() for letter, text in zip(pieces[::2], pieces[1::2], strict=True)}


def read_choice(text: str, question: str) -> Choice:
    """The option or options that `text` names.

    Raises:
        ReplyError: it names none or all of them, leaves open which, a letter that is no option, or a letter and the
            text of different options.
    """
    options = read_options(question)
    if not options:
        raise ReplyError("the question has no options that can be read")
    block = question[_OPTIONS.search(question).start() :]  # repeated, it chooses nothing
    said = _plain(text).replace(_plain(question), "").replace(_plain(block), "")
    if _LEFT_OPEN.search(said):
        raise ReplyError("the reply leaves open which of two options it chooses")
    by_text, rest = _find_texts(said.upper() if re.fullmatch(r"[\W_]*[a-z][\W_]*", said) else said, options)
    letters = _find_letters(rest)
    strange = [letter for letter in letters if letter not in options]
    if strange:
        raise ReplyError(f"the reply chooses {strange[0]!r}; the options are {', '.join(options)}")
    if letters and by_text and not set(letters) <= set(by_text):
        raise ReplyError("the reply gives the letter of one option and the text of another")
    chosen = set(letters) or set(by_text)  # an explanation may quote the text of options that were not chosen
    if not chosen:
        raise ReplyError("the reply names no option")
    if len(chosen) == len(options) > 2:
        raise ReplyError("the reply names every option and chooses none")
    form = BOTH if letters and by_text else LETTER if letters else TEXT
    answer = ANSWER_SEPARATOR.join(f"{letter}.{options[letter]}" for letter in options if letter in chosen)
    return Choice(answer, form)


def _find_texts(text: str, options: dict[str, str]) -> tuple[list[str], str]:
    """Options whose text stands in `text`, longest first, each taken out so that a shorter one within it is none.

    A text that is denied wherever it stands is not found.
    """
    found, rest = [], text
    for letter, option in sorted(options.items(), key=lambda entry: -len(entry[1])):
        pattern = _pattern(option)
        places = [match.start() for match in pattern.finditer(rest)] if pattern is not None else []
        if pattern is not None and places:
            if not all(_DENIES.search(rest[max(0, place - 12) : place]) for place in places):
                found.append(letter)
            rest = pattern.sub("\u25a1", rest)  # a sign that is no letter, where the text stood
    return found, rest


def _pattern(option: str) -> "re.Pattern[str] | None":
    """`option` whatever its signs: white space and punctuation between its characters count for nothing."""
    characters = [re.escape(character) for character in _plain(option) if character.isalnum()]
    return re.compile(r"[\W_]*".join(characters), re.IGNORECASE) if characters else None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()


def _find_letters(text: str) -> list[str]:
    """The letters that a reply begins with, else those that it calls its choice, the last time it does."""
    text = _DENIED.sub("", text)
    others = _CALLED_WRONG.sub("", text).lstrip("，,。.、；;：: ")
    return _named_letters(others) or _named_letters(text)


def _named_letters(text: str) -> list[str]:
    leading = _LEADING.match(text)
    if leading is not None:
        lines = [_LEADING.match(line) for line in re.split(r"\n|[;；]", text)]
        return sorted({letter for match in lines if match for letter in re.findall("[A-Z]", match[1])})
    chosen = _CHOSEN.findall(text)
    return sorted(set(re.findall("[A-Z]", chosen[-1]))) if chosen else []
