"""The interface of judges: rules, language models and typed-decision servers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from medvqa_core.llm.engines import Backend
from mimic_cxr_vqa.judging.dimensions import Verdict
from mimic_cxr_vqa.judging.pairs import Pair


@dataclass(frozen=True)
class Judgement:
    """A judge's verdict on a pair, or the reason why there is none. Exactly one of the two is set.

    Attributes:
        details: what is recorded besides: reasons of rules, a model's reasoning, probabilities of the categories.
    """

    verdict: Verdict | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.verdict is None) == (self.error is None):
            raise ValueError("Judgement takes either a verdict or an error")


class Judge(Backend, Protocol):
    """A judge."""

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Judgement]:
        """Judge the pairs of one study, in their order. A failure with one pair becomes its `error`.

        Args:
            reverse: list the categories in the opposite order, to test whether the order affects the verdict.
        """
        ...
