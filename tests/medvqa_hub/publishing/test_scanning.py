"""The last look at what leaves: every file that has no business in a push is found, and good ones pass."""

import base64
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from medvqa_core.errors import GovernanceError
from medvqa_hub.publishing.phrases import Phrases
from medvqa_hub.publishing.scanning import scan

REPORT = "Moderate left pleural effusion with adjacent atelectasis, unchanged since the prior study of the chest."


def picture(format: str, **options) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (32, 32), dtype=np.uint8)
    Image.fromarray(pixels).save(file, format, **options)
    return file.getvalue()


def exif() -> Image.Exif:
    found = Image.Exif()
    found[0x010E] = "a study"
    return found


def archive(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("reports.txt", content)
    return file.getvalue()


def table(tmp_path, **columns) -> None:
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")


IMAGES = {
    "png": picture("PNG"), "jpeg": picture("JPEG"), "exif": picture("JPEG", exif=exif()), "gif": picture("GIF"),
    "dicom": b"\x00" * 128 + b"DICM" + b"\x02\x00", "webp": picture("WEBP"), "lossless": picture("WEBP", lossless=True),
    "bare jpeg": picture("JPEG")[:2] + picture("JPEG")[20:],  # without the mark of JFIF
}  # fmt: skip


@pytest.mark.parametrize("image", IMAGES)
def test_images_in_weights_and_texts(image, tmp_path):
    hidden = np.frombuffer(b"\x01" * 7 + b"\x00" * 100 + IMAGES[image], np.uint8)
    save_file({"w": torch.randn(64), "extra": torch.tensor(hidden)}, tmp_path / "model.safetensors")
    with pytest.raises(GovernanceError, match="model.safetensors .*image"):
        scan(tmp_path)


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("image", IMAGES)
def test_images_as_text(image, escaped, tmp_path):
    text = json.dumps({"icon": base64.b64encode(IMAGES[image]).decode()})
    (tmp_path / "config.json").write_text(text.replace("/", "\\/") if escaped else text)
    with pytest.raises(GovernanceError, match="config.json .*image"):
        scan(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("study.jpg", IMAGES["jpeg"]),
        ("config.json", IMAGES["jpeg"]),
        ("reports.zip", archive(b"text")),
        ("sheet.png", b"words"),
        ("tokenizer.json", archive(archive(b"text"))),
        ("weights.bin", b"\x80\x04\x95pickle"),
        ("notes.pdf", b"%PDF-1.7"),
        ("vocab.txt", b"\x1f\x8b\x08packed"),
        ("README.md", "Überraschung".encode("latin-1")),
        ("README.md", REPORT.encode("utf-16")),
        ("README.md", REPORT.encode("utf-16-le")),  # without a mark it reads as UTF-8, a NUL after each letter
        ("README.md", REPORT.encode("utf-32-be")),
        ("rows.PARQUET", b"PAR1"),
        ("config.Json", b"{}"),
        ("rows.jsonl.gz", b"text"),
        ("README.md", b"A card." + archive(b"text")),
        ("config.json", b'{"a": '),
        ("config.json", b"[" * 100_000),
        ("rows.jsonl", b'{"a": 1}\n{"b": '),
        ("rows.parquet", b"PAR1 and no table"),
        ("model.safetensors", b"\xff" * 8 + b"as long as nothing"),
        ("model.safetensors", b"short"),
    ],
)
def test_what_is_no_kind_of_file_that_is_pushed(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GovernanceError, match=f"{name} cannot be pushed"):
        scan(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        {"images": [b"\xff\xd8\xff\xe0 compressed away"]},
        {"images": [{"bytes": IMAGES["jpeg"], "path": "a.jpg"}]},
        {"images": [[{"bytes": IMAGES["png"], "path": "a.png"}]]},
        {"note": [base64.b64encode(IMAGES["png"]).decode()]},
        {"note": ["see p10000032 of before"]},
        {"note": [["files/p10/p10000032/s50414267/a.jpg"]]},
        {"note": pa.array(["s50414267"]).dictionary_encode()},
        {"study_id": [95000001, 50414267]},
        {"note": ["S50414267"]},
        {"note": pa.array([b"x" * 16], pa.binary(16))},
        {"note": pa.array([["files/p10000032/a.jpg"]], pa.list_(pa.string(), 1))},
        {"note": pa.array([[("study", "s50414267")]], pa.map_(pa.string(), pa.string()))},
        {"note": pa.array(["s50414267"], pa.string_view())},
        {"note": pa.array([[0, 255, 3]], pa.list_(pa.uint8()))},
        {"subject_id": [19999999]},
    ],
)
def test_what_a_table_must_not_hold(content, tmp_path):
    table(tmp_path, **content)
    with pytest.raises(GovernanceError, match="rows.parquet"):
        scan(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        "patient p10000032", "patient 10000032", '{"vocab": {"50414267": 4}}', f"files/p10/p{19999999}/s{59999999}/x",
        "subject_id: 18765432\n", "S50414267", "10000032,10000033,", "study_50414267", "study-50414267",
        "50414267_AP.jpg",
    ],
)  # fmt: skip
def test_ids_in_texts(content, tmp_path):
    (tmp_path / "vocab.txt").write_text(content)
    with pytest.raises(GovernanceError, match="patient or study id"):
        scan(tmp_path)


