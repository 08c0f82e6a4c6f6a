"""Your own engine for answering: a class with a few attributes and one method.

Wording rules, retries, provenance, resuming and governance stay the same. An engine that sends texts to a server must
set `endpoint` to its URL, and does not get credentialed texts. `None` means that the engine runs in this process.
Credentialed texts are then passed to it without a check.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from medvqa_core.llm.engines import Reply
from mimic_cxr_vqa.generation.answer_request import AnswerRequest
from mimic_cxr_vqa.generation.answers import answer_questions
from mimic_cxr_vqa.generation.question_writer import write_questions
from mimic_cxr_vqa.release_writer import write_release
from mimic_cxr_vqa.sources.physionet import read_studies
from mimic_cxr_vqa.workspace import Workspace


class FirstSentence:
    """Answers every question with the first sentence of the findings. Not a good engine."""

    name = "first-sentence"
    settings = {  # determines the answers, and is part of every row's provenance
        **{"engine": "first-sentence", "model": "none", "revision": "1", "prompt_version": "none"},
        **{"temperature": 0.0, "seed": 0},
    }
    endpoint = None  # no server
    in_flight = 64  # concurrent studies

    async def answer(self, requests: Sequence[AnswerRequest]) -> list[Reply]:
        replies = []
        for request in requests:
            sentence = request.findings.partition(".")[0].strip()
            replies.append(Reply(sentence + ".") if sentence else Reply(None, "no sentence"))
        return replies


out = Path(sys.argv[1])
workspace = Workspace(out / "own")
write_questions(read_studies(out / "phantom"), workspace, seed=0)
print(dict(answer_questions(workspace, FirstSentence())))
write_release(workspace)
print("the release:", workspace.release)
