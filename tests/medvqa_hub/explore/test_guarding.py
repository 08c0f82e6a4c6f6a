"""The attacker first: other hosts' names, other pages, other users, other files. Each is tried against the server."""

from types import SimpleNamespace

import pytest

pytest.importorskip("gradio")

from fastapi.testclient import TestClient

from medvqa_core.governance import Governance
from medvqa_hub.explore import guarding
from medvqa_hub.explore.live_questions import ChatHandler
from medvqa_hub.explore.opening import OpenDataset, open_folders
from medvqa_hub.explore.page_models import PageModels
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import new_key
from mimic_cxr_vqa.workspace import SAMPLE_DIR

OURS = "http://127.0.0.1:7860"
IMAGE = "/image?study=95000001&number=0"


@pytest.fixture(scope="module")
def opened():
    return open_folders([])


@pytest.fixture(scope="module")
def client(opened):
    return TestClient(make_server(opened), base_url=OURS)


@pytest.fixture(scope="module")
def locked(opened):
    return TestClient(make_server(opened, "the-key"), base_url=OURS, follow_redirects=False)


def test_our_own_page_is_served(client):
    for path in ("/", "/api/about", "/api/studies", "/static/app.js", IMAGE):
        assert client.get(path).status_code == 200
    for host in ("localhost:7860", "[::1]:7860"):
        assert client.get("/api/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:7860", "evil.example:7860", "", "127.0.0.1@evil"]
)
def test_a_foreign_name_for_our_address_reads_nothing(client, host):
    answer = client.get("/api/about", headers={"host": host})  # DNS rebinding
    assert answer.status_code == 403 and "governance" not in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    ],
)
@pytest.mark.parametrize("path", ["/api/about", IMAGE, "/gradio_api/call/ask"])
def test_a_foreign_page_reads_nothing(client, path, headers):
    assert client.get(path, headers=headers).status_code == 403


def test_a_link_from_elsewhere_opens_the_page_and_nothing_else(client):
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert client.get("/?study=95000001", headers=visit).status_code == 200
    assert client.get("/api/about", headers=visit).status_code == 403


def test_no_answer_can_be_framed_shared_or_kept(client):
    headers = client.get("/", headers={"origin": OURS}).headers
    assert "access-control-allow-origin" not in headers
    assert headers["x-frame-options"] == "DENY" and headers["cache-control"] == "no-store"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=pyproject.toml",
        "/gradio_api/upload",
        "/gradio_api/proxy=https://evil.example",
        "/file=/etc/passwd",
        "/config",
        "/monitoring",
        "/docs",
        "/openapi.json",
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static/page.html",
        "//etc/passwd",
        "/api/../../etc/passwd",
    ],
)
def test_no_other_path_exists(client, path):
    assert client.get(path).status_code == 404
    assert client.post(path).status_code == 404


@pytest.mark.parametrize(
    "query", ["study=95000001&number=../../manifest.json", "study=../x", "study=95000001&number=99"]
)
def test_an_image_is_never_named_by_the_request(client, query):
    assert client.get(f"/image?{query}").status_code in (400, 422)


@pytest.mark.parametrize("path", ["/", "/api/about", "/api/studies", IMAGE, "/static/app.js", "/gradio_api/call/ask"])
@pytest.mark.parametrize("key", [None, "another", ""])
def test_without_the_key_nothing_is_read(locked, path, key):
    locked.cookies.clear()
    if key is not None:
        locked.cookies.set("medvqa-explorer-7860", key)
    assert locked.get(path).status_code == 403
    assert locked.get(f"{path}{'&' if '?' in path else '?'}key={key}").status_code == 403


def test_the_key_opens_once_and_stays_in_a_cookie(locked):
    locked.cookies.clear()
    entered = locked.get("/?key=the-key&study=95000001")
    assert entered.status_code == 303 and entered.headers["location"] == "/?study=95000001"
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert locked.get("/api/about").status_code == 200
    locked.cookies.clear()
    assert locked.get("/api/about?key=the-key").status_code == 403  # the key counts at the door alone


def test_what_may_not_be_handed_on_is_locked():
    keys = {governance: new_key(governance) for governance in Governance}
    assert keys[Governance.OPEN] is None and keys[Governance.SHARE_ALIKE] is None
    locked = [keys[Governance.NO_DERIVATIVES], keys[Governance.CREDENTIALED], new_key(Governance.CREDENTIALED)]
    assert all(len(key) >= 32 for key in locked) and len(set(locked)) == 3


def test_images_are_taken_from_our_own_page_alone_and_bounded(opened, monkeypatch):
    models = PageModels(chat_for_images=SimpleNamespace(model="tiny"))
    asker = ChatHandler(opened.studies, opened.reports, Governance.OPEN, models)
    taking = TestClient(make_server(OpenDataset(ask=asker), "the-key"), base_url=OURS)
    film = next(SAMPLE_DIR.rglob("*.jpg")).read_bytes()
    assert taking.post("/api/upload", content=film).status_code == 403  # without the key
    taking.get("/?key=the-key")
    assert taking.post("/api/upload", content=film).json()["name"]
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert taking.post("/api/upload", content=film, headers=headers).status_code == 403
    assert taking.post("/api/upload", content=b"<svg/>").status_code == 400
    monkeypatch.setattr(guarding, "MOST_UPLOAD", 1 << 20)
    assert taking.post("/api/upload", content=film + bytes(1 << 20)).status_code == 413


def test_the_size_of_requests_is_limited(client):
    """Nothing of a refused body is read. A body without a length could have any size."""
    path = "/api/save_report"
    large = client.post(path, content=b"[" * (1 << 20) + b"]")
    assert large.status_code == 413 and "1 MiB" in large.text
    assert client.post(path, content=b"{}", headers={"content-length": "-5"}).status_code == 411
    assert client.post(path, content=iter([b"{}"])).status_code == 411  # chunked
    assert client.get("/api/studies?q=" + "x" * (9 << 10)).status_code == 414
    assert client.post("/gradio_api/call/ask", content=bytes((1 << 20) + 1)).status_code == 413
    assert client.post(path, content=b"[" * (1 << 19)).status_code in (400, 404, 422)  # deep JSON


def test_without_a_model_no_image_is_taken(client):
    assert client.post("/api/upload", content=b"x").status_code == 404
