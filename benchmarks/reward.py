"""BERTScore as a reward for sampled and greedy answers: our reward, called once, against two calls of bert-score.

Both use the same encoder (all-MiniLM-L6-v2 from the extra `encoder`), loaded before the clock starts, no rescaling and
batches of 16 (on a CPU neither is faster with more). References are answers of the bundled synthetic sample. The greedy
and the sampled answer to a question are answers to other questions of its category, drawn with a fixed seed, so that
lengths and repetitions are those of the data. bert-score encodes the references for each call. The reward encodes a
text once.

Run: python benchmarks/reward.py
"""

import random

import torch
from bert_score import BERTScorer
from datasets import load_dataset
from timing import time_in_turn, write_result

import mimic_cxr_vqa  # noqa: F401  registers the dataset
from medvqa_core.text_encoder import find_minilm
from medvqa_hub.training.recipes import RewardSettings
from medvqa_hub.training.rewards import make_reward

QUESTIONS = (8, 32, 128)  # of a step
HEADLINE = 32
LAYER, BATCH_SIZE = 6, 16
ROUNDS = 9
TARGET = 1.8
TOLERANCE = 1e-4


def draw_answers(questions: int, seed: int = 0) -> tuple[list[str], list[str], list[str]]:
    """References, greedy and sampled answers to `questions` questions."""
    by_category: dict[str, list[str]] = {}
    for row in load_dataset("mimic_cxr_vqa", "sample", split="train").select_columns(["category", "answer"]):
        by_category.setdefault(row["category"], []).append(row["answer"])
    rng = random.Random(seed)
    categories = rng.choices(sorted(by_category), k=questions)
    return tuple([rng.choice(by_category[category]) for category in categories] for _ in range(3))


def compare(questions: int) -> dict[str, float]:
    """Median milliseconds of both ways, their ratio, and the largest difference between their values."""
    references, greedy, sample = draw_answers(questions)
    reward = make_reward(
        RewardSettings(name="bert_score", encoder="minilm", layer=LAYER, baseline=None, batch_size=BATCH_SIZE),
        device="cpu",
    )
    scorer = BERTScorer(model_type=str(find_minilm()), num_layers=LAYER, device="cpu", batch_size=BATCH_SIZE)

    def two_calls() -> list[float]:
        return [f1 for answers in (sample, greedy) for f1 in scorer.score(answers, references)[2].tolist()]

    def one_call() -> list[float]:
        return reward(sample + greedy, answer=references * 2)

    difference = max(abs(a - b) for a, b in zip(two_calls(), one_call(), strict=True))
    seconds = time_in_turn({"bert_score_twice": two_calls, "reward": one_call}, rounds=ROUNDS)
    words = [len(text.split()) for text in references + greedy + sample]
    return {
        **{f"{way}_ms": round(1000 * value, 2) for way, value in seconds.items()},
        "ratio": round(seconds["bert_score_twice"] / seconds["reward"], 2),
        "largest_difference": difference,
        "distinct_texts": len({*references, *greedy, *sample}),
        "mean_words": round(sum(words) / len(words), 1),
    }


def main() -> None:
    torch.manual_seed(0)
    runs = {questions: compare(questions) for questions in QUESTIONS}
    for questions, run in runs.items():
        print(
            f"{questions} questions: bert-score twice {run['bert_score_twice_ms']} ms, reward {run['reward_ms']} ms "
            f"= {run['ratio']}x (values differ by at most {run['largest_difference']:.1e})"
        )
    ratio, difference = runs[HEADLINE]["ratio"], max(run["largest_difference"] for run in runs.values())
    reached = ratio >= TARGET and difference <= TOLERANCE
    print(
        f"ratio {ratio}x at {HEADLINE} questions, target {TARGET}x with values equal to {TOLERANCE}: "
        f"{'reached' if reached else 'MISSED'}"
    )
    figures = {"runs": runs, "headline_questions": HEADLINE, "ratio": ratio, "largest_difference": difference}
    write_result("reward", {**figures, "target": TARGET, "tolerance": TOLERANCE})


if __name__ == "__main__":
    main()
