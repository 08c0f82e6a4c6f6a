"""The rules of the Penn Treebank tokeniser, as asked from Stanford PTBTokenizer 3.4.1 with texts of one question each.

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
COMPANIES = _words("mfg mtg ppte pptes ppty pptys pte ptes pty ptys")  # not in upper case
BEFORE_NUMBERS = _words("art ca fig figs no nos op pp prop")

# After these a stop ends the sentence although one letter stands before it: "vitamin K. The heart".
STARTERS = _words(
    "A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Now Once "
    "One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You "
)

_WORDS_WITH_APOSTROPHE = (
    r"c{APOS}mon|dunkin{APOS}|e{APOS}er|ev{APOS}ry|li{APOS}l|nat{APOS}l|nor{APOS}easter|o{APOS}o|ol{APOS}|s{APOS}mores|"
    r"somethin{APOS}|{APOS}cause|{APOS}em|{APOS}till?|cont{APOS}d\."
)

_NAMES = {
    "W": f"[A-Za-z0-9\u00ad{character_class(LETTERS)}]",  # letter or digit
    "D": f"[0-9{character_class(DIGITS)}]",
    "L": f"(?:(?!{{D}})[A-Za-z{character_class(LETTERS)}{character_class(MARKS)}])",  # letter or mark
    "A": f"[A-Za-z0-9\u00ad{character_class(LETTERS)}{character_class(MARKS)}]",  # letter, mark, digit, soft hyphen
    "WORD": "{L}{A}*(?:[.!?]{L}{A}*)*",
    "APOS": "['\u0092\u2019]",
    "QUOTE": "[`\u0091-\u0094\u2018\u2019\u201b-\u201d\u2039\u203a\u00ab\u00bb]",
    "NUM": "(?:{D}*(?:[.:,\u00ad\u066b\u066c]{D}+)+|{D}+)",
    "HYPHEN": "[-_\u058a\u2010\u2011]",
    "HYPHENATED": r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*(?:-(?:[A-Za-z](?:\.[A-Za-z])+\.|[A-Za-z0-9\u00ad]+))+",
    "FINAL": f"(?i:{'|'.join(FINAL)})|" + "|".join(f"{w.capitalize()}|{w.upper()}" for w in CAPITALISED),
    "TITLE": f"(?i:{'|'.join(TITLES)})|" + "|".join(f"{w}|{w.capitalize()}" for w in COMPANIES),
    "STARTER": f"{'|'.join(STARTERS)}|THE|M[rs]\\.",
    "NUMBERED": f"(?i:{'|'.join(BEFORE_NUMBERS)})",
    "HOST": r"[^ \t\n\f\r\"<>|.!?(){},]",
    "PATH": r"[^ \t\n\f\r\"<>|()]+[^ \t\n\f\r\"<>|.!?(){},-]",
}

_RULES = [
    # clitics: can|not, gon|na, 't|is, patient|'s, do|n't
    (r"(?i:can)", r"(?i:not)", TRANSLATED),
    (r"(?i:gon|wan)", r"(?i:na)", TRANSLATED),
    (r"(?i:got)", r"(?i:ta)", TRANSLATED),
    (r"(?i:lem|gim)", r"(?i:me)", TRANSLATED),
    (r"'[tT]", r"(?i:is|was)", TRANSLATED),
    (r"{WORD}", r"{APOS}(?i:[msd]|re|ve|ll)(?![A-Za-z])", TRANSLATED),
    (r"[A-Za-z]*?", r"(?i:n{APOS}t)", TRANSLATED),
    (r"(?i:n{APOS}t)", "", TRANSLATED),
    (r"{APOS}(?i:[msd]|re|ve|ll)", r"[^A-Za-z]", TRANSLATED),
    (r"{APOS}(?i:[msd]|re|ve|ll)", "", TRANSLATED),
    # words with an apostrophe of their own
    (f"(?i:{_WORDS_WITH_APOSTROPHE})", "", AS_IT_STANDS),
    (r"{APOS}[nN]{APOS}?|{APOS}[2-9]0[sS]|[dDjJlL]{APOS}", "", AS_IT_STANDS),
    (r"{APOS}[0-9][0-9]", r"(?:\s|$)", AS_IT_STANDS),
    (r"[A-HJ-XZn]{APOS}{L}{L}+|[A-Za-z]+[aeiouyAEIOUY]{APOS}[aeiouA-Z][A-Za-z]*", "", AS_IT_STANDS),
    (r"(?i:y{APOS})", "[A-Za-z]", AS_IT_STANDS),
    # abbreviations
    (r"(?:{FINAL})\.", r"[^\w\s]?\w?", TRANSLATED),
    (r"(?:{TITLE}|ph\.d)\.", "", TRANSLATED),
    (r"(?i:ph\.d\.)", "", TRANSLATED),
    (r"{NUMBERED}\.", r" ?[0-9]", TRANSLATED),
    (r"[A-Za-z]", r"\.\s+(?:{STARTER})(?:\s|$)", TRANSLATED),
    (r"[A-Za-z](?:\.[A-Za-z])*\.|[A-Za-z](?:\.[A-Za-z])+", "", TRANSLATED),
    (r"(?:{WORD}|{W}+|{HYPHENATED})\.", "[,:;]", TRANSLATED),
    # words
    (r"{WORD}", "", TRANSLATED),
    (r"{W}+(?:{HYPHEN}{W}+)*", "", TRANSLATED),
    (r"(?:[dDlLoO]{APOS}{W})?{W}+(?:{HYPHEN}(?:[dDlLoO]{APOS}{W})?{W}+)*", "", AS_IT_STANDS),
    (r"{HYPHENATED}", "", TRANSLATED),
    (r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}){1,2}", "", TRANSLATED),
    (r"[A-Z]+(?:(?:[+&]|&amp;)[A-Z]+)+", "", TRANSLATED),
    (r"[A-Z]+\$|[cCfF]#|[cC]\+\+", "", TRANSLATED),
    # addresses
    (r"https?://{PATH}", "", AS_IT_STANDS),
    (r"www\.(?:{HOST}+\.)+[a-zA-Z]{2,4}(?:/{PATH})?", "", AS_IT_STANDS),
    (r"(?:(?![`'_$-]){HOST})+(?:\.(?:(?![`'_$-]){HOST})+)*\.(?:com|net|org|edu)(?:/{PATH})?", "", AS_IT_STANDS),
    (
        r"[a-zA-Z0-9][^ \t\n\f\r\"<>|()\u00a0]*@(?:[^ \t\n\f\r\"<>|().\u00a0]+\.)*[^ \t\n\f\r\"<>|().\u00a0]+",
        "",
        AS_IT_STANDS,
    ),
    (r"@[A-Za-z_][A-Za-z_0-9]*|#{L}+", "", AS_IT_STANDS),
    # numbers
    (r"{D}{1,2}[-/]{D}{1,2}[-/]{D}{2,4}", "", TRANSLATED),
    (r"[-+]?{NUM}", "", TRANSLATED),
    (r"(?:{D}{1,4}[- \u00a0])?{D}{1,4}(?:\\?/|\u2044){D}{1,4}", "", TRANSLATED),
    (
        r"(?:\([0-9]{2,3}\)[ \u00a0]?|(?:\+\+?)?(?:[0-9]{2,4}[- \u00a0])?[0-9]{2,4}[- \u00a0])"
        r"[0-9]{3,4}[- \u00a0]?[0-9]{3,5}",
        "",
        TRANSLATED,
    ),
    # signs
    (
        r"</?[A-Za-z][\w:.-]*(?: +[A-Za-z][\w:.-]*(?: *= *(?:\"[^\"]*\"|'[^']*'|[\w:.-]+))?)* */?>"
        r"|<[!?][A-Za-z-][^>]*>",
        "",
        AS_IT_STANDS,
    ),
    (r"&(?i:amp|lt|gt|quot|nbsp|apos|mdash|md);", "", TRANSLATED),
    (r"&[aeiouAEIOU](?:acute|grave|uml);|&(?:HT|TL|UR|LR|QC|QL|QR|odq|cdq|#[0-9]+);", "", AS_IT_STANDS),
    (r"[<>]?[:;=][-o*']?[][DdPpOo\\|@{]", "(?![A-Za-z0-9])", AS_IT_STANDS),
    (r"[<>]?[:;=][-o*']?[()]", "(?![A-Za-z0-9])", TRANSLATED),
    (r"[-^x=~<>']_[-^x=~<>']|\([-^x=~<>'][_.]?[-^x=~<>']\)", "", TRANSLATED),
    (r"-{2,4}(?!-)|-----+|\.{3,5}|\. \. \.|[!?]+|\*\*?\*?|\\\*|_+|##+|<<|>>|{QUOTE}{1,2}|''", "", TRANSLATED),
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
