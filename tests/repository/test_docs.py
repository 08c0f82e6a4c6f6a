"""Every page: links and anchors lead somewhere, and its commands and options exist.

test_typed_commands.py also runs the command lines.
"""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer
from paths import REPOSITORY

from medvqa_hub.cli import app

PAGES = [*REPOSITORY.glob("*.md"), *(page for place in ("docs", "models", "examples", "spaces", "harness")
                                     for page in (REPOSITORY / place).rglob("*.md"))]  # fmt: skip
NAMES = sorted(str(page.relative_to(REPOSITORY)) for page in PAGES)
OF_OTHERS = {
    "--help",
    "--include_path",
    "--num_processes",
    "--index-url",
}  # of every command, lmms-eval, accelerate, pip
OF_OTHERS |= {"--config", "--host", "--api_key", "--model_alias", "--no-log-images"}  # other servers, inspect


def prose(path: Path) -> str:
    return re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """As GitHub makes them: lower case, blanks as hyphens, other signs left out."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@cache
def commands() -> dict[str, set[str]]:
    """`cxr answer` and the like -> its options; a group has those of its commands."""
    found: dict[str, set[str]] = {}

    def walk(command, *words: str) -> set[str]:
        options = {option for given in command.params for option in (*given.opts, *given.secondary_opts)}
        for name, part in getattr(command, "commands", {}).items():
            options |= walk(part, *words, name)
        found[" ".join(words)] = options
        return options

    walk(typer.main.get_command(app))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_and_anchors_lead_somewhere(name):
    page = REPOSITORY / name
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        linked = page.parent / file if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("name", NAMES)
def test_commands_and_options_in_the_text_exist(name):
    text = re.sub(r"### Removed.*?(?=\n## |\Z)", "", prose(REPOSITORY / name), flags=re.DOTALL)
    for front, line in re.findall(r"`(medvqa-hub )?([a-z][^`]* [^`]+|(?<=medvqa-hub )[^`]+)`", text):
        if not front and line.split()[0] not in commands():
            continue
        words = shlex.split(line)
        command = next((" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in commands()), None)
        assert command, line
        assert {word for word in words if word.startswith("--") and " " not in word} <= commands()[command], line
    # Code that begins with another program's name has that program's options.
    own = re.sub(r"`([a-z][^` ]*) [^`]*`", lambda code: code[0] if code[1] in {"medvqa-hub", *commands()} else "", text)
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", own)) <= commands()[""] | OF_OTHERS


@pytest.mark.parametrize("name", NAMES)
def test_command_lines_have_known_and_all_required_options(name):
    text = (REPOSITORY / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"^medvqa-hub .*$", text, re.MULTILINE):
        words = shlex.split(line, comments=True)[1:]
        command = typer.main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        options = [given for given in command.params if given.opts[0].startswith("-")]
        known = {option for given in options for option in (*given.opts, *given.secondary_opts)}
        required = {given.opts[0] for given in options if given.required}
        typed = {word for word in words if word.startswith("--") and " " not in word}
        assert typed <= known | {"--help"}, line
        assert required <= typed or "--help" in typed, line
