"""The 90 questions of Appendix A, six per category, with the paper's spelling ("Cardiomedistinum").

Their order gives the question number (1 to 6) in `qa_id`. Do not edit them: every released `qa_id` depends on it.
"""

import pyarrow as pa

from mimic_cxr_vqa.schema import CATEGORIES, category_slug

QUESTIONS: dict[str, tuple[str, ...]] = {
    "Atelectasis": (
        "Is Atelectasis observed?",
        "Can Atelectasis be identified?",
        "Are there signs of Atelectasis?",
        "What evidence of Atelectasis is present?",
        "Does the patient have Atelectasis?",
        "Are there indications of Atelectasis?",
    ),
    "Cardiomegaly": (
        "Is Cardiomegaly present?",
        "Can Cardiomegaly be detected?",
        "Are there signs of Cardiomegaly?",
        "What suggests Cardiomegaly in the findings?",
        "Is there evidence of Cardiomegaly?",
        "Does the image show Cardiomegaly?",
    ),
    "Consolidation": (
        "Is Consolidation observed?",
        "Can Consolidation be identified?",
        "Are there signs of Consolidation?",
        "What evidence of Consolidation is visible?",
        "Does the image indicate Consolidation?",
        "Are there indications of Consolidation?",
    ),
    "Edema": (
        "Is Edema observed?",
        "Can Edema be detected?",
        "Are there signs of Edema?",
        "What evidence of Edema is present?",
        "Does the image suggest Edema?",
        "Are there indications of Edema?",
    ),
    "Enlarged Cardiomediastinum": (
        "Is the Cardiomedistinum enlarged?",
        "Can an enlarged Cardiomedistinum be detected?",
        "Are there signs of an enlarged Cardiomedistinum?",
        "What suggests an enlarged Cardiomedistinum?",
        "Is the Cardiomedistinum abnormal in size?",
        "Are there indications of an enlarged Cardiomedistinum?",
    ),
    "Fracture": (
        "Is a Fracture visible?",
        "Can a Fracture be identified?",
        "Are there signs of a Fracture?",
        "What evidence of a Fracture is present?",
        "Does the image indicate a Fracture?",
        "Are there indications of a Fracture?",
    ),
    "Lung Lesion": (
        "Is a Lung Lesion observed?",
        "Can a Lung Lesion be detected?",
        "Are there signs of a Lung Lesion?",
        "What suggests a Lung Lesion in the findings?",
        "Is there evidence of a Lung Lesion?",
        "Does the image show a Lung Lesion?",
    ),
    "Lung Opacity": (
        "Is Lung Opacity present?",
        "Can Lung Opacity be identified?",
        "Are there signs of Lung Opacity?",
        "What evidence of Lung Opacity is visible?",
        "Does the image indicate Lung Opacity?",
        "Are there indications of Lung Opacity?",
    ),
    "No Finding": (
        "Are there any findings?",
        "Is there any finding in the image?",
        "Can any abnormalities be detected?",
        "Are there indications of findings in the image?",
        "Are there any abnormalities present?",
        "Do you see any findings in the image?",
    ),
    "Pleural Effusion": (
        "Is Pleural Effusion present?",
        "Can Pleural Effusion be detected?",
        "Are there signs of Pleural Effusion?",
        "What evidence of Pleural Effusion is visible?",
        "Does the image suggest Pleural Effusion?",
        "Are there indications of Pleural Effusion?",
    ),
    "Pleural Other": (
        "Is there any Pleural abnormality?",
        "Can Pleural findings be identified?",
        "Are there signs of Pleural conditions?",
        "What Pleural abnormalities are present?",
        "Are there unusual Pleural findings?",
        "Does the image suggest any Pleural conditions?",
    ),
    "Pneumonia": (
        "Is Pneumonia observed?",
        "Can Pneumonia be detected?",
        "Are there signs of Pneumonia?",
        "What evidence of Pneumonia is present?",
        "Does the image indicate Pneumonia?",
        "Are there indications of Pneumonia?",
    ),
    "Pneumothorax": (
        "Is Pneumothorax present?",
        "Can Pneumothorax be detected?",
        "Are there signs of Pneumothorax?",
        "What evidence of Pneumothorax is visible?",
        "Does the image suggest Pneumothorax?",
        "Are there indications of Pneumothorax?",
    ),
    "Support Devices": (
        "Which Support Devices are found?",
        "What types of support devices are present?",
        "Which support devices can be identified?",
        "Are there any support devices observed?",
        "What support devices are detected?",
        "Can any support devices be found?",
    ),
    "Heart": (
        "Is the heart size normal?",
        "Does the heart appear enlarged?",
        "How is the size of the heart?",
        "Is the heart size within the expected range?",
        "Does the radiograph suggest a normal heart size?",
        "Is there any indication of an enlarged heart?",
    ),
}

QUESTIONS_PER_CATEGORY = 6
# Question k of category c is entry 6 c + k of both arrays.
QUESTION_TEXTS = pa.array([question for category in CATEGORIES for question in QUESTIONS[category]])
# spelling in the authors' files -> Appendix A's, both in lower case
SPELLINGS = {"is there any findings in the image?": "is there any finding in the image?"}
QUESTION_SLUGS = pa.array([f"{category_slug(c)}-{n + 1}" for c in CATEGORIES for n in range(QUESTIONS_PER_CATEGORY)])
