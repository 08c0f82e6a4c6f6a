"""A Hub on 127.0.0.1 for tests: what `huggingface_hub` and `datasets` ask of the real one when they push and load.

    with HubDouble() as hub:
        api = HfApi(endpoint=hub.endpoint, token=hub.token)

Repositories are `hub.repositories[type, id]` (`hub_repositories.Repository`). `hub.requests` lists what was asked.
`hub.fail(pattern, …)` makes requests go wrong: a status, or a connection that is cut while the body is read.
`hub.on_request` is called before each request is answered, with its number, method and path.
"""

import base64
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from hub_repositories import LFS_ENDINGS, Blob, Repository

OWNER, READER = "me", "reader"
_REPOSITORY = r"(?:(?P<type>model|dataset|space)s/)(?P<id>[^/]+/[^/]+)"


@dataclass
class Fault:
    """What goes wrong with the next `times` requests that `pattern` is found in (method, space, path)."""

    pattern: str
    status: int | None  # None: the connection is cut
    times: int


class HubDouble:
    """The server; `token` is the owner's, `reader_token` of somebody with an account and no rights.

    Attributes:
        gate_takes: False: the settings answer 200 and leave the gate as it was.
        stated: path -> sha256 that the tree states in place of the true one.
    """

    def __init__(self) -> None:
        self.token, self.reader_token = "hf_owner", "hf_reader"
        self.users = {self.token: OWNER, self.reader_token: READER}
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.objects: dict[str, bytes] = {}  # large files
        self.arriving: dict[str, bytes] = {}  # sent, and not verified yet
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.gate_takes = True
        self.stated: dict[str, str] = {}
        self.on_request: Callable[[int, str, str], None] = lambda number, method, path: None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "HubDouble":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def model(self, id: str) -> Repository:
        return self.repositories["model", id]

    def dataset(self, id: str) -> Repository:
        return self.repositories["dataset", id]

    def fail(self, pattern: str, status: int | None = None, times: int = 1) -> None:
        self.faults.append(Fault(pattern, status, times))

    def expire(self, token: str) -> None:
        del self.users[token]

    def note(self, method: str, path: str) -> Fault | None:
        """Remember a request; the fault that it meets."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            number = len(self.requests)
            fault = next((f for f in self.faults if f.times > 0 and re.search(f.pattern, self.requests[-1])), None)
            if fault is not None:
                fault.times -= 1
        self.on_request(number, method, path)
        return fault


class _Refusal(Exception):
    def __init__(self, status: int, message: str, code: str | None = None, **more: str) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


class _Handler(BaseHTTPRequestHandler):
    hub: HubDouble
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # answers of two packets would wait for each other
    wbufsize = -1

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.query = parse_qs(url.query)
        fault = self.hub.note(self.command, path)
        length = int(self.headers.get("Content-Length") or 0)
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        if fault is not None and fault.status is None:
            self.rfile.read(min(length, 10))
            self.close_connection = True
            self.connection.shutdown(2)
            return
        body = self._read_chunks() if chunked else self.rfile.read(length)
        try:
            if fault is not None:
                raise _Refusal(fault.status, "injected")
            self._send(200, *self._route(path, body))
        except _Refusal as refusal:
            headers = {"X-Error-Code": refusal.code} if refusal.code else {}
            headers["X-Error-Message"] = str(refusal)
            content = {"error": str(refusal), "errors": [{"message": str(refusal)}], **refusal.more}
            self._send(refusal.status, content, headers)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if status == 200 and "Range" in self.headers and isinstance(body, bytes):
            start, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
            part = content[int(start) : int(end) + 1 if end else None]
            headers = {**(headers or {}), "Content-Range": f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}"}
            status, content = 206, part
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()

    # ---- who asks for what

    def _user(self) -> str | None:
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if given and given not in self.hub.users:
            raise _Refusal(401, "Invalid credentials in Authorization header")
        return self.hub.users.get(given)

    def _repository(self, type: str, id: str, write: bool = False) -> Repository:
        found, user = self.hub.repositories.get((type, id)), self._user()
        if found is None or not found.lists_for(user):
            raise _Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        if write and user != found.owner:
            raise _Refusal(403, "Forbidden: you need write access")
        return found

    def _commit_of(self, repository: Repository, revision: str) -> str:
        commit = repository.resolve(revision)
        if commit is None:
            raise _Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    def _route(self, path: str, body: bytes) -> tuple:
        if path.startswith("/_lfs/"):
            return self._lfs(path.removeprefix("/_lfs/"), body)
        fixed = {
            "/api/repos/create": self._create,
            "/api/validate-yaml": self._validate,
            "/api/whoami-v2": self._whoami,
        }
        if path in fixed:
            return fixed[path](body)
        found = re.fullmatch(r"/(?:(dataset|space)s/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch", path)
        if found:
            return self._batch(self._repository(found[1] or "model", found[2], write=True), body)
        found = re.fullmatch(r"/(?:(dataset|space)s/)?([^/]+/[^/]+)/resolve/([^/]+|refs/[a-z]+/[^/]+)/(.+)", path)
        if found:
            return self._file(self._repository(found[1] or "model", found[2]), found[3], found[4])
        found = re.fullmatch(rf"/api/{_REPOSITORY}(?:/(?P<what>[a-z-]+)(?:/(?P<rest>.+))?)?", path)
        handler = found and getattr(self, "_api_" + (found["what"] or "revision").replace("-", "_"), None)
        if not handler:
            raise _Refusal(404, f"the loopback Hub has no {path}")
        writes = found["what"] in ("settings", "preupload", "commit", "tag")
        return handler(self._repository(found["type"], found["id"], writes), found["rest"] or "main", body)

    # ---- accounts and cards

    def _whoami(self, _body: bytes) -> tuple:
        if self._user() is None:
            raise _Refusal(401, "Invalid username or password.")
        return ({"type": "user", "name": self._user(), "orgs": [], "auth": {}},)

    def _create(self, body: bytes) -> tuple:
        user, asked = self._user(), json.loads(body)
        if user is None or asked.get("organization") not in (None, user):
            raise _Refusal(401 if user is None else 403, "You don't have the rights to create this repository")
        key = (asked.get("type") or "model", f"{user}/{asked['name']}")
        place = {"url": f"{self.hub.endpoint}/{'' if key[0] == 'model' else key[0] + 's/'}{key[1]}", "id": key[1]}
        if key in self.hub.repositories:
            raise _Refusal(409, "You already created this repository", url=place["url"])
        self.hub.repositories[key] = Repository(*key, asked.get("visibility") or "public")
        return (place,)

    def _validate(self, body: bytes) -> tuple:
        text = json.loads(body)["content"]
        found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        data = yaml.safe_load(found[1]) if found else {}
        if data.get("license") == "other" and not data.get("license_name"):
            raise _Refusal(400, '"license_name" is required when license is "other"')
        for name in ("tags", "datasets", "task_categories", "configs"):
            if not isinstance(data.get(name, []), list):
                raise _Refusal(400, f'"{name}" must be an array')
        return ({"errors": [], "warnings": [] if data else [{"message": "empty or missing yaml metadata"}]},)

    # ---- a repository

    def _api_revision(self, repository: Repository, revision: str, _body: bytes) -> tuple:
        return (repository.info(self._commit_of(repository, revision)),)

    def _api_refs(self, repository: Repository, _rest: str, _body: bytes) -> tuple:
        tags = [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": commit}
            for name, commit in repository.tags.items()
        ]
        main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.head}
        return ({"branches": [main], "converts": [], "tags": tags},)

    def _api_tree(self, repository: Repository, rest: str, _body: bytes) -> tuple:
        revision, _, folder = rest.partition("/")
        recursive = self.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        entries = repository.tree(self._commit_of(repository, revision), folder, recursive)
        if entries is None:
            raise _Refusal(404, f"{folder} does not exist", "EntryNotFound")
        return ([self._state(entry) for entry in entries],)

    def _state(self, entry: dict[str, Any]) -> dict[str, Any]:
        if entry["path"] in self.hub.stated:
            entry = {**entry, "lfs": {**entry["lfs"], "oid": self.hub.stated[entry["path"]]}}
        return entry

    def _api_paths_info(self, repository: Repository, revision: str, body: bytes) -> tuple:
        tree = repository.commits[self._commit_of(repository, revision)]
        json_body = "json" in (self.headers.get("Content-Type") or "")
        paths = json.loads(body)["paths"] if json_body else parse_qs(body.decode())["paths"]
        entries = []
        for path in paths:
            if path in tree:
                entries.append(tree[path].entry(path))
            elif any(name.startswith(f"{path}/") for name in tree):
                entries.append({"type": "directory", "path": path, "size": 0, "oid": "0" * 40})
        return (entries,)

    def _api_settings(self, repository: Repository, _rest: str, body: bytes) -> tuple:
        asked = json.loads(body)
        repository.visibility = asked.get("visibility", repository.visibility)
        if "gated" in asked and self.hub.gate_takes:
            repository.gated = asked["gated"]
        return (asked,)

    def _api_tag(self, repository: Repository, revision: str, body: bytes) -> tuple:
        name = json.loads(body)["tag"]
        if name in repository.tags:
            raise _Refusal(409, "Tag reference exists already")
        repository.tags[name] = self._commit_of(repository, revision)
        return ({},)

    # ---- files in

    def _api_preupload(self, repository: Repository, _revision: str, body: bytes) -> tuple:
        tree, files = repository.commits[repository.head], []
        for file in json.loads(body)["files"]:
            mode = "lfs" if file["path"].endswith(LFS_ENDINGS) else "regular"
            old = tree.get(file["path"])
            oid = None if old is None else (old.sha256 if old.lfs else old.oid)
            files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return ({"files": files},)

    def _batch(self, _repository: Repository, body: bytes) -> tuple:
        objects = []
        for asked in json.loads(body)["objects"]:
            place = f"{self.hub.endpoint}/_lfs/{asked['oid']}"
            new = {"upload": {"href": place}, "verify": {"href": f"{place}/verify"}}
            objects.append({**asked, **({} if asked["oid"] in self.hub.objects else {"actions": new})})
        return ({"transfer": "basic", "objects": objects},)

    def _lfs(self, place: str, body: bytes) -> tuple:
        oid, _, verify = place.partition("/")
        if verify:
            if len(self.hub.arriving.get(oid, b"")) != json.loads(body)["size"]:
                raise _Refusal(404, "not uploaded")
            self.hub.objects[oid] = self.hub.arriving[oid]
        elif Blob(body, True).sha256 != oid:
            raise _Refusal(400, "the content has another sha256")
        else:
            self.hub.arriving[oid] = body
        return ({},)

    def _api_commit(self, repository: Repository, _revision: str, body: bytes) -> tuple:
        added, deleted = {}, []
        for line in map(json.loads, body.splitlines()):
            kind, value = line["key"], line["value"]
            if kind == "header" and value.get("parentCommit") not in (None, repository.head):
                raise _Refusal(412, "A commit has happened since. Please refresh and try again.")
            if kind == "file":
                added[value["path"]] = Blob(base64.b64decode(value["content"]), False)
            elif kind == "lfsFile":
                if value["oid"] not in self.hub.objects:
                    raise _Refusal(400, "LFS object is not there")
                added[value["path"]] = Blob(self.hub.objects[value["oid"]], True)
            elif kind in ("deletedFile", "deletedFolder"):
                deleted.append(value["path"])
        commit = repository.commit(added, deleted)
        url = f"{self.hub.endpoint}/{repository.id}/commit/{commit}"
        return ({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""},)

    # ---- files out

    def _file(self, repository: Repository, revision: str, path: str) -> tuple:
        if not repository.opens_for(self._user()):
            status = 403 if self._user() else 401
            raise _Refusal(status, f"Access to {repository.id} is restricted", "GatedRepo")
        commit = self._commit_of(repository, revision)
        blob = repository.commits[commit].get(path)
        if blob is None:
            raise _Refusal(404, "Entry not found", "EntryNotFound")
        etag = blob.sha256 if blob.lfs else blob.oid
        return blob.content, {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
