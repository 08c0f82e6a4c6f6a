"""Push a folder to the Hub in an order that exposes nothing early, and that can be resumed.

    1. create a private repository             4. upload named files in one commit
    2. gate it if the class requires it        5. verify the hash of every file, small files by download
    3. read the gate back                      6. tag vX.Y.Z
                                               7. make it public if asked, and read the gate back again

Each step checks the state of the repository and only does what is missing, so that an interrupted push can be resumed.
Uploaded large files are not sent again. A repository with files from elsewhere (without `MARK`) is not changed.
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
MANUAL = "manual"  # gate for which the owner approves each reader
FIRST_VERSION = "1.0.0"
SMALL = 1_000_000  # bytes. Larger files are only compared by hash.
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_OF_THE_HUB = ".gitattributes"


@dataclass(frozen=True)
class PushPlan:
    """Target of a push, and its visibility.

    Attributes:
        repo_id: `owner/name`.
        repo_type: MODEL or DATASET.
        governance: class of the content. `check_publishable` decides before whether it may be pushed.
        gated: whether each reader has to be approved.
        public: True makes the repository public at the end, False private at the start. None keeps the visibility of
            an existing repository, and a new one private.
        version: `X.Y.Z` for the tag. None takes that of the same content, else 1.0.0, then 1.1.0 and so on.
        content: kind of the content, if it differs from `repo_type`.
    """

    repo_id: str
    repo_type: str
    governance: Governance
    gated: bool = False
    public: bool | None = None
    version: str | None = None
    content: str | None = None

    @property
    def kind(self) -> str:
        """The kind in the repository's mark."""
        return self.content or self.repo_type

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", self.repo_id):
            raise ConfigError(f"repository {self.repo_id!r}: expected owner/name, such as me/swin-ved-phantom")
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ConfigError(f"version {self.version!r}: expected X.Y.Z, such as {FIRST_VERSION}")


@dataclass(frozen=True)
class PushResult:
    """Attributes:
    url: address of the repository.
    commit: id of the commit.
    tag: such as `v1.0.0`.
    """

    url: str
    commit: str
    tag: str


def push_folder(staging: Path, plan: PushPlan, hub: Any = None, log: Callable[[str], None] = print) -> PushResult:
    """Make the repository hold exactly the files in `staging`.

    Args:
        staging: folder from `staging.staged`.
        hub: HfApi. The default uses the address and token of this machine.

    Raises:
        ConfigError: the repository holds something else, or the version exists with other content.
        GovernanceError: the repository has a stricter class, is public with a weaker class and no visibility was
            requested, or the gate cannot be set.
        OutputError: the Hub rejects the request, cannot be reached, or holds other bytes than were sent.
    """
    if hub is None:
        from huggingface_hub import HfApi

        hub = HfApi()
    files = describe_staging(staging)
    with hub_errors(plan.repo_id):
        remote = _Remote(hub, plan)
        if remote.open():
            log(f"created {plan.repo_id} (private)")
        remote.check_owner(plan.governance)
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
            log(f"{plan.repo_id} is public now")
        state = "private" if remote.info().private else "public"
    url = f"{hub.endpoint}/{'' if plan.repo_type == MODEL else plan.repo_type + 's/'}{plan.repo_id}"
    log(f"{url} is at {tag}, {state}{', gated' if plan.gated else ''}")
    return PushResult(url, commit, tag)


