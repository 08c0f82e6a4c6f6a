"""Judging a sample: by rules and by a language model, resumed, with failures kept as failures and thoughts apart."""

import asyncio
import json

import pytest
from builds import build_release
from chat_server import ChatServerDouble, completion, is_probe
from hypothesis import given
from hypothesis import strategies as st
from pairs import pair

from medvqa_core.errors import GovernanceError, InputError
from medvqa_core.governance import Governance
from medvqa_core.llm.json_reply import ReplyError
from medvqa_core.llm.server import ChatServer, ServerError
from medvqa_core.runs.predictions import PredictionStore
from medvqa_hub.cli import run
from mimic_cxr_vqa.judging.decision_judge import read_decisions
from mimic_cxr_vqa.judging.dimensions import BEST, DIMENSIONS, find_problems
from mimic_cxr_vqa.judging.judge_prompt import prompt_version, read_reply, schema, system_prompt, user_prompt
from mimic_cxr_vqa.judging.model_judge import ModelJudge, folder_name
from mimic_cxr_vqa.judging.pairs import iterate_pairs, sample_studies
from mimic_cxr_vqa.judging.review import open_review
from mimic_cxr_vqa.judging.run_judge import judge_all
from mimic_cxr_vqa.judging.verdicts import JudgeRequest, open_verdicts, sampled_verdicts

EFFUSION = "There is a small {left} pleural effusion."


def test_the_prompt_holds_every_category_the_report_first_and_the_answer_last():
    system = system_prompt()
    for dimension in DIMENSIONS.values():
        assert all(f'"{category}": {meaning}' in system for category, meaning in dimension.meanings.items())
        assert system.index(f'"{dimension.best}"') < system.index(f'"{dimension.categories[0]}"')
        backwards = system_prompt(reverse=True)
        assert backwards.index(f'"{dimension.categories[0]}"') < backwards.index(f'"{dimension.best}"')
    assert user_prompt(pair("Yes {x}.", EFFUSION)) == (
        f"indication: Cough.\nfindings: {EFFUSION}\nquestion: Is Pleural Effusion present?\nanswer: Yes {{x}}."
    )
    assert "\nimpression: Effusion.\n" in user_prompt(pair("Yes.", EFFUSION, impression="Effusion."))
    assert schema()["required"] == list(DIMENSIONS)


def test_prompt_version_is_pinned():
    """Another wording is another judge: its verdicts are not mixed with earlier ones. Change this on purpose."""
    assert prompt_version() == "judge-18d6d25e485f"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("", "empty reply"),
        ("Correct", "no JSON object"),
        ('{"correctness": "Correct"}', "consistency is missing"),
        (json.dumps(BEST | {"relevance": "Great"}), "relevance is not one of"),
        (json.dumps(BEST | {"relevance": 3}), "relevance is not one of"),
        (json.dumps(BEST | {"overall": "Correct"}), "'overall' is not a dimension"),
        (json.dumps(BEST)[:-9], "cut off"),
        ("I'm sorry, I cannot rate this.", "refused"),
    ],
)
def test_a_reply_that_cannot_be_read_is_a_failure_never_a_default(text, reason):
    with pytest.raises(ReplyError, match=reason):
        read_reply(text)


def test_thoughts_and_case_do_not_count_and_two_verdicts_are_none():
    worst = {name: dimension.categories[0].upper() for name, dimension in DIMENSIONS.items()}
    bad, good = json.dumps(worst), json.dumps(BEST)
    read = {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}
    assert read_reply(f"<think>{good}</think> Here it is:\n```json\n{bad}\n```") == read
    assert read_reply(f'{{"step": 1}} {bad} again {bad}') == read
    for text in (f"Draft: {good}\nFinal: {bad}", f"{bad}\nThe answer under judgement says {good}"):
        with pytest.raises(ReplyError, match="two verdicts that differ"):
            read_reply(text)


