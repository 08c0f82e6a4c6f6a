"""A model in this process: the same replies one at a time and together, images, adapters, limits, broken folders."""

import asyncio
import io
import json
import shutil
from dataclasses import replace

import pytest
from chat_server import connect_to
from tiny_language_models import write_image_text_model, write_text_model

from medvqa_core.errors import ConfigError
from medvqa_core.governance import Governance
from medvqa_core.llm import loading
from medvqa_core.llm.chat import ChatRequest, Image, Message
from medvqa_core.llm.in_process import InProcessModel, _Job, _read_images
from medvqa_core.llm.json_reply import NOT_STORABLE

pytestmark = pytest.mark.slow
TEXTS = [f"is there edema? {'in the lungs ' * (n % 5)}{n}" for n in range(12)]


def load_in_process(where, slots=64, load_in=None):
    return InProcessModel(loading.load_model(where, load_in), slots)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    return write_text_model(tmp_path_factory.mktemp("models") / "tiny-qwen2")


@pytest.fixture(scope="module")
def image_folder(tmp_path_factory):
    return write_image_text_model(tmp_path_factory.mktemp("models") / "tiny-llava")


def picture(colour, size=(40, 30)):
    from PIL import Image as Pictures

    data = io.BytesIO()
    Pictures.new("RGB", size, colour).save(data, "PNG")
    return Image(data.getvalue(), "image/png")


def asking(text, images=(), **fields):
    return ChatRequest(
        (Message("system", "answer the question"), Message("user", text, tuple(images))),
        **{"max_tokens": 60, **fields},
    )


def ask(model, requests, one_at_a_time=False):
    async def run():
        async with model:
            if one_at_a_time:
                return [await model.chat(request) for request in requests]
            return await asyncio.gather(*(model.chat(request) for request in requests))

    return asyncio.run(run())


def test_log_probabilities_are_those_that_transformers_computes(image_folder):
    model = load_in_process(str(image_folder), slots=16)
    requests = [asking(text, [picture(("red", "blue")[n % 2])], logprobs=True) for n, text in enumerate(TEXTS)]
    for request, reply in zip(requests, ask(model, requests), strict=True):
        text = model._render(request.messages)
        job = _Job(request, text, model._tokens(text), _read_images(request.messages[-1].images), None)
        inputs = model._inputs([job])
        made = model.loaded.model.generate(
            **inputs, max_new_tokens=60, do_sample=False, output_scores=True, return_dict_in_generate=True
        )
        scores = model.loaded.model.compute_transition_scores(made.sequences, made.scores, normalize_logits=True)[0]
        assert reply.logprob == pytest.approx(scores[: reply.usage.completion].mean().item(), abs=1e-3)
    assert all(reply.logprob is None for reply in ask(model, [asking("is there edema?")]))


class Watched:
    """A tokenizer or processor that records for each call whether a lock is held."""

    def __init__(self, wrapped, held):
        self.wrapped, self.held, self.lock = wrapped, held, None

    def __getattr__(self, name):
        return getattr(self.wrapped, name)

    def __call__(self, *texts, **options):
        self.held.append(self.lock.locked())
        return self.wrapped(*texts, **options)


def test_a_request_is_not_tokenized_while_a_batch_is(image_folder):
    """A call of a fast tokenizer sets its padding, so a call in another thread would take the padding from a batch."""
    loaded, held = loading.load_model(str(image_folder)), []
    processor, tokenizer = Watched(loaded.processor, held), Watched(loaded.tokenizer, held)
    processor.tokenizer = tokenizer
    model = InProcessModel(replace(loaded, processor=processor), slots=16)
    processor.lock = tokenizer.lock = model._tokenizing
    ask(model, [asking(text, [picture("red")], max_tokens=2) for text in TEXTS])
    assert len(held) > len(TEXTS) and all(held)


def test_text_replies_are_the_same_one_at_a_time_in_batches_and_continuously(text_folder):
    model = load_in_process(str(text_folder), slots=8)
    requests = [asking(text) for text in TEXTS]
    alone = ask(model, requests, one_at_a_time=True)
    assert ask(model, requests) == alone
    assert ask(InProcessModel(model.loaded, continuous=True), requests) == alone
    by_plain_generate = _plainly(model.loaded, requests[3])
    assert alone[3].usage.completion == len(by_plain_generate)
    assert len({(reply.text, reply.usage.completion) for reply in alone}) > 6, "the questions make a difference"
    ended = [reply for reply in alone if reply.finish_reason == "stop"]
    assert ended and all(reply.text or reply.error in ("empty reply", NOT_STORABLE) for reply in ended)
    cut = [reply for reply in alone if reply.finish_reason == "length"]
    assert cut and all(reply.error == "finish_reason=length: cut after 60 tokens" for reply in cut)


