"""Call the Hub with retries, and turn errors of its client into messages with a remedy."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from medvqa_core.errors import OutputError, one_line

T = TypeVar("T")
WAITS = (2.0, 10.0, 30.0)  # seconds before each further try
TRANSIENT = (408, 412, 425, 429, 500, 502, 503, 504)  # 412: another commit came in between
_REMEDIES = {
    401: "the token is missing, wrong or expired. Run hf auth login, or set HF_TOKEN",
    403: "the token cannot write to this repository. Use a token with write access, or another owner",
    404: "the repository does not exist, or the token cannot see it. Check owner and name",
    429: "the Hub's rate limit is reached. Wait",
}


def with_retries(call: Callable[[], T]) -> T:
    """Return the result of `call`, which is retried after transient errors and must be idempotent."""
    for wait in WAITS:
        try:
            return call()
        except Exception as error:
            if not _is_transient(error):
                raise
        time.sleep(wait)
    return call()


@contextmanager
def hub_errors(repo_id: str) -> Iterator[None]:
    """Turn errors of the Hub's client into an OutputError with a remedy."""
    import httpx2
    from huggingface_hub.errors import HFValidationError, OfflineModeIsEnabled

    try:
        yield
    except HFValidationError as error:
        raise OutputError(f"{repo_id}: {one_line(error)}") from error
    except OfflineModeIsEnabled as error:
        raise OutputError(f"{repo_id}: HF_HUB_OFFLINE is set. Unset it to push.") from error
    except (httpx2.HTTPError, RuntimeError) as error:  # the client wraps failed uploads in RuntimeError
        if isinstance(error, RuntimeError) and _status(error) is None and not _is_cut(error):
            raise
        status = _status(error)
        remedy = _REMEDIES.get(status or 0, f"the request to the Hub failed ({one_line(error)[:200]})")
        raise OutputError(f"{repo_id}: {remedy}. Then run the same command again to resume.") from error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status(error: BaseException) -> int | None:
    """The HTTP status that caused an error. None without a response."""
    responses = (getattr(found, "response", None) for found in _chain(error))
    return next((response.status_code for response in responses if response is not None), None)


def _is_cut(error: BaseException) -> bool:
    import httpx2

    return any(isinstance(found, httpx2.TransportError | ConnectionError) for found in _chain(error))


def _is_transient(error: Exception) -> bool:
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return False
    status = _status(error)
    return status in TRANSIENT if status is not None else _is_cut(error)
