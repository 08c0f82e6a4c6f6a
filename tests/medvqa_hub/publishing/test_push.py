"""The order of a push, and what the Hub can do wrong in it: nothing is seen too early, the same command goes on."""

import os

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from medvqa_core.errors import ConfigError, GovernanceError, InputError, OutputError
from medvqa_core.governance import Governance
from medvqa_hub.publishing.push import MODEL, PushPlan, push_folder
from medvqa_hub.publishing.staging import MARK, staged

FILES = {
    "README.md": b"---\nlicense: apache-2.0\n---\n# A model\n",
    "config.json": b"{}",
    "model.safetensors": b"w" * 3000,
}
NAME = "me/model"


def push(api, files=FILES, governance=Governance.OPEN, **plan):
    said = []
    with staged(files, MODEL, governance) as folder:
        done = push_folder(folder, PushPlan(NAME, MODEL, governance, **plan), api, said.append)
    return done, said


def test_a_push_makes_what_was_staged(hub, api):
    done, said = push(api)
    repository = hub.model(NAME)
    assert {name: content for name, content in repository.files.items() if name != MARK} == FILES
    assert repository.tags == {"v1.0.0": done.commit} == {done.tag: repository.head}
    assert repository.visibility == "private"
    assert done.url == f"{hub.endpoint}/{NAME}" and said[-1] == f"{done.url} is at v1.0.0, private"


def test_the_same_command_again_changes_nothing(hub, api):
    first, _ = push(api)
    hub.requests.clear()
    again, said = push(api)
    assert again == first and len(hub.model(NAME).commits) == 2
    assert not [asked for asked in hub.requests if asked.startswith(("PUT", "DELETE")) or "/commit/" in asked]
    assert len(said) == 1


def test_new_content_is_one_commit_and_a_new_version(hub, api):
    push(api)
    push(api, {**FILES, "config.json": b'{"a": 1}', "more.json": b"{}"})
    files = {name: content for name, content in FILES.items() if name != "config.json"}
    last, _ = push(api, files)
    repository = hub.model(NAME)
    assert list(repository.tags) == ["v1.0.0", "v1.1.0", "v1.2.0"]
    assert set(repository.files) == {*files, MARK}  # what is not staged any more is gone
    assert set(repository.commits[repository.tags["v1.1.0"]]) >= {"more.json"}  # and still there by its tag
    back, _ = push(api, {**FILES})
    assert back.tag == "v1.3.0"


def test_a_version_keeps_its_content(hub, api):
    push(api, version="2.0.0")
    commits = len(hub.model(NAME).commits)
    with pytest.raises(ConfigError, match="has a v2.0.0 with other content"):
        push(api, {**FILES, "config.json": b"[]"}, version="2.0.0")
    assert len(hub.model(NAME).commits) == commits
    assert push(api, version="2.0.0")[0].tag == "v2.0.0"


def test_the_order_of_a_gated_public_push(hub, api, tmp_path):
    """At every request the outside sees nothing, until the last step; and then it still cannot read."""
    seen = []

    def look(number, method, path):
        repository = hub.repositories.get((MODEL, NAME))
        seen.append((method, path, repository and (repository.visibility, repository.gated, bool(repository.files))))

    hub.on_request = look
    push(api, governance=Governance.CREDENTIALED, gated=True, public=True)
    commit = next(i for i, (method, path, _) in enumerate(seen) if "/commit/" in path)
    show = max(i for i, (method, path, _) in enumerate(seen) if path.endswith("/settings"))
    tag = next(i for i, (method, path, _) in enumerate(seen) if "/tag/" in path)
    for i, (_, _, state) in enumerate(seen):
        visible = state is not None and state[0] == "public"
        assert visible == (i > show)
        if state is not None and i >= commit:
            assert state[1] == "manual"
    assert commit < tag < show
    stranger = HfApi(endpoint=hub.endpoint, token=hub.reader_token)
    assert stranger.repo_info(NAME).gated == "manual"
    with pytest.raises(GatedRepoError):
        stranger.hf_hub_download(NAME, "config.json", cache_dir=tmp_path)
    hub.model(NAME).readers.add("reader")
    assert stranger.hf_hub_download(NAME, "config.json", cache_dir=tmp_path)


