"""How much the rule judge finds: planted errors in drawn reports and in the Indiana collection, by kind.

    python benchmarks/judge_probe.py [FOLDER] [--per-kind 400]

FOLDER holds the Indiana collection. Rules were made on the drawn studies of seed 0 and on the 60% of the collection
that `open_answers.part_of` calls development; seed 1 and the other 40% were only measured. The baseline of the same run
is a judge that looks at the polarity of the asked category alone.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from open_answers import PARTS, part_of

from medvqa_core.governance import Governance
from medvqa_core.json_files import write_json
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.extractive import ExtractiveEngine
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.judging.dimensions import BEST
from mimic_cxr_vqa.judging.judges import Judged
from mimic_cxr_vqa.judging.pairs import Pair, iterate_pairs
from mimic_cxr_vqa.judging.probing import format_probe, measure_probe, plant_errors, probe_requests
from mimic_cxr_vqa.judging.rule_judge import COSTS, POLARITY, RuleJudge, judge_by_rules
from mimic_cxr_vqa.judging.run_judge import judge_all, open_verdicts
from mimic_cxr_vqa.phantom.tree import write_phantom
from mimic_cxr_vqa.sources import openi, physionet
from mimic_cxr_vqa.workspace import Workspace

RESULT = Path(__file__).parent / "results" / "judge_probe.json"
STUDIES = 400


class PolarityJudge(RuleJudge):
    """The baseline: only the polarity of the category that is asked for."""

    name = "polarity"

    def __init__(self) -> None:
        self.settings = {"judge": self.name}

    async def judge(self, pairs: list[Pair], reverse: bool = False) -> list[Judged]:
        wrong = [POLARITY in judge_by_rules(pair)[1] for pair in pairs]
        return [Judged(COSTS[POLARITY] if one else dict(BEST)) for one in wrong]


def drawn_pairs(scratch: Path, seed: int) -> list[Pair]:
    """The pairs of `STUDIES` drawn studies."""
    tree, workspace = scratch / f"tree-{seed}", Workspace(scratch / f"drawn-{seed}")
    write_phantom(tree, STUDIES, seed=seed, size=64)
    write_questions(physionet.read_studies(tree), workspace, 0)
    return _answered(workspace)


def real_pairs(scratch: Path, root: Path, part: str) -> list[Pair]:
    """The pairs of one part of the Indiana collection."""
    workspace = Workspace(scratch / "openi")
    if not workspace.answers.exists():
        write_questions(openi.read_studies(root, "text"), workspace, 0)
    return [pair for pair in _answered(workspace) if part_of(pair.request.study_id) == part]


def probe_rules(
    pairs: list[Pair], scratch: Path, per_kind: int, judge: Callable[[], Any] = RuleJudge
) -> dict[str, Any]:
    """What `cxr judge --probe` measures, on these pairs."""
    planted = plant_errors(pairs, per_kind, seed=0)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        path = Path(folder) / "probe.jsonl"
        judge_all(path, Governance.NO_DERIVATIVES, judge(), probe_requests(planted))
        with open_verdicts(path, Governance.NO_DERIVATIVES) as store:
            return measure_probe(store, planted)


def _answered(workspace: Workspace) -> list[Pair]:
    answer_questions(workspace, ExtractiveEngine())
    return [pair for study in iterate_pairs(workspace) for pair in study]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?")
    parser.add_argument("--per-kind", type=int, default=400)
    arguments = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        sets = {f"drawn, {PARTS[seed]}": lambda seed=seed: drawn_pairs(scratch, seed) for seed in (0, 1)}
        if arguments.root:
            sets |= {f"Indiana, {part}": lambda part=part: real_pairs(scratch, arguments.root, part) for part in PARTS}
        for name, read in sets.items():
            pairs = read()
            found = probe_rules(pairs, scratch, arguments.per_kind)
            baseline = probe_rules(pairs, scratch, arguments.per_kind, PolarityJudge)
            results[name] = {"rules": found, "polarity alone": baseline}
            print(f"{name}\n{format_probe(found)}")
            caught = {kind: row["rate"] for kind, row in baseline["recall"].items()}
            print("polarity alone: " + ", ".join(f"{kind} {rate or 0:.1%}" for kind, rate in caught.items()) + "\n")
    write_json(RESULT, {"per_kind": arguments.per_kind, "sets": results})


if __name__ == "__main__":
    main()
