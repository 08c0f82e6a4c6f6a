"""Our rewards as TRL's GRPOTrainer calls them: `reward(completions, **columns)`, with a message for a completion.

An answer that cannot be scored has no reward (None): TRL leaves it out of its question's mean and gives it no weight.
Such answers are counted.
"""

from collections.abc import Sequence
from typing import Any

from medvqa_hub.training.rewards import Reward, check_rewards

COUNTS = ("answers_scored", "answers_without_a_score")
REFERENCE = "ground_truth"  # the chat rows' column that our rewards call `answer`


class AnswerReward:
    """A reward of ours over TRL's completions.

    Attributes:
        counts: answers of all processes so far, `answers_scored` and `answers_without_a_score`.

    Raises:
        InputError: the reward returned what is no list of finite numbers and None.
    """

    def __init__(self, reward: Reward, name: str) -> None:
        self.reward, self.__name__ = reward, name
        self.counts = dict.fromkeys(COUNTS, 0)

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        texts = [text_of(completion) for completion in completions]
        lists = {name: values for name, values in columns.items() if _is_column(values, len(texts))}
        values = self.reward(texts, answer=lists.pop(REFERENCE), **lists)
        check_rewards(values, [f"an answer to {name}" for name in lists.get("qa_id", range(len(texts)))], self.__name__)
        self._count(values)
        return values

    def _count(self, values: Sequence[float | None]) -> None:
        """TRL calls a reward in every process at once, with an equal number of answers."""
        from accelerate.utils import gather_object

        missing = sum(value is None for value in values)
        for scored, without in gather_object([(len(values) - missing, missing)]):
            self.counts[COUNTS[0]] += scored
            self.counts[COUNTS[1]] += without


def text_of(completion: Any) -> str:
    """The text of a completion: a list with the assistant's message, whose content is a text or a list of parts."""
    content = completion[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def _is_column(values: Any, rows: int) -> bool:
    return isinstance(values, list) and len(values) == rows
