"""The patterns of each category from `lexicon.tsv`, for text in lower case.

A row has a role, a category (or several, with `|` between them) and a regular expression. To add a word, add a row. If
an expression has a group, a cue must reach the group: "enlarged" in "the heart is not enlarged". The roles are

    macro            a part of other expressions, `{name}`
    slips            the same, for a name with at most one slip of the keyboard
    finding          names the finding ("effusion"). `Other` are abnormalities outside the 14 labels
    sign             suggests the finding ("blunting of the costophrenic angle")
    normal           denies the finding without naming it ("the lungs are clear")
    foreign before, foreign after      give a match another meaning: another organ, or a broken device
    noun             the matched words may be used in an answer, instead of the category's name

A blanked word (`XXXX`, `___`) may replace any word: "heart xxxx is normal".
"""

import re
from functools import cache
from pathlib import Path

Patterns = dict[str, tuple[re.Pattern[str], ...]]


@cache
def read_patterns(role: str) -> Patterns:
    """The patterns of each category that have a role."""
    macros: dict[str, str] = {}
    found: Patterns = {}
    for line in Path(__file__).with_name("lexicon.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        kind, names, text = line.split("\t")
        for name, macro in macros.items():
            text = text.replace(f"{{{name}}}", macro)
        if kind in ("macro", "slips"):
            macros[names] = text if kind == "macro" else allow_slip(text)
        elif kind == role:
            for category in names.split("|"):
                found[category] = (*found.get(category, ()), re.compile(text))
    return found


def allow_slip(name: str) -> str:
    """A pattern for `name` with at most one slip after its first letter: a letter left out or doubled, or two swapped.

    Wrong letters are not accepted, because they make other words.
    """
    places = range(1, len(name))
    forms = {name}
    forms |= {name[:place] + name[place + 1 :] for place in places}
    forms |= {name[:place] + name[place] + name[place:] for place in places}
    forms |= {name[:place] + name[place + 1] + name[place] + name[place + 2 :] for place in places[:-1]}
    return name[0] + "(?:" + "|".join(sorted((form[1:] for form in forms), key=len, reverse=True)) + ")"
