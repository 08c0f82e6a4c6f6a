"""The tasks for inspect-ai, which is not among our packages (nor is openai): the test is skipped without them."""

import importlib.util

import pytest
from chat_server import ChatServerDouble, completion
from paths import REPOSITORY

inspect_ai = pytest.importorskip("inspect_ai")
pytest.importorskip("openai")


@pytest.mark.parametrize(("task", "reply"), [("mimic_cxr_vqa", "No edema is seen."), ("rjua_meddqa", "无")])
def test_a_run_shows_the_images_and_has_our_measures(task, reply, tmp_path, monkeypatch):
    monkeypatch.setenv("OURS_API_KEY", "none")
    spec = importlib.util.spec_from_file_location("inspect_tasks", REPOSITORY / "harness/inspect_ai/tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    whole = completion(reply) | {"id": "1", "created": 0, "model": "tiny", "usage": usage}
    with ChatServerDouble(lambda _: whole) as double:
        (log,) = inspect_ai.eval(
            getattr(module, task)(config="sample"),
            model="openai-api/ours/tiny",
            model_base_url=double.endpoint,
            limit=3,
            log_dir=str(tmp_path),
            display="none",
        )
    kinds = [part["type"] for part in double.requests[0]["messages"][-1]["content"]]
    assert kinds == ["image_url"] * (len(kinds) - 1) + ["text"] and len(kinds) > 1
    assert log.status == "success", log.error
    (scored,) = log.results.scores
    assert {name: one.value for name, one in scored.metrics.items()}["failed"] == 0.0
