"""The patterns of each category, for text in lower case.

`FINDINGS[category]` match the finding itself ("effusion"). The words around it decide its polarity (`mentions`). If a
pattern has a group, a negation must reach the group: "enlarged" in "the heart is not enlarged". `NORMAL[category]` are
phrases that deny the finding without naming it ("the lungs are clear"). `SUSPICIOUS[category]` are signs that suggest
it ("blunting of the costophrenic angle"). `OTHER` are abnormalities outside the 14 labels.

A blanked word (`XXXX`, `___`) may replace any word: "heart xxxx is normal".
"""

_BLANK = r"(?:xxxx|_{2,})"


def _slips(name: str) -> str:
    """A pattern for `name` with at most one slip after its first letter: a letter left out or doubled, or two swapped.

    Wrong letters are not accepted, because they make other words.
    """
    places = range(1, len(name))
    forms = {name}
    forms |= {name[:place] + name[place + 1 :] for place in places}
    forms |= {name[:place] + name[place] + name[place:] for place in places}
    forms |= {name[:place] + name[place + 1] + name[place] + name[place + 2 :] for place in places[:-1]}
    return name[0] + "(?:" + "|".join(sorted((form[1:] for form in forms), key=len, reverse=True)) + ")"


_EFFUSION, _PNEUMOTHORAX, _CARDIOMEGALY = map(_slips, ("effusion", "pneumothorax", "cardiomegaly"))
_CONSOLIDATION, _PNEUMONIA = map(_slips, ("consolidation", "pneumonia"))

_HEART = (
    r"(?:heart|cardiac|(?:cardio|cardiac)[- ]?(?:pericardial|mediastinal|pulmonary mediastinal)|cardiopericardial)"
    rf"(?: (?:and mediastinal|silhouettes?|size|contours?|shadow|outline|{_BLANK}))*"
    r"(?! (?:valve|border|pacemaker|pacer|monitor|lead|device|surgery|stent|catheter|apex|failure|calcif))"
)
_MEDIASTINUM = (
    r"(?:(?:cardio|cardiac)[- ]?(?:pulmonary )?)?mediastin(?:um|al)"
    rf"(?: (?:and hilar|silhouettes?|contours?|size|width|shadow|structures?|{_BLANK}))*"
)
_LARGE = (
    r"(?:enlarge[ds]?|enlarging|enlargement|large|larger|prominent|prominence|generous|dilated|big|bigger|globular)"
)
_WIDE = r"(?:enlarged?|enlargement|widen(?:ed|ing)|wide|large|prominent|prominence)"
_FINE = r"(?:normal|unremarkable|wnl|nonenlarged|non-enlarged)"
# Text between an organ and its predicate. Another organ or "with" begins a new statement.
_BETWEEN = r"(?:(?!\bwith\b|\bwithout\b|[;:,]|\bnormal\b|\baort|\bpulmonary|\bmediastinum|\bartery|\bhil).){0,60}?"
_LIST_BETWEEN = r"(?:(?!\bnot\b|\bno\b|;|\benlarge|\bwiden|\bexcept|\bprominen|\bcatheter|\btip\b).){0,90}?"

_LUNGS = r"(?<!right )(?<!left )\blungs?\b(?! volume| ap| bas| nod)"
_CLEAR_LUNGS = (
    rf"{_LUNGS}(?:(?!\bnot\b|\bhyper|\bwith\b|[;.]).){{0,60}}?\b(?:clear|normal|unremarkable)\b(?! (?:of|in volume))",
    r"\b(?:clear|normal)(?:,? (?:and|but|well) [\w-]+| [\w-]+ed)* lungs?\b(?! volume| bas)",
    r"\bno (?:acute |focal |active )*(?:cardiopulmonary|pulmonary|lung|parenchymal|cardiothoracic|intrathoracic) "
    r"(?:abnormalit|process|disease|finding)",
)
_CLEAR_PLEURA = (
    r"\bpleura(?:l (?:spaces?|surfaces?|margins?|recess\w*))?(?:(?!\bnot\b|;).){0,70}?\b(?:clear|normal|"
    r"unremarkable)\b",
)

