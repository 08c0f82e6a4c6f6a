"""How laboratories write numbers and units, and common slips in typed or recognised text."""

import re
import unicodedata

from rjua_meddqa.vocabulary import VOCABULARY

_SIGNS = {word: sign for sign, words in VOCABULARY["comparisons"].items() for word in words.split()}
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−─－﹣ー"), "-") | dict.fromkeys(map(ord, "～∼〜˜"), "~")
# All spellings of 10^9/L, including a lost raised digit: 10*9/L, 10E9/L, 10~9/L, 10⁹/L, 109/L. It is a unit of its own
# only after a blank, after × or at the beginning. Directly behind a digit, the end of the number is unknown.
_POWER = re.compile(
    r"(?:[×xX*·]\s*10\s*[\^*~Ee]?\s*|(?<![\d.~-])10\s*(?:[\^*Ee]|~(?=\s*(?:3|6|9|12)\s*/))\s*)(?P<exponent>-?\d{1,2})(?!\d*\.)"
    r"|(?<![\d.~<>≤≥-])(?<![<>≤≥~-]\s)10(?P<bare>3|6|9|12)(?=\s*/\s*[A-Za-zμ])"
    r"|(?<=\d)[Ee](?P<short>3|6|9|12)(?=\s*/\s*[A-Za-zμ])"
)
_RUN_IN = re.compile(r"[\d.~-]\s?(?<!\d\s)10\s*(?:[\^*~Ee]\s*\d{1,2}|(?:3|6|9|12)(?=\s*/\s*[A-Za-zμ]))")
_UNIT_DIGITS = re.compile(
    r"/\s*(?:1\.73\s*m[2²]?|24\s*(?:h|小时)|\d+\s*(?:h|HP|LP|小时))|(?<=[A-Za-z])(?<!\d[Ee])\d+", re.IGNORECASE
)
_HIDDEN = "0123456789.-~<>≤≥"
_IN_UNIT, _IN_NAME = ({ord(sign): chr(base + place) for place, sign in enumerate(_HIDDEN)} for base in (0xE000, 0xE100))
_UNMASKED = {ord(masked): chr(plain) for table in (_IN_UNIT, _IN_NAME) for plain, masked in table.items()}
_TITRE = re.compile(r"(^|[<>≤≥~-])\s*1:(\d+)")  # 1:320 is a dilution, and higher numbers mean more of the substance
NUMBER = r"\d+(?:\.\d+)?"
_SCIENTIFIC = re.compile(  # 5.0E+02 is a number. In 3.5-9.5E9/L the power belongs to the unit.
    rf"(?<![\d.Ee]){NUMBER}(?![\d.]|[Ee][+-]?\d)\s*[-~]+\s*{NUMBER}[Ee]"
    r"|(?P<number>(?<![\d.])\d(?:\.\d+)?[Ee][+-]?\d{1,2})(?![\d.])"
)
_THOUSANDS = re.compile(r"(?<![\d.,])([1-9]\d{0,2}(?:,\d{3})+)(?![\d,])")
_SLIPS = (
    (r"(?<=[\d.])['`´’‘\"^]+(?=[.\d])", "", "a stray quote in a number"),
    (r"(?<=\d),(?=\d)", ".", "a comma for a decimal point"),
    (r"(?<=\d)[。·](?=\d)", ".", "another dot for a decimal point"),
    (r"(?<=\d)\.\s+(?=\d)|(?<=\d)\s+\.(?=\d)", ".", "a space in a number"),
    (r"^(\d+)/(\d{1,2})(?=\s*[-~]+\s*\d)", r"\1.\2", "a slash for a decimal point"),
    (
        r"(?<=\d)[oO](?=[\d\s.~-]|$)|(?<=\d\.)[oO](?=[\d\s~-]|$)|(?<![A-Za-z])[oO](?=\.\d|-\d)",
        "0",
        "the letter O for a zero",
    ),
    (r"(?<![A-Za-z\d])[lI|](?=\d*\.?\d)", "1", "a letter for a one"),
    (r"(?<=\d)\s*一\s*(?=\d)", "-", "the character 一 for a dash"),
)


def plain(text: str) -> str:
    """Return `text` with one spelling of full-width forms, dashes, comparison words and white space."""
    text = unicodedata.normalize("NFKC", text.translate(_DASHES)).translate(_DASHES)
    for word, sign in _SIGNS.items():
        text = text.replace(word, sign)
    return " ".join(text.split())


def repair_number_slips(text: str) -> tuple[str, tuple[str, ...]]:
    """Repair slips inside the numbers of `text` (plain): `4,0`, `26/0-40`, `437.`0`, `1. 5`.

    A comma before exactly three digits separates thousands. Any other comma between digits is a decimal point.

    Returns:
        The repaired text and the names of the repairs.
    """
    repaired = _THOUSANDS.sub(lambda match: match[1].replace(",", ""), text)
    slips = []
    for pattern, replacement, name in _SLIPS:
        if name.startswith("a stray") and re.search(r"10\s*\^", repaired):
            continue  # here ^ marks an exponent
        changed = re.sub(pattern, replacement, repaired)
        if changed != repaired:
            slips.append(name)
            repaired = changed
    return repaired, tuple(slips)


def has_mixed_commas(text: str) -> bool:
    """Whether `text` (plain) uses commas both for thousands and for decimals: 0,500-1,200."""
    without = _THOUSANDS.sub("", text)
    return without != text and bool(re.search(r"\d,\d", without))


def is_followed_by_exponent(text: str) -> bool:
    """Whether a number in `text` (plain) runs into the digits of its unit: 4-1010*9/L, 100-300109/L, 4-10E9/L."""
    return bool(_RUN_IN.search(text))


def is_dilution(text: str) -> bool:
    """Whether `text` contains a titre such as 1:320."""
    return bool(_TITRE.search(plain(text)))


def write_out(text: str) -> str:
    """Return `text` (plain) with titres as numbers, 5.0E+02 as 500, and masked digits in units."""
    text = _SCIENTIFIC.sub(
        lambda match: f"{float(match['number']):.12f}".rstrip("0").rstrip(".") if match["number"] else match[0], text
    )
    text = _TITRE.sub(r"\1\2", text)
    text = _POWER.sub(lambda match: mask(f"×10^{match['exponent'] or match['bare'] or match['short']}"), text)
    return _UNIT_DIGITS.sub(lambda match: mask(match[0]), text)


def mask(text: str, is_name: bool = False) -> str:
    """Replace the digits and signs of a unit or of a group's name by private characters. See `unmask`."""
    return text.translate(_IN_NAME if is_name else _IN_UNIT)


def unmask(text: str) -> str:
    return text.translate(_UNMASKED)