def test_a_private_repository_is_not_there_for_others(hub, api):
    push(api)
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=hub.endpoint, token=hub.reader_token).repo_info(NAME)


def test_a_gate_that_does_not_take_stops_before_the_upload(hub, api):
    hub.gate_takes = False
    with pytest.raises(GovernanceError, match=r"gated=False.*nothing was uploaded"):
        push(api, governance=Governance.CREDENTIALED, gated=True, public=True)
    assert hub.model(NAME).files == {} and hub.model(NAME).visibility == "private"
    hub.gate_takes = True
    push(api, governance=Governance.CREDENTIALED, gated=True, public=True)
    assert hub.model(NAME).gated == "manual"


def test_a_gate_that_falls_when_the_repository_is_shown(hub, api):
    def fall(number, method, path):
        if method == "GET" and hub.model(NAME).visibility == "public":
            hub.model(NAME).gated = False

    hub.on_request = lambda *asked: fall(*asked) if (MODEL, NAME) in hub.repositories else None
    with pytest.raises(GovernanceError, match="it is private again"):
        push(api, governance=Governance.CREDENTIALED, gated=True, public=True)
    assert hub.model(NAME).visibility == "private"


def test_a_public_repository_without_a_gate_gets_one_before_anything_is_sent(hub, api):
    push(api, public=True)
    assert hub.model(NAME).visibility == "public"
    files, strict = {**FILES, "config.json": b"[]"}, {"governance": Governance.CREDENTIALED, "gated": True}
    before = hub.model(NAME).head
    with pytest.raises(GovernanceError, match="me/model .*--public or --private"):
        push(api, files, **strict)
    assert (hub.model(NAME).head, hub.model(NAME).gated) == (before, False)
    gated = []
    hub.on_request = lambda number, method, path: gated.append((path, hub.model(NAME).gated))
    push(api, files, **strict, public=True)
    assert all(gate == "manual" for path, gate in gated if "commit" in path or "preupload" in path)
    push(api, {**files, "config.json": b"{}"}, **strict)
    assert hub.model(NAME).visibility == "public"  # nobody asked to change it


def test_a_class_is_not_lowered_by_pushing_again(hub, api):
    push(api, governance=Governance.CREDENTIALED, gated=True)
    with pytest.raises(GovernanceError, match="me/model.*credentialed.*open"):
        push(api, governance=Governance.OPEN)


def test_somebody_else_s_repository_is_left_alone(hub, api):
    api.create_repo(NAME)
    api.upload_file(path_or_fileobj=b"mine", path_in_repo="notes.md", repo_id=NAME)
    with pytest.raises(ConfigError, match=r"1 files .*\(notes.md"):
        push(api)
    assert hub.model(NAME).files == {"notes.md": b"mine"}


@pytest.mark.parametrize("content", [b"no JSON", b"[]", b"\xff", b"[" * 100_000])
def test_a_repository_whose_mark_cannot_be_read_is_left_alone(hub, api, content):
    push(api)
    api.upload_file(path_or_fileobj=content, path_in_repo=MARK, repo_id=NAME)
    head = hub.model(NAME).head
    with pytest.raises(ConfigError, match="me/model/medvqa_hub.json .*name"):
        push(api)
    assert hub.model(NAME).head == head


def test_an_empty_repository_that_exists_is_taken_and_stays_what_it_is(hub, api):
    api.create_repo(NAME, private=False)
    push(api)
    assert hub.model(NAME).visibility == "public" and hub.model(NAME).tags
    push(api, public=False)
    assert hub.model(NAME).visibility == "private"


FAULTS = ["POST /api/repos/create", "info/lfs/objects/batch", "PUT /_lfs/", "/verify", "preupload", "/commit/", "/tag/"]


@pytest.mark.parametrize("status", [429, 500, 503, None])
@pytest.mark.parametrize("pattern", FAULTS)
def test_what_passes_is_waited_for(hub, api, pattern, status):
    hub.fail(pattern, status)
    push(api)
    assert set(hub.model(NAME).files) == {*FILES, MARK}
    assert list(hub.model(NAME).tags) == ["v1.0.0"] and len(hub.model(NAME).commits) == 2