class _Remote:
    """The repository on the Hub. Nothing is cached, since others may change it."""

    def __init__(self, hub: Any, plan: PushPlan) -> None:
        self._hub, self._plan = hub, plan
        self._where = {"repo_id": plan.repo_id, "repo_type": plan.repo_type}

    def info(self) -> Any:
        return with_retries(lambda: self._hub.repo_info(**self._where))

    def open(self) -> bool:
        """Create the repository if it does not exist. Returns whether it was created."""
        if with_retries(lambda: self._hub.repo_exists(**self._where)):
            return False
        with_retries(lambda: self._hub.create_repo(**self._where, private=True, exist_ok=True))
        if not self.info().private:
            raise GovernanceError(
                f"{self._plan.repo_id} was created public instead of private. Nothing was uploaded. Check the settings "
                "of your organization, or use another owner."
            )
        return True

    def files(self, revision: str) -> dict[str, Any]:
        """path -> RepoFile of a commit or tag, without the Hub's own file."""

        def read() -> dict[str, Any]:
            entries = self._hub.list_repo_tree(**self._where, revision=revision, recursive=True)
            return {entry.path: entry for entry in entries if hasattr(entry, "size") and entry.path != _OF_THE_HUB}

        return with_retries(read)

    def read(self, path: str, revision: str) -> bytes:
        """Download a file without a cache."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

        url = hf_hub_url(filename=path, revision=revision, endpoint=self._hub.endpoint, **self._where)

        def fetch() -> bytes:
            response = get_session().get(url, headers=build_hf_headers(token=self._hub.token), follow_redirects=True)
            hf_raise_for_status(response)
            return response.content

        return with_retries(fetch)

    def check_owner(self, governance: Governance) -> None:
        """Raise if the repository has files from elsewhere or a stricter class than `governance`, or is public with a
        weaker class and no visibility was requested."""
        head = self.info().sha
        found = self.files(head)
        if not found:
            return
        if MARK not in found:
            raise ConfigError(
                f"{self._plan.repo_id} holds {len(found)} files that this command did not push ({min(found)}, …). "
                "Choose another name."
            )
        mark = self._read_mark(head)
        if mark.get("kind") != self._plan.kind:
            raise ConfigError(f"{self._plan.repo_id} holds a {mark.get('kind')}. Choose another name.")
        before = parse(str(mark.get("governance")), f"{self._plan.repo_id}/{MARK}")
        check_not_lowered(before, governance, self._plan.repo_id)
        if before is not governance and self._plan.public is None and not self.info().private:
            raise GovernanceError(
                f"{self._plan.repo_id} is public with class {before}, but the new content has class {governance}. Pass "
                "--public or --private, or choose another name."
            )

    def _read_mark(self, head: str) -> dict[str, Any]:
        try:
            mark = json.loads(self.read(MARK, head))
        except (ValueError, RecursionError):
            mark = None
        if not isinstance(mark, dict):
            raise ConfigError(
                f"{self._plan.repo_id}/{MARK} is damaged, so that the class of the repository is unknown. Restore the "
                "file from an earlier version, or choose another name."
            )
        return mark

    def close_gate(self) -> None:
        """Require approval of each reader, and read the setting back."""
        if self.info().gated != MANUAL:
            with_retries(lambda: self._hub.update_repo_settings(**self._where, gated=MANUAL))
        self._check_gate("nothing was uploaded")

    def _check_gate(self, so_far: str) -> None:
        gated = self.info().gated
        if gated != MANUAL:
            raise GovernanceError(
                f"the gate of {self._plan.repo_id} could not be set (gated={gated!r}, expected {MANUAL!r}), {so_far}. "
                "Set it in the repository's settings, then run the same command again."
            )

    def tags(self) -> dict[str, str]:
        refs = with_retries(lambda: self._hub.list_repo_refs(**self._where))
        return {tag.name: tag.target_commit for tag in refs.tags}

    def choose_tag(self, files: dict[str, StagedFile]) -> str:
        """The tag of this push. An existing version must have the same content."""
        tags = self.tags()
        if self._plan.version is not None:
            tag = f"v{self._plan.version}"
            if tag in tags and not _same(files, self.files(tag)):
                raise ConfigError(
                    f"{self._plan.repo_id} has a {tag} with other content. Pass another --version, or none."
                )
            return tag
        versions = [tuple(map(int, found.groups())) for name in tags if (found := _VERSION.fullmatch(name[1:]))]
        if not versions:
            return f"v{FIRST_VERSION}"
        major, minor, patch = max(versions)
        last = f"v{major}.{minor}.{patch}"
        return last if _same(files, self.files(last)) else f"v{major}.{minor + 1}.0"

    def upload(self, staging: Path, files: dict[str, StagedFile], message: str, log: Callable[[str], None]) -> str:
        """Make the repository hold `files` in one commit. Returns its id."""
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
                raise OutputError(f"the Hub rejects the card of {self._plan.repo_id}: {one_line(error)}") from error
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
                f"{self._plan.repo_id} holds other bytes than were sent ({', '.join(wrong[:3])}). It was not tagged or "
                "made public. Run the same command again."
            )

    def tag(self, name: str, commit: str) -> None:
        with_retries(lambda: self._hub.create_tag(**self._where, tag=name, revision=commit, exist_ok=True))

    def show(self, public: bool) -> None:
        """Change the visibility. A requested gate must be set before and after."""
        if public and self._plan.gated:
            self._check_gate("it stays private")
        visibility = "public" if public else "private"
        with_retries(lambda: self._hub.update_repo_settings(**self._where, visibility=visibility))
        if public and self._plan.gated and self.info().gated != MANUAL:
            self.show(False)
            self._check_gate("it is private again")


def _same(files: dict[str, StagedFile], found: dict[str, Any]) -> bool:
    return files.keys() == found.keys() and all(file.is_same(found[path]) for path, file in files.items())
