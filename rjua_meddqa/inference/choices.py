"""Multiple choice: reads the options of a question, and the option that a reply names by letter, text or both.

Questions list options as the released ones do: 选项:A.text;B.text, in alphabetical order, possibly with gaps. Choices
are returned in the same form ("B.text"), several of them in the order of the options and separated by ";".
"""

import re
import unicodedata
from dataclasses import dataclass

from medvqa_core.llm.json_reply import ReplyError
from rjua_meddqa.schema import ANSWER_SEPARATOR

LETTER, TEXT, BOTH = FORMS = ("letter", "text", "letter and text")
_OPTIONS = re.compile(r"选项\s*[:：]")
_OPTION = re.compile(r"(?:^|[;；\n])\s*([A-Z])\s*[.．、:：]\s*")
# A single letter marked as a choice by the word before it. 维生素D and T3b do not match.
_CHOSEN = re.compile(
    r"(?:选项|选择|应选|选|为|是)\s*(?:应该?)?(?:是|为)?\s*[:：]?\s*[(（\[【“\"'*]*([A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*)"
    r"(?![A-Za-z0-9])(?!\s*(?:型|期|级|超|族))"
)
# $\boxed{B}$, "The answer is (B).", "Answer: B", "I choose B"; "the answer is A benign mass" has an article
_CONCLUDES = re.compile(
    r"\\boxed\s*\{\s*(?:\\[a-z]+\s*\{\s*)?[(（]?(?P<boxed>[A-Z](?:\s*[,，、;；]\s*[A-Z])*)(?![A-Za-z0-9\-])"
    r"|\b(?:(?i:answers?)\s*(?:(?:is|are)\b|[:：])|(?<!not )(?<!n't )(?i:choose|pick|select)s?\b)"
    r"\s*(?i:options?\s*)?[:：]?"
    r"[\s(（\[【“\"'*]*(?P<said>[A-Z](?:\s*(?:[,，、;；]|and\b)\s*[A-Z])*)"
    r"(?![A-Za-z0-9\-'’])(?!\s+(?!and\b|because\b|since\b|as\b)[a-z])"
)
# "A patient with …" begins with an article, "I think" with a pronoun
_LEADING = re.compile(
    r"^(?![AI]\s+(?!(?:is|and|or|because|since|as)\b)[a-z]{2})(?!I['’])[\s(（\[【“\"'*]*([A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*)(?![A-Za-z0-9\-])(?!\s*(?:型|期|级|超|族))"
)
_LETTERS = r"[(（\[【“\"'*]*[A-Z](?:\s*[,，、;；和与及]\s*[A-Z])*(?![A-Za-z0-9])"
# 不选A, 不是A, 排除A, 除了A: denied letters
_DENIED = re.compile(rf"(?:不(?:能|应该?|该|可以?)?(?:选择?|是|为)|并?非|排除了?|除了?)\s*(?:选项)?\s*{_LETTERS}")
# A不对，选B: A is denied if the reply names another letter. Alone, it may answer which option is wrong.
_CALLED_WRONG = re.compile(
    rf"{_LETTERS}[)）\]】”\"'*]*\s*(?:选?项)?\s*[:：]?\s*(?:[是为都均])*\s*(?:不对|不正确|不符|错误?|有误|不选|排除)"
)
# B或C, "A or B": undecided
_LEFT_OPEN = re.compile(
    r"(?<![A-Za-z0-9])[A-Z][)）\]*]*\s*(?:或者?|/|or)\s*(?:选项?|option)?\s*[(（\[*]*[A-Z](?![A-Za-z0-9])"
)
# 不是恶性, 不能排除恶性: words that deny the option text behind them
_DENIES = re.compile(
    r"(?:不(?:能|应该?|该)?(?:选择?|是|为|属于|考虑|支持|排除|除外)|并?非|排除了?|除了?|未(?:见|发现|提示)"
    r"|没有(?:发现|见到)?|无(?:明显)?)\s*[“\"]?\Z"
)


@dataclass(frozen=True)
class Choice:
    """The chosen options, written like the question's options, and the form of the choice, one of FORMS."""

    answer: str
    form: str


def read_options(question: str) -> dict[str, str]:
    """Return {letter: text} of a question's options, in order."""
    found = _OPTIONS.search(question)
    if found is None:
        return {}
    _, *pieces = _OPTION.split(question[found.end() :].strip())
    return {letter: text.strip() for letter, text in zip(pieces[::2], pieces[1::2], strict=True)}


def read_choice(text: str, question: str) -> Choice:
    """Return the option or options that `text` names.

    Raises:
        ReplyError: it names none or all of them, leaves the choice open, uses an unknown letter, or the letter and the
            text of different options.
    """
    options = read_options(question)
    if not options:
        raise ReplyError("the question has no options that can be read")
    listed = _OPTIONS.search(question)
    block = question[listed.start() if listed else 0 :]  # a repeated list of options is not a choice
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
    """Return the options whose text occurs in `text`, and the rest of `text`. Denied texts are not returned.

    Longer options are removed first, so that shorter ones are not found within them.
    """
    found, rest = [], text
    for letter, option in sorted(options.items(), key=lambda entry: -len(entry[1])):
        pattern = _pattern(option)
        places = [match.start() for match in pattern.finditer(rest)] if pattern is not None else []
        if pattern is not None and places:
            if not all(_DENIES.search(rest[max(0, place - 12) : place]) for place in places):
                found.append(letter)
            rest = pattern.sub("\u25a1", rest)  # a placeholder that is not a letter
    return found, rest


def _pattern(option: str) -> "re.Pattern[str] | None":
    """Return a pattern for `option` that ignores white space and punctuation."""
    characters = [re.escape(character) for character in _plain(option) if character.isalnum()]
    return re.compile(r"[\W_]*".join(characters), re.IGNORECASE) if characters else None


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip()


def _find_letters(text: str) -> list[str]:
    """Return the letters that a reply concludes with, those at its beginning, or those of its last stated choice."""
    concluded = [re.findall("[A-Z]", found["boxed"] or found["said"]) for found in _CONCLUDES.finditer(text)]
    if any(sorted(letters) != sorted(concluded[0]) for letters in concluded):
        raise ReplyError("the reply gives two answers")
    if concluded:
        return sorted(concluded[0])
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
