"""One push to the Hub, in an order in which nothing can be seen too early, and which goes on wherever it stopped.

    1. make the repository, private            5. verify: every file's hash as the Hub states it, small ones by download
    2. gate it by hand where the class asks    6. tag vX.Y.Z
    3. read the gate back                      7. make it visible, if asked; read the gate back once more
    4. upload, as one commit of named files

Each step looks at what is there and does what is missing: the same command goes on after a kill at any point, and does
nothing where all is done. Large files are sent before the commit that names them, and those that have arrived are not
sent again. A repository that holds anything which this command did not put there is left alone: `MARK` tells.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medvqa_core.errors import ConfigError, GovernanceError, OutputError, one_line
from medvqa_core.governance import Governance, check_not_lowered, parse
from medvqa_hub.publishing.hub_calls import hub_errors, with_retries
from medvqa_hub.publishing.staging import MARK, StagedFile, describe_staging

MODEL, DATASET = "model", "dataset"
MANUAL = "manual"  # of a gate: the owner lets each reader in
FIRST_VERSION = "1.0.0"
SMALL = 1_000_000  # bytes; larger files are compared by the hash that the Hub states
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_OF_THE_HUB = ".gitattributes"


@dataclass(frozen=True)
class PushPlan:
    """Where a staging folder goes, and who may see it.

    Attributes:
        repo_id: `owner/name`.
        repo_type: MODEL or DATASET, as the Hub calls it.
        governance: class of what is pushed. Whether it may be pushed at all is decided before (`check_publishable`).
        gated: readers have to be let in one by one.
        public: True: visible when all is done. False: private from the first step on. None: a new repository stays
            private, an old one what it is.
        version: `X.Y.Z`, for the tag; None: that of the same content, else 1.0.0, then 1.1.0, …
        of_kind: what it holds, where the Hub has no type for that.
    """

    repo_id: str
    repo_type: str
    governance: Governance
    gated: bool = False
    public: bool | None = None
    version: str | None = None
    of_kind: str | None = None

    @property
    def kind(self) -> str:
        """What the repository's mark says that it holds."""
        return self.of_kind or self.repo_type

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", self.repo_id):
            raise ConfigError(f"repository {self.repo_id!r}: expected owner/name, such as me/swin-ved-phantom")
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ConfigError(f"version {self.version!r}: expected X.Y.Z, such as {FIRST_VERSION}")


@dataclass(frozen=True)
class PushResult:
    """Attributes:
    url: of the repository.
    commit: id of the commit that holds the files.
    tag: such as `v1.0.0`.
    """

    url: str
    commit: str
    tag: str


def push_folder(staging: Path, plan: PushPlan, hub: Any = None, log: Callable[[str], None] = print) -> PushResult:
    """Bring the repository to what `staging` holds, and nothing else.

    Args:
        staging: of `staging.staged`: the files by their names in the repository, MARK among them.
        hub: HfApi; None: with the address and token of this machine.

    Raises:
        ConfigError: the repository holds something else, or the version has other content.
        GovernanceError: the repository is of a stricter class, or of a weaker one and public without that being asked
            for; or the gate does not take.
        OutputError: the Hub refuses, cannot be reached, or holds other bytes than were sent.
    """
    if hub is None:
        from huggingface_hub import HfApi

        hub = HfApi()
    files = describe_staging(staging)
    with hub_errors(plan.repo_id):
        remote = _Remote(hub, plan)
        if remote.open():
            log(f"made {plan.repo_id}, private")
        remote.refuse_foreign(plan.governance)
        if plan.public is False and not remote.info().private:
            remote.show(False)
        if plan.gated:
            remote.close_gate()
        tag = remote.choose_tag(files)
        commit = remote.upload(staging, files, f"{tag} ({plan.governance})", log)
        remote.verify(staging, files, commit)
        if tag not in remote.tags():
            remote.tag(tag, commit)
            log(f"tagged {tag}")
        if plan.public and remote.info().private:
            remote.show(True)
            log(f"{plan.repo_id} is visible now")
        state = "private" if remote.info().private else "public"
    url = f"{hub.endpoint}/{'' if plan.repo_type == MODEL else plan.repo_type + 's/'}{plan.repo_id}"
    log(f"{url} is at {tag}, {state}{', readers are let in one by one' if plan.gated else ''}")
    return PushResult(url, commit, tag)


