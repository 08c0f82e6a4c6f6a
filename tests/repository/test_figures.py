"""Figures that pages take from benchmarks/results/: in tables and sentences as the files have them, rounded.

The README's tables and those of docs/meddqa.md are compared elsewhere (test_readme.py, test_real_data.py).
"""

import json
import re
from typing import Any

import pytest
from paths import REPOSITORY


def read(name: str) -> Any:
    return json.loads((REPOSITORY / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def stage_3(name: str, way: str) -> list[str]:
    """The cells of each row, its gain over stage 2 of its seed beside it."""
    rows = read(name)["rows"]
    start = {row["seed"]: row for row in rows if row[way] == "stage2"}
    lines = []
    for row in rows:
        first = start[row["seed"]]
        gains = (f"{row[score] - first[score]:+.4f}" if row is not first else "" for score in ("bertscore", "accuracy"))
        texts = f"{row['bleu_4']:.4f} | {row['rouge_l']:.4f} | {row['cider']:.3f} | {row['bertscore']:.4f}"
        found = f"{row['accuracy']:.4f} | {{}} | {row['balanced_accuracy']:.4f} |"
        lines.append(f"| {row['seed']} | … | {texts} | {next(gains)} | {found.format(next(gains))}")
    return lines


def label_reward() -> list[str]:
    return stage_3("label_reward", "way")


def rewards() -> list[str]:
    return stage_3("rewards", "name")


def gradients() -> list[str]:
    found = read("scst_gradients")
    return [
        f"| tiny SwinVED after stage 2, {found['tokens_a_sample']} tokens a sample (`benchmarks/scst_gradients.py`) "
        f"| {found['ratios']['answer']:.2f} | {found['ratios']['token']:.3f} |"
    ]


def busy_machine() -> list[str]:
    found = read("busy_machine")
    ways = {"spinning": "{:.0f} ms a step", "asleep": "{:.0f} ms", "briefly": "{:.0f} ms"}
    rows = [
        f"| … | {form.format(found['milliseconds'][f'{way}, quiet'])} | {found['milliseconds'][f'{way}, busy']:.0f} ms "
        f"| {found['busy_over_quiet'][way]:.1f} |"
        for way, form in ways.items()
    ]
    return [f"`benchmarks/busy_machine.py`, two cores (load {found['load_before']} when it began)", *rows]


def training_images() -> list[str]:
    return [
        f"| … | {way['images_per_second']} | {way['ratio']}x | {way['cpu_ms']} ms | {way['waiting']:.0%} |"
        for way in read("training_images")["ways"].values()
    ]


def chat_rows() -> list[str]:
    found = read("chat_rows")
    ours = found["chat"]
    return [
        f"{ours['rows']:,} rows of {ours['studies']:,} studies: {ours['cache_mib']:.0f} MiB of cache and "
        f"{ours['peak_memory_mib']} MiB of memory at most; a `map` that embeds the images takes "
        f"{found['cache_ratio']:.0f} times as much cache a row"
    ]


def train_vlm() -> list[str]:
    found = read("train_vlm")
    taught, rewarded = found["sft"], found["grpo"]
    return [
        f"{found['rows']} questions about the pleural effusions of {found['studies']} phantom studies",
        f"In {taught['steps']} supervised steps",
        f"the loss falls from {taught['loss']['first']:.2f} to {taught['loss']['last']:.2f} ",
        f"finding accuracy is {taught['accuracy']:.3f} where the commoner label has {taught['majority']}, and "
        f"{taught['with_other_images']} with images of studies that have the other label",
        f"raise the reward from {rewarded['reward']['first']:.2f} to {rewarded['reward']['last']:.2f} and finding "
        f"accuracy from {rewarded['before']['accuracy']:.2f} to {rewarded['accuracy']:.2f}",
    ]


def judge_probe() -> list[str]:
    sets = [found["rules"] for found in read("judge_probe")["sets"].values()]
    lines = []
    for kind in sets[0]["recall"]:
        cells = []
        for found in sets:
            rate = f"{found['recall'][kind]['rate']:.1%}".replace("100.0", "100")
            planted = found["recall"][kind]["planted"]
            cells.append(rate if planted == 400 else f"{rate} of {planted}")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    alarms = (found["false_alarms"] for found in sets)
    cells = [f"{alarm['flagged']} of {alarm['judged']:,}" for alarm in alarms]
    return [*lines, f"| unaltered, objected to | {' | '.join(cells)} |"]


def llm_client() -> list[str]:
    found = read("llm_client")
    shares = found["cached_share"]
    assert all(found["reached"].values())
    return [
        f"{found['questions']:,} questions to a simulated server of 64 slots, on two cores with a load of "
        f"{found['load']:.1f}: {found['ratio']['thread_pool']:.2f} times a thread pool that waits for its slowest, "
        f"slots busy {found['busy']:.0%}, cached share {shares['ours']:.1%} (best order {shares['best']:.1%}), "
        f"{found['cpu_ms']:.2f} ms of client CPU a request, nothing lost or doubled over two restarts"
    ]


def asking_models() -> list[str]:
    found = read("asking_models")
    missed = "**just below the target of 95%**" if found["slots_busy"] < 0.95 else "above the target of 95%"
    return [
        f"{found['questions']:,} questions about 500 studies to a simulated server of 16 slots",
        f"{found['questions_per_second']} questions a second, against {found['baseline_questions_per_second']} in",
        f"Its slots were busy {found['slots_busy']:.1%} of the time: {missed}",
    ]


def meddqa_client() -> list[str]:
    found = read("meddqa_client")
    ours, rival = found["ours"], found["question_by_question"]
    return [
        f"a simulated server of {found['slots']} slots, {found['questions']} questions to an image, has "
        f"{ours['questions_per_second']} a second, against {rival['questions_per_second']} with",
        f"its slots were busy {ours['slots_busy']:.1%} of the time",
    ]


def explore() -> list[str]:
    found = read("explore")
    shown, turned = found["browser_shown_ms"], found["browser_turned_ms"]
    return [
        f"(load {found['load_average']} on two cores) the page showed its first study {shown['median'] / 1000:.2f} s "
        f"after it was asked for (median; at most {shown['most'] / 1000:.2f} s), and a turned page after "
        f"{turned['median']:.0f} ms (at most {turned['most']:.0f} ms: above the target of 200 ms",
        f"Importing took {found['imports_seconds']:.1f} s",
        f"Memory was {found['resident_before_mib']} MiB before reading all over the release and "
        f"{found['resident_after_mib']} MiB after, {found['resident_after_again_mib']} MiB after doing so again",
        f"at most {found['search_longest_answer_ms'] / 1000:.2f} s an answer and "
        f"{found['search_whole_seconds']:.1f} s in all",
    ]


def small_copies() -> list[str]:
    ways = read("training_images")["ways"]
    times = ways["shrunk"]["images_per_second"] / ways["full_size"]["images_per_second"]
    return [f"Training reads small copies {times:.1f} times as fast as full-size films"]


SOURCES = {
    "README.md": (small_copies,),
    "docs/training.md": (
        label_reward, rewards, gradients, busy_machine, training_images, chat_rows, train_vlm,
    ),
    "docs/cxr.md": (judge_probe, llm_client),
    "docs/evaluation.md": (asking_models,),
    "docs/meddqa.md": (meddqa_client,),
    "docs/explorer.md": (explore,),
}  # fmt: skip


def holds(text: str, wanted: str) -> bool:
    """Whether `text` has `wanted`, wherever its lines break; a cell … of a table may have any words."""
    words = (re.escape(word) if word != "…" else r"[^|\n]+" for word in wanted.split())
    return re.search(r"\s+".join(words), text) is not None


@pytest.mark.parametrize(("page", "figures"), [(page, make) for page, makes in SOURCES.items() for make in makes])
def test_a_page_s_figures_are_those_of_the_result_file(page, figures):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert [wanted for wanted in figures() if not holds(text, wanted)] == []
