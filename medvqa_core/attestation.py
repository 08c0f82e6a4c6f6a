"""`--attestation FILE`: a person attests that named machines may receive credentialed texts.

    person: Jane Doe <jane.doe@hospital.example>
    hosts: [llm.hospital.example, "http://10.1.2.3:8000"]
    agreement: PhysioNet Credentialed Health Data Use Agreement 1.5.0, signed on 2026-01-12
    third_parties: false
    zero_retention: true

A host without `http://` is contacted by HTTPS only. If a port is given, only that port is allowed. The digest of the
file is recorded in every run that used it. Its statements are not verified: the person is responsible for them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.digests import digest
from medvqa_core.errors import ConfigError, GovernanceError, one_line
from medvqa_core.settings import check_key

FIELDS = ("person", "hosts", "agreement", "third_parties", "zero_retention")
_HOST = re.compile(r"(?:(https?)://)?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\])(?::([0-9]{1,5}))?", re.ASCII)
_ENDPOINT = re.compile(rf"{_HOST.pattern}(?:/[^\\\s@]*)?", re.ASCII)  # no user name, which parsers read differently


@dataclass(frozen=True)
class Attestation:
    """The content of an attestation file.

    Attributes:
        hosts: (scheme, name, port) of each; port None allows any.
        digest: SHA-256 of the file.
    """

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
    """Read an attestation file.

    Raises:
        ConfigError: the file cannot be read, or a field is missing, unknown or invalid.
        GovernanceError: it does not exclude third parties and retention.
    """
    import yaml

    try:
        content = path.read_bytes()
        values = yaml.safe_load(content)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"attestation {path}: cannot be read ({one_line(error)[:200]})") from None
    if not isinstance(values, Mapping):
        raise ConfigError(f"attestation {path}: expected the fields {', '.join(FIELDS)}")
    for key in values:
        check_key(key, FIELDS, f"attestation {path}")
    missing = [name for name in FIELDS if name not in values]
    if missing:
        raise ConfigError(f"attestation {path}: {', '.join(missing)} is missing")
    if values["third_parties"] is not False or values["zero_retention"] is not True:
        raise GovernanceError(
            f"attestation {path}: credentialed texts need `third_parties: false` and `zero_retention: true`"
        )
    for name in ("person", "agreement"):
        if not isinstance(values[name], str) or not values[name].strip():
            raise ConfigError(f"attestation {path}: {name} is {values[name]!r}. Expected a non-empty string")
    return Attestation(
        values["person"].strip(), _parse_hosts(values["hosts"], path), values["agreement"].strip(), digest(content)
    )


def _parse_hosts(values: Any, path: Path) -> tuple[tuple[str, str, str | None], ...]:
    named = values if isinstance(values, list) else []
    matches = [_HOST.fullmatch(value.strip().lower()) if isinstance(value, str) else None for value in named]
    if not matches or None in matches:
        raise ConfigError(
            f"attestation {path}: hosts is {values!r}. Expected a list of names or addresses, such as "
            '[llm.hospital.example, "http://10.1.2.3:8000"]'
        )
    return tuple((match[1] or "https", match[2], match[3]) for match in matches if match is not None)
