"""docs/meddqa.md names every command of the group, and its picture is small."""

import typer
from paths import REPOSITORY
from PIL import Image

from medvqa_hub.cli import app

DOCS = REPOSITORY / "docs"


def test_the_main_page_names_every_command_of_the_group():
    text = (DOCS / "meddqa.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands["meddqa"].commands
    assert [name for name in commands if f"meddqa {name}" not in text] == []


def test_the_picture_is_small():
    picture = DOCS / "meddqa_page.png"
    assert picture.stat().st_size < 300_000
    with Image.open(picture) as image:
        assert image.width > 1000
