"""The documentation site: its generated pages are complete, every page is in the navigation, and it builds."""

import importlib.util
import posixpath
import re
import subprocess
import sys

import pytest
import yaml
from paths import REPOSITORY

DOCS = REPOSITORY / "docs"


@pytest.fixture(scope="module")
def site_pages():
    specification = importlib.util.spec_from_file_location("site_pages", DOCS / "site_pages.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def navigation(entries) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    parts = entries.values() if isinstance(entries, dict) else entries
    return [page for part in parts for page in navigation(part)]


def test_every_page_is_in_the_navigation_once(site_pages):
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    listed = navigation(yaml.safe_load(text)["nav"])
    written = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*written, *site_pages.make_pages()])


def test_every_command_and_option_is_on_the_page_of_commands(site_pages):
    import typer

    from medvqa_hub.cli import app

    text = site_pages.make_commands()
    names = dict(site_pages.walk_commands(typer.main.get_command(app)))
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert list(sections) == list(names)
    for name, command in names.items():
        for option in (option for given in command.params for option in (*given.opts, *given.secondary_opts)):
            shown = option if option.startswith("-") else option.upper()
            assert f"`{shown}`" in sections[name] or option == "--help", (name, option)
    assert "| `--class` | Governance class of the files to remove." in sections["purge"]
    assert "required; one of `open`, `share-alike`, `no-derivatives`, `credentialed`" in sections["purge"]


def test_columns_are_described_and_no_others(site_pages):
    described = yaml.safe_load((DOCS / "columns.yaml").read_text(encoding="utf-8"))
    for dataset, configs in site_pages.list_columns().items():
        assert set(configs) == set(described[dataset]["configs"])
        assert {column for columns in configs.values() for column in columns} == set(described[dataset]["columns"])
    written = (DOCS / site_pages.COLUMNS).read_text(encoding="utf-8")
    assert written == site_pages.make_columns(), "run: python docs/site_pages.py"
    assert "| `views` | list[string] | View of each image" in written


def test_links_of_copied_pages_lead_to_pages_of_the_site_or_become_text(site_pages, tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "README.md").write_text(
        "[a](../docs/cxr.md#x) [b](../CHANGELOG.md) [c](swin_ved/) [d](https://e.org/f.md) ![p](../docs/p.png)"
    )
    monkeypatch.setattr(site_pages, "REPOSITORY", tmp_path)
    expected = "[a](cxr.md#x) [b](changelog.md) c [d](https://e.org/f.md) ![p](p.png)"
    assert site_pages.copy_page("models/README.md").replace("../", "").replace("docs/", "") == expected


@pytest.mark.parametrize("name", sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")))
def test_pages_of_the_site_only_link_to_pages_of_the_site(name, site_pages):
    text = re.sub(r"```.*?```", "", (DOCS / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    pages = {*(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")), *site_pages.PAGES.values()}
    pages |= {site_pages.COMMANDS}
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        assert target.startswith("https://") or path in pages or (DOCS / path).suffix in (".png", ".jpg", ".ipynb"), (
            target
        )


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    home = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "medvqa-hub" in home
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)', page.read_text("utf-8"))
        assert loaded == [], page  # nothing from other hosts
