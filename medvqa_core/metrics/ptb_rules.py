"""Rules that make the words of Stanford PTBTokenizer 3.4.1, found by asking the program: the abbreviations with every
string of two to four letters and a vocabulary of longer words, the rest with one text for each question.

Only what answers about images hold has rules. Words may differ from the program's in: Internet and e-mail addresses,
#tags and @names, named signs (&eacute;), smileys (":)", "(--)", "<_x"), telephone numbers with spaces or brackets,
US$ and C++, abbreviations of companies (pty.), words that begin or end with an apostrophe ('em, ol', '98; the '90s are
there), n't with letters after it, and pieces of text longer than ptb_tokenizer.REACH without white space.

A rule is a pattern, a context that must follow it, and what happens to the token's characters: TRANSLATED (quotes,
brackets, dashes and currency signs are written the Treebank's way) or AS_IT_STANDS. Names in braces are in _NAMES.
"""

import re

from medvqa_core.metrics.ptb_characters import DIGITS, LETTERS, MARKS, REPEATED, SYMBOLS, character_class

TRANSLATED, AS_IT_STANDS = True, False
Rule = tuple[re.Pattern, bool]


def _words(text: str) -> list[str]:
    return text.split()


# "Jan.", "Corp.": the stop belongs to the word; these may end a sentence, those of the next list stand before a name.
FINAL = _words(
    "al ala apr ariz assn aug bancorp bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb "
    "fla fri ga inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn "
    "plc rd rt sep sept seq sq sr sys tel tenn thu thurs tue tues univ va vt wed wis wisc wyo "
)
TITLES = _words(
    "adj adm adv alex assoc asst atty attys ave brig capt cf cie cmdr col comdr cpl dept det dr drs elec ens ft gen "
    "gov govs hon insp invt jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof profs pvt rep "
    "reps rev sen sens sfc sgt spc st ste supt supts treas vs wm "
)
CAPITALISED = _words("ark az del ill la mass miss ore pa tex wash")  # in lower case they are words of their own
BEFORE_NUMBERS = _words("art ca fig figs no nos op pp prop")

# After these a stop ends the sentence although one letter stands before it: "vitamin K. The heart".
STARTERS = _words(
    "A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Now Once "
    "One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You "
)

_NAMES = {
    "W": f"[A-Za-z0-9\u00ad{character_class(LETTERS)}]",  # letter or digit
    "D": f"[0-9{character_class(DIGITS)}]",
    "L": f"(?:(?!{{D}})[A-Za-z{character_class(LETTERS)}{character_class(MARKS)}])",  # letter or mark
    "A": f"[A-Za-z0-9\u00ad{character_class(LETTERS)}{character_class(MARKS)}]",  # letter, mark, digit, soft hyphen
    "WORD": "{L}{A}*(?:[.!?]{L}{A}*)*",
    "APOS": "['\u0092\u2019]",
    "CLITIC": "{APOS}(?i:[dms]|ll|re|ve)",
    "NOT": "(?i:n{APOS}t)",
    "QUOTE": "[`\u0091-\u0094\u2018\u2019\u201b-\u201d\u2039\u203a\u00ab\u00bb]",
    "NUMBER": "(?:[.:,\u00ad\u066b\u066c]?{D})+",
    "HYPHEN": "[-_\u058a\u2010\u2011]",
    "ACRONYM": r"[A-Za-z](?:\.[A-Za-z])+",
    "HYPHENATED": r"[A-Za-z0-9][A-Za-z0-9.,]*(?:-(?:{ACRONYM}\.|[A-Za-z0-9]+))+",
    "PIECE": "(?i:[dlo]{APOS})?{W}+",  # d'être
    "PART": "[A-Za-z0-9]+(?:-[A-Za-z]+)*",
    "FINAL": f"(?i:{'|'.join(FINAL)})|" + "|".join(f"{w.capitalize()}|{w.upper()}" for w in CAPITALISED),
    "TITLE": f"(?i:{'|'.join(TITLES)})",
    "STARTER": "|".join([*STARTERS, *map(str.upper, STARTERS), r"M[rs]\."]),
    "TAG": "[A-Za-z][A-Za-z0-9_:.-]*",
    "QUOTED": r"(?:'[^'\r\n]*'|\"[^\"\r\n]*\")",
    "NUMBERED": f"(?i:{'|'.join(BEFORE_NUMBERS)})",
}

