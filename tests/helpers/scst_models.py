"""Tiny models of both kinds with batches as the trainer gets them, for the tests of self-critical training."""

import torch
from blip2_multiview import Blip2MultiViewProcessor
from blip2_multiview_models import IMAGE_VIEW, NUM_IMAGES, make_model
from swin_ved_tiny import TEXTS, studies, tiny_model, tiny_processor

QUESTIONS, ANSWERS = TEXTS[0::2], TEXTS[1::2]
STUDY_INDEX = [1, 0, 1]
MODELS = ("swin_ved", "blip2_multiview")


def rows() -> list[dict]:
    """The dataset's rows of the three questions."""
    return [
        {"qa_id": f"qa-{number}", "question": question, "answer": answer, "category": "Edema"}
        for number, (question, answer) in enumerate(zip(QUESTIONS, ANSWERS, strict=True))
    ]


def make(name: str):
    """Model in evaluation mode, processor, and a batch of three questions about two studies."""
    if name == "swin_ved":
        processor, config = tiny_processor()
        model = tiny_model()
        model.resize_token_embeddings(config.decoder.vocab_size)
        images = {"pixel_values": studies(2), "image_mask": torch.tensor([[True, False, True], [True, True, True]])}
    else:
        processor = Blip2MultiViewProcessor.tiny(TEXTS)
        model = make_model()
        generator = torch.Generator().manual_seed(1)
        images = {
            "pixel_values": torch.randn(4, 3, 28, 28, generator=generator),
            "num_images": NUM_IMAGES,
            "image_view": IMAGE_VIEW,
        }
    texts = processor(text=list(QUESTIONS), answers=list(ANSWERS), study_index=STUDY_INDEX)
    return model, processor, {**images, **texts, "rows": rows()}
