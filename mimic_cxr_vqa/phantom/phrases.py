"""The wording of synthetic reports: how findings are stated, hedged or ruled out. The sentences are our own.

The CheXpert labels can be derived from the text, because the terms of a finding (`TERMS`) occur in a report exactly if
its label is not missing. So "opacity" only describes a consolidation or pneumonia at the place of a lung opacity, and
"heart" and "cardiac" only refer to the heart's size.

Templates are clauses without a full stop. Fields: {side} right | left | bilateral, {on} on the right | …, {zone} the
place in the lung, {sev} the severity in words, {There} There is a | There are, {s} and {is} for plurals.
"""

# A report mentions a label if and only if one of its terms occurs, in any case, in findings or impression.
TERMS = {
    "Atelectasis": ("atelecta",),
    "Cardiomegaly": ("cardiomegaly", "heart", "cardiac", "cardiomediastinal"),
    "Consolidation": ("consolidat",),
    "Edema": ("edema", "vascular congestion"),
    "Enlarged Cardiomediastinum": ("mediastin",),
    "Fracture": ("fracture",),
    "Lung Lesion": ("nodul", " mass", "lesion"),
    "Lung Opacity": ("opaci",),
    "Pleural Effusion": ("effusion", "pleural fluid"),
    "Pleural Other": ("pleural thickening", "pleural plaque", "apical cap", "pleural scar"),
    "Pneumonia": ("pneumonia", "infectious"),
    "Pneumothorax": ("pneumothora",),
    "Support Devices": ("tube", "catheter", "pacemaker", "wires", "port-a-cath", "leads", "central line"),
}

_SIZE = {"mild": "small", "moderate": "moderate", "severe": "large"}
_DEGREE = {"mild": "mild", "moderate": "moderate", "severe": "severe"}
SEVERITY = {
    "Atelectasis": {"mild": "mild", "moderate": "moderate", "severe": "marked"},
    "Cardiomegaly": _DEGREE,
    "Consolidation": {"mild": "small", "moderate": "moderate", "severe": "extensive"},
    "Edema": _DEGREE,
    "Enlarged Cardiomediastinum": _DEGREE,
    "Fracture": {"mild": "two", "moderate": "three", "severe": "four"},
    "Lung Lesion": {"mild": "2.3 cm nodule", "moderate": "2.9 cm nodule", "severe": "4.3 cm mass"},
    "Lung Opacity": _SIZE,
    "Pleural Effusion": _SIZE,
    "Pleural Other": _DEGREE,
    "Pneumonia": {"mild": "limited", "moderate": "moderate", "severe": "extensive"},
    "Pneumothorax": _SIZE,
}
PLACE = {
    "Pleural Other": {"upper": "apex", "mid": "mid chest wall", "lower": "lateral chest wall"},
    "": {"upper": "upper lobe", "mid": "mid lung", "lower": "lower lobe", "": ""},
    "Fracture": {"upper": "upper lateral", "mid": "mid lateral", "lower": "lower lateral"},
}