FINDINGS: dict[str, tuple[str, ...]] = {
    "Atelectasis": (r"\batelect\w*", r"\bcollapsed?\b"),
    "Cardiomegaly": (
        rf"\b{_CARDIOMEGALY}\b",
        rf"\b{_LARGE}(?: (?:of|the|in|size|lv|overall|\w+ly))* {_HEART}",
        rf"\b{_HEART}:?{_BETWEEN}\b({_LARGE}|increased in size|increased)\b(?! (?:in the (?!radiograph|image)|since))",
        rf"\bincreas\w* (?:in|of) (?:the )?{_HEART}",
    ),
    "Consolidation": (rf"\bconsolidat\w*|\b{_CONSOLIDATION}s?\b",),
    "Edema": (
        r"\bo?edema\w*",
        r"\bvascular (?:redistribution|engorgement|plethora|indistinctness)",
    ),
    "Enlarged Cardiomediastinum": (
        rf"\b{_WIDE}(?: (?:of|the|in|superior|upper|anterior|\w+ly))* {_MEDIASTINUM}",
        rf"\b{_MEDIASTINUM}{_BETWEEN}\b({_WIDE})\b",
    ),
    "Fracture": (
        r"\bfractur\w*",
        r"\bcompression deformit\w+|\bwedge compression|\bvertebral compression",
        r"\bbroken\b",
    ),
    "Lung Lesion": (
        r"\bnodul(?:es?|ar\w*|arity)\b",
        r"\bmass-?like\b",
        r"\bmass(?:es)?\b(?! effect)",
        r"\blesions?\b(?!(?:(?!\blung|\blobe|[.;,]).){0,60}\b(?:humer|rib|clavic|scapul|vertebra|spine|bone|osseous))",
        r"\bgranuloma(?:s|ta)?\b",
        r"\bneoplas\w+|\btumou?rs?\b|\bcavit(?:y|ies|ary|ation)\b|\bmetasta\w+",
        r"\b(?:carcinoma|malignan\w+|hamartomas?)\b",
    ),
    "Lung Opacity": (
        rf"\bopaci\w+|\binfiltrat\w*|\bconsolidat\w*|\b{_CONSOLIDATION}s?\b",
        r"\bair ?-?space (?:disease|process|abnormalit\w+)",
        r"\b(?:increased|patchy|hazy|streaky|ill-defined|vague|linear|basilar|parenchymal|interstitial|lung)"
        r"(?: \w+)? densit(?:y|ies)",
        r"\bareas? of (?:\w+ )?density\b",
        r"\bdensit(?:y|ies)\b (?:(?:is |are )?(?:identified|seen|noted) )?"
        r"(?:in|within|at|overlying|involving|of) (?:the )?(?:\w+ ){0,3}(?:lungs?|lobes?|base|"
        r"apex)\b",
        r"\binterstitial (?:(?:lung|pulmonary) )?(?:markings?|pattern|disease|thickening|changes?|prominence|"
        r"densit\w+)",
        r"\breticul\w+|\bground[- ]?glass|\b(?<!surgical )scar(?:s|ring|red)?\b|\bfibrosis|\bfibrotic\b",
        r"\bperibronchial (?:cuffing|thickening)|\bbronchial wall thickening",
    ),
    "Pleural Effusion": (
        rf"\b{_EFFUSION}s?\b",
        r"\bpleural (?:\w+ )?fluid|\bfluid (?:with)?in (?:the|both|either) (?:\w+ )?(?:fissure|pleura\w*)|"
        r"\bh(?:ydro|emo)(?:pneumo)?thorax\b",
    ),
    "Pleural Other": (
        r"\bpleural(?:[- ]based)?(?: [\w-]+){0,2} "
        r"(?:thicken\w+|scar\w*|plaques?|calcif\w+|mass\w*|nodul\w+|lesions?|abnormal\w+|disease|densit\w+|opacit\w+)",
        r"\bthickening of the (?:\w+ )?pleura|\bpleural caps?\b|\bfibrothorax|\bpleuro-?parenchymal \w+",
        r"\b(?:bi)?apical (?:cap|capping|thickening)",
    ),
    "Pneumonia": (
        rf"\b(?:broncho)?{_PNEUMONIA}s?\b|\bpneumonic\b",
        r"\binfect(?:ions?|ious(?: process| etiology)?)\b",
    ),
    "Pneumothorax": (
        rf"\b(?:hydro|hemo)?(?:pneumothora\w+|{_PNEUMOTHORAX}\b)",
        r"\bptx\b|\bair (?:with)?in the (?:\w+ )?pleura\w*",
    ),
    "Support Devices": (
        r"\b(?:dobb?hoff|hickman|broviac|permacath|quinton|cordis|vas-?cath|groshong|chemoport|impella|lvad|ecmo|"
        r"micra|mitraclip|watchman|tavr|tavi|ett|ett?s|pigtails?|pleurx|trach|swan|introducer|"
        r"dobhoff|ogt|ngt|cvc|cvl|zio|picc'?s|feeding tube)\b",
        r"\b(?:pacemakers?|pacers?|aicd|icd|defibrillators?|picc|mediport|port-?a-?cath|chest port|infusaport|iabp)\b",
        r"\b(?:catheters?|tubes?|tracheostomy|drains?|stents?|cannulas?|stimulators?|prosthe(?:sis|ses|tic)|"
        r"hardware)\b",
        r"\b(?:central|venous|arterial|picc|subclavian|jugular|ij|infusion|iv|dialysis)(?: \w+)? lines?\b|"
        r"\blines and tubes",
        r"\b(?:pacer|pacemaker|pacing|cardiac|icd|ventricular|atrial|monitor\w*|e[ck]g|external)(?: \w+)? "
        r"(?:leads?|wires?|electrodes?|generator|device)\b",
        rf"\b(?:sternotomy|sternal|cerclage) (?:wires?|sutures?|clips?|{_BLANK})|\bmediastinal clips\b",
        r"\b(?:surgical|cholecystectomy|vascular|hemostatic|metallic|staple)(?: \w+)? (?:clips?|staples?|coils?)\b|"
        r"\bclips\b",
        r"\b(?:implanted|medical|monitoring|support|fixation|assist|loop)(?: \w+)? (?:devices?|apparatus|recorder)\b",
        r"\bplates? and screws?|\bscrews?\b|\barthroplast\w+|\b(?:fusion|orthopedic|spinal|harrington) (?:rods?|"
        r"hardware)",
        r"\b(?:mechanical|artificial|bioprosthetic|replacement) (?:\w+ )?valves?|\bvalve (?:replacement|repair)s?",
        r"\bballoon pump|\bswan-?ganz|\bport\b(?! of)|\bvena cava filter|\bivc filter|\bvalvuloplasty ring|"
        r"\bsutures?\b",
        r"\btips\b(?= noted| is)|\b(?:septal|appendage) occluder|\b(?:bone|suture) anchors?|\bcoils\b|\bshunt"
        r" (?:tubing|catheter)|\borif\b",
        # for a blanked device: "chest xxxx with tip projecting over the svc"
        r"\btips? (?:is|are|in the|at the|projects?|projecting|terminat\w+|overl\w+|approximat\w+|visuali[sz]ed)\b",
        r"\belectronic device|\bvertebroplasty\b",
    ),
}

