"""A BLIP-2-MultiView from a plain BLIP-2: its branch is copied into all three views, the new embeddings are drawn.

Not here: the released multi-view weights (`convert_blip2_multiview`), and quantisation, which is for a saved model.
"""

import copy

import torch
from torch import nn
from transformers import AutoConfig, Blip2ForConditionalGeneration, PreTrainedModel

from .configuration_blip2_multiview import PREFIX_TOKENS, Blip2MultiViewConfig

REFUSED = {
    "quantization_config": "the branches must be copied in float: call from_blip2(...).save_pretrained(folder) without "
    "it, then from_pretrained(folder, quantization_config=...)",
    "output_loading_info": "it returns the model alone; Blip2ForConditionalGeneration.from_pretrained reports on the "
    "loading of the checkpoint",
}


def start_from_blip2(model_class: type[PreTrainedModel], path: str, **kwargs) -> PreTrainedModel:
    """A model in evaluation mode with the weights of a BLIP-2 checkpoint.

    The four new token embeddings are drawn around the language model's own (same mean and standard deviation in every
    dimension), the same ones on every call. The trained parts are in float32 if the checkpoint is loaded in float16,
    as `from_pretrained` has them.

    Args:
        model_class: `Blip2MultiViewForConditionalGeneration`.
        path: Folder or Hub id of a `Blip2ForConditionalGeneration` with an encoder-decoder language model.
        **kwargs: Passed to its `from_pretrained`, such as `dtype` and `attn_implementation`.

    Raises:
        ValueError: The checkpoint is no BLIP-2, its language model is decoder-only, or an argument cannot be passed on.
        OSError: There is no checkpoint at `path`.
    """
    for name, advice in REFUSED.items():
        if kwargs.get(name):
            raise ValueError(f"from_blip2 does not take {name}; {advice}")
    found, _ = AutoConfig.from_pretrained(path, return_unused_kwargs=True, **kwargs)
    if found.model_type != "blip-2":
        raise ValueError(f"{path} is a checkpoint of model_type {found.model_type!r}; from_blip2 takes 'blip-2'")
    if found.use_decoder_only_language_model:
        raise ValueError(
            f"the language model of {path} is {found.text_config.model_type!r}, which is decoder-only; from_blip2 "
            "takes one with a T5-like model, such as Salesforce/blip2-flan-t5-xl"
        )
    blip2 = Blip2ForConditionalGeneration.from_pretrained(path, **kwargs)
    config = Blip2MultiViewConfig(
        vision_config=blip2.config.vision_config,
        qformer_config=blip2.config.qformer_config,
        text_config=blip2.config.text_config,
        num_query_tokens=blip2.config.num_query_tokens,
        dtype=blip2.vision_model.dtype,  # BLIP-2's own would be its Q-Former's, which it keeps in float32
    )
    with torch.device("meta"):  # every weight is replaced below
        model = model_class(config)
    model.model.vision_model = blip2.vision_model
    model.language_model = blip2.language_model
    for branch in model.model.branches.by_view.values():
        branch.qformer = copy.deepcopy(blip2.qformer)
        branch.query_tokens = nn.Parameter(blip2.query_tokens.detach().clone())
        branch.projection = copy.deepcopy(blip2.language_projection)
    table = model.get_input_embeddings().weight.detach()
    noise = torch.randn(len(PREFIX_TOKENS), table.shape[1], generator=torch.Generator().manual_seed(0))
    rows = table.float().mean(0) + noise.to(table.device) * table.float().std(0)
    model.prefix_embeddings.weight = nn.Parameter(rows.to(blip2.language_projection.weight.dtype))
    if config.dtype == torch.float16:
        for part in (model.model.branches, model.prefix_embeddings):
            part.float()
    if kwargs.get("attn_implementation") is not None:
        model.set_attn_implementation(kwargs["attn_implementation"])  # a new model takes the default
    model.untie_distinct_weights()
    model.freeze_for_training()
    return model.eval()
