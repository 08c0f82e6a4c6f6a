"""The interface of judges: rules, language models and typed-decision servers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from medvqa_core.llm.engines import Backend, Reply
from mimic_cxr_vqa.judging.dimensions import DIMENSIONS, Verdict
from mimic_cxr_vqa.judging.pairs import Pair


class Judge(Backend, Protocol):
    """A judge."""

    async def judge(self, pairs: Sequence[Pair], reverse: bool = False) -> list[Reply]:
        """Judge the pairs of one study, in their order. A failure with one pair becomes its `error`.

        Args:
            reverse: list the categories in the opposite order, to test whether the order affects the verdict.
        """
        ...


def verdict_reply(verdict: Verdict, details: Mapping[str, Any]) -> Reply:
    """A verdict as the reply of a judge.

    Args:
        details: what is recorded besides: reasons of rules, a model's reasoning, probabilities of the categories.
    """
    return Reply(json.dumps({name: verdict[name] for name in DIMENSIONS}), details=details)
