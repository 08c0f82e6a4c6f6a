"""The COCO caption tools' tokenisation without Java: Penn Treebank words, lower case, without the punctuation list.

`tokenize` equals pycocoevalcap's `PTBTokenizer` (Stanford PTBTokenizer 3.4.1, `-preserveLines -lowerCase`): each rule of
RULES was found by asking the Java program, and tests ask it again where Java is present. At every place of a text the
rule that matches most wins, of equals the first. A rule's trailing context counts for the length but is not consumed.

Known and kept: round brackets come out as `-lrb-`, `-rrb-`, which the tools mean to drop and, in lower case, do not.
"""

import re
from functools import lru_cache

from medvqa_core.metrics.ptb_characters import LETTERS, MARKS, REPEATED, SYMBOLS, character_class

VERSION = "own PTB tokeniser, equal to Stanford PTBTokenizer 3.4.1 as pycocoevalcap 1.2 calls it"
PUNCTUATION = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"])

# Names of character classes; the rules below use them in braces.
_ALNUM = "A-Za-z0-9" + character_class(LETTERS)
_ALPHA = "A-Za-z" + character_class(LETTERS)
_CLASSES = {
    "W": f"[{_ALNUM}]",  # letter or digit
    "L": f"[{_ALPHA}{character_class(MARKS)}]",  # letter or mark
    "A": f"[{_ALNUM}{character_class(MARKS)}]",  # letter, mark or digit
    "APOS": "['\u0092\u2019]",
    "QUOTE": "[`'\u0091\u0092\u2018\u2019\u201b]",
    "NUM": r"(?:[0-9]*(?:[.:,\u00ad\u066b\u066c][0-9]+)+|[0-9]+)",
    "HYPHEN": "[-_\u058a\u2010\u2011]",
    "SYMBOL": f"[{character_class(SYMBOLS)}]",
    "REPEATED": f"[{character_class(REPEATED)}]",
}

_ABBREVIATIONS = (
    "assoc attys calif comdr lieut pptes pptys profs supts thurs treas messrs bancorp al cf co ct dr ft ga jr ky lt md mo mr ms mt ph rd rt sq sr st va vs vt wm adj adm adv ala apr aug ave bhd cie col "
    "cos cpl dak dec det drs ens esq est etc ext feb fla fri gen gov hon inc ind jan jos jul jun kan ltd maj mar mme mon "
    "mrs neb nev nov oct pfc plc pvt rep rev sen sep seq sfc sgt spc ste sys tel thu tue wed wis wyo alex ariz assn asst "
    "atty bldg blvd brig bros capt cmdr colo conn corp dept elec govs insp intl invt kans mich minn mlle mont msgr natl "
    "okla penn pres prof reps sens sept supt tenn tues univ wisc"
).split()
_CAPITALISED = "az la pa ark del ill ore tex mass miss wash".split()  # words of their own in lower case
_BEFORE_NUMBERS = "ca no op pp art fig nos figs prop".split()


def _any_of(words: list[str], pattern: str) -> str:
    return "|".join(sorted((pattern.format(word[0].upper(), word[0], word[1:]) for word in words), key=len, reverse=True))


_ANY_CASE = f"(?i:{'|'.join(sorted(_ABBREVIATIONS, key=len, reverse=True))})"


