"""SwinVED's processor: the sequences, labels and pixels it makes, against hand-made ones, and answers back as text."""

import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from swin_ved import SwinVedConfig, SwinVedProcessor, load_vocabulary, train_tokenizer
from swin_ved_tiny import TEXTS, tiny_processor
from transformers import AutoProcessor

CLS, PAD, UNK, BOS, EOS = 0, 1, 3, 5, 6


@pytest.fixture(scope="module")
def processor() -> SwinVedProcessor:
    return tiny_processor()[0]


def noise(width: int = 80, height: int = 100, seed: int = 0) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width), dtype=np.uint8))


def words(processor, text: str) -> list[int]:
    return [processor.tokenizer.get_vocab()[word] for word in text.split()]


def test_tokenizer_has_the_release_s_special_ids_and_whole_words():
    tokenizer = train_tokenizer(["Is it edema? No.", "no, NO edema", "pulmonary-edema..."])
    assert tokenizer.convert_ids_to_tokens(range(7)) == ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[BOS]", "[EOS]"]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (PAD, BOS, EOS)
    assert set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens) == {
        "is", "it", "edema", "?", "no", ".", ",", "pulmonary", "-", "...",
    }  # fmt: skip
    assert tokenizer("no EDEMA, sir").input_ids == [tokenizer.get_vocab()[w] for w in ("no", "edema", ",")] + [UNK]


def test_vocabulary_can_be_limited_by_size_and_frequency():
    texts = ["a a a b b c c c c d"]
    assert set(train_tokenizer(texts, vocab_size=9).get_vocab()) >= {"c", "a"}
    assert len(train_tokenizer(texts, vocab_size=9)) == 9
    assert len(train_tokenizer(texts, min_frequency=3)) == 7 + 2
    with pytest.raises(ValueError, match="at least 9 times"):
        train_tokenizer(texts, min_frequency=9)
    with pytest.raises(ValueError, match="vocab_size is 7"):
        train_tokenizer(texts, vocab_size=7)