PRESENT = {
    "Atelectasis": (
        "{There} {sev} {side} basilar atelectasis",
        "{sev} plate-like atelectasis at the {side} base{s} with elevation of the hemidiaphragm{s}",
        "Linear bands at the {side} lung base{s} are compatible with {sev} subsegmental atelectasis",
        "{sev} volume loss and band-like atelectasis {on}",
    ),
    "Cardiomegaly": (
        "The heart is {sev}ly enlarged",
        "Heart size is {sev}ly increased",
        "{sev} cardiomegaly is present",
        "There is {sev} cardiomegaly",
        "The cardiac silhouette is {sev}ly enlarged",
        "{sev} enlargement of the cardiac silhouette",
        "The heart shows {sev} enlargement",
    ),
    "Consolidation": (
        "{There} {sev} consolidation in the {side} {zone} with air bronchograms",
        "{sev} airspace consolidation occupies the {side} {zone}",
        "The {side} {zone} shows {sev} dense consolidation bordered by the fissure",
        "{sev} {side} {zone} consolidation",
    ),
    "Edema": (
        "There is {sev} pulmonary edema",
        "{sev} interstitial edema with Kerley B lines and upper zone vascular redistribution",
        "Bilateral perihilar haze is in keeping with {sev} pulmonary edema",
        "Findings are consistent with {sev} pulmonary vascular congestion and edema",
    ),
    "Enlarged Cardiomediastinum": (
        "There is {sev} widening of the mediastinum",
        "The upper mediastinum is {sev}ly widened",
        "{sev} mediastinal widening is seen",
        "The mediastinal contour is {sev}ly enlarged",
    ),
    "Fracture": (
        "{sev} displaced {side} {zone} rib fractures are seen",
        "There are {sev} contiguous {side} {zone} rib fractures with step-off",
        "Displaced fractures involve {sev} {zone} ribs {on}",
        "{sev} ribs are broken in the {zone} chest {on}, with displaced fracture ends",
    ),
    "Lung Lesion": (
        "There is a well-circumscribed {sev} in the {side} {zone}",
        "A {sev} projects over the {side} {zone}",
        "A rounded {sev} is seen in the {side} {zone}",
        "{side} {zone} {sev}",
    ),
    "Lung Opacity": (
        "{There} {sev} hazy opacity in the {side} {zone}",
        "A {sev} ill-defined opacity is seen in the {side} {zone}",
        "{sev} area of increased opacity projects over the {side} {zone}",
        "The {side} {zone} demonstrates a {sev} ground-glass opacity",
    ),
    "Pleural Effusion": (
        "{There} {sev} {side} pleural effusion{s}",
        "{sev} {side} pleural effusion{s} {is} present",
        "{sev} pleural effusion{s} {on} with meniscus and blunting of the costophrenic angle{s}",
        "Blunting of the {side} costophrenic angle{s} {is} consistent with {sev} pleural effusion{s}",
        "{sev} amount of pleural fluid is seen {on}",
    ),
    "Pleural Other": (
        "{There} {sev} {side} pleural thickening at the {zone}",
        "{sev} {side} pleural thickening, {zone}",
    ),
    "Pleural Other upper": (
        "{sev} {side} apical cap with pleural thickening at the apex",
        "{There} {sev} {side} apical pleural thickening",
        "{sev} pleural scarring at the apex {on}",
    ),
    "Pleural Other mid": (
        "{sev} calcified pleural plaques {on}",
        "There are {sev} {side} calcified pleural plaques along the chest wall and diaphragm",
        "Calcified pleural plaques of {sev} extent are seen {on}",
    ),
    "Pleural Other lower": (
        "{There} {sev} {side} pleural thickening along the lateral chest wall",
        "{sev} smooth pleural thickening along the lateral chest wall {on}",
    ),
    "Pneumonia": (
        "{sev} patchy inflammatory change in the {side} {zone} is compatible with pneumonia",
        "{sev} {side} {zone} bronchopneumonia",
        "Clustered patchy densities in the {side} {zone} represent {sev} pneumonia",
        "There is {sev} multifocal pneumonia in the {side} {zone}",
    ),
    "Pneumothorax": (
        "{There} {sev} {side} pneumothorax",
        "{sev} {side} pneumothorax with a visible pleural line",
        "A {sev} pneumothorax is present {on}, without lung markings beyond the pleural edge",
        "The edge of the {side} lung is displaced from the chest wall by a {sev} pneumothorax",
    ),
}

HEDGED = {
    "Atelectasis": (
        "Faint linear density at the {side} base{s} may represent atelectasis",
        "Possible {side} basilar atelectasis",
        "Probable minor atelectasis {on}",
    ),
    "Cardiomegaly": (
        "The heart is borderline in size",
        "Possible mild cardiomegaly",
        "The cardiac silhouette may be slightly enlarged",
    ),
    "Consolidation": (
        "Early consolidation in the {side} {zone} cannot be excluded",
        "Questionable consolidation in the {side} {zone}",
        "Vague density in the {side} {zone} could reflect developing consolidation",
    ),
    "Edema": (
        "Possible mild pulmonary edema",
        "Subtle perihilar haze may represent early edema",
        "Mild pulmonary edema cannot be excluded",
    ),
    "Enlarged Cardiomediastinum": (
        "The mediastinum appears questionably widened, possibly due to technique",
        "Possible slight widening of the upper mediastinum",
    ),
    "Fracture": (
        "Possible nondisplaced {side} {zone} rib fractures",
        "Subtle irregularity of the {side} {zone} ribs may represent fractures",
        "Rib fracture {on} cannot be excluded",
    ),
    "Lung Lesion": (
        "Questionable nodule in the {side} {zone}",
        "A faint nodular density in the {side} {zone} may represent a nodule or overlapping structures",
        "A small nodule in the {side} {zone} cannot be excluded",
    ),
    "Lung Opacity": (
        "Questionable faint opacity in the {side} {zone}",
        "Possible subtle opacity in the {side} {zone}, which may be due to overlying soft tissue",
    ),
    "Pleural Effusion": (
        "A {side} pleural effusion cannot be excluded",
        "Possible trace {side} pleural effusion{s}",
        "Mild blunting of the {side} costophrenic angle{s} may represent trace pleural effusion{s}",
    ),
    "Pleural Other": ("Possible {side} pleural thickening at the {zone}", "Questionable pleural thickening {on}"),
    "Pneumonia": (
        "Patchy density in the {side} {zone} may represent pneumonia",
        "Early pneumonia in the {side} {zone} cannot be excluded",
        "Faint patchy change in the {side} {zone}, possibly infectious",
        "Findings are questionable for {side} {zone} pneumonia",
    ),
    "Pneumothorax": (
        "A tiny {side} pneumothorax cannot be excluded",
        "Questionable {side} pneumothorax versus skin fold",
        "Faint line {on} may represent a small pneumothorax",
    ),
}

