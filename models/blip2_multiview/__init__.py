"""BLIP-2-MultiView for medical visual question answering.

Importing this package registers its classes with transformers' Auto classes. `save_pretrained` and `push_to_hub` copy
their code next to the weights, for users without this package.
"""

from transformers import AutoConfig, AutoModel, AutoModelForImageTextToText, AutoProcessor

from .configuration_blip2_multiview import PREFIX_TOKENS, VIEWS, Blip2MultiViewConfig
from .convert_blip2_multiview import convert_blip2_multiview
from .modeling_blip2_multiview import (
    Blip2MultiViewForConditionalGeneration,
    Blip2MultiViewModel,
    Blip2MultiViewOutput,
)
from .processing_blip2_multiview import Blip2MultiViewProcessor

AutoConfig.register(Blip2MultiViewConfig.model_type, Blip2MultiViewConfig)
AutoModel.register(Blip2MultiViewConfig, Blip2MultiViewModel)
AutoModelForImageTextToText.register(Blip2MultiViewConfig, Blip2MultiViewForConditionalGeneration)
AutoProcessor.register(Blip2MultiViewConfig, Blip2MultiViewProcessor)

Blip2MultiViewConfig.register_for_auto_class()
Blip2MultiViewModel.register_for_auto_class("AutoModel")
Blip2MultiViewForConditionalGeneration.register_for_auto_class("AutoModelForImageTextToText")
Blip2MultiViewProcessor.register_for_auto_class()

__all__ = [
    "PREFIX_TOKENS",
    "VIEWS",
    "Blip2MultiViewConfig",
    "Blip2MultiViewForConditionalGeneration",
    "Blip2MultiViewModel",
    "Blip2MultiViewOutput",
    "Blip2MultiViewProcessor",
    "convert_blip2_multiview",
]