NORMAL: dict[str, tuple[str, ...]] = {
    "Atelectasis": _CLEAR_LUNGS,
    "Cardiomegaly": (
        rf"\b{_HEART}{_LIST_BETWEEN}\b{_FINE}\b",
        rf"\b{_FINE}(?:,? [\w-]+){{0,6}}? {_HEART}",
    ),
    "Consolidation": _CLEAR_LUNGS,
    "Edema": (
        *_CLEAR_LUNGS,
        rf"\b(?:pulmonary )?vascul\w+{_LIST_BETWEEN}\b{_FINE}\b",
        rf"\b{_FINE}(?: pulmonary)? vascul\w+",
    ),
    "Enlarged Cardiomediastinum": (
        rf"\b{_MEDIASTINUM}{_LIST_BETWEEN}\b{_FINE}\b",
        rf"\b{_FINE}(?:,? [\w-]+){{0,6}}? {_MEDIASTINUM}",
    ),
    "Fracture": (
        r"\b(?:bones?|bony|osseous|skelet\w+|ribs?|thoracic spine)\b(?:(?!\bnot\b|;).){0,60}?\b(?:intact|"
        r"unremarkable|normal)\b",
        r"\bno (?:acute |significant |focal )*(?:bony|bone|osseous|skeletal)(?: [\w-]+){0,3} (?:abnormal\w+|"
        r"findings?|injur\w+)",
    ),
    "Lung Lesion": _CLEAR_LUNGS,
    "Lung Opacity": _CLEAR_LUNGS,
    "Pleural Effusion": (
        *_CLEAR_PLEURA,
        rf"\bcostophrenic (?:angles?|sulci|recesses|{_BLANK})(?: [\w-]+){{0,4}}? (?:clear|sharp|intact|normal)\b",
    ),
    "Pleural Other": _CLEAR_PLEURA,
    "Pneumonia": _CLEAR_LUNGS,
    "Pneumothorax": _CLEAR_PLEURA,
    "Support Devices": (),
}