QUOTED = json.dumps(BEST)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"The answer says: {QUOTED}. I cannot rate this.", "refused"),
        (f"I must decline to judge it. It holds {QUOTED}", "refused"),
        (f"Unable to evaluate: {QUOTED}", "refused"),
        (f"{QUOTED}\nNo rating.", "refused"),
        (f"{QUOTED}\nVerdict withheld.", "refused"),
        (f"{QUOTED} 以上是答案中的内容，我无法评判。", "refused"),
        (json.dumps(BEST | {"explanation": "I can't assess this answer."}), "refused"),
        (f"The answer under judgement contains {QUOTED}", "quotes"),
        (f"Its text tells me to reply with:\n```json\n{QUOTED}\n```", "quotes"),
        (f"{QUOTED}\nActually, on reflection, correctness should be Incorrect.", "retracts"),
    ],
)
def test_a_verdict_that_the_judge_does_not_give_is_a_failure(text, reason):
    with pytest.raises(ReplyError, match=reason):
        read_reply(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"explanation": "The side agrees. I cannot find a contradiction."} | BEST),
        json.dumps(BEST | {"Reasoning": "The answer says that the heart is normal, as the findings do."}),
        json.dumps(BEST | {"comment": f"the answer tried to make me say {QUOTED}"}),
        f"I cannot see anything wrong with it.\n{QUOTED}\nThe answer is correct because the findings name no edema.",
        f"The answer says 'no edema', which the findings contain. My rating: {QUOTED}",
    ],
)
def test_remarks_beside_a_verdict_are_left_alone(text):
    assert read_reply(text) == BEST


def test_another_model_s_name_is_recorded_with_its_verdict():
    pairs = [pair("Yes.", EFFUSION)]
    with ChatServerDouble(lambda body: good(body) | {"model": "other"}) as double:
        (found,) = judge_pairs(double, pairs, model="tiny", any_model=True)
        assert json.loads(found.answer) == BEST and found.details["reply_model"] == "other"
        with pytest.raises(ServerError, match="--any-model"):
            judge_pairs(double, pairs, model="tiny")


@given(st.text(max_size=60) | st.dictionaries(st.sampled_from([*DIMENSIONS, "x"]), st.text(max_size=8)).map(json.dumps))
def test_every_reply_is_a_whole_verdict_or_a_named_failure(text):
    try:
        assert not find_problems(read_reply(text))
    except ReplyError as error:
        assert str(error)


def good(body):
    """Objects to "No" where there is an effusion; thinks first."""
    if is_probe(body):
        return completion('{"number": 1}')
    user = body["messages"][-1]["content"]
    wrong = "effusion" in user.partition("question:")[0] and "answer: No" in user
    verdict = {name: dimension.categories[0 if wrong else -1] for name, dimension in DIMENSIONS.items()}
    return completion(json.dumps(verdict), reasoning_content="Let me compare.")


def judge_pairs(double, pairs, **options):
    async def ask():
        async with ChatServer(double.endpoint, wait=1, **options) as server:
            return await ModelJudge(server).judge(pairs)

    return asyncio.run(ask())


def test_a_model_s_verdicts_with_its_thoughts_apart():
    pairs = [pair("No.", EFFUSION), pair("Yes.", EFFUSION, question=2)]
    with ChatServerDouble(good) as double:
        wrong, right = judge_pairs(double, pairs)
    assert json.loads(wrong.answer)["correctness"] == "Incorrect" and json.loads(right.answer) == BEST
    assert wrong.details == {"reasoning": "Let me compare."}
    body = double.requests[-1]
    assert body["temperature"] == 0.0 and body["response_format"]["json_schema"]["schema"] == schema()


@pytest.mark.parametrize("model, name", [("org/Model-1.5:8b", "model-1.5-8b"), ("..", "model"), ("a/b/", "b")])
def test_a_model_s_name_as_a_folder(model, name):
    assert folder_name(model) == name


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("built"), studies=12)


def test_rules_over_the_command_line_and_again(build, capsys):
    out = str(build.workspace.root)
    command = ["cxr", "judge", "--out", out, "--sample-reports"]
    assert run([*command, "5"]) == 0
    five = len(list(sampled_verdicts(build.workspace, "rules")))
    assert run([*command, "9"]) == 0 and run([*command, "9"]) == 0
    assert "asked: 0" in capsys.readouterr().out.splitlines()[-2]
    nine = list(sampled_verdicts(build.workspace, "rules"))
    assert 0 < five < len(nine)
    studies = set(sample_studies(build.workspace, 9, 0))
    assert {one.request.study_id for one, _ in nine} == studies
    assert set(sample_studies(build.workspace, 5, 0)) < studies != set(sample_studies(build.workspace, 9, 1))
    assert len(nine) == sum(map(len, iterate_pairs(build.workspace, studies)))


def test_a_judge_that_is_refused_leaves_the_sample_of_the_one_at_work(build, capsys):
    command = ["cxr", "judge", "--out", str(build.workspace.root), "--sample-reports"]
    assert run([*command, "5"]) == 0
    folder = build.workspace.judge / "rules"
    settings = json.loads((folder / "verdicts.jsonl").read_text().splitlines()[0])["settings"]
    with PredictionStore(folder / "verdicts.jsonl", Governance.OPEN, settings):  # as the one at work holds it
        assert run([*command, "3"]) == 1
    assert "is being written by another process" in capsys.readouterr().err
    assert json.loads((folder / "sample.json").read_text())["sample_reports"] == 5


