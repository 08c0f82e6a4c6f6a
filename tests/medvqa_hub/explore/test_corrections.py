"""Corrections by several people: conflicts, history, texts that no file can hold, older folders, and kills."""

import json
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from meddqa_data import BLOOD, SCAN

from medvqa_core.edit_log import EditConflictError
from medvqa_core.errors import InputError
from medvqa_core.governance import Governance
from medvqa_hub.explore.corrections import read_correction
from rjua_meddqa.corrections import EDITS, Corrections
from rjua_meddqa.data_folder import ANNOTATIONS, open_folder, record_part
from rjua_meddqa.released import read_annotations, write_annotations

PATH = BLOOD.img_path


def saved_in(folder):
    return {row.img_path: row.report_type for row in read_annotations(open_folder(folder).file(ANNOTATIONS))}


def open_corrections(tmp_path):
    return Corrections(tmp_path / "out", Governance.OPEN)


def test_edits_of_other_reports_by_another_explorer_are_kept(tmp_path):
    one, two = open_corrections(tmp_path), open_corrections(tmp_path)
    one.save(PATH, BLOOD, "Ann", 0)
    two.save(SCAN.img_path, replace(SCAN, extra={"note": "a\r\nb"}), "Bob", 0)  # the others have this column empty
    one.save(PATH, replace(BLOOD, report_type="mine"), "Ann", 1)
    assert saved_in(tmp_path / "out") == {PATH: "mine", SCAN.img_path: SCAN.report_type}


def test_an_edit_of_an_older_version_is_refused_and_both_stay(tmp_path):
    one, two = open_corrections(tmp_path), open_corrections(tmp_path)
    one.save(PATH, BLOOD, "Ann", 0)
    with pytest.raises(EditConflictError, match="Ann"):
        two.save(PATH, replace(BLOOD, report_type="other"), "Bob", 0)
    assert saved_in(tmp_path / "out") == {PATH: BLOOD.report_type}
    two.save(PATH, replace(BLOOD, report_type="other"), "Bob", 1)
    assert saved_in(tmp_path / "out") == {PATH: "other"}
    history = open_corrections(tmp_path).history(PATH)
    assert [(edit.author, edit.base, sorted(edit.change) == ["report_type"]) for edit, _ in history] == [
        ("Ann", 0, False),
        ("Bob", 1, True),
    ]
    assert [annotation.report_type for _, annotation in history] == [BLOOD.report_type, "other"]
    assert one.save(PATH, replace(BLOOD, report_type="other"), "Ann", 2) is None  # nothing changed


TEXTS = {
    "surrogate": [["name", "\ud83d"]],
    "longer when written": [[f"key {n}", "\U000e0001" * 10_000] for n in range(13)],
    "too large": [[f"key {n}", "字" * 20_000] for n in range(60)],
}


@pytest.mark.parametrize("key_values", TEXTS.values(), ids=TEXTS)
def test_a_text_that_cannot_be_read_again_is_refused_before_it_is_written(key_values, tmp_path):
    given = {
        "key_values": key_values, "table": [], "report_type": "a", "image_type": BLOOD.image_type,
        "image_quality": BLOOD.image_quality,
    }  # fmt: skip
    with pytest.raises(InputError, match="cannot be saved"):
        open_corrections(tmp_path).save(PATH, read_correction(given, BLOOD), "Ann", 0)
    assert not (tmp_path / "out").exists()
    good = [["名", "😀 \0 \r\n \u2028 ' \" {x}"]]
    open_corrections(tmp_path).save(PATH, read_correction(given | {"key_values": good}, BLOOD), "Ann", 0)
    assert open_corrections(tmp_path).find(PATH).key_values == (tuple(good[0]),)


@pytest.mark.parametrize("author", ["", " ", "a" * 65, "a\nb", "\ud83d", None, 5])
def test_an_author_needs_a_name(author, tmp_path):
    with pytest.raises(InputError, match="author"):
        open_corrections(tmp_path).save(PATH, BLOOD, author, 0)


def test_folders_of_the_commit_before_are_continued(tmp_path):
    """They have annotations.csv alone. The first edit records the state before it as well."""
    folder = tmp_path / "out"
    folder.mkdir()
    record_part(folder, ANNOTATIONS, Governance.OPEN, {"source": "explorer"})
    write_annotations([BLOOD, SCAN], folder / "annotations.csv")
    before = (folder / "annotations.csv").read_bytes()
    opened = open_corrections(tmp_path)
    assert opened.version(PATH) == 1 and (folder / "annotations.csv").read_bytes() == before
    opened.save(PATH, replace(BLOOD, report_type="new"), "Ann", 1)
    again = open_corrections(tmp_path)
    assert [row.report_type for _, row in again.history(PATH)] == [BLOOD.report_type, "new"]
    assert saved_in(folder) == {PATH: "new", SCAN.img_path: SCAN.report_type}
    assert again.version(SCAN.img_path) == 1  # not in the log, but still there
    assert (folder / "annotations.csv").read_bytes().split(b"\n")[2:] == before.split(b"\n")[2:]