SUSPICIOUS: dict[str, tuple[str, ...]] = {
    "Cardiomegaly": (
        rf"\b{_HEART}{_BETWEEN}\b(borderline)\b",
        rf"\bborderline (?:[\w-]+ ){{0,2}}{_HEART}",
    ),
    "Edema": (
        r"\b(?:prominen(?:ce|t)|increased?|accentuated|indistinct)(?: [\w-]+){0,3} (?:vascul\w+|vascular \w+)",
        r"\bvascul(?:arity|ature)(?: [\w-]+){0,4} (prominent|increased|accentuated|indistinct)\b",
        r"\bcongest(?:ion|ive changes|ed)\b|\bheart failure|\bchf\b|\b(?:fluid|volume) overload|\bkerley|"
        r"\bcephali[sz]ation",
        r"\bvascular prominence|\bpulmonary venous hypertension",
    ),
    "Pleural Effusion": (
        rf"\b(?:blunt\w*|obscur\w+)(?: [\w-]+){{0,5}}? (?:costophrenic|cp) (?:angles?|sulc\w+|recess\w*|{_BLANK})",
        rf"\b(?:costophrenic|cp) (?:angles?|sulc\w+|recess\w*|{_BLANK})(?: [\w-]+){{0,4}}? (blunt\w*|obscur\w+)",
    ),
}

