"""Batch files: requests that are answered on another machine, and their results.

The format is that of vLLM's `run-batch` and of hosted batch services. A request is a line
`{"custom_id", "method": "POST", "url": "/v1/chat/completions", "body"}`, a result is a line
`{"custom_id", "response": {"status_code", "body"}, "error"}`, in any order.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from medvqa_core.files import output_errors
from medvqa_core.json_lines import parse_line, read_lines
from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.completions import ServerCapabilities, read_completion, request_body
from medvqa_core.llm.server import BUSY, DENIED

PLAIN = ServerCapabilities("enforced", True)  # replies are validated anyway


# `custom_id` of a request (None if the line cannot be read) and its reply (None if it must be sent again)
Result = tuple[str | None, ChatReply | None]


def write_batches(
    folder: Path, requests: Iterable[tuple[str, ChatRequest]], model: str, private: bool, most: int
) -> int:
    """Write requests with their `custom_id` into batch files and return the number of files.

    Args:
        private: give the files mode 0600 and names that start with CREDENTIALED.
        most: requests per file; hosted services accept 50,000.

    Raises:
        OutputError: a file cannot be written.
    """
    requests, files = iter(requests), 0
    for first in requests:
        files += 1
        path = folder / f"{'CREDENTIALED-' if private else ''}batch-{files:04d}.jsonl"
        with output_errors(path), open(path, "wb") as file:
            if private:
                path.chmod(0o600)
            for custom_id, request in chain([first], islice(requests, most - 1)):
                file.write(request_line(custom_id, request, model))
    return files


def request_line(custom_id: str, request: ChatRequest, model: str) -> bytes:
    """One request, with its newline."""
    body = request_body(request, model, PLAIN)
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def read_results(path: Path) -> Iterator[Result]:
    """Yield the results in a file. Raises InputError as `json_lines`."""
    for number, line in read_lines(path):
        yield _read(parse_line(line, f"{path}, line {number}"))


def _read(found: Any) -> Result:
    custom_id = found.get("custom_id") if isinstance(found, dict) else None
    if not isinstance(custom_id, str):
        return None, None
    return custom_id, _reply(found.get("response"), found.get("error"))


def _reply(response: Any, error: Any) -> ChatReply | None:
    if error or not isinstance(response, dict):
        return None
    status = response.get("status_code", 200)
    if type(status) is not int or not 200 <= status < 600 or status in BUSY | DENIED:
        return None
    if status != 200:
        return ChatReply(None, f"refused with status {status}", refused=True)
    return read_completion(response.get("body"))
