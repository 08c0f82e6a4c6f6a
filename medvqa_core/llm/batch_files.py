"""Batch files: requests that are answered on another machine, and their results.

The format is that of vLLM's `run-batch` and of hosted batch services. A request is a line
`{"custom_id", "method": "POST", "url": "/v1/chat/completions", "body"}`, a result is a line
`{"custom_id", "response": {"status_code", "body"}, "error"}`, in any order.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from medvqa_core.files import output_errors
from medvqa_core.json_lines import parse_line, read_lines
from medvqa_core.llm.chat import ChatReply, ChatRequest
from medvqa_core.llm.completions import ServerCapabilities, read_completion, request_body
from medvqa_core.llm.server import BUSY, DENIED

PLAIN = ServerCapabilities("enforced", True)  # replies are validated anyway


@dataclass(frozen=True)
class Result:
    """A line of results.

    Attributes:
        custom_id: of the request; None if the line cannot be read.
        reply: None if the request must be sent again.
    """

    custom_id: str | None
    reply: ChatReply | None


class BatchWriter:
    """Writes batch files into a folder. Use it as a context manager.

    Args:
        private: give the files mode 0600 and names that start with CREDENTIALED.
        most: requests per file; hosted services accept 50,000.

    Raises:
        OutputError: a file cannot be written.
    """

    def __init__(self, folder: Path, private: bool, most: int) -> None:
        self._folder, self._private, self._most = folder, private, most
        self._file: IO[bytes] | None = None
        self._lines = self.files = 0

    def __enter__(self) -> "BatchWriter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with output_errors(self._folder):
                self._file.close()

    def write(self, custom_id: str, request: ChatRequest, model: str) -> None:
        """Append a request."""
        if self._file is None or self._lines == self._most:
            self.__exit__()
            self.files, self._lines = self.files + 1, 0
            path = self._folder / f"{'CREDENTIALED-' if self._private else ''}batch-{self.files:04d}.jsonl"
            with output_errors(path):
                self._file = open(path, "wb")  # noqa: SIM115 - closed by __exit__ or the next file
                if self._private:
                    path.chmod(0o600)
        with output_errors(self._folder):
            self._file.write(request_line(custom_id, request, model))
        self._lines += 1


def request_line(custom_id: str, request: ChatRequest, model: str) -> bytes:
    """One request, with its newline."""
    body = request_body(request, model, PLAIN)
    line = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def read_results(path: Path) -> Iterator[Result]:
    """Yield the results in a file. Broken lines have the `custom_id` None. Raises InputError as `json_lines`."""
    for number, line in read_lines(path):
        yield _read(parse_line(line, f"{path}, line {number}"))


def _read(found: Any) -> Result:
    custom_id = found.get("custom_id") if isinstance(found, dict) else None
    if not isinstance(custom_id, str):
        return Result(None, None)
    return Result(custom_id, _reply(found.get("response"), found.get("error")))


def _reply(response: Any, error: Any) -> ChatReply | None:
    if error or not isinstance(response, dict):
        return None
    status = response.get("status_code", 200)
    if type(status) is not int or not 200 <= status < 600 or status in BUSY | DENIED:
        return None
    if status != 200:
        return ChatReply(None, f"refused with status {status}", refused=True)
    return read_completion(response.get("body"))