def test_ids_in_the_header_of_weights(tmp_path):
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors", metadata={"made_from": "s50414267"})
    with pytest.raises(GovernanceError, match="model.safetensors"):
        scan(tmp_path)


@pytest.mark.parametrize("name", ["README.md", "config.json", "chat_template.jinja"])
def test_sentences_of_reports_are_found_and_not_quoted(name, tmp_path):
    quoted = f"Such as: {REPORT.upper()[9:]} And so on."
    (tmp_path / name).write_text(json.dumps({"a": {"b": [quoted]}}) if name.endswith("json") else quoted)
    with pytest.raises(GovernanceError, match=r"1[34] consecutive words") as caught:
        scan(tmp_path, Phrases(["Another one.", REPORT]))
    assert "effusion" not in str(caught.value)
    scan(tmp_path)  # without a workspace nobody knows that it is one


def test_what_stands_behind_the_weights(tmp_path):
    """A zip archive is read from its end: appended to weights it is both."""
    save_file({"w": torch.ones(2)}, tmp_path / "model.safetensors")
    with open(tmp_path / "model.safetensors", "ab") as file:
        file.write(archive(REPORT.encode()))
    with pytest.raises(GovernanceError, match="model.safetensors"):
        scan(tmp_path)


@pytest.mark.parametrize("where", ["metadata", "name"])
def test_sentences_in_the_header_of_weights(where, tmp_path):
    name, metadata = (REPORT, None) if where == "name" else ("w", {"example": REPORT})
    save_file({name: torch.ones(2)}, tmp_path / "model.safetensors", metadata=metadata)
    with pytest.raises(GovernanceError, match=r"model.safetensors .*1[0-9] consecutive words"):
        scan(tmp_path, Phrases([REPORT]))


def noted(place: str) -> pa.Schema:
    """A schema with a note where readers of a table do not look."""
    note = {"example": REPORT}
    inner = pa.field("images", pa.list_(pa.field("item", pa.string(), metadata=note if place == "inner" else None)))
    return pa.schema([inner.with_metadata(note) if place == "field" else inner], note if place == "schema" else None)


@pytest.mark.parametrize("place", ["schema", "field", "inner", "footer"])
def test_notes_beside_the_columns_of_a_table(place, tmp_path):
    table = pa.table({"images": [["a.jpg"]]})
    with pq.ParquetWriter(tmp_path / "rows.parquet", noted(place)) as file:
        file.write_table(table.cast(noted(place)))
        if place == "footer":
            file.add_key_value_metadata({"example": REPORT})
    with pytest.raises(GovernanceError, match="rows.parquet .*metadata"):
        scan(tmp_path, id_tables={"rows.parquet"})


@pytest.mark.parametrize("name", ["config.json", "rows.jsonl"])
@pytest.mark.parametrize("hidden", ["s50414267", REPORT])
def test_escapes_hide_nothing(name, hidden, tmp_path):
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in hidden)
    (tmp_path / name).write_text(f'{{"a": ["{escaped}"]}}')
    with pytest.raises(GovernanceError, match=f"{name} cannot be pushed"):
        scan(tmp_path, Phrases([REPORT]))


def test_a_sentence_and_an_id_in_a_very_long_line(tmp_path):
    filler = "word " * 400_000
    for found in (REPORT, "s50414267"):
        (tmp_path / "README.md").write_text(f"{filler}{found} {filler}")
        with pytest.raises(GovernanceError, match="README.md"):
            scan(tmp_path, Phrases([REPORT]))


def test_sizes_in_a_card_are_not_ids_and_ids_beside_them_are(tmp_path):
    card = "---\ndataset_info:\n  splits:\n  - name: train\n    num_bytes: 15345678\n  download_size: 51234567\n---\n"
    (tmp_path / "README.md").write_text(card)
    scan(tmp_path, Phrases([REPORT]))
    for line in ("subject: 15345678", "num_bytes: 15345678, 15345679", "see num_bytes: 15345678"):
        (tmp_path / "README.md").write_text(f"{card}{line}\n")
        with pytest.raises(GovernanceError, match="README.md"):
            scan(tmp_path, Phrases([REPORT]))


def test_good_files_pass(tmp_path):
    (tmp_path / "README.md").write_text(
        "12,345,678 parameters, p95000001, s95000012, 3.10000032, 20260101, 50,414,267, "
        "10000032-1234-4abc-8def-0123456789ab"
    )
    index = {"metadata": {"total_size": 15345678, "total_parameters": 51234567}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    (tmp_path / "config.json").write_text(
        json.dumps({"fingerprint": "a10000032b" * 3, "words": "left pleural effusion"})
    )
    save_file({"w": torch.randn(100_000), "zeros": torch.zeros(1000)}, tmp_path / "model.safetensors", {"format": "pt"})
    table(tmp_path, study_id=[95000001], qa_id=["s95000001-edema-1"], answer=["No effusion."], lint=[["rule"]])
    (tmp_path / "empty.txt").touch()
    scan(tmp_path, Phrases([REPORT]))
