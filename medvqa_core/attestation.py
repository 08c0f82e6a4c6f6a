"""`--attestation FILE`: a person's word that named machines may have credentialed texts under the data use agreement.

    person: Jane Doe <jane.doe@hospital.example>
    hosts: [llm.hospital.example, "http://10.1.2.3:8000"]
    agreement: PhysioNet Credentialed Health Data Use Agreement 1.5.0, signed on 2026-01-12
    third_parties: false
    zero_retention: true

A host without `http://` is spoken to by HTTPS only, and a port that is named is the only one. The file's digest goes
into the record of every run that used it; what the file says is never checked, it is the person who answers for it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError, GovernanceError
from medvqa_core.settings import check_key

FIELDS = ("person", "hosts", "agreement", "third_parties", "zero_retention")
_HOST = re.compile(r"(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::([0-9]{1,5}))?", re.ASCII)
_ENDPOINT = re.compile(rf"{_HOST.pattern}(?:/[^\\\s@]*)?", re.ASCII)  # no user name: what could be read in two ways


@dataclass(frozen=True)
class Attestation:
    """What a file attests; `hosts` as (scheme, name, port), port None for any. `digest` is the file's SHA-256."""

    person: str
    hosts: tuple[tuple[str, str, str | None], ...]
    agreement: str
    digest: str

    def covers(self, endpoint: str) -> bool:
        """Whether texts may be sent to `endpoint`."""
        match = _ENDPOINT.fullmatch(endpoint.lower())
        if match is None or match[1] is None:
            return False
        return any((match[1], match[2]) == host[:2] and host[2] in (None, match[3]) for host in self.hosts)


def read_attestation(path: Path) -> Attestation:
    """Read a file as the module describes it.

    Raises:
        ConfigError: unreadable, a field missing, empty or unknown, or a host that is none.
        GovernanceError: it does not say that texts go to no third party and are not kept.
    """
    import yaml

    try:
        content = path.read_bytes()
        values = yaml.safe_load(content)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"attestation {path}: cannot be read ({' '.join(str(error).split())[:200]})") from None
    if not isinstance(values, Mapping):
        raise ConfigError(f"attestation {path}: fields {', '.join(FIELDS)} are needed, found {type(values).__name__}")
    for key in values:
        check_key(key, FIELDS, f"attestation {path}")
    missing = [name for name in FIELDS if name not in values]
    if missing:
        raise ConfigError(f"attestation {path}: {', '.join(missing)} is missing")
    if values["third_parties"] is not False or values["zero_retention"] is not True:
        raise GovernanceError(
            f"attestation {path}: `third_parties: false` and `zero_retention: true` are needed; credentialed texts go "
            "to nobody else and to no server that keeps them"
        )
    person, agreement = (_text(values[name], name, path) for name in ("person", "agreement"))
    return Attestation(person, _hosts(values["hosts"], path), agreement, digest(content))


def _text(value: Any, name: str, path: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"attestation {path}: {name} is {value!r}; a text is needed")
    return value.strip()


def _hosts(values: Any, path: Path) -> tuple[tuple[str, str, str | None], ...]:
    named = values if isinstance(values, list) else []
    matches = [_HOST.fullmatch(value.strip().lower()) if isinstance(value, str) else None for value in named]
    if not matches or None in matches:
        raise ConfigError(
            f"attestation {path}: hosts is {values!r}; a list of names or addresses is needed, such as "
            '[llm.hospital.example, "http://10.1.2.3:8000"]'
        )
    return tuple((match[1] or "https", match[2], match[3]) for match in matches if match is not None)
