"""Import the results of batch files into the answers.

Results may arrive in any order, from any machine, twice or incomplete. The index written by the export maps each result
to its questions. Questions without an answer stay open, and the next export contains them again.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from medvqa_core.digests import digest_file
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.governance import Governance
from medvqa_core.llm.batch_files import Result, read_results
from medvqa_core.llm.chat import ChatReply
from medvqa_core.llm.engines import Reply
from medvqa_core.progress import track
from medvqa_core.runs.predictions import ANSWERS, Prediction, PredictionStore
from medvqa_core.store import RecordStore, content_key
from mimic_cxr_vqa.generation.answers import count_answers
from mimic_cxr_vqa.generation.batch_export import AT_ONCE, REQUESTS, index_path
from mimic_cxr_vqa.generation.language_model import read_many, read_one
from mimic_cxr_vqa.generation.lint import lint
from mimic_cxr_vqa.workspace import Workspace

IMPORTS = "batch imports"  # kind of store


def import_batch(workspace: Workspace, files: Sequence[Path], answered_by: str, own_machine: bool = False) -> Counter:
    """Import results. A result that was imported before is counted and not imported again.

    Args:
        answered_by: the machine or service that answered. `<out>/batches/imports.jsonl` keeps it with the files'
            digests.
        own_machine: the user confirms that the machine is their own. Credentialed texts require this.

    Returns:
        Counts of results: `taken`, `doubled` (imported before), `unknown` (not exported from here), `unreadable` lines
        and `unanswered` (to be exported again). Counts of all questions: `answered`, `flagged`, `failed` and `open`.

    Raises:
        ConfigError: `answered_by` is empty.
        GovernanceError: the texts are credentialed and `own_machine` is false.
        InputError: nothing was exported from here, or a file cannot be read. Results read before the error are kept.
        OutputError: the answers cannot be written.
    """
    governance = workspace.governance()
    if not answered_by.strip():
        raise ConfigError("--answered-by is empty. Name the machine or service that answered these requests.")
    if governance is Governance.CREDENTIALED and not own_machine:
        raise GovernanceError(
            f"These texts are credentialed. If {answered_by!r} is your own machine, confirm it with "
            "--i-run-this-server."
        )
    counts = Counter(taken=0, doubled=0, unknown=0, unreadable=0, unanswered=0)
    with ExitStack() as stack:
        index = RecordStore(index_path(workspace), REQUESTS, governance, None, read_only=True)
        stack.callback(index.close)
        store = stack.enter_context(PredictionStore(workspace.answers, governance, index.settings, kind=ANSWERS))
        _record_import(workspace, governance, files, answered_by)
        for path in files:
            pending: dict[str, Prediction] = {}
            for result in track(read_results(path), f"Importing {path.name}"):
                pending |= {p.key: p for p in _import_result(result, index, store, pending, counts)}
                if len(pending) >= AT_ONCE:
                    store.append(pending.values())
                    pending.clear()
            store.append(pending.values())
    counts.update(count_answers(workspace))
    return counts


def _import_result(
    result: Result, index: RecordStore, store: PredictionStore, pending: dict[str, Prediction], counts: Counter
) -> Iterable[Prediction]:
    """The new records that a result makes."""
    custom_id, reply = result
    if custom_id is None:
        counts["unreadable"] += 1
        return []
    asked = index.get(custom_id) if _is_key(custom_id) else None
    if asked is None:
        counts["unknown"] += 1
        return []
    if reply is None:
        counts["unanswered"] += 1
        return []
    attempt = asked["attempt"]
    replies = _read_replies(reply, asked["asked"])
    new = []
    for key, qa_id, _ in asked["asked"]:
        known = pending.get(key) or store.find(key)
        if known is None or known.details["attempts"] < attempt:
            read = replies[qa_id]
            broken = lint(read.answer) if read.answer is not None else []
            new.append(Prediction(key, qa_id, read.answer, read.error, {"attempts": attempt, "lint": broken}))
    counts["taken" if new else "doubled"] += 1
    return new


def _read_replies(reply: ChatReply, asked: Sequence[Sequence[str]]) -> dict[str, Reply]:
    """The reply to each question, by qa_id."""
    ids = [qa_id for _, qa_id, _ in asked]
    if len(ids) == 1:
        return {ids[0]: read_one(reply, asked[0][2])}
    why = f"no single answer to it in a reply to {len(ids)} questions"
    if reply.error is not None:
        why += f": {reply.error}"
    return {qa_id: Reply(None, why) for qa_id in ids} | read_many(reply, ids)


def _is_key(text: str) -> bool:
    return len(text) == 32 and all(digit in "0123456789abcdef" for digit in text)


def _record_import(workspace: Workspace, governance: Governance, files: Sequence[Path], answered_by: str) -> None:
    """Record once who answered each file."""
    path = index_path(workspace).with_name("imports.jsonl")
    records = [{"file": file.name, "sha256": digest_file(file), "answered_by": answered_by} for file in files]
    with RecordStore(path, IMPORTS, governance, {}) as notes:
        keyed = {content_key(**record): record for record in records}
        notes.append({"key": key, **record} for key, record in keyed.items() if key not in notes)
