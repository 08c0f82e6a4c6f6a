"""The registry of judges that do not need a language model."""

from collections.abc import Callable

from mimic_cxr_vqa.judging.base import Judge
from mimic_cxr_vqa.judging.rule_judge import RuleJudge

JUDGES: dict[str, Callable[[], Judge]] = {"rules": RuleJudge}  # by `--engine`