_RULES = [
    # clitics: can|not, gon|na, 't|is, patient|'s, do|n't
    (r"(?i:can)", r"(?i:not)", TRANSLATED),
    (r"(?i:gon|wan)", r"(?i:na)", TRANSLATED),
    (r"(?i:got)", r"(?i:ta)", TRANSLATED),
    (r"(?i:lem|gim)", r"(?i:me)", TRANSLATED),
    (r"'[tT]", r"(?i:is|was)", TRANSLATED),
    (r"{WORD}", r"{CLITIC}(?![A-Za-z])", TRANSLATED),
    (r"[A-Za-z]*?", r"{NOT}", TRANSLATED),
    (r"{NOT}", "", TRANSLATED),
    (r"{CLITIC}", r"[^A-Za-z]", TRANSLATED),
    (r"{CLITIC}", "", TRANSLATED),
    # O'Brien, the '90s
    (r"[A-Z]{APOS}{L}{L}+|{APOS}[0-9]0[sS]", "", AS_IT_STANDS),
    # abbreviations
    (r"(?:{FINAL})\.", r"[^\w\s]?\w?", TRANSLATED),
    (r"(?:{TITLE}|(?i:ph\.d))\.", "", TRANSLATED),
    (r"{NUMBERED}\.", r" ?[0-9]", TRANSLATED),
    (r"[A-Za-z]", r"\.\s+(?:{STARTER})(?:\s|$)", TRANSLATED),
    (r"{ACRONYM}\.?|[A-Za-z]\.", "", TRANSLATED),
    (r"(?:{WORD}|{W}+|{HYPHENATED})\.", "[,:;]", TRANSLATED),
    # words
    (r"{WORD}", "", TRANSLATED),
    (r"{W}+(?:{HYPHEN}{W}+)*", "", TRANSLATED),
    (r"{PIECE}(?:{HYPHEN}{PIECE})*", "", AS_IT_STANDS),
    (r"{HYPHENATED}", "", TRANSLATED),
    (r"{PART}/{PART}(?:/{PART})?", "", TRANSLATED),
    (r"[A-Z]+(?:[&+][A-Z]+)+", "", TRANSLATED),
    # HTML tags: <b>, </b>, <br />, <a href="x y">, <!-- no -->
    (r"<(?:[!?][A-Za-z-][^>\r\n]*|{TAG}(?: +{TAG}(?: *= *{QUOTED})?)* */?|/{TAG}) *>", "", AS_IT_STANDS),
    # addresses
    (r"(?:https?://|www\.)\S*[\w/]", "", AS_IT_STANDS),
    (r"\w[\w.+-]*@\w+(?:[.-]\w+)*", "", AS_IT_STANDS),
    # numbers
    (r"[-+]?{NUMBER}", "", TRANSLATED),
    (r"(?:{D}+[- ])?{D}+/{D}+", "", TRANSLATED),  # 1 1/2
    (r"(?:{D}{1,2}[/-]){2}{D}{2,4}", "", TRANSLATED),  # a date
    # signs
    (r"&(?i:amp|lt|gt|quot|apos|nbsp);", "", TRANSLATED),
    (r"<<|>>", "", AS_IT_STANDS),
    (r"-{2,}|#{2,}|\.{3,5}|[!?]+|\*{1,3}|_+|{QUOTE}{1,2}|''", "", TRANSLATED),
    (r"'", r"[A-Za-z0-9]\S", TRANSLATED),
    (r"{REPEATED}+", "", TRANSLATED),
    (
        r"[\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e\x80\x96\x97\xa2-\xa4\xad\xbc-\xbe"
        r"\u2013-\u2015\u2026\u2044\u20a0\u20ac\u2153\u2154{SYMBOLS}]",
        "",
        TRANSLATED,
    ),
]


def compile_rules() -> list[Rule]:
    """Each rule as a pattern whose group 1 is the token and whose match takes in the context, and its treatment."""

    def fill(pattern: str) -> str:
        while True:
            filled = re.sub(r"\{([A-Z]+)\}", lambda name: names[name.group(1)], pattern)
            if filled == pattern:
                return pattern
            pattern = filled

    names = dict(_NAMES, SYMBOLS=character_class(SYMBOLS), REPEATED=f"[{character_class(REPEATED)}]")
    return [(re.compile(f"({fill(token)}){fill(context)}"), treatment) for token, context, treatment in _RULES]