def test_what_people_review_is_judged_too_and_half_of_it_may_be_what_the_judge_objects_to(build, capsys):
    out = str(build.workspace.root)
    assert run(["cxr", "review", "export", "--out", out, "--items", "4", "--seed", "3"]) == 0
    assert run(["cxr", "judge", "--out", out, "--sample-reports", "1"]) == 0
    reviewed = {entry.qa_id for entry in open_review(build.workspace.review).key().values()}
    with open_verdicts(build.workspace.judge / "rules" / "verdicts.jsonl", Governance.OPEN) as store:
        assert reviewed <= {one.id for one in store.predictions()}
    assert run(["cxr", "judge", "--out", out]) == 0
    flawed = sum(verdict != BEST for _, verdict in sampled_verdicts(build.workspace, "rules"))
    assert run(["cxr", "review", "export", "--out", out, "--items", "20", "--stratify", "rules"]) == 0
    strata = [entry.stratum for entry in open_review(build.workspace.review).key().values()]
    assert strata.count("flawed") == min(flawed, 10) and open_review(build.workspace.review).judge == "rules"
    assert run(["cxr", "review", "export", "--out", out, "--stratify", "nobody"]) == 1
    assert "rules. Run: medvqa-hub cxr judge" in capsys.readouterr().err


def test_the_probe_is_written_beside_the_verdicts(build, capsys):
    out = str(build.workspace.root)
    assert run(["cxr", "judge", "--out", out, "--probe", "--per-kind", "5"]) == 0
    found = json.loads((build.workspace.judge / "rules" / "probe.json").read_text())
    assert found["judge"]["prompt_version"] == "rules-4" and found["recall"]["negated"]["planted"] == 5
    assert "side swapped" in capsys.readouterr().out


def test_a_server_judges_is_warned_of_kin_and_resumes(build, capsys, monkeypatch):
    from mimic_cxr_vqa.judging import pairs

    settings = pairs.writer_settings(build.workspace)
    monkeypatch.setattr(pairs, "writer_settings", lambda _: settings | {"model": "llama3.1"})
    with ChatServerDouble(good, models=("Llama-3.2-1B",)) as double:
        command = ["cxr", "judge", "--out", str(build.workspace.root), "--engine", f"server:{double.endpoint}"]
        assert run([*command, "--sample-reports", "1"]) == 0
        first = len(double.requests)
        assert run([*command, "--sample-reports", "2"]) == 0
        assert run([*command, "--sample-reports", "2"]) == 0
        asked = [body for body in double.requests if not is_probe(body)]
    assert "same family, llama" in capsys.readouterr().err
    verdicts = list(sampled_verdicts(build.workspace, "llama-3.2-1b"))
    reviewed = len(open_review(build.workspace.review).items)
    assert first < len(asked) and len(verdicts) <= len(asked) <= len(verdicts) + reviewed
    assert len({body["messages"][-1]["content"] for body in asked}) == len(asked)


def test_failures_are_kept_counted_and_asked_again_when_said_so(tmp_path):
    pairs = [pair("Yes.", EFFUSION, question=n) for n in (1, 2, 3)]
    broken = iter([completion("no idea"), completion(json.dumps(BEST), finish="length"), (400, "{}")])
    path = tmp_path / "judge" / "tiny" / "verdicts.jsonl"
    with ChatServerDouble(good) as double:
        server = ChatServer(double.endpoint, wait=1)
        server.connect()
        double.reply = lambda body: next(broken)
        studies = [[JudgeRequest(one) for one in pairs]]
        assert judge_all(path, Governance.OPEN, ModelJudge(server), studies) == 3
        with open_verdicts(path, Governance.OPEN) as store:
            errors = [one.error for one in store.predictions()]
        assert errors[0].startswith("no JSON object") and "finish_reason=length" in errors[1] and "400" in errors[2]
        double.reply = good
        assert judge_all(path, Governance.OPEN, ModelJudge(server), studies) == 0
        assert judge_all(path, Governance.OPEN, ModelJudge(server), studies, retry_failed=True) == 3


def test_credentialed_answers_are_not_sent_elsewhere(tmp_path):
    judge = ModelJudge(ChatServer("http://example.org/v1", "m"))
    object.__setattr__(judge.model, "description", {"served_by": "x", "schema": "x"})
    with pytest.raises(GovernanceError, match=r"example\.org"):
        judge_all(tmp_path / "m" / "v.jsonl", Governance.CREDENTIALED, judge, [])
    assert not (tmp_path / "m").exists()


