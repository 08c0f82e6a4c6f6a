"""Log-probabilities of greedily generated tokens, recorded while `generate` of transformers runs."""

from typing import Any


class GreedyLogprobs:
    """A logits processor that records the log-probability of the most probable token of each step.

    It changes nothing. Pass it as the last processor, so that it sees the scores that the token is chosen by. Needs
    greedy decoding (one beam, no sampling).
    """

    def __init__(self) -> None:
        self._steps: list[Any] = []  # tensors (batch,)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self._steps.append(scores.float().log_softmax(-1).amax(-1))
        return scores

    def mean(self, row: int, tokens: int) -> float:
        """Mean log-probability of the first `tokens` generated tokens of a row of the batch."""
        return sum(step[row].item() for step in self._steps[:tokens]) / tokens
