"""The wording of extractive answers: question forms, noun phrases, and the sentences built from them.

Which of several wordings an answer gets is drawn from a hash of its `qa_id`: varied over a dataset, the same in every
run. Nothing here looks at a report; `extractive` decides what is said.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b

from mimic_cxr_vqa.generation.rewriting import capitalise

# What is looked for, as it stands behind "no" or "evidence of".
CATEGORY_NAMES = {
    "Atelectasis": "atelectasis",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Edema": "pulmonary edema",
    "Enlarged Cardiomediastinum": "cardiomediastinal enlargement",
    "Fracture": "fracture",
    "Lung Lesion": "lung lesion",
    "Lung Opacity": "lung opacity",
    "No Finding": "abnormality",
    "Pleural Effusion": "pleural effusion",
    "Pleural Other": "pleural abnormality",
    "Pneumonia": "pneumonia",
    "Pneumothorax": "pneumothorax",
    "Support Devices": "support devices",
    "Heart": "enlargement of the heart",
}
_NOUNS = """
angle aorta cap catheter contour deformity density device effusion fracture generator granuloma heart hernia implant
infiltrate lead lesion line lung mass mediastinum nodule opacity pacemaker plaque pneumothorax port process prosthesis
scar screw shadow silhouette stent hemidiaphragm tube valve wire abnormality PICC ICD
"""
_COUNTED = frozenset(_NOUNS.split())  # what takes an article in the singular
_ONE_OF_MANY = frozenset({"fracture", "lesion", "nodule", "mass", "abnormality"})  # "evidence of a fracture"
_ARTICLE = re.compile(
    r"^(?:an?|the|no|both|some|multiple|several|few|two|three|four|numerous|many|these|this|there|scattered|his|"
    r"her|any|bilateral)\b",
    re.IGNORECASE,
)
_HEAD_END = re.compile(
    r"\b(?:in|of|at|with|within|over|overlying|on|projecting|to|which|that|and|or|without|involving|along|near|"
    r"from|by|for|"
    r"consistent|compatible|suggest\w*|reflects?|relates?|appears?|represents?|possibly|indicates?|has|have|was|"
    r"were|may|might|could|seen|noted|present|as|terminating|versus|measuring|superimposed|is|are|may|likely)\b|"
    r"[,;:(]"
)
_RELATIVE = re.compile(r"\b(?:which|that|who|where)\b.*")
_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|appears?|shows?|demonstrates?|projects?|overl(?:ies|ie|ays?)|terminates?|"
    r"measures?|lies?|"
    r"suggests?|represents?|may|might|could|can|cannot|extends?|obscures?|reveals?|contains?|overlaps?|does|do|"
    r"courses?|limits?|enters?|ends?|seems?|occup(?:y|ies)|resides?|reaches|traverses?|crosses|passes|involves?|causes?|raises?|"
    r"accompan(?:y|ies)|abuts?|exceeds?|indicates?|reflects?|relates?)\b"
)
_NOTED = re.compile(r"(?<!is)(?<!are)(?<!not) (?:noted|seen|identified|visuali[sz]ed|demonstrated|present)$")
_THERE = re.compile(r"^there (?:is|are) (?:also )?(?:noted |seen )?", re.IGNORECASE)
_EVIDENCE = re.compile(
    r"^(?:(?:definite|definitive|radiographic|convincing|clear|obvious|specific|typical|any|acute|further|other|"
    r"suspicious|evidence)\s+)*?"
    r"(?:evidence|signs?|findings?|features?|suggestion|indication|appearance)\s+(?:of|for|to suggest|suggest\w*|"
    r"concerning for)\s+(?:an?\s+|any\s+|the\s+)?",
    re.IGNORECASE,
)
_PLURAL = re.compile(r"(?:[^s]s|ces|thoraces|opacities|densities|masses)$")


@dataclass(frozen=True)
class QuestionForm:
    """closed: asks for yes or no. asks_normal: "yes" means that nothing is wrong ("Is the heart size normal?")."""

    closed: bool
    asks_normal: bool


def question_form(question: str) -> QuestionForm:
    """Classify a question by its words: what, which, how and the like are open; normality turns yes and no around."""
    words = question.lower()
    closed = not re.match(r"\W*(?:what|which|how|where|describe|list|name)\b", words)
    return QuestionForm(
        closed, bool(re.search(r"\bnormal\b|\bexpected range\b|\bunremarkable\b|\bwithin (?:the )?limits\b", words))
    )


def choose(qa_id: str, wordings: tuple[str, ...]) -> str:
    """One of `wordings`, by a hash of `qa_id`: the same on every machine and in every run."""
    return wordings[int.from_bytes(blake2b(qa_id.encode(), digest_size=8).digest()) % len(wordings)]


def sentence(text: str) -> str:
    """`text` with a capital in front and one full stop behind."""
    return capitalise(text.strip().rstrip(".,;: ")) + "."


def noun_phrase(statement: str) -> str | None:
    """The thing that a statement shows ("there is a nodule", "small effusion"); None where it has a verb of its own."""
    shown, found = _THERE.subn("", statement)
    shown = _NOTED.sub("", shown)
    if not found and _FINITE.search(_RELATIVE.sub("", statement)):
        return None
    return with_article(shown)


def head_of(phrase: str) -> str:
    """The word that a noun phrase turns on: "nodule" in "small nodule in the left apex"."""
    words = _HEAD_END.split(phrase, maxsplit=1)[0].split()
    return words[-1] if words else ""


def with_article(phrase: str) -> str:
    """`phrase` with "a" or "an" where its head is something that is counted, in the singular ("small nodule")."""
    if _ARTICLE.match(phrase):
        return phrase
    if head_of(phrase) not in _COUNTED:
        return phrase
    return f"{'an' if phrase[0].lower() in 'aeiou' and not phrase.startswith(('uni', 'US')) else 'a'} {phrase}"


def denied_name(phrase: str, category: str) -> str:
    """What a denial denies, fit to stand behind "no"; the category's name where the report's words do not read."""
    name = re.sub(r"^(?:an?|the|any|definite|evidence)\s+", "", _EVIDENCE.sub("", phrase.strip()))
    blank = re.search(r"XXXX|__|\d|[().;]", name)
    if blank or not 1 <= len(name.split()) <= 6 or _FINITE.search(name) or not re.search(r"[a-z]{3}$", name):
        return CATEGORY_NAMES[category]
    return name


def is_plural(name: str) -> bool:
    """Whether "no NAME" takes "are": by the form of its last word."""
    return bool(_PLURAL.search(name)) and not name.endswith(("asis", "thorax", "osis", "itis", "ous"))


# Fields: {0} what is shown or denied; {of} the same behind "evidence of"; {be} its verb; {1} a statement that says so.
SHOWN = (
    "the radiograph shows {0}",
    "{0} {be} seen in the radiograph",
    "the radiograph demonstrates {0}",
    "the image shows {0}",
)
AFFIRMED_PLAIN = ("{of} {be} seen in the radiograph", "the radiograph shows {of}")
DENIED_CLOSED = (
    "No, the radiograph shows no {0}",
    "No, there {be} no {0}",
    "No, no {0} {be} seen in the radiograph",
    "No, no evidence of {of} is seen in the radiograph",
    "No, the image demonstrates no {0}",
)
DENIED_OPEN = (
    "No evidence of {of} is seen in the radiograph",
    "The radiograph shows no {0}",
    "There {be} no {0} in the radiograph",
    "No {0} {be} seen in the image",
)
DENIED_QUOTED_CLOSED = (
    "No, no {0} {be} seen; {1}",
    "No, {1}, and no {0} {be} seen",
    "No. In the radiograph, {1}, and there is no evidence of {of}",
)
DENIED_QUOTED_OPEN = (
    "No {0} {be} seen; {1}",
    "In the radiograph, {1}, and no {0} {be} seen",
    "No evidence of {of} is seen: {1}",
)
DOUBTED = ("{0} is possible: {1}", "Possibly; {1}", "{0} cannot be confirmed or excluded: {1}", "It is uncertain: {1}")
NORMAL_CHEST = (
    "no abnormality is seen in the radiograph",
    "the radiograph shows no abnormal findings",
    "no abnormal findings are identified in the radiograph",
)


def fill(wording: str, name: str, statement: str = "") -> str:
    """A wording of this file as a sentence about `name`, quoting `statement`."""
    return sentence(wording.format(name, statement, of=one(name), be=be(name)))


def one(name: str) -> str:
    """`name` with an article where it is one of many ("a fracture"), bare where it is a state ("pneumonia")."""
    return with_article(name) if head_of(name) in _ONE_OF_MANY else name


def be(name: str) -> str:
    """The verb that goes with `name`."""
    return "are" if is_plural(name) else "is"
