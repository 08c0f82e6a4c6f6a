"""Turn a mention into a noun phrase with its size, severity, side and site.

    "Stable XXXX small left basilar effusion"  ->  "a small left basilar pleural effusion"

The phrase only takes words of the tables below that directly precede the finding, or follow it as its place ("in the
left lower lobe"). The result is a complete phrase for any clause.
"""

import re

from mimic_cxr_vqa.labeling.mentions import OTHER_ABNORMALITY, Mention

# The category as a noun phrase that fits after "no" or "evidence of".
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
    "Support Devices": "support device",
    "Heart": "enlargement of the heart",
}
# Words that are more precise than the category's name: (pattern, name or None for the matched text).
_NOUNS = {
    "Fracture": ((r"fractures", "fractures"), (r"compression deformit(?:y|ies)", None)),
    "Lung Lesion": (
        (r"nodules?|mass(?:es)?|lesions|granulomas?|tumou?rs?|cavit(?:y|ies)|metasta(?:sis|ses)", None),
        (r"granulomata", "granulomas"),
    ),
    "Lung Opacity": (
        (r"opacit(?:y|ies)|infiltrates?|consolidations?|scarring|scars?|air ?space disease|fibrosis", None),
        (r"reticular opacities|reticulation|ground[- ]glass opacit(?:y|ies)", None),
    ),
    "Pleural Effusion": ((r"effusions", "pleural effusions"), (r"h(?:ydro|emo)(?:pneumo)?thorax", None)),
    "Pleural Other": ((r"pleural (?:thickening|scarring|plaques?|calcifications?)", None),),
    "Pneumothorax": ((r"pneumothoraces", None), (r"h(?:ydro|emo)pneumothorax", None)),
    "Support Devices": (
        (
            r"(?:[a-z]+[ -]){0,2}(?:pacemakers?|pacers?|aicd|icd|defibrillators?|picc|mediport|port|catheters?|tubes?|"
            r"lines?|drains?|stents?|stimulators?|prosthes[ei]s|hardware|leads?|wires?|electrodes?|generator|devices?|"
            r"clips?|staples?|coils?|sutures?|screws?|rods?|valves?|tracheostomy|balloon pump|filter|recorder|"
            r"arthroplasty|anchors?)|port-?a-?cath|swan-?ganz",
            None,
        ),
    ),
    OTHER_ABNORMALITY: (
        (
            r"(?:dextro|levo)?scoliosis|kyphosis|spondylosis|osteophytes?|osteopenia|osteoporosis|atherosclerosis|"
            r"arthritis|arthrosis|emphysema|copd|hyperinflation|hyperexpansion|bronchiectasis|bullae|blebs?|"
            r"lymphadenopathy|adenopathy|calcifications?|aneurysm|deformit(?:y|ies)|eventration|volume loss|"
            r"pneumomediastinum|pneumoperitoneum|pericardial effusion|(?:hiatal )?hernia|low lung volumes|"
            r"subcutaneous (?:air|emphysema)|demineralization|free air|mediastinal shift|tortuosity|ectasia",
            None,
        ),
        (r"degenerative", "degenerative changes"),
        (r"atherosclerotic", "atherosclerotic changes"),
    ),
}
_COMPILED = {name: tuple((re.compile(p), noun) for p, noun in pairs) for name, pairs in _NOUNS.items()}
_SPELT = {"picc": "PICC", "icd": "ICD", "aicd": "AICD", "copd": "COPD", "ij": "IJ", "iv": "IV", "ekg": "EKG"}