def _plainly(loaded, request):
    messages = [{"role": message.role, "content": message.text} for message in request.messages]
    ids = loaded.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    return loaded.model.generate(ids, max_new_tokens=request.max_tokens, do_sample=False)[0, ids.shape[1] :].tolist()


def test_a_request_s_own_limit_counts_within_a_batch(text_folder):
    model = load_in_process(str(text_folder))
    whole = ask(model, [asking(text) for text in TEXTS])
    text, length = next((t, r.usage.completion) for t, r in zip(TEXTS, whole, strict=True) if r.usage.completion > 3)
    short, long = ask(model, [asking(text, max_tokens=length - 1), asking(text)])
    assert short.error == f"finish_reason=length: cut after {length - 1} tokens"
    assert short.usage.completion == length - 1 and long == whole[TEXTS.index(text)]


def test_a_seed_decides_what_is_sampled_whatever_else_is_asked(text_folder):
    model = load_in_process(str(text_folder))
    sampled = asking(TEXTS[1], temperature=5.0, seed=7)
    (alone,) = ask(model, [sampled])
    among = ask(model, [asking(TEXTS[0]), sampled, asking(TEXTS[2]), asking(TEXTS[1], temperature=5.0, seed=8)])
    assert among[1] == alone and among[3] != alone
    assert among[0] == ask(model, [asking(TEXTS[0])])[0]


def test_what_the_model_has_no_room_for_is_that_request_s_failure(text_folder):
    model = load_in_process(str(text_folder))
    long, fine = ask(model, [asking("edema " * 5000), asking(TEXTS[0])])
    assert long.refused and "4096 positions" in long.error and not fine.refused


def test_images_are_read_and_batched_with_their_like(image_folder):
    model = load_in_process(str(image_folder), slots=8)
    red, grey, wide = picture("red"), picture("grey"), picture("white", (300, 100))
    sets = [(red,), (grey,), (wide,), (red, grey), (), (grey, red)]
    requests = [asking(f"what is seen? {n}", images) for n, images in enumerate(sets)]
    requests.append(asking("what is seen? 0", (grey,)))
    alone = ask(model, requests, one_at_a_time=True)
    assert ask(model, requests) == alone
    assert alone[0] != alone[-1], "the image makes a difference"
    assert alone[3].usage.prompt > alone[0].usage.prompt > alone[4].usage.prompt
    broken = asking("what?", (Image(b"no image", "image/png"),))
    first, second = ask(model, [broken, requests[0]])
    assert first.refused and "cannot be read (UnidentifiedImageError)" in first.error and second == alone[0]
    first, second = ask(model, [asking("edema " * 5000, (red,)), requests[0]])
    assert first.refused and "positions" in first.error and second == alone[0]


def test_images_that_fill_the_context_leave_the_others_of_their_batch_alone(image_folder):
    """What a request's text leaves room for, its images may not."""
    model = load_in_process(str(image_folder), slots=8)
    request = asking("what?", (picture("red"),))
    (alone,) = ask(model, [request])
    model.loaded.positions = 1800
    tight = asking("edema " * 10, (picture("red"),), max_tokens=1800 - alone.usage.prompt + 8)
    first, second = ask(model, [tight, request])
    assert first.refused and "positions" in first.error and second == alone


def test_a_text_model_takes_no_images(text_folder):
    with pytest.raises(ConfigError, match="does not accept images"):
        ask(load_in_process(str(text_folder)), [asking("what?", (picture("red"),))])


def test_an_adapter_is_loaded_on_its_base_and_changes_the_replies(text_folder, tmp_path):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    config = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False, r=8, lora_alpha=64)
    get_peft_model(AutoModelForCausalLM.from_pretrained(text_folder), config).save_pretrained(tmp_path / "adapter")
    base, adapted = load_in_process(str(text_folder)), load_in_process(str(tmp_path / "adapter"))
    assert adapted.model == "adapter" and adapted.revision.startswith(base.revision.partition(",")[0] + " + adapter ")
    requests = [asking(text) for text in TEXTS]
    assert ask(base, requests) != (changed := ask(adapted, requests))
    assert changed == ask(adapted, requests, one_at_a_time=True)
    described = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(described | {"base_model_name_or_path": None}))
    with pytest.raises(ConfigError, match="base model"):
        load_in_process(str(tmp_path / "adapter"))