@pytest.mark.parametrize("torn", [b"", b'{"store": 1, "ki'])
def test_a_log_that_was_killed_while_it_was_created_opens(torn, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / EDITS).write_bytes(torn)
    open_corrections(tmp_path).save(PATH, BLOOD, "Ann", 0)
    assert open_corrections(tmp_path).find(PATH) == BLOOD


def test_a_kill_between_log_and_csv_is_repaired(tmp_path):
    opened = open_corrections(tmp_path)
    opened.save(PATH, BLOOD, "Ann", 0)
    old = (tmp_path / "out" / "annotations.csv").read_bytes()
    opened.save(PATH, replace(BLOOD, report_type="new"), "Ann", 1)
    (tmp_path / "out" / "annotations.csv").write_bytes(old)
    with open(tmp_path / "out" / EDITS, "ab") as log:
        log.write(b'{"key": "torn')
    open_corrections(tmp_path)
    assert saved_in(tmp_path / "out") == {PATH: "new"}


SERVER = """
import sys
from pathlib import Path
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from medvqa_hub.explore.server import make_server
from medvqa_hub.explore.serving import launch
from rjua_meddqa.data_folder import SAMPLE_DIR
server = make_server(open_folders([SAMPLE_DIR], ExploreOptions(corrections=Path(sys.argv[1]))))
print(launch(server), flush=True)
sys.stdin.read()  # until the test ends
"""


@pytest.mark.slow
def test_four_browsers_and_kills_lose_no_accepted_edit(tmp_path):
    """500 random edits of 3 reports by 4 people at 2 servers, one of which is killed 4 times."""
    httpx = pytest.importorskip("httpx")
    paths = ["report0003.png", "report0004.jpg", "report0005.jpg"]
    folder, accepted, conflicts, lock = tmp_path / "out", [], [], threading.Lock()

    def start():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        server = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], text=True, **pipes)
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        return server, httpx.Client(base_url=address, timeout=60, trust_env=False, verify=False)

    servers = [start(), start()]

    def edit(person):
        chance, seen, made = random.Random(person), {}, 0
        while made < 125:
            path = chance.choice(paths)
            try:
                client = servers[person % 2][1]
                if path not in seen or chance.random() < 0.3:
                    seen[path] = client.get("/api/report", params={"path": path}).json()
                field = chance.choice(["report_type", "image_quality", "key_values"])
                value = {
                    "report_type": f"by {person}: {made}",
                    "image_quality": chance.choice(["high", "low"]),
                    "key_values": [[f"k{person}", f"{made}\t字" * chance.randrange(1, 40)]],
                }[field]
                annotation = seen[path]["annotation"] | {field: value}
                if annotation == seen[path]["annotation"]:  # no edit
                    continue
                given = {"author": f"person {person}", "base": seen[path]["version"], "annotation": annotation}
                answer = client.post("/api/save_report", json={"path": path, "edit": given})
            except httpx.HTTPError:  # the server was killed
                threading.Event().wait(0.2)
                seen.pop(path, None)
                continue
            made += 1
            assert answer.status_code in (200, 409), answer.text
            with lock:
                if answer.status_code == 200:
                    accepted.append((path, given["base"] + 1, given["author"], annotation))
                    seen[path] = answer.json()  # perhaps with a later edit of someone else
                    assert seen[path]["version"] > given["base"]
                else:
                    assert "in the meantime" in answer.json()["error"]
                    seen.pop(path)
                    conflicts.append(path)

    def kill():
        for _ in range(4):
            reached = len(accepted) + len(conflicts) + 90
            while len(accepted) + len(conflicts) < min(reached, 480) and not all(one.done() for one in editors):
                threading.Event().wait(0.05)
            servers[1][0].kill()
            servers[1][0].wait()
            servers[1] = start()

    with ThreadPoolExecutor(5) as pool:
        editors = [pool.submit(edit, person) for person in range(4)]
        for done in [*editors, pool.submit(kill)]:
            done.result()
    for server, _ in servers:
        server.kill()
        server.wait()
    assert len(accepted) + len(conflicts) == 500 and conflicts
    again = Corrections(folder, Governance.OPEN)
    for path, version, author, annotation in accepted:
        found, row = again.history(path)[version - 1]
        assert found.author == author and row.report_type == annotation["report_type"]
        assert [list(pair) for pair in row.key_values] == annotation["key_values"]
    for path in paths:
        history = [found for found, _ in again.history(path)]
        assert [found.version for found in history] == list(range(1, len(history) + 1))
        assert all(found.base == found.version - 1 and found.time for found in history)
        unanswered = len(history) - len({version for one, version, *_ in accepted if one == path})
        assert unanswered <= 4  # written, but the kill came before the answer
    assert json.loads((folder / "manifest.json").read_text())["annotations"]["counts"] == {"annotations": 3}
    assert saved_in(folder) == {path: again.find(path).report_type for path in paths}
