"""What is known against an answer besides the rules of Appendix B: notes in `provenance.lint`, no reason to re-ask.

`relative:...` names words of comparison beyond the 17 (`lint.WARNINGS`); `label_conflict` says that the answer denies
what its label affirms, or affirms what it denies. Training and finding accuracy can leave such rows out.
"""

from functools import lru_cache

from mimic_cxr_vqa.generation.lint import warnings
from mimic_cxr_vqa.labeling.answer_polarity import contradicts
from mimic_cxr_vqa.schema import LABEL_CONFLICT


@lru_cache(maxsize=1 << 16)  # answers repeat
def find_flags(answer: str, category: str, label_value: str) -> tuple[str, ...]:
    """The flags of one row, warnings first."""
    conflict = (LABEL_CONFLICT,) if contradicts(answer, category, label_value) else ()
    return (*warnings(answer), *conflict)
