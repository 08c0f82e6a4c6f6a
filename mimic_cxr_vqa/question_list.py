"""The 90 questions of Appendix A (`questions.tsv`), six per category, in the paper's spelling ("Cardiomedistinum").

Their order gives the question number (1 to 6) in `qa_id`. Do not edit them: every released `qa_id` depends on it.
"""

from pathlib import Path

import pyarrow as pa

from mimic_cxr_vqa.schema import CATEGORIES, category_slug

_LINES = Path(__file__).with_name("questions.tsv").read_text(encoding="utf-8").splitlines()[1:]
QUESTIONS: dict[str, tuple[str, ...]] = {
    category: tuple(line.split("\t")[1] for line in _LINES if line.startswith(f"{category}\t"))
    for category in dict.fromkeys(line.split("\t")[0] for line in _LINES)
}

QUESTIONS_PER_CATEGORY = 6
# Question k of category c is entry 6 c + k of both arrays.
QUESTION_TEXTS = pa.array([question for category in CATEGORIES for question in QUESTIONS[category]])
# spelling in the authors' files -> Appendix A's, both in lower case
SPELLINGS = {"is there any findings in the image?": "is there any finding in the image?"}
QUESTION_SLUGS = pa.array([f"{category_slug(c)}-{n + 1}" for c in CATEGORIES for n in range(QUESTIONS_PER_CATEGORY)])
