"""Images that a person brings: what is taken, how long a file lies there, and which model may see it."""

import asyncio
import io
import stat
import struct
import zlib
from pathlib import Path

import pytest
from chat_server import ChatServerDouble, completion, connect_to
from evaluation_models import save_blip2, save_swin_ved, texts_of
from PIL import Image

from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.folder_class import write_governance
from medvqa_core.governance import Governance
from medvqa_hub.explore.guarding import MOST_UPLOAD
from medvqa_hub.explore.live_questions import Question
from medvqa_hub.explore.opening import ExploreOptions, open_folders
from medvqa_hub.explore.page_models import open_models
from medvqa_hub.explore.row_filters import RowFilter
from medvqa_hub.explore.uploads import KEPT, Uploads
from medvqa_hub.families import checkpoint
from mimic_cxr_vqa.release import open_release
from mimic_cxr_vqa.workspace import SAMPLE_DIR

QUESTION = "Is there a pleural effusion?"


def picture(kind="PNG", size=(40, 30), mode="L"):
    file = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert(mode).save(file, kind)
    return file.getvalue()


def vast_png(side=20_000):
    """A few hundred bytes that say they are 400 million pixels."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))  # noqa: E731
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0")) + chunk(b"IEND", b"")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "JPEG or PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "JPEG or PNG"),
        (picture("GIF"), "JPEG or PNG"),
        (picture("TIFF"), "JPEG or PNG"),
        (picture()[:-40], "cannot be decoded"),
        (picture("JPEG")[:200], "cannot be decoded"),
        (b"\xff\xd8\xff" + b"x" * 100, "cannot be decoded"),
        (vast_png(), "cannot be decoded|64 million"),  # Pillow's own limit, or ours while a report is read
        (vast_png(9_000), "64 million"),
        (b"\x89PNG\r\n\x1a\n" + bytes(MOST_UPLOAD), "32 MiB"),
    ],
    ids=["empty", "svg", "gif", "tiff", "cut off", "cut off jpeg", "no jpeg", "vast", "large", "heavy"],
)
def test_what_is_no_image_of_moderate_size_is_refused(data, reason):
    uploads = Uploads()
    with pytest.raises(InputError, match=reason):
        uploads.add(data)
    assert not uploads._kept


def test_a_file_is_its_owner_s_and_gone_after_the_question():
    uploads = Uploads()
    data = picture("JPEG")
    name = uploads.add(data)
    with uploads.file(name) as path:
        assert path.read_bytes() == data and path.suffix == ".jpg"
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.parent.exists()
    with pytest.raises(RuntimeError), uploads.file(name) as path:
        raise RuntimeError
    assert not path.parent.exists()


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "/etc/passwd", "95000001"])
def test_an_image_has_no_other_name(name):
    uploads = Uploads()
    uploads.add(picture())
    with pytest.raises(InputError, match="Choose it again"), uploads.file(name):
        pass


def test_the_oldest_are_forgotten():
    uploads = Uploads()
    names = [uploads.add(picture()) for _ in range(KEPT + 1)]
    with pytest.raises(InputError), uploads.file(names[0]):
        pass
    with uploads.file(names[1]):
        pass


def ask(asker, *parts):
    return asyncio.run(asker.ask(Question(*parts)))


def connecting(endpoint, **options):
    return lambda governance: connect_to(f"server:{endpoint}", governance, **options)


def test_a_server_sees_images_of_which_nothing_is_known_only_as_it_may_see_credentialed_ones():
    with ChatServerDouble(lambda body: completion("Yes.")) as double:
        asker = open_folders([SAMPLE_DIR], ExploreOptions(connect=connecting(double.endpoint))).ask
        described = asker.describe()
        assert described["engines"]["image"] == [] and "tiny" in described["engines"]["study"]
        assert described["brought"]["governance"] == "credentialed"
        assert "i-run-this-server" in described["brought"]["refusal"]
        assert asker.uploads is None and asker.governance is Governance.OPEN
        assert ask(asker, "tiny", "image", "x", "radiograph", QUESTION)["error"]
        asked_before = len(double.requests)

        for allowed in (
            ExploreOptions(connect=connecting(double.endpoint, i_run_this_server=True)),
            ExploreOptions(connect=connecting(double.endpoint), image_class=Governance.OPEN),
        ):
            asker = open_folders([SAMPLE_DIR], allowed).ask
            name = asker.uploads.add(picture())
            assert ask(asker, "tiny", "image", name, "radiograph PA", QUESTION)["answer"] == "Yes."
            assert ask(asker, "tiny", "image", name, "entity_qa", "年龄？")["answer"]
            assert ask(asker, "tiny", "image", name, "poem", QUESTION)["answer"] is None
        film, report = double.requests[asked_before:][-2:]
        for body, said in ((film, "PA view"), (report, "年龄？")):
            parts = body["messages"][-1]["content"]
            assert [part["type"] for part in parts].count("image_url") == 1
            assert any(said in part.get("text", "") for part in parts)


def test_on_a_page_of_a_stricter_class_an_image_has_that_class(tmp_path):
    """A word that images are open does not weaken a credentialed page, and its server is refused as ever."""
    own = tmp_path / "own"
    own.mkdir()
    save_swin_ved(own, texts_of(open_release(SAMPLE_DIR)))
    described = open_folders([SAMPLE_DIR], ExploreOptions(checkpoint=own, image_class=Governance.OPEN))
    assert described.governance is Governance.CREDENTIALED  # of weights that do not say theirs
    with ChatServerDouble(lambda body: completion("Yes.")) as double:
        with pytest.raises(GovernanceError, match="i-run-this-server"):
            open_models(Governance.CREDENTIALED, connecting(double.endpoint), image_class=Governance.OPEN)
        models = open_models(Governance.CREDENTIALED, connecting(double.endpoint, i_run_this_server=True), None)
        assert models.image_class is Governance.CREDENTIALED and models.chat_for_images is models.chat


@pytest.mark.parametrize("save", [save_swin_ved, save_blip2])
def test_a_checkpoint_of_ours_answers_about_a_study_and_about_its_image_alike(tmp_path, monkeypatch, save):
    monkeypatch.setattr(checkpoint, "fetch_model", lambda model: pytest.fail("something was fetched"))
    folder = save(tmp_path / "run" / "best", texts_of(open_release(SAMPLE_DIR)))
    write_governance(folder, Governance.OPEN)
    opened = open_folders([SAMPLE_DIR], ExploreOptions(checkpoint=folder.parent))
    assert opened.governance is Governance.OPEN
    (engine,) = opened.ask.describe()["engines"]["image"]
    assert engine in opened.ask.describe()["engines"]["study"]
    single = next(
        line["study_id"]
        for line in opened.studies.page(RowFilter())["studies"]
        if len(opened.studies.report(line["study_id"])[1].paths) == 1
    )
    _, films = opened.studies.report(single)
    about_study = ask(opened.ask, engine, "study", str(single), "Edema", QUESTION)
    assert about_study["answer"] is not None, about_study
    name = opened.ask.uploads.add(opened.studies.images.file(films.paths[0]).read_bytes())
    about_image = ask(opened.ask, engine, "image", name, f"radiograph {films.views[0][:3]}".strip(), QUESTION)
    assert about_image["answer"] == about_study["answer"]
    assert ask(opened.ask, engine, "image", name, "entity_qa", QUESTION)["answer"] is None


def test_a_checkpoint_is_never_fetched(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "fetch_model", lambda model: pytest.fail("something was fetched"))
    for missing in ("owner/name", str(tmp_path / "none")):
        with pytest.raises(InputError, match="local checkpoints"):
            open_folders([SAMPLE_DIR], ExploreOptions(checkpoint=Path(missing)))