# Words before or after a match that give it another meaning: another organ, or a broken device.
FOREIGN: dict[str, tuple[str, str]] = {
    "Atelectasis": (
        r"\b(?:vertebral|vertebra|spinal|body) (?:body )?$",
        r"(?: of)?(?: the)?(?: [\w-]+)? (?:vertebra|[tl]\d|humeral head|femoral head|stomach|bowel|trachea)",
    ),
    "Edema": (
        r"\b(?:soft[- ]tissue|subcutaneous|chest wall|body wall|cerebral|brain|laryngeal|glottic|epiglottic|facial|"
        r"neck|"
        r"bowel|gastric|mucosal|pedal|ankle|leg|arm|extremity|lower extremity|peripheral|scrotal|bone|marrow) $",
        r" of (?:the )?(?:[\w-]+ )?(?:brain|larynx|leg|arm|neck|soft tissues?|bowel|extremit)",
    ),
    "Fracture": (
        r"\b(?:wires?|leads?|catheter|tube|hardware|screws?|rods?|plate)(?: [\w-]+){0,4}? (?:is |are |appears? )?$",
        r" (?:of (?:the )?)?(?:[\w-]+ )?(?:sternotomy|sternal wire|wire|lead\b|catheter|tube|hardware|screw|rod)",
    ),
    "Lung Lesion": (
        r"\b(?:thyroid|breast|mediastinal|muscle|body|bone|osseous|bony|lytic|sclerotic|blastic|destructive|splenic|"
        r"hepatic|liver|renal|kidney|adrenal|pancreatic|axillary|soft tissue|esophageal|gastric|abdominal|"
        r"cardiac|pleural|thoracic|chest|peritoneal|oral|nasal) $",
        r"(?: lesions?| disease)? (?:in|of|within) (?:the )?(?:[\w-]+ )?(?:liver|spleen|kidney|thyroid|breast|"
        r"mediastinum|adrenal|stomach|spine|skeleton|bones?|vertebra\w*)",
    ),
    "Pleural Effusion": (
        r"\b(?:pericardial|joint|knee|hip|elbow|ankle|shoulder|glenohumeral|middle ear) (?:joint )?$",
        r" (?:in|of) (?:the )?(?:[\w-]+ ){0,2}(?:joint|knee|hip|elbow|shoulder|pericardium)",
    ),
    "Pneumonia": (
        r"\b(?:granulomatous|urinary tract|wound|skin|sinus|line|bone|joint) $",
        r" of (?:the )?(?:[\w-]+ )?(?:wound|skin|bone|joint|sinus|urinary)",
    ),
}

OTHER: tuple[str, ...] = (
    r"\b(?:degenerative|osteophyt\w*|spondylo\w+|scolio\w+|kypho\w+|dextro\w+|levo(?:scoli|curv)\w+|arthrit\w+|"
    r"arthr(?:osis|opathy))\b",
    r"\bosteop(?:enia|enic|orosis|orotic)\b|\bdemineraliz\w+|\bdeformit\w+|\bpectus\b|\bdislocat\w+",
    r"\b(?:tortuo\w+|ectatic|ectasia|unfold\w+|atheroscler\w+|calcif\w+|aneurysm\w*|granulomatous|uncoil\w+)\b",
    r"\b(?:hyperexpan\w+|hyperinflat\w+|hyperlucen\w+|emphysem\w*|copd|hypoinflat\w+|bronchiect\w+|bullous|bullae?|"
    r"blebs?)\b",
    r"\b(?:low|decreased|reduced|shallow) lung volumes?|\blung volumes are (?:\w+ )?low\b|\bvolume loss\b|"
    r"\bbronchovascular\b",
    r"\bcrowding\b|\bhernia\b|\beventration\b|\bflatten\w+ (?:of )?(?:the )?(?:\w+ )?(?:hemi)?diaphragm\w*",
    r"\belevat\w+ (?:of )?(?:the )?(?:\w+ )?(?:hemi)?diaphragm|\b(?:hemi)?diaphragm\w*(?: \w+){0,3} (?:elevated|"
    r"flattened)",
    r"\b(?:adenopathy|lymphadenopathy)\b|\bprominent (?:\w+ )?(?:hil\w+|vasc\w+|pulmonary|markings)|"
    r"\bpneumoperitoneum\b",
    r"\bthickening\b|\bmastectomy\b|\bimplants?\b|\bforeign bod\w+|\bsubcutaneous (?:air|emphysema)|\bfree air\b",
    r"\blucenc\w+|\bmediastinal shift|\bshift of the mediastinum|\bpericardial effusion|\bpneumomediastinum",
)