class _Remote:
    """The repository as the Hub has it; every question is asked again, since others may change it."""

    def __init__(self, hub: Any, plan: PushPlan) -> None:
        self._hub, self._plan = hub, plan
        self._where = {"repo_id": plan.repo_id, "repo_type": plan.repo_type}

    def info(self) -> Any:
        return with_retries(lambda: self._hub.repo_info(**self._where))

    def open(self) -> bool:
        """Make the repository where there is none; returns whether it was made."""
        if with_retries(lambda: self._hub.repo_exists(**self._where)):
            return False
        with_retries(lambda: self._hub.create_repo(**self._where, private=True, exist_ok=True))
        if not self.info().private:
            raise GovernanceError(
                f"{self._plan.repo_id} was to be private and is public: nothing was uploaded; look at the settings of "
                "your organization, or take another owner"
            )
        return True

    def files(self, revision: str) -> dict[str, Any]:
        """path -> RepoFile of a commit or tag, without what the Hub puts there itself."""

        def read() -> dict[str, Any]:
            entries = self._hub.list_repo_tree(**self._where, revision=revision, recursive=True)
            return {entry.path: entry for entry in entries if hasattr(entry, "size") and entry.path != _OF_THE_HUB}

        return with_retries(read)

    def read(self, path: str, revision: str) -> bytes:
        """The content of a file, downloaded anew: no cache stands between."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        url = hf_hub_url(filename=path, revision=revision, endpoint=self._hub.endpoint, **self._where)

        def fetch() -> bytes:
            response = get_session().get(url, headers=build_hf_headers(token=self._hub.token), follow_redirects=True)
            hf_raise_for_status(response)
            return response.content

        return with_retries(fetch)

    def refuse_foreign(self, governance: Governance) -> None:
        """Raise where the repository is not this command's, of a stricter class than `governance`, or of a weaker one
        and public, and nobody says that it is to stay so."""
        head = self.info().sha
        found = self.files(head)
        if not found:
            return
        if MARK not in found:
            raise ConfigError(
                f"{self._plan.repo_id} holds {len(found)} files that this command did not put there ({min(found)}, …): "
                "choose another name"
            )
        mark = self._read_mark(head)
        if mark.get("kind") != self._plan.kind:
            raise ConfigError(f"{self._plan.repo_id} holds a {mark.get('kind')}: choose another name")
        before = parse(str(mark.get("governance")), f"{self._plan.repo_id}/{MARK}")
        check_not_lowered(before, governance, self._plan.repo_id)
        if before is not governance and self._plan.public is None and not self.info().private:
            raise GovernanceError(
                f"{self._plan.repo_id} is public, as {before}; what is pushed now is {governance}: say --public or "
                "--private, or choose another name"
            )

    def _read_mark(self, head: str) -> dict[str, Any]:
        try:
            mark = json.loads(self.read(MARK, head))
        except (ValueError, RecursionError):
            mark = None
        if not isinstance(mark, dict):
            raise ConfigError(
                f"{self._plan.repo_id}/{MARK} is not what this command writes, so that nobody knows the class of what "
                "lies there: put the file of its last version back, or choose another name"
            )
        return mark

    def close_gate(self) -> None:
        """Have readers let in one by one, and read back that it is so."""
        if self.info().gated != MANUAL:
            with_retries(lambda: self._hub.update_repo_settings(**self._where, gated=MANUAL))
        self._check_gate("nothing was uploaded")

    def _check_gate(self, so_far: str) -> None:
        gated = self.info().gated
        if gated != MANUAL:
            raise GovernanceError(
                f"the gate of {self._plan.repo_id} does not take: the Hub says gated={gated!r}, asked was {MANUAL!r}; "
                f"{so_far}. Set it by hand in the repository's settings, then run the same command again"
            )

    def tags(self) -> dict[str, str]:
        refs = with_retries(lambda: self._hub.list_repo_refs(**self._where))
        return {tag.name: tag.target_commit for tag in refs.tags}

    def choose_tag(self, files: dict[str, StagedFile]) -> str:
        """The tag of this push; of a version that is there already the content has to be the same."""
        tags = self.tags()
        if self._plan.version is not None:
            tag = f"v{self._plan.version}"
            if tag in tags and not _same(files, self.files(tag)):
                raise ConfigError(
                    f"{self._plan.repo_id} has a {tag} with other content, and people may rely on it: pass another "
                    "--version, or none"
                )
            return tag
        versions = [tuple(map(int, found.groups())) for name in tags if (found := _VERSION.fullmatch(name[1:]))]
        if not versions:
            return f"v{FIRST_VERSION}"
        major, minor, patch = max(versions)
        last = f"v{major}.{minor}.{patch}"
        return last if _same(files, self.files(last)) else f"v{major}.{minor + 1}.0"

    def upload(self, staging: Path, files: dict[str, StagedFile], message: str, log: Callable[[str], None]) -> str:
        """One commit that makes the repository hold `files`; returns the commit that does."""
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        def commit_what_differs() -> str:
            head = self.info().sha
            found = self.files(head)
            if _same(files, found):
                return head
            changed = [path for path, file in files.items() if path not in found or not file.is_same(found[path])]
            log(f"uploading {len(changed)} of {len(files)} files, {sum(files[path].size for path in changed):,} bytes")
            operations: list[Any] = [CommitOperationAdd(path, str(staging / path)) for path in changed]
            operations += [CommitOperationDelete(path) for path in found if path not in files]
            try:
                done = self._hub.create_commit(
                    **self._where, operations=operations, commit_message=message, parent_commit=head
                )
            except ValueError as error:
                raise OutputError(
                    f"the Hub does not take the card of {self._plan.repo_id}: {one_line(error)}"
                ) from error
            return done.oid

        return with_retries(commit_what_differs)

    def verify(self, staging: Path, files: dict[str, StagedFile], commit: str) -> None:
        """Raise an OutputError unless the Hub holds exactly what was staged, byte for byte."""
        found = self.files(commit)
        wrong = sorted(files.keys() ^ found.keys())
        wrong += [path for path in files.keys() & found.keys() if not files[path].is_same(found[path])]
        small = [path for path, file in files.items() if file.size <= SMALL and path not in wrong]
        wrong += [path for path in small if self.read(path, commit) != (staging / path).read_bytes()]
        if wrong:
            raise OutputError(
                f"{self._plan.repo_id} holds other bytes than were sent ({', '.join(wrong[:3])}): it was not tagged, "
                "nor made visible; run the same command again"
            )

    def tag(self, name: str, commit: str) -> None:
        with_retries(lambda: self._hub.create_tag(**self._where, tag=name, revision=commit, exist_ok=True))

    def show(self, public: bool) -> None:
        """Change the visibility; where a gate is asked for, it has to stand before and after."""
        if public and self._plan.gated:
            self._check_gate("it stays private")
        visibility = "public" if public else "private"
        with_retries(lambda: self._hub.update_repo_settings(**self._where, visibility=visibility))
        if public and self._plan.gated and self.info().gated != MANUAL:
            self.show(False)
            self._check_gate("it is private again")


def _same(files: dict[str, StagedFile], found: dict[str, Any]) -> bool:
    return files.keys() == found.keys() and all(file.is_same(found[path]) for path, file in files.items())
