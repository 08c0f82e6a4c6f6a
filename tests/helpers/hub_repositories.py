"""What the loopback Hub of `hub_server` holds: repositories with commits, tags, a visibility and a gate."""

import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any

LFS_ENDINGS = (".safetensors", ".parquet", ".png", ".jpg", ".arrow", ".bin", ".zip")  # else: a regular file
POINTER_SIZE = 134


@dataclass(frozen=True)
class Blob:
    """A file's content, and how git names it."""

    content: bytes
    lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def oid(self) -> str:
        """The git id: of the content, or of the pointer file that stands for it."""
        content = self.content
        if self.lfs:
            lines = ("version https://git-lfs.github.com/spec/v1", f"oid sha256:{self.sha256}", f"size {len(content)}")
            content = ("\n".join(lines) + "\n").encode()
        return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()

    def entry(self, path: str) -> dict[str, Any]:
        """The file as the tree lists it."""
        found: dict[str, Any] = {"type": "file", "path": path, "size": len(self.content), "oid": self.oid}
        if self.lfs:
            found["lfs"] = {"oid": self.sha256, "size": len(self.content), "pointerSize": POINTER_SIZE}
        return found


@dataclass
class Repository:
    """One repository.

    Attributes:
        commits: id -> tree (path -> Blob), oldest first; the last one is `main`.
        readers: users whose request for a gated repository was granted.
    """

    type: str
    id: str
    visibility: str = "public"
    gated: str | bool = False
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    readers: set[str] = field(default_factory=set)
    _number: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.commit({".gitattributes": Blob(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n", False)}, ())

    @property
    def owner(self) -> str:
        return self.id.partition("/")[0]

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> dict[str, bytes]:
        """The content of `main`, but for what the Hub puts there itself."""
        return {path: blob.content for path, blob in self.commits[self.head].items() if path != ".gitattributes"}

    def commit(self, added: dict[str, Blob], deleted: tuple[str, ...] | list[str]) -> str:
        tree = dict(self.commits[self.head]) if self.commits else {}
        for path in deleted:
            for name in [name for name in tree if name == path or name.startswith(path.rstrip("/") + "/")]:
                del tree[name]
        tree |= added
        commit = hashlib.sha1(f"{self.id} {next(self._number)}".encode()).hexdigest()
        self.commits[commit] = tree
        return commit

    def resolve(self, revision: str) -> str | None:
        """The commit of a branch, a tag or a commit's id; None where there is none."""
        if revision in ("main", "refs/heads/main"):
            return self.head
        found = self.tags.get(revision.removeprefix("refs/tags/"), revision)
        return found if found in self.commits else None

    def lists_for(self, user: str | None) -> bool:
        """Whether `user` can see that the repository is there."""
        return self.visibility == "public" or user == self.owner

    def opens_for(self, user: str | None) -> bool:
        """Whether `user` can read its files."""
        return self.lists_for(user) and (not self.gated or user == self.owner or user in self.readers)

    def info(self, commit: str) -> dict[str, Any]:
        return {
            "_id": hashlib.sha1(self.id.encode()).hexdigest()[:24], "id": self.id, "author": self.owner,
            "sha": commit, "private": self.visibility == "private", "gated": self.gated, "disabled": False, "tags": [],
            "visibility": self.visibility, "downloads": 0, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z",
            "siblings": [{"rfilename": path} for path in sorted(self.commits[commit])],
        }  # fmt: skip

    def tree(self, commit: str, folder: str, recursive: bool) -> list[dict[str, Any]] | None:
        """What lies in `folder`; None where there is no such folder."""
        prefix = f"{folder}/" if folder else ""
        below = {path: blob for path, blob in self.commits[commit].items() if path.startswith(prefix)}
        if folder and not below:
            return None
        entries: dict[str, dict[str, Any]] = {}
        for path, blob in sorted(below.items()):
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts)) if recursive else range(1, min(len(parts), 2)):
                name = prefix + "/".join(parts[:depth])
                oid = hashlib.sha1(f"tree {name}".encode()).hexdigest()
                entries[name] = {"type": "directory", "path": name, "size": 0, "oid": oid}
            if recursive or len(parts) == 1:
                entries[path] = blob.entry(path)
        return list(entries.values())