_SIZES = "small large tiny trace moderate moderate-sized massive sizable minimal minute subcentimeter small-to-moderate"
_SEVERITIES = "mild moderate severe marked extensive slight subtle gross mild-to-moderate moderate-to-severe"
_SIDES = "left right bilateral left-sided right-sided unilateral"
_SITES = """basilar bibasilar basal bibasal apical biapical perihilar retrocardiac lingular infrahilar suprahilar
central peripheral upper lower middle mid medial lateral posterior anterior lobe lung zone base apex rib clavicular
vertebral thoracic sternal humeral"""
_KINDS = """focal patchy hazy linear streaky subsegmental segmental discoid plate-like platelike interstitial alveolar
airspace pulmonary pleural diffuse multifocal scattered loculated layering calcified noncalcified non-calcified healed
healing acute chronic displaced nondisplaced compression nodular confluent multiple several few two three cardiac
dual-lumen single-lead dual-lead implanted internal venous jugular subclavian surgical enteric nasogastric endotracheal
feeding chest discrete suspicious"""
MODIFIERS = frozenset(f"{_SIZES} {_SEVERITIES} {_SIDES} {_SITES} {_KINDS}".split())
_ADVERBS = {
    "mildly": "mild",
    "moderately": "moderate",
    "severely": "severe",
    "markedly": "marked",
    "slightly": "slight",
}
_MEASURE = re.compile(r"\d{1,3}(?:\.\d)?|\d{1,3}(?:\.\d)?[ -]?(?:mm|cm)|mm|cm")
_LAST_WORD = re.compile(r"([a-z0-9.-]+) ?$")
_ADJECTIVES = "|".join(f"{_SIDES} {_SITES}".split())
_PLACE = re.compile(
    rf" (?:(?:is|are) )?(?:(?:seen|noted|present|identified|visuali[sz]ed) )?"
    rf"(in|at|within|of|on) (?:the |both )?((?:(?:{_ADJECTIVES}) ){{0,4}}"
    r"(?:bases?|apex|apices|lobes?|lungs?|lingula|zones?|left|right|ribs?|clavicle|spine))\b(?! (?:and|or)\b|/|-)"
)
_PLURAL = re.compile(r"(?:[^s]s|ces|thoraces|opacities|densities|masses)$")
_COUNTED = re.compile(
    r"\b(?:fracture|deformity|nodule|mass|lesion|granuloma|tumou?r|cavity|opacity|infiltrate|scar|effusion|abnormality|"
    r"pneumothorax|\w*pneumothorax|hydrothorax|hemothorax|hernia|aneurysm|bleb|osteophyte|plaque|calcification|device|"
    r"pacemaker|pacer|aicd|icd|defibrillator|picc|mediport|port|catheter|tube|line|drain|stent|stimulator|prosthesis|"
    r"lead|wire|electrode|generator|clip|staple|coil|suture|screw|rod|valve|pump|filter|recorder|anchor|metastasis|"
    r"port-?a-?cath|eventration)$"
)


def noun_phrase(mention: Mention, article: bool = True) -> str | None:
    """The finding of `mention` with its size, severity, side and site.

    Args:
        article: prepend "a" or "an" to a countable singular. Without it the phrase fits after "no".

    Returns:
        None for an abnormality outside the 14 labels that is not in the tables.
    """
    text = mention.clause.lower()
    start, end = mention.span
    noun = _noun(mention.category, text[start:end])
    if noun is None:
        return None
    words = _modifiers(text[:start])
    noun_words = set(noun.split())
    words = [word for word in words if word not in noun_words]
    phrase = " ".join([*words, noun])
    place = _PLACE.match(text, end) if end else None
    if place:
        preposition = "on" if place[2] in ("left", "right") else "in"
        phrase = f"{phrase} {preposition} the {place[2]}"
    phrase = " ".join(_SPELT.get(word, word) for word in phrase.split())
    return with_article(phrase, noun) if article else phrase


def with_article(phrase: str, noun: str) -> str:
    """`phrase` with "a" or "an" if its `noun` is a countable singular."""
    if not _COUNTED.search(noun) or re.match(r"(?:multiple|several|few|two|three|bilateral)\b", phrase):
        return phrase
    return f"{'an' if phrase[0].lower() in 'aeiou' and not phrase.startswith('uni') else 'a'} {phrase}"


def is_plural(phrase: str) -> bool:
    """Whether the phrase takes "are"."""
    head = re.split(r" (?:in|on) the ", phrase, maxsplit=1)[0]
    if re.match(r"(?:multiple|several|few|two|three)\b", head):
        return True
    return bool(_PLURAL.search(head)) and not head.endswith(("asis", "thorax", "osis", "itis", "ous", "sis"))


def be(phrase: str) -> str:
    """ "is" or "are", to follow the phrase."""
    return "are" if is_plural(phrase) else "is"


def _noun(category: str, found: str) -> str | None:
    for pattern, noun in _COMPILED.get(category, ()):
        if pattern.fullmatch(found):
            return noun or found
    return None if category == OTHER_ABNORMALITY else CATEGORY_NAMES[category]


def _modifiers(before: str) -> list[str]:
    """The known words directly before the finding, in their order."""
    words: list[str] = []
    while match := _LAST_WORD.search(before):
        word = _ADVERBS.get(match[1], match[1])
        if word not in MODIFIERS and not _MEASURE.fullmatch(word):
            break
        words.insert(0, word)
        before = before[: match.start()]
    if words and words[0] in ("mm", "cm"):
        words = words[1:]
    if words and _MEASURE.fullmatch(words[0]) and (len(words) < 2 or words[1] not in ("mm", "cm")):
        words = words[1:]  # a number without a unit
    return words
