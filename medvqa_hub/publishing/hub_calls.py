"""Calls to the Hub: what passes is waited for, everything else becomes one sentence with the next step."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from medvqa_core.errors import OutputError, one_line

T = TypeVar("T")
WAITS = (2.0, 10.0, 30.0)  # seconds before each further try
PASSING = (408, 412, 425, 429, 500, 502, 503, 504)  # 412: somebody else's commit came between
_REMEDIES = {
    401: "the token is missing, wrong or expired: hf auth login, or set HF_TOKEN",
    403: "the token has no right to write there: take a token with write access, or another owner",
    404: "there is no such repository for this token: check owner and name",
    429: "the Hub asks to wait",
}


def with_retries(call: Callable[[], T]) -> T:
    """What `call` returns; it is made again after errors that pass. It has to bear being made twice."""
    for wait in WAITS:
        try:
            return call()
        except Exception as error:
            if not _passes(error):
                raise
        time.sleep(wait)
    return call()


@contextmanager
def hub_errors(repo_id: str) -> Iterator[None]:
    """Turn what the Hub's client raises into an OutputError that says what to do."""
    import httpx2
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    try:
        yield
    except HFValidationError as error:
        raise OutputError(f"{repo_id}: {one_line(error)}") from error
    except OfflineModeIsEnabled as error:
        raise OutputError(f"{repo_id}: HF_HUB_OFFLINE is set; unset it to push") from error
    except (httpx2.HTTPError, RuntimeError) as error:  # RuntimeError: the client's, around a failed upload
        if isinstance(error, RuntimeError) and _status(error) is None and not _is_cut(error):
            raise
        status = _status(error)
        remedy = _REMEDIES.get(status or 0, f"the Hub does not answer as it should ({one_line(error)[:200]})")
        raise OutputError(f"{repo_id}: {remedy}; then the same command goes on where it stopped") from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """The status of the answer that an error comes from; None where there was no answer."""
    responses = (getattr(found, "response", None) for found in _chain(error))
    return next((response.status_code for response in responses if response is not None), None)


def _is_cut(error: BaseException) -> bool:
    import httpx2

    return any(isinstance(found, httpx2.TransportError | ConnectionError) for found in _chain(error))


def _passes(error: Exception) -> bool:
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return False
    status = _status(error)
    return status in PASSING if status is not None else _is_cut(error)