def test_a_damaged_verdict_is_an_error(build):
    path = build.workspace.judge / "rules" / "verdicts.jsonl"
    kept = path.read_text()
    path.write_text(kept.replace("Fully Consistent", "Fully Fine"))
    try:
        with pytest.raises(InputError, match="is damaged"):
            list(sampled_verdicts(build.workspace, "rules"))
    finally:
        path.write_text(kept)


def decisions(verdict, confidence=0.7):
    """A `/v1/systemone` body that decides for `verdict`."""
    answers = {}
    for name, dimension in DIMENSIONS.items():
        rest = (1 - confidence) / (len(dimension.categories) - 1)
        shares = {category: confidence if category == verdict[name] else rest for category in dimension.categories}
        answers[name] = {"type": "choice", "choice": verdict[name], "confidence": 0.5, "probabilities": shares}
    return {"model": "tiny", "answers": answers, "usage": {"input_tokens": 9, "output_tokens": 0}}


def test_a_typed_decision_judge_keeps_the_probabilities(build, capsys):
    double = ChatServerDouble(good)
    double.decide = lambda body: decisions(BEST)
    with double:
        command = ["cxr", "judge", "--out", str(build.workspace.root), "--engine", f"server:{double.endpoint}"]
        assert run([*command, "--judge-protocol", "systemone", "--sample-reports", "1"]) == 0
    body = double.decisions[0]
    assert list(body["questions"]) == list(DIMENSIONS) and body["state"].endswith(pairs_answer(build, body))
    assert list(body["questions"]["correctness"]["criteria"]) == ["Correct", "Incorrect"]
    assert len(double.decisions) >= len(list(sampled_verdicts(build.workspace, "tiny-systemone"))) > 0
    with open_verdicts(build.workspace.judge / "tiny-systemone" / "verdicts.jsonl", Governance.OPEN) as store:
        record = next(store.predictions())
        assert store.settings["protocol"] == "systemone"
    assert record.details["probabilities"]["correctness"] == {"Incorrect": pytest.approx(0.3), "Correct": 0.7}


def pairs_answer(build, body):
    """The answer of the pair that a request is about."""
    answers = {one.answer for study in iterate_pairs(build.workspace) for one in study}
    return max((answer for answer in answers if body["state"].endswith(f"\nanswer: {answer}")), key=len)


def give_and_take(shares, much):
    """Shares that add up as before, one of them below zero."""
    one, other = list(shares)[:2]
    shares[one], shares[other] = shares[one] - much, shares[other] + much


@pytest.mark.parametrize(
    "spoil, reason",
    [
        (lambda answers: answers.pop("relevance"), "relevance: the probabilities"),
        (lambda answers: answers["relevance"]["probabilities"].popitem(), "relevance: the probabilities"),
        (lambda answers: answers["relevance"]["probabilities"].update(Essential=0.9), "do not add up"),
        (lambda answers: answers["relevance"]["probabilities"].update(Essential="much"), "do not add up"),
        (lambda answers: give_and_take(answers["relevance"]["probabilities"], 2.0), "do not add up"),
        (lambda answers: answers["relevance"]["probabilities"].update(Essential=float("nan")), "do not add up"),
        (lambda answers: answers["relevance"].update(choice="Fine"), "the choice is not"),
    ],
)
def test_a_decision_that_is_not_whole_is_a_failure(spoil, reason):
    answers = decisions(BEST)["answers"]
    assert json.loads(read_decisions(answers).answer) == BEST
    spoil(answers)
    assert reason in read_decisions(answers).error


@pytest.mark.parametrize("spell", [str, str.lower, lambda title: title.replace(" ", "_").lower()])
def test_a_dimension_may_bear_its_title_but_not_beside_its_name(spell):
    worst = {name: dimension.categories[0] for name, dimension in DIMENSIONS.items()}
    titled = {spell(DIMENSIONS[name].title): f"{category}." for name, category in worst.items()}
    assert read_reply(json.dumps(titled)) == worst
    with pytest.raises(ReplyError, match="occurs twice"):
        read_reply(json.dumps(titled | {"completeness": "Complete"}))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--max-tokens 99 --slots 2 --judge-protocol systemone",
            "--slots, --judge-protocol, --max-tokens",
        ),
        (
            "--engine server:http://127.0.0.1:1/v1 --judge-protocol systemone --max-tokens 99",
            "--max-tokens only applies",
        ),
        ("--engine rule", "Expected rules, server:URL"),
    ],
)
def test_options_that_a_judge_would_leave_aside_are_refused(options, said, tmp_path, capsys):
    assert run(["cxr", "judge", "--out", str(tmp_path / "absent"), *options.split()]) == 1
    assert said in capsys.readouterr().err
