"""What a model is told, frozen in a file: another wording is another file, and asks its questions again."""

import json
import os
from dataclasses import replace

import pytest
from paths import GOLDEN

from medvqa_core.errors import ConfigError
from rjua_meddqa.inference.engines import DocumentRequest
from rjua_meddqa.inference.prompts import (
    OUR_PROMPT,
    PAPER_PROMPT,
    QUESTION_KINDS,
    DocumentPrompt,
    find_prompt,
    read_prompt,
)

SNAPSHOT = GOLDEN / "meddqa_prompts.json"


class _Page:
    class restored:
        text = "姓名：{question} 张三"


def request(task="entity_qa", answer_type="single_entity", page=None, context=""):
    return DocumentRequest("a-1", None, "问题:姓名是什么？", task, answer_type, context, page)


def told(prompt: DocumentPrompt) -> dict:
    return {
        f"{task}/{kind}": {
            "version": prompt.version_of(task, kind),
            "system": prompt.system,
            "image": prompt.user_text(request(task, kind, context="背景{context}")),
            "text": prompt.user_text(request(task, kind, _Page, "背景{context}")),
        }
        for task, kind in QUESTION_KINDS
    }


def test_every_kind_of_question_is_asked_as_the_snapshot_says():
    """UPDATE_PROMPTS=1 writes it anew, on purpose."""
    now = {name: told(find_prompt(name)) for name in ("ours", "paper")}
    if os.environ.get("UPDATE_PROMPTS"):
        SNAPSHOT.write_text(json.dumps(now, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert now == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_braces_of_a_report_mean_nothing_and_the_question_comes_last():
    text = OUR_PROMPT.user_text(request(page=_Page, context="{}"))
    assert "姓名：{question} 张三" in text and "背景知识：\n{}" in text and text.endswith("问题：姓名是什么？")


def test_the_papers_prompt_says_nothing_of_its_own():
    assert PAPER_PROMPT.user_text(request(context="背景")) == "背景\n问题:姓名是什么？" and PAPER_PROMPT.system == ""


def test_a_changed_instruction_changes_the_version_of_its_own_questions_only():
    ours = OUR_PROMPT
    kind, other = QUESTION_KINDS[:2]
    changed = replace(ours, instructions={**ours.instructions, kind: "换一种说法"})
    assert changed.version_of(*kind) != ours.version_of(*kind) and changed.version != ours.version
    assert changed.version_of(*other) == ours.version_of(*other)
    assert replace(ours, system="x").version_of(*other) != ours.version_of(*other)
    assert replace(ours, is_bare=True).version_of(*other) != ours.version_of(*other)  # replies are read otherwise


def test_a_file_of_prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text(
        "=== system ===\n系统\n=== any ===\n通用\n=== table_qa/single_span ===\n一格\n两行\n", encoding="utf-8"
    )
    prompt = find_prompt(str(path))
    assert prompt.system == "系统" and prompt.instruction("table_qa", "single_span") == "一格\n两行"
    assert prompt.instruction("entity_qa", "single_entity") == "通用"
    assert prompt.version.startswith("file-")


@pytest.mark.parametrize(
    "text, why",
    [
        ("写在前面\n=== any ===\nx", "text above the first line"),
        ("=== table ===\nx", "section 'table' is unknown; allowed: system, any, entity_qa/single_entity"),
        ("=== any ===\nx\n=== any ===\ny", "section 'any' is repeated"),
        ("=== system ===\nx", "no section 'entity_qa/single_entity'; add it, or a section 'any'"),
        ("", "no section 'entity_qa/single_entity'"),
    ],
)
def test_a_broken_file_is_named(tmp_path, text, why):
    path = tmp_path / "prompts.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=why):
        read_prompt(path)


def test_a_prompt_that_is_neither_a_name_nor_a_file():
    with pytest.raises(ConfigError, match="'theirs'"):
        find_prompt("theirs")