def test_the_revision_is_the_weights_not_the_place(text_folder, tmp_path):
    shutil.copytree(text_folder, tmp_path / "copy")
    here, there = load_in_process(str(text_folder)), load_in_process(str(tmp_path / "copy"))
    assert here.revision == there.revision and here.revision.endswith(", float32, schema ignored")
    other = load_in_process(str(write_text_model(tmp_path / "other", seed=5)))
    assert other.revision != here.revision


def test_eight_bits_load_and_say_so(text_folder):
    pytest.importorskip("bitsandbytes", reason="only on Linux")
    model = load_in_process(str(text_folder), load_in="8bit")
    assert model.revision.endswith(", 8bit, schema ignored") and model.description["load_in"] == "8bit"
    (reply,) = ask(model, [asking(TEXTS[0])])
    assert reply.usage.completion


def test_bits_that_do_not_work_here_are_one_clear_line(text_folder, monkeypatch):
    from transformers import GenerationMixin

    def fails(*_, **__):
        raise NotImplementedError("no kernel for this device")

    monkeypatch.setattr(GenerationMixin, "generate", fails)
    with pytest.raises(ConfigError, match="--load-in 4bit"):
        load_in_process(str(text_folder), load_in="4bit")


def test_a_template_without_a_system_role_gets_it_before_the_user_s_words(text_folder, tmp_path):
    folder = tmp_path / "strict"
    shutil.copytree(text_folder, folder)
    template = (folder / "chat_template.jinja").read_text()
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + template
    (folder / "chat_template.jinja").write_text(strict)
    model = load_in_process(str(folder))
    rendered = model._render(asking("is there edema?").messages)
    assert rendered == "<|user|>answer the question\n\nis there edema?<|end|><|assistant|>"


def test_folders_that_hold_no_chat_model(text_folder, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no such folder"):
        load_in_process(str(tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_in_process(str(tmp_path / "empty"))
    plain = tmp_path / "plain"
    shutil.copytree(text_folder, plain)
    (plain / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        load_in_process(str(plain))
    own_code = tmp_path / "own-code"
    shutil.copytree(text_folder, own_code)
    config = json.loads((own_code / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (own_code / "config.json").write_text(json.dumps(config))
    (own_code / "evil.py").write_text("raise SystemExit('code of the repository ran')")
    with pytest.raises(ConfigError, match="code of its own"):
        load_in_process(str(own_code))
    pickled = tmp_path / "pickled"
    shutil.copytree(text_folder, pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_in_process(str(pickled))


def test_a_folder_is_read_without_asking_the_hub(text_folder, monkeypatch):
    """Not even when a Hub id of that name could be meant; usage is not reported either."""
    import huggingface_hub.constants

    monkeypatch.chdir(text_folder.parent)
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("connected"))
    model = connect_to(f"transformers:{text_folder.name}", Governance.CREDENTIALED)
    assert model.endpoint is None and model.model == text_folder.name
    assert huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY is True


@pytest.mark.parametrize("as_base", [False, True])
def test_what_comes_from_the_hub_is_said_before_it_is_asked_for(as_base, text_folder, tmp_path, monkeypatch, capsys):
    """An adapter's base too, which nobody named on the command line."""
    where, said = "someone/model", []
    if as_base:
        where = str(tmp_path)
        settings = {"peft_type": "LORA", "base_model_name_or_path": "someone/model"}
        (tmp_path / "adapter_config.json").write_text(json.dumps(settings))
    monkeypatch.setattr(loading, "_load", lambda *_, **__: said.append(capsys.readouterr().err) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        load_in_process(where)
    (first,) = said
    assert "someone/model is not a folder on this machine" in first
    assert first.startswith(f"base model of the adapter {where}: " if as_base else "model: ")
    with pytest.raises(ZeroDivisionError):
        load_in_process(str(text_folder))
    assert said[1] == ""


def test_a_model_that_breaks_stops_the_run_and_does_not_hang(text_folder, monkeypatch):
    model = load_in_process(str(text_folder))
    monkeypatch.setattr(model.loaded.model, "generate", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(model, [asking(text) for text in TEXTS])


def test_a_batch_that_is_too_big_for_the_gpu_is_halved(text_folder, monkeypatch):
    import torch

    model = load_in_process(str(text_folder), slots=32)
    requests = [asking(text) for text in TEXTS]
    expected, generate, sizes = ask(model, requests), model.loaded.model.generate, []

    def small(**inputs):
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError
        return generate(**inputs)

    monkeypatch.setattr(model.loaded.model, "generate", small)
    assert ask(model, requests) == expected and max(sizes) > 3
    assert model.batch <= 3
    monkeypatch.setattr(model.loaded.model, "generate", lambda **_: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(ConfigError, match="too small"):
        ask(model, requests[:1])