def test_released_vocabulary_keeps_its_ids(tmp_path):
    file = tmp_path / "vocab.tgt"
    file.write_text("\n".join(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[BOS]", "[EOS]", "!", "edema", "no"]))
    assert load_vocabulary(file)("no edema!").input_ids == [9, 8, 7]
    assert load_vocabulary(file)("No Edema!").input_ids == [3, 3, 7]  # as the release read it
    file.write_text("[CLS]\n[PAD]\nno\nno")
    with pytest.raises(ValueError, match=r"twice: \['no'\]"):
        load_vocabulary(file)
    file.write_text("[PAD]\n[CLS]\nno")
    with pytest.raises(ValueError, match=r"'\[PAD\]': 0"):
        load_vocabulary(file)


def test_a_vocabulary_as_the_release_s_script_writes_it_gets_bos_and_eos(tmp_path):
    file = tmp_path / "vocab.tgt"
    file.write_text("\n".join(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "!", "2", "no", "x", ""]))
    tokenizer = load_vocabulary(file)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, len(tokenizer)) == (5, 6, 11)
    assert tokenizer("no x-2!").input_ids == [9, 10, 3, 8, 7]
    file.write_text("\n".join(["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "!", "[BOS]", "[EOS]"]))
    with pytest.raises(ValueError, match=r"'\[BOS\]': 6"):  # in another place: not ours to move
        load_vocabulary(file)


def test_only_a_newline_ends_a_word_of_a_vocabulary(tmp_path):
    file = tmp_path / "vocab.tgt"
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", "[BOS]", "[EOS]"]
    for newline in ("\n", "\r\n"):
        file.write_bytes(newline.join([*special, "a\u2028b", "\x0c", "no", ""]).encode())
        vocabulary = load_vocabulary(file).get_vocab()
        assert (vocabulary["a\u2028b"], vocabulary["\x0c"], vocabulary["no"], len(vocabulary)) == (7, 8, 9, 10)


def test_prompts_are_padded_on_the_left(processor):
    batch = processor(text=["Is there edema?", "Does the patient have edema?"])
    first, second = words(processor, "is there edema ?"), words(processor, "does the patient have edema ?")
    assert batch["input_ids"].tolist() == [[PAD, PAD, CLS, *first, BOS], [CLS, *second, BOS]]
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1, 1, 1], [1] * 8]
    assert "labels" not in batch


def test_labels_hold_answer_and_eos_only(processor):
    batch = processor(text=["Is there edema?", "Is there a tube?"], answers=["No", "there is"])
    rows = [[CLS, *words(processor, "is there edema ?"), BOS, *words(processor, "no"), EOS, PAD, PAD]]
    rows += [[CLS, *words(processor, "is there a tube ?"), BOS, *words(processor, "there is"), EOS]]
    assert batch["input_ids"].tolist() == rows
    assert batch["labels"].tolist() == [[-100] * 6 + rows[0][6:8] + [-100] * 2, [-100] * 7 + rows[1][7:]]
    assert batch["attention_mask"].tolist() == [[1] * 8 + [0] * 2, [1] * 10]


def test_special_tokens_typed_by_a_person_are_plain_text(processor):
    row = processor(text="no [BOS] edema [EOS]")["input_ids"][0].tolist()
    assert (row.count(BOS), row.count(EOS), row[-1]) == (1, 0, BOS)


def test_long_texts_are_cut_with_one_warning():
    processor = tiny_processor()[0]
    with pytest.warns(UserWarning, match="question of 100 tokens .* 63") as caught:
        batch = processor(text=["no " * 100], answers=["edema"])
    assert len(caught) == 1
    assert batch["input_ids"].shape == (1, 64 + 1 + 2)
    with pytest.warns(UserWarning, match="answer of 300 tokens .* 255"):
        batch = processor(text=["no"], answers=["no " * 300])
    assert (batch["labels"] >= 0).sum() == 256
    assert batch["labels"][0, -1] == EOS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        processor(text=["no " * 70], answers=["no " * 270])


def test_answers_are_decoded_without_prompt_and_special_tokens(processor):
    no = words(processor, "no , the lungs are clear .")
    prompt = [PAD, CLS, *words(processor, "is there edema ?"), BOS]
    rows = [[*prompt, *no, EOS, PAD, PAD], [*prompt, *no[:2], EOS, no[0], PAD, PAD], no, [-100, -100, *no, EOS]]
    assert processor.decode([*prompt, *no[:2], PAD, no[0], PAD]) == "no ,"  # a beam of converted weights
    texts = processor.batch_decode([torch.tensor(row) for row in rows])
    assert texts == ["no , the lungs are clear .", "no ,", "no , the lungs are clear .", "no , the lungs are clear ."]


def test_batches_and_arrays_are_decoded_too(processor):
    rows = [[CLS, BOS, *words(processor, "no , the"), EOS], [CLS, BOS, *words(processor, "a tube"), EOS, PAD]]
    tensor = torch.tensor(rows)
    for batch in (rows, tensor, tensor.numpy(), list(tensor)):
        assert processor.decode(batch) == processor.batch_decode(batch) == ["no , the", "a tube"]
    assert processor.decode(tensor.numpy()[1]) == "a tube"


def test_studies_are_padded_to_max_images_with_a_mask(processor):
    batch = processor(images=[[noise()], [noise(seed=1), noise(seed=2)]])
    assert batch["pixel_values"].shape == (2, 3, 3, 64, 64)
    assert batch["image_mask"].tolist() == [[True, False, False], [True, True, False]]
    assert not batch["pixel_values"][0, 1].any()
    alone = processor(images=noise(seed=2))["pixel_values"]
    assert torch.equal(alone[0, 0], batch["pixel_values"][1, 1])


@pytest.mark.parametrize(("width", "height"), [(80, 100), (100, 80), (500, 437), (64, 64), (31, 300)])
def test_evaluation_pixels_are_resize_then_centre_crop(processor, width, height):
    image = noise(width, height)
    scale = 69 / min(width, height)  # 416 / 384 x 64
    size = (69, int(height * scale)) if width <= height else (int(width * scale), 69)
    whole = image.resize(size, Image.Resampling.BILINEAR)
    left, top = round((size[0] - 64) / 2), round((size[1] - 64) / 2)
    grey = np.asarray(whole.crop((left, top, left + 64, top + 64)), np.float32) / 255
    expected = np.stack([(grey - m) / s for m, s in zip((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), strict=True)])
    pixels = processor(images=image)["pixel_values"][0, 0].numpy()
    assert np.abs(pixels - expected).max() < 1e-6  # not a grey level


def test_every_kind_of_image_gives_the_same_pixels(processor):
    grey = np.random.default_rng(0).integers(0, 256, (90, 70), dtype=np.uint8)
    image = Image.fromarray(grey)
    kinds = {
        "L": image, "LA": image.convert("LA"), "RGB": image.convert("RGB"), "RGBA": image.convert("RGBA"),
        "La": image.convert("LA").convert("La"), "RGBa": image.convert("RGBA").convert("RGBa"),
        "big-endian array": (grey.astype(np.uint16) * 257).astype(">u2"),
        "16-bit tensor": torch.from_numpy(grey.astype(np.uint16) * 257),
        "I;16": Image.fromarray(grey.astype(np.uint16) * 257), "array": grey,
        "16-bit array": grey.astype(np.uint16) * 257,
        "(H, W, 1)": grey[:, :, None], "(H, W, 3)": np.stack([grey] * 3, 2), "(3, H, W)": np.stack([grey] * 3),
        "tensor": torch.from_numpy(grey), "(1, H, W) tensor": torch.from_numpy(grey)[None],
    }  # fmt: skip
    assert kinds["I;16"].mode == "I;16"
    expected = processor(images=image)["pixel_values"]
    for kind, value in kinds.items():
        assert torch.equal(processor(images=[value])["pixel_values"], expected), kind


def test_study_index_is_filled_in_where_it_is_clear(processor):
    one = processor(images=[noise(), noise()], text=["Is there edema?", "What lines?", "A tube?"])
    assert one["study_index"].tolist() == [0, 0, 0]
    assert one["image_mask"].tolist() == [[True, True, False]]
    assert "study_index" not in processor(images=[[noise()], [noise()]], text=["no", "no"])
    given = processor(images=[[noise()], [noise()]], text=["no", "no", "no"], study_index=[1, 0, 1])
    assert given["study_index"].tolist() == [1, 0, 1]


def test_questions_alone_keep_their_study_index(processor):
    assert processor(text=["no", "no"], study_index=[1, 0])["study_index"].tolist() == [1, 0]
    assert "study_index" not in processor(text=["no", "no"])


def test_more_images_than_allowed_can_be_cut_to_the_first(processor):
    images = [noise(seed=seed) for seed in range(5)]
    batch = processor(images=[images], truncate_images=True)
    assert torch.equal(batch["pixel_values"], processor(images=[images[:3]])["pixel_values"])


def test_processor_survives_a_round_trip(tmp_path):
    processor, _ = tiny_processor(max_question_tokens=20, image_mean=[0.5, 0.5, 0.5])
    processor.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert type(loaded) is SwinVedProcessor
    batch = {"images": [[noise()]], "text": ["Is there [BOS] edema?"], "answers": [TEXTS[1]]}
    ours, theirs = processor(**batch), loaded(**batch)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    ours, theirs = processor.to_dict(), loaded.to_dict()
    del ours["auto_map"]  # saving notes it on the processor that is saved
    assert theirs == ours
    assert loaded.max_question_tokens == 20


def test_base_sizes_are_416_and_384():
    tokenizer = train_tokenizer(TEXTS)
    processor = SwinVedProcessor.from_config(SwinVedConfig.base(vocab_size=len(tokenizer)), tokenizer)
    assert (processor.resize_size, processor.image_size, processor.max_images) == (416, 384, 3)
    assert (processor.max_question_tokens, processor.max_answer_tokens) == (64, 256)