# An opacity and the pneumonia inside of it in one sentence, by the pneumonia's state.
OPACITY_WITH_PNEUMONIA = {
    1: (
        "{There} {sev} patchy opacity in the {side} {zone}, compatible with pneumonia",
        "{sev} {side} {zone} opacity consistent with pneumonia",
    ),
    -1: (
        "{There} {sev} opacity in the {side} {zone}, which may represent pneumonia",
        "{sev} {side} {zone} opacity, pneumonia cannot be excluded",
        "{sev} opacity in the {side} {zone} raises the possibility of pneumonia in the right clinical setting",
    ),
}

ABSENT = {  # the words after "no"
    "Atelectasis": ("atelectasis",),
    "Consolidation": ("focal consolidation", "consolidation", "lobar consolidation"),
    "Edema": ("pulmonary edema", "overt edema", "pulmonary vascular congestion"),
    "Fracture": ("displaced rib fracture", "acute fracture", "acute osseous fracture"),
    "Lung Lesion": ("suspicious nodule", "pulmonary nodule or mass"),
    "Lung Opacity": ("focal opacity", "airspace opacity"),
    "Pleural Effusion": ("pleural effusion", "effusion", "large pleural effusion"),
    "Pleural Other": ("pleural thickening",),
    "Pneumonia": ("pneumonia", "evidence of pneumonia"),
    "Pneumothorax": ("pneumothorax",),
}
NORMAL_HEART = (
    "Heart size is normal",
    "The heart is normal in size",
    "The heart is not enlarged",
    "The cardiac silhouette is normal in size",
    "The cardiac silhouette is unremarkable",
    "There is no cardiomegaly",
)
NORMAL_MEDIASTINUM = (
    "Mediastinal contours are normal",
    "The mediastinum is not widened",
    "Mediastinal and hilar contours are unremarkable",
)
NORMAL_HEART_AND_MEDIASTINUM = (
    "The cardiomediastinal silhouette is within normal limits",
    "Heart size and mediastinal contours are normal",
    "Cardiac and mediastinal silhouettes are unremarkable",
    "The cardiomediastinal and hilar contours are normal",
)
NEGATION = (
    "There is no {}",
    "No {}",
    "No {} is seen",
    "No evidence of {}",
    "There is no evidence of {}",
    "Without evidence of {}",
    "The study is negative for {}",
)
CLEAR_LUNGS = (
    "The lungs are clear",
    "Lungs are clear",
    "The lungs are well expanded and clear",
    "Both lungs are clear",
)
RESOLVED = ("The previously seen {} has resolved", "Interval resolution of the {}")

DEVICES = {
    "endotracheal tube": (
        "The endotracheal tube terminates approximately 3 cm above the carina",
        "Endotracheal tube tip projects over the mid trachea",
        "An endotracheal tube is in standard position",
    ),
    "enteric tube": (
        "An enteric tube courses below the diaphragm with its tip in the stomach",
        "Nasogastric tube ends in the stomach",
        "The orogastric tube passes below the left hemidiaphragm",
    ),
    "central line": (
        "A right internal jugular central venous catheter terminates in the mid SVC",
        "Right-sided central line with tip in the superior vena cava",
        "Right IJ catheter ends in the SVC",
    ),
    "chest tube": ("A {side} chest tube is in place", "{side}-sided chest tube with its tip at the apex"),
    "pacemaker": (
        "A left chest wall pacemaker has leads in the right atrium and right ventricle",
        "Left-sided dual-lead pacemaker is in place",
        "Left pectoral pacemaker with leads in expected position",
    ),
    "port": (
        "A right chest wall port-a-cath terminates in the SVC",
        "Right port-a-cath with its catheter tip in the superior vena cava",
    ),
    "sternotomy wires": (
        "Median sternotomy wires are intact",
        "Sternotomy wires are noted",
        "Midline sternal wires are aligned",
    ),
}
REMOVED_DEVICE = ("The {} has been removed", "Interval removal of the {}")

FILLERS = (  # true of every image, and about none of the 14 labels
    "The upper abdomen is unremarkable",
    "Bony structures are otherwise unremarkable",
    "The trachea is midline",
    "Imaged osseous structures show no destructive change",
)
NORMAL_IMPRESSIONS = (
    "No acute cardiopulmonary process",
    "No acute cardiopulmonary abnormality",
    "Normal chest radiograph",
    "No acute intrathoracic process",
    "Unremarkable chest radiograph",
)

UNCHANGED = (
    "unchanged from prior",
    "stable compared to ___",
    "similar to the previous study",
    "unchanged compared to ___",
)
NEW = ("new since the previous exam", "new from ___", "not present on the prior radiograph")
INCREASED = ("increased since the prior study", "compared to ___, interval increase", "worse compared to ___")
DECREASED = ("decreased since the previous exam", "improved from prior", "compared to ___, interval decrease")
