"""The mapping from the Indiana collection's annotation to the 14 CheXpert labels.

The collection annotates each report with MeSH headings and RadLex terms. `Problems` lists the headings, and `MeSH`
gives each with its qualifiers ("Opacity/lung/base/left/mild"). Headings without a label (bones, vessels, habitus) are
listed too, so that only new headings count as unmapped. All labels are positive, because a heading that the annotation
does not list is missing rather than absent.
"""

import re

# Heading in lower case -> label. `None`: known, but not one of the 14 labels.
HEADINGS: dict[str, str | None] = {
    "normal": "No Finding",
    "no indexing": None,  # the report was not annotated
    "technical quality of image unsatisfactory": None,
    # lungs
    "pulmonary atelectasis": "Atelectasis",
    "atelectasis": "Atelectasis",
    "consolidation": "Consolidation",
    "pulmonary consolidation": "Consolidation",
    "opacity": "Lung Opacity",
    "infiltrate": "Lung Opacity",
    "airspace disease": "Lung Opacity",
    "lung diseases, interstitial": "Lung Opacity",  # CheXpert's opacity includes interstitial patterns and scars
    "pulmonary fibrosis": "Lung Opacity",
    "cicatrix": "Lung Opacity",  # of the lung; for the pleura and ribs see MOVED
    "fibrosis": "Lung Opacity",
    "nodule": "Lung Lesion",
    "mass": "Lung Lesion",
    "granuloma": "Lung Lesion",  # seen as a nodule; "granulomatous disease" is a diagnosis, often of lymph nodes alone
    "calcified granuloma": "Lung Lesion",
    "cavitation": "Lung Lesion",
    "lung neoplasms": "Lung Lesion",
    "neoplasms": "Lung Lesion",
    "carcinoma": "Lung Lesion",
    "neoplasm metastasis": "Lung Lesion",
    "solitary pulmonary nodule": "Lung Lesion",
    "multiple pulmonary nodules": "Lung Lesion",
    "pulmonary edema": "Edema",
    "pulmonary congestion": "Edema",  # CheXpert counts vascular congestion and heart failure as edema
    "heart failure": "Edema",
    "pneumonia": "Pneumonia",
    "bronchopneumonia": "Pneumonia",
    "pneumonia, bacterial": "Pneumonia",
    "pneumonia, viral": "Pneumonia",
    "pneumonia, aspiration": "Pneumonia",
    # pleura
    "pleural effusion": "Pleural Effusion",
    "hydrothorax": "Pleural Effusion",
    "hemothorax": "Pleural Effusion",
    "hydropneumothorax": "Pneumothorax",  # and an effusion: see ALSO
    "hemopneumothorax": "Pneumothorax",
    "pneumothorax": "Pneumothorax",
    "pleural diseases": "Pleural Other",
    "pleural thickening": "Pleural Other",
    "pleural plaque": "Pleural Other",
    # heart and mediastinum
    "cardiomegaly": "Cardiomegaly",
    "hypertrophy, left ventricular": "Cardiomegaly",
    # bones
    "fractures, bone": "Fracture",
    "rib fractures": "Fracture",
    "spinal fractures": "Fracture",
    "fractures, compression": "Fracture",
    # devices, including wires and clips
    "catheters, indwelling": "Support Devices",
    "tube, inserted": "Support Devices",
    "implanted medical device": "Support Devices",
    "medical device": "Support Devices",
    "surgical instruments": "Support Devices",
    "sutures": "Support Devices",
    "stents": "Support Devices",
    "pacemaker, artificial": "Support Devices",
    "defibrillators, implantable": "Support Devices",
    "heart valve prosthesis": "Support Devices",
}
# Headings that name a label only with a qualifier: (heading, required qualifier, label).
QUALIFIED: tuple[tuple[str, str, str], ...] = (
    ("cardiac shadow", "enlarged", "Cardiomegaly"),
    ("heart", "enlarged", "Cardiomegaly"),
    ("heart atria", "enlarged", "Cardiomegaly"),
    ("heart ventricles", "enlarged", "Cardiomegaly"),
    ("mediastinum", "enlarged", "Enlarged Cardiomediastinum"),
    ("mediastinum", "prominent", "Enlarged Cardiomediastinum"),
    ("mediastinum", "widened", "Enlarged Cardiomediastinum"),
    ("density", "lung", "Lung Opacity"),
    ("markings", "interstitial", "Lung Opacity"),  # not bronchovascular markings: crowding in a poor breath
    ("thickening", "pleura", "Pleural Other"),
    ("thickening", "interstitial", "Lung Opacity"),
    ("calcinosis", "pleura", "Pleural Other"),
    ("density", "pleura", "Pleural Other"),
)
# A qualifier that changes the heading's label: (heading, qualifier, label or None). Takes precedence over HEADINGS.
MOVED: tuple[tuple[str, str, str | None], ...] = (
    ("cicatrix", "pleura", "Pleural Other"),
    ("cicatrix", "ribs", None),
    ("cicatrix", "thorax", None),
    ("opacity", "pleura", "Pleural Other"),
    ("nodule", "pleura", "Pleural Other"),
    ("mass", "pleura", "Pleural Other"),
    ("mass", "mediastinum", "Enlarged Cardiomediastinum"),
    ("mass", "neck", None),
    ("mass", "breast", None),
    ("mediastinum", "lymph nodes", None),  # an enlarged node is not an enlarged mediastinum
)
ALSO: dict[str, str] = {"hydropneumothorax": "Pleural Effusion", "hemopneumothorax": "Pleural Effusion"}