@pytest.mark.parametrize("status", [429, 500, None])
@pytest.mark.parametrize("pattern", FAULTS)
def test_what_does_not_pass_is_one_sentence_and_the_same_command_goes_on(hub, api, pattern, status):
    hub.fail(pattern, status, times=1000)
    with pytest.raises(OutputError, match=r"me/model.*same command"):
        push(api, public=True)
    if (MODEL, NAME) in hub.repositories:
        assert hub.model(NAME).visibility == "private" and not hub.model(NAME).tags
    hub.faults.clear()
    push(api, public=True)
    assert set(hub.model(NAME).files) == {*FILES, MARK} and len(hub.model(NAME).commits) == 2
    assert hub.model(NAME).visibility == "public"


def test_a_commit_whose_answer_was_lost_is_not_made_twice(hub, api):
    """The commit is there and the connection breaks before the client hears of it."""
    hub.on_request = lambda number, method, path: (
        hub.fail("GET .*/models/me/model$", None) if "/commit/" in path else None
    )
    push(api)
    assert len(hub.model(NAME).commits) == 2


def test_files_that_have_arrived_are_not_sent_again(hub, api):
    hub.fail("/commit/", 500, times=1000)
    with pytest.raises(OutputError):
        push(api)
    hub.faults.clear()
    hub.requests.clear()
    push(api)
    assert not [asked for asked in hub.requests if asked.startswith("PUT /_lfs/")]


def test_a_token_that_has_expired(hub, api):
    hub.on_request = lambda number, method, path: hub.users.pop(hub.token, None) if "preupload" in path else None
    with pytest.raises(OutputError, match="me/model.*hf auth login"):
        push(api)
    assert not hub.model(NAME).files
    hub.on_request = lambda *_: None
    hub.users[hub.token] = "me"
    push(api)
    assert hub.model(NAME).tags


def test_no_token_and_another_owner(hub):
    with pytest.raises(OutputError, match="hf auth login"):
        push(HfApi(endpoint=hub.endpoint, token=False))
    with pytest.raises(OutputError, match="write access"):
        push(HfApi(endpoint=hub.endpoint, token=hub.reader_token))
    assert not hub.repositories


def test_bytes_that_changed_on_the_way_are_neither_tagged_nor_shown(hub, api):
    hub.stated["model.safetensors"] = "0" * 64
    with pytest.raises(OutputError, match="model.safetensors"):
        push(api, public=True)
    assert hub.model(NAME).visibility == "private" and not hub.model(NAME).tags


def test_a_card_that_the_hub_does_not_take(hub, api):
    with pytest.raises(OutputError, match="me/model: .*license_name"):
        push(api, {**FILES, "README.md": b"---\nlicense: other\n---\n"})
    assert not hub.model(NAME).files


def test_offline_is_said(hub, api, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(OutputError, match="HF_HUB_OFFLINE"):
        push(api)


@pytest.mark.parametrize("plan", [{"repo_id": "model"}, {"repo_id": "a/b/c"}, {"repo_id": "../x"}, {"version": "1.0"}])
def test_a_plan_that_cannot_be(plan):
    with pytest.raises(ConfigError, match="expected (owner/name|X.Y.Z)"):
        PushPlan(**{"repo_id": NAME, "repo_type": MODEL, "governance": Governance.OPEN} | plan)


def test_links_and_names_that_leave_are_not_staged(tmp_path):
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "config.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "pipe.json").touch()
    os.remove(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / "pipe.json")
    cases = [
        ({"config.json": tmp_path / "config.json"}, "is a symbolic link"),
        ({"pipe.json": tmp_path / "pipe.json"}, "not a regular file"),
        ({"none.json": tmp_path / "none.json"}, "No such file"),
        ({"../config.json": b"{}"}, "not a valid name"),
        ({"/etc/x.json": b"{}"}, "not a valid name"),
        ({MARK: b"{}"}, "not a valid name"),
    ]
    for files, message in cases:
        with pytest.raises(InputError, match=message), staged(files, MODEL, Governance.OPEN):
            pass
