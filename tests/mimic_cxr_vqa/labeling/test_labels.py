"""Labels of report texts: structured findings, hidden words, prior imaging, and CheXpert's No Finding rule."""

import pytest

from mimic_cxr_vqa.labeling.labels import label_text
from mimic_cxr_vqa.labeling.mentions import analyse
from mimic_cxr_vqa.schema import CHEXPERT_LABELS


@pytest.mark.parametrize(
    ("text", "category", "expected"),
    [
        # what another study showed does not count
        ("A small pneumothorax, seen on the prior exam, has resolved.", "Pneumothorax", "negative"),
        ("A nodule, seen on the prior exam, is again visible.", "Lung Lesion", "positive"),
        ("A nodule was not clearly seen on the study of ___.", "Lung Lesion", "positive"),
        ("The sensitivity for detecting pneumothorax is diminished.", "Pneumothorax", "not_mentioned"),
        # structured findings: what stands behind the colon decides
        ("PNEUMOTHORAX: None.", "Pneumothorax", "negative"),
        ("PLEURAL EFFUSION: None", "Pleural Effusion", "negative"),
        ("EFFUSION: No.", "Pleural Effusion", "negative"),
        ("EFFUSION: Absent.", "Pleural Effusion", "negative"),
        ("FRACTURES: Negative", "Fracture", "negative"),
        ("EFFUSION: Not seen.", "Pleural Effusion", "negative"),
        ("SUPPORT DEVICES: None. LINES AND TUBES: None.", "Support Devices", "negative"),
        ("EFFUSION: Small left.", "Pleural Effusion", "positive"),
        ("EFFUSION: Possible.", "Pleural Effusion", "uncertain"),
        ("EFFUSION: Cannot be excluded.", "Pleural Effusion", "uncertain"),
        ("LUNGS: Clear.", "Consolidation", "negative"),
        ("LUNGS AND PLEURA: Clear.", "Pneumothorax", "negative"),
        ("HEART: Normal.", "Cardiomegaly", "negative"),
        ("HEART: Enlarged.", "Cardiomegaly", "positive"),
        ("NG TUBE: In place.", "Support Devices", "positive"),
        # a hidden word in a hedge's place is a hedge
        ("Airspace disease, most XXXX representing acute infection.", "Pneumonia", "uncertain"),
        ("Lower lobe opacities, XXXX residual atelectasis.", "Atelectasis", "uncertain"),
        ("The appearance XXXX subsegmental atelectasis.", "Atelectasis", "uncertain"),
        ("XXXX atelectasis in the left base.", "Atelectasis", "positive"),
        # alternatives and lists
        ("Opacities, most consistent with atelectasis/infiltrate.", "Atelectasis", "uncertain"),
        ("No consolidation, large pleural effusion/pneumothorax.", "Pleural Effusion", "negative"),
        ("Opacities which may be compatible with mild pulmonary edema.", "Edema", "uncertain"),
        # what is at the limit is no plain denial
        ("Borderline heart size.", "Cardiomegaly", "uncertain"),
        ("The heart is top normal in size.", "Cardiomegaly", "negative"),  # annotators call it normal, 20 of 21 times
        ("The heart is not enlarged.", "Cardiomegaly", "negative"),
        ("Fractures may not be demonstrated.", "Fracture", "uncertain"),
        # another organ's lesion is not the lung's
        ("Lucent lesion with thin sclerotic margin in the right humeral head.", "Lung Lesion", "not_mentioned"),
        ("Expansile lesion of the right posterior 9th rib.", "Lung Lesion", "not_mentioned"),
        ("Multiple calcified splenic granulomas.", "Lung Lesion", "not_mentioned"),
        ("Lesion in the right lung overlying the sixth rib.", "Lung Lesion", "positive"),
        # seen elsewhere: not affirmed of this image, and not denied
        ("Nodule seen on CT.", "Lung Lesion", "uncertain"),
        ("On a previous outside scan, the right upper lobe was consolidated.", "Consolidation", "uncertain"),
        ("The nodule seen on prior CT is not visualized.", "Lung Lesion", "negative"),
        ("The nodule seen on CT is again noted in the left base.", "Lung Lesion", "positive"),
        ("No nodule is seen on CT.", "Lung Lesion", "negative"),
        ("Opacity on the lateral view.", "Lung Opacity", "positive"),
    ],
)
def test_polarity_of_hard_texts(text: str, category: str, expected: str) -> None:
    assert analyse(text).polarity(category) == expected


def stated(findings: str | None, impression: str | None = None) -> dict[str, int]:
    return {label: value for label, value in label_text(findings, impression).items() if value is not None}


def test_labels_are_four_valued_and_read_the_impression_too() -> None:
    labels = stated("No effusion. Possible edema.", "Cardiomegaly.")
    assert labels == {"Pleural Effusion": 0, "Edema": -1, "Cardiomegaly": 1}
    assert stated("No effusion", "Small effusion.") == {"Pleural Effusion": 1}
    assert set(label_text(None, None)) == set(CHEXPERT_LABELS)
    assert stated(None, None) == {}


def test_no_finding_is_chexperts() -> None:
    """Positive where nothing of the other labels is positive or uncertain, devices aside; never 0 or -1."""
    assert stated("No effusion. PICC in place.")["No Finding"] == 1
    assert stated("Scoliosis.") == {"No Finding": 1}  # none of the 14 labels
    assert "No Finding" not in stated("Possible effusion.")
    assert "No Finding" not in stated("Small effusion.")
    assert "No Finding" not in stated("   ")


@pytest.mark.parametrize(
    ("text", "opacity"),
    [
        ("No focal consolidation.", None),  # there may be another opacity
        ("No focal lung consolidation or effusion.", None),
        ("No consolidation, infiltrate or effusion.", 0),
        ("The lungs are clear. No consolidation.", 0),
        ("No consolidation. Hazy opacities.", 1),
        ("Left consolidation.", 1),
    ],
)
def test_without_a_consolidation_there_may_be_another_opacity(text, opacity):
    assert label_text(text, None)["Lung Opacity"] == opacity
    assert label_text(None, text)["Lung Opacity"] == opacity