# (token, context that must follow and counts for the length)
_RULES = [
    # clitics and assimilations
    (r"(?i:can)", r"(?i:not)"),
    (r"(?i:gon|wan)", r"(?i:na)"),
    (r"(?i:got)", r"(?i:ta)"),
    (r"(?i:lem|gim)", r"(?i:me)"),
    (r"(?i:{APOS}t)", r"(?i:is|was)"),
    (r"{WORD}", r"{APOS}(?i:[msd]|re|ve|ll)(?![A-Za-z])"),
    (r"{L}{A}*?", r"(?i:n{APOS}t)"),
    (r"(?i:n{APOS}t)", ""),
    (r"{APOS}(?i:[msd]|re|ve|ll)(?![A-Za-z])", ""),
    # words with apostrophes of their own
    (r"{APOS}[nN]{APOS}|[lLdDjJ]{APOS}|(?i:ol{APOS}|{APOS}em|{APOS}till?|{APOS}cause)|{APOS}[2-9]0s", ""),
    (r"{APOS}(?:[nN]|[0-9][0-9])", r"(?=\s|$)"),
    (r"(?i:somethin{APOS}|dunkin{APOS}|cont{APOS}d\.|nor{APOS}easter|c{APOS}mon|e{APOS}er|s{APOS}mores|ev{APOS}ry|li{APOS}l|nat{APOS}l|o{APOS}o)", ""),
    (r"[A-HJ-XZn]{APOS}[A-Za-z]{2}[A-Za-z]*", ""),
    (r"[A-Za-z]+[aeiouyAEIOUY]{APOS}[aeiouA-Z][A-Za-z]*", ""),
    (r"(?i:y{APOS})", r"[A-Za-z]"),
    # words, numbers
    (r"{WORD}", ""),
    (r"{W}+", ""),
    (r"https?://[^ \t\n\f\r\"<>|()]+[^ \t\n\f\r\"<>|.!?(){},-]", ""),
    (r"(?:www\.(?:[^ \t\n\f\r\"<>|.!?(){},]+\.)+[a-zA-Z]{2,4}|(?:[^ \t\n\f\r\"`'<>|.!?(){},_$-]+\.)+(?:com|net|org|edu))(?:/[^ \t\n\f\r\"<>|()]+[^ \t\n\f\r\"<>|.!?(){},-])?", ""),
    (r"[a-zA-Z0-9][^ \t\n\f\r\"<>|()\u00a0]*@(?:[^ \t\n\f\r\"<>|().\u00a0]+\.)*[^ \t\n\f\r\"<>|()\[\].,;:\u00a0]+", ""),
    (r"@[A-Za-z_][A-Za-z_0-9]*", ""),
    (r"#{L}{A}*", ""),
    (r"[0-9]{1,2}[-/][0-9]{1,2}[-/][0-9]{2,4}", ""),
    (r"[-+]?{NUM}", ""),
    (r"(?:[0-9]{1,4}[- \u00a0])?[0-9]{1,4}(?:\\?/|\u2044)[0-9]{1,4}", ""),
    (r"[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}(?:\\?/[A-Za-z0-9]+(?:-[A-Za-z]+){0,2}){1,2}", ""),
    (r"[A-Z]+(?:(?:[+&]|&amp;)[A-Z]+)+", ""),
    (r"[A-Za-z0-9][A-Za-z0-9.,\u00ad]*(?:-(?:[A-Za-z](?:\.[A-Za-z])+\.|[A-Za-z0-9\u00ad]+))+", ""),
    (r"{W}+(?:{HYPHEN}{W}+)+", ""),
    # abbreviations
    (r"{W}+\.", r"[,:;]"),
    (r"(?:{ABBREVIATION})\.", ""),
    (r"(?:{NUMBERED})\.", r"\s?[0-9]"),
    (r"[A-Za-z]\.", ""),
    (r"[A-Za-z](?:\.[A-Za-z])+\.?", ""),
    (r"(?i:ph\.d\.)", ""),
    # currency and signs
    (r"(?i:us|a|c|hk|nz)\$", ""),
    (r"</?[A-Za-z!?][^>]*>", ""),
    (r"[cCfF]#|[cC]\+\+|\\\*", ""),
    (r"(?:\([0-9]{2,3}\)[ \u00a0]?|(?:\+\+?)?(?:[0-9]{2,4}[- \u00a0])?[0-9]{2,4}[- \u00a0])[0-9]{3,4}[- \u00a0]?[0-9]{3,5}", ""),
    (r"[-^x=~<>']_[-^x=~<>']|\([-^x=~<>'][_.]?[-^x=~<>']\)", ""),
    (r"--+", ""),
    (r"\.\.\.+", ""),
    (r"\. \. \.", ""),
    (r"[!?]+", ""),
    (r"\*\*?\*?|_+|<<|>>|[`'\"\u0091-\u0094\u2018\u2019\u201b-\u201d\u2039\u203a\u00ab\u00bb]{1,2}", ""),
    (r"[<>]?[:;=][-o*']?[][()DdPpOo03\\|@]", r"(?![A-Za-z])"),
    (r"&(?:amp|lt|gt|quot|nbsp|apos);", ""),
    (r"{REPEATED}+", ""),
    (r"{SYMBOL}|[\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e\u00bc-\u00be\u2153\u2154\u00a2\u00a3\u00a4\u20ac\u20a0\x80\u2013-\u2015\x96\x97\u2026]", ""),
]


def _compile():
    names = dict(_CLASSES, ABBREVIATION=_ANY_CASE + "|" + "|".join(f"{w.capitalize()}|{w.upper()}" for w in _CAPITALISED), NUMBERED=f"(?i:{'|'.join(_BEFORE_NUMBERS)})")
    names["WORD"] = "{L}{A}*(?:[.!?]{L}{A}*)*"
    def fill(pattern):
        for _ in range(2):
            pattern = re.sub(r"\{([A-Z]+)\}", lambda m: names[m.group(1)], pattern)
        return pattern
    return [re.compile(f"({fill(token)})" + fill(context)) for token, context in _RULES]


_REPLACED = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
_COMPILED = _compile()


def raw_tokens(text):
    tokens = []
    i = 0
    while i < len(text):
        longest = 0
        if text[i] != " ":
            for rule in _COMPILED:
                m = rule.match(text, i)
                if m and m.end() > longest:
                    longest, end = m.end(), m.end(1)
        if not longest:
            i += 1
            continue
        tokens.append(text[i:end])
        i = end
    return tokens


def tokenize(text):
    out = []
    for t in raw_tokens(text):
        t = t.lower().translate(_MAP)
        if t in PUNCTUATION or t.strip('-') == '':
            continue
        out.append(t)
    return out

_MAP = {ord(k): v for k,v in {**_REPLACED, " ": "\u00a0", "½": "1/2","¼":"1/4","¾":"3/4", "⅓":"1/3","⅔":"2/3","¢":"cents","£":"#","€":"$","¤":"$","₠":"$","\x80":"$","…":"...", '"':"''", "’":"'","‘":"`","“":"``","”":"''","\x91":"`","\x92":"'","\x93":"``","\x94":"''","‹":"`","›":"'","‛":"`","«":"``","»":"''","\xad":"","–":"--","—":"--","―":"--","\x96":"--","\x97":"--"}.items()}
