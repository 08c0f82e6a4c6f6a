"""docs/meddqa*.md: the commands there have their options, the picture is small and open data."""

import re
import shlex

import pytest
import typer
from paths import REPOSITORY
from PIL import Image

from medvqa_hub.cli import app

DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.glob("meddqa*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_exist(page):
    text = page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("medvqa-hub")]
    lines += re.findall(r"`(medvqa-hub [^`]+)`", text)
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command = typer.main.get_command(app)
        while words and hasattr(command, "commands"):  # what follows the command are its own arguments
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        options = [parameter for parameter in command.params if parameter.opts[0].startswith("-")]
        required = {parameter.opts[0] for parameter in options if parameter.required}
        given = {word for word in words if word.startswith("--")}
        assert required <= given <= known, line
    assert lines


def test_the_main_page_names_every_command_of_the_group():
    text = (DOCS / "meddqa.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands["meddqa"].commands
    assert [name for name in commands if f"meddqa {name}" not in text] == []


def test_the_picture_is_small():
    picture = DOCS / "meddqa_page.png"
    assert picture.stat().st_size < 300_000
    with Image.open(picture) as image:
        assert image.width > 1000
