"""Labels and answers of the Indiana collection, checked without the code that made them: the figures of docs/cxr.md.

    python benchmarks/open_answers.py FOLDER [--answer-from findings+impression] [--labels both]

Studies are split by a hash of their uid: rules were made from the 60% of `development` alone. The checker reads an
answer's surface: it denies where it begins with "No," or says "no ..." or "not seen" of what it was asked for, and a
sentence of it is whole where it has a verb, begins with a capital and ends in a word that can end one.
"""

import argparse
import re
import tempfile
from collections import Counter
from hashlib import blake2b
from pathlib import Path

from medvqa_core.llm.engines import load_engine
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.engines import ENGINES
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.schema import CATEGORIES, HEART, LABEL_VALUES, NO_FINDING
from mimic_cxr_vqa.sources.openi import read_openi, read_studies
from mimic_cxr_vqa.workspace import Workspace

PARTS = ("development", "held out")
DENIES = re.compile(
    r"^No\b|\bno (?:[\w-]+ ){0,4}(?:is|are) seen|\b(?:shows?|is|are) no\b|\bnot (?:seen|enlarged)", re.I
)
VERB = re.compile(
    r"\b(?:is|are|has|have|appears?|shows?|demonstrates?|reveals?|overl\w+|terminates?|projects?|may|can\w*|extends?|"
    r"contains?|suggests?|represents?|ends?|lies?|measures?|seems?|obscures?|could|might)\b"
)
HANGING = re.compile(r"\b(?:the|a|an|of|with|in|to|on|at|by|from|and|or|than|is|are|no)$")


def part_of(uid: int) -> str:
    """Which part a study belongs to: 60 of 100 to `development`."""
    return PARTS[blake2b(b"split" + str(uid).encode(), digest_size=8).digest()[0] % 10 >= 6]


def is_fragment(answer: str) -> bool:
    """Whether a sentence of `answer` has no verb, hangs in the air, or begins with a small letter."""
    for sentence in re.split(r"(?<=[a-z)]\.) (?=[A-Z])", re.sub(r"^(?:Yes|No), ", "", answer)):
        words = sentence.rstrip(".")
        if not VERB.search(words) or HANGING.search(words) or "XXXX" in words or "  " in words:
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--labels", default="text")
    parser.add_argument("--answer-from", default="findings")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        workspace = Workspace(Path(scratch))
        manifest = write_questions(read_studies(arguments.root, arguments.labels), workspace, 0)
        answer_questions(workspace, load_engine(ENGINES, "extractive"), answer_from=arguments.answer_from)
        write_release(workspace)
        rows = [row for batch in open_release(workspace.root).iterate_all() for row in batch.to_pylist()]
    print({name: value for name, value in manifest["counts"].items() if not name.startswith("labels with")})
    for kind, labels in read_openi(arguments.root, "both").disagreements.items():
        print(f"{kind}: {labels.total()}", dict(labels.most_common()))
    for part in PARTS:
        report(part, [row for row in rows if part_of(row["study_id"]) == part])


def report(part: str, rows: list[dict]) -> None:
    """Print the figures of one part."""
    values = Counter((row["category"], row["label_value"]) for row in rows)
    for category in CATEGORIES:
        print(
            f"{part}: {category:27}", *(f"{name} {values[category, name]}" for name in LABEL_VALUES.values()), sep="  "
        )
    positive = [r for r in rows if r["label_value"] == "positive" and r["category"] not in (HEART, NO_FINDING)]
    denied = [row for row in positive if DENIES.search(row["answer"])]
    flagged = sum("label_conflict" in row["provenance"]["lint"] for row in rows)
    distinct = {row["answer"] for row in rows}
    fragments = sorted(filter(is_fragment, distinct))
    share = len(denied) / len(positive)
    print(f"{part}: {len(rows)} rows; positive {len(positive)}, of these denied {len(denied)} ({share:.2%})")
    print(f"{part}: rows with label_conflict {flagged}; {len(distinct)} different answers, fragments {len(fragments)}")
    for answer in fragments[:10]:
        print("   ", answer)


if __name__ == "__main__":
    main()
