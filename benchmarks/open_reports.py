"""The figures on the Indiana collection: positive rows that deny, and labels against MeSH.

    python benchmarks/open_reports.py FOLDER [--show N]

FOLDER has `indiana_reports.csv`. A hash of the study's number assigns 60% of the studies to the development part, from
which rules may be made. An answer denies if its surface does: the check shares no code with the engine. `--show` prints
the positive labels of N held-out reports with their texts, for a person to read.
"""

import argparse
import asyncio
import re
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.question_list import QUESTIONS
from mimic_cxr_vqa.schema import NO_FINDING
from mimic_cxr_vqa.sources.openi import read_studies
from mimic_cxr_vqa.sources.registry import SourceOptions

DENIES = re.compile(r"^No\b|\bno (?:[\w-]+ ){0,4}(?:is|are) seen|\b(?:shows?|is|are) no\b|\bnot seen")


def is_held_out(study: dict[str, Any]) -> bool:
    return blake2b(str(study["study_id"]).encode(), digest_size=1).digest()[0] % 5 >= 3


def count_denied(studies: list[dict[str, Any]], with_impression: bool = False) -> str:
    """How many of the positive rows deny, without Heart and No Finding."""
    requests = []
    for study in studies:
        text = " ".join(filter(None, (study["findings"], with_impression and study["impression"])))
        for label, value in study["labels"].items():
            if value == 1 and label != NO_FINDING and study["findings"]:
                requests += [
                    AnswerRequest(f"s{study['study_id']}-{label}-{n}", 1, label, question, None, text,
                                  impression=None if with_impression else study["impression"])
                    for n, question in enumerate(QUESTIONS[label])
                ]  # fmt: skip
    replies = asyncio.run(ExtractiveEngine().answer(requests))
    denied = sum(bool(DENIES.search(reply.answer or "")) for reply in replies)
    return f"{denied} of {len(replies):,} ({denied / len(replies):.2%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", type=int, default=0)
    arguments = parser.parse_args()
    sets = {labels: read_studies(arguments.folder, SourceOptions(labels=labels)) for labels in ("text", "mesh")}
    rows = {labels: found.studies.to_pylist() for labels, found in sets.items()}
    for name, with_impression in (
        ("positive rows that deny", False),
        ("... --answer-from findings+impression", True),
    ):
        parts = [[s for s in rows["text"] if is_held_out(s) == held] for held in (False, True)]
        print(f"{name}: development {count_denied(parts[0], with_impression)}, "
              f"held out {count_denied(parts[1], with_impression)}")  # fmt: skip
    pairs = Counter(
        (text["labels"][label], mesh["labels"][label])
        for text, mesh in zip(rows["text"], rows["mesh"], strict=True)
        for label in text["labels"]
        if label != NO_FINDING
    )
    for (text, mesh), count in pairs.most_common():
        print(f"label {text} from the text, {mesh} from MeSH: {count}")
    values = Counter((label, value) for s in rows["text"] for label, value in s["labels"].items() if value is not None)
    for label in QUESTIONS:
        print(f"{label}: {values[label, 1]} positive, {values[label, 0]} negative, {values[label, -1]} uncertain")
    for study in [s for s in rows["text"] if is_held_out(s)][: arguments.show]:
        positive = [label for label, value in study["labels"].items() if value == 1 and label != NO_FINDING]
        print(f"\n{study['study_id']} {positive}\n  {study['findings']} || {study['impression']}")


if __name__ == "__main__":
    main()
