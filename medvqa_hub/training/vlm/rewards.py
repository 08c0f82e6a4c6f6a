"""Our rewards in the form that TRL's GRPOTrainer calls, where a completion is a list of messages."""

from collections.abc import Sequence
from typing import Any

from accelerate.utils import gather_object

from medvqa_hub.tracking import Sample
from medvqa_hub.training.rewards import Reward, check_rewards

COUNTS = ("answers_scored", "answers_without_a_score")
REFERENCE = "ground_truth"  # the column of the chat rows that our rewards call `answer`


class AnswerReward:
    """A reward over TRL's completions. TRL ignores answers without a reward (None), which are counted here.

    Attributes:
        counts: `answers_scored` and `answers_without_a_score` of all processes so far.

    Raises:
        InputError: the reward did not return a list of finite numbers and None.
    """

    def __init__(self, reward: Reward, name: str) -> None:
        self.reward, self.__name__ = reward, name
        self.counts = dict.fromkeys(COUNTS, 0)
        self._first: list[Sample] = []  # of the last batch

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        texts = [read_completion(completion) for completion in completions]
        lists = {
            name: values for name, values in columns.items() if isinstance(values, list) and len(values) == len(texts)
        }
        references = lists.pop(REFERENCE)
        values = self.reward(texts, answer=references, **lists)
        if "images" in lists and "question" in lists:
            question = str(lists["question"][0])
            self._first = [Sample(lists["images"][0], question, str(references[0]), texts[0], values[0])]
        check_rewards(values, [f"an answer to {name}" for name in lists.get("qa_id", range(len(texts)))], self.__name__)
        missing = sum(value is None for value in values)
        for counts in gather_object([(len(values) - missing, missing)]):  # TRL calls it in every process at once
            for name, count in zip(COUNTS, counts, strict=True):
                self.counts[name] += count
        return list(values)

    def read_samples(self) -> list[Sample]:
        """The first answer of the last batch."""
        return self._first


def read_completion(completion: Any) -> str:
    """The text of a completion, whose last message has a text or a list of parts."""
    content = completion[-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")
