"""What judges question-answer pairs, whatever does it (rules, a language model, a typed-decision server)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mimic_cxr_vqa.judging.dimensions import Verdict
from mimic_cxr_vqa.judging.pairs import Pair


@dataclass(frozen=True)
class Judged:
    """What a judge says of a pair: a verdict on all four dimensions, or the reason why there is none. Exactly one.

    Attributes:
        details: what else is kept: reasons of rules, a model's thoughts, probabilities of the categories.
    """

    verdict: Verdict | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.verdict is None) == (self.error is None):
            raise ValueError("a Judged holds either a verdict or an error")


class Judge(Protocol):
    """What judging needs of a judge; one that holds connections open is an async context manager too.

    Attributes:
        name: what its folder is called; letters, digits, dots, dashes.
        settings: all that its verdicts depend on besides the pair.
        endpoint: address that the texts are sent to; None where nothing leaves the process.
        in_flight: studies that may be under way together.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, Any]: ...

    @property
    def endpoint(self) -> str | None: ...

    @property
    def in_flight(self) -> int: ...

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Judged]:
        """Verdicts on a study's pairs, in their order; a failure inside one is its `error`.

        Args:
            reverse: show the categories in the opposite order, to see whether the order decides.
        """
        ...


def _rules() -> Judge:
    from mimic_cxr_vqa.judging.rule_judge import RuleJudge

    return RuleJudge()


JUDGES: dict[str, Callable[[], Judge]] = {"rules": _rules}  # those that ask no language model, by `--engine`