# Known headings without a label of their own: bones and joints, vessels, habitus, air out of place, other organs.
_OTHERS = """
abdomen, abnormal, adipose tissue, aorta, aorta thoracic, aortic aneurysm, aortic diseases, arthritis, artifact,
atherosclerosis, azygos lobe, blister, blood vessels, bone and bones, bone diseases metabolic, breast, breast implants,
bronchi, bronchiectasis, bronchiolitis, bronchitis, bullous emphysema, calcinosis, cardiac shadow, cardiophrenic angle,
cervical vertebrae, clavicle, colonic interposition, contrast media, coronary vessels, costophrenic angle,
cystic fibrosis, cysts, deformity, density, diaphragm, diaphragmatic eventration, dislocations, emphysema,
epicardial fat, esophagus, expansile bone lesions, foreign bodies, funnel chest, granulomatous disease, heart,
heart atria, heart ventricles, hernia diaphragmatic, hernia hiatal, humerus, hyperostosis diffuse idiopathic skeletal,
hypertension pulmonary, hyperdistention, hypovolemia, kyphosis, lucency, lumbar vertebrae, lung, lung diseases,
lung hyperlucent, lymph nodes, markings, mastectomy, mediastinal emphysema, mediastinum, neck, nipple shadow,
osteophyte, osteoporosis, paratracheal, pectus carinatum, pericardial effusion, pneumonectomy, pneumoperitoneum,
pulmonary artery, pulmonary alveoli, pulmonary disease chronic obstructive, pulmonary emphysema, pulmonary veins, ribs,
sarcoidosis, sclerosis, scoliosis, shift, shoulder, spinal fusion, spine, spondylosis, sternum, subcutaneous emphysema,
sulcus, thickening, thoracic vertebrae, thorax, trachea, trachea carina, tuberculosis, volume loss
"""
WITHOUT_LABEL = frozenset(" ".join(name.split()) for name in _OTHERS.split(","))


def map_term(term: str) -> tuple[tuple[str, ...], bool]:
    """Return the labels of one annotation term, a heading with or without qualifiers ("Opacity/lung/base/left").

    Returns:
        The labels, and whether the heading is known. An unknown heading has no labels.
    """
    heading, *qualifiers = (" ".join(part.lower().split()) for part in term.split("/"))
    for name, qualifier, label in MOVED:
        if heading == name and qualifier in qualifiers:
            return ((label,) if label else ()), True
    found = [label for name, qualifier, label in QUALIFIED if heading == name and qualifier in qualifiers]
    if direct := HEADINGS.get(heading):
        found = [direct, *found]
    if also := ALSO.get(heading):
        found.append(also)
    known = heading in HEADINGS or bool(found) or re.sub(r"\s*,\s*", " ", heading) in WITHOUT_LABEL
    return tuple(dict.fromkeys(found)), known
