"""SwinVED for medical visual question answering.

Importing this package registers its classes with transformers' Auto classes. `save_pretrained` and `push_to_hub` copy
their code next to the weights, for users without this package.
"""

from transformers import AutoConfig, AutoModel, AutoModelForImageTextToText, AutoProcessor

from .configuration_swin_ved import SwinVedConfig
from .convert_swin_ved import convert_swin_ved
from .modeling_swin_ved import SwinVedEncoderOutput, SwinVedForConditionalGeneration, SwinVedModel
from .processing_swin_ved import SwinVedProcessor
from .tokenization_swin_ved import load_vocabulary, train_tokenizer

__all__ = [
    "SwinVedConfig",
    "SwinVedEncoderOutput",
    "SwinVedForConditionalGeneration",
    "SwinVedModel",
    "SwinVedProcessor",
    "convert_swin_ved",
    "load_vocabulary",
    "train_tokenizer",
]

AutoConfig.register(SwinVedConfig.model_type, SwinVedConfig)
AutoModel.register(SwinVedConfig, SwinVedModel)
AutoModelForImageTextToText.register(SwinVedConfig, SwinVedForConditionalGeneration)
AutoProcessor.register(SwinVedConfig, SwinVedProcessor)
SwinVedConfig.register_for_auto_class()
SwinVedModel.register_for_auto_class("AutoModel")
SwinVedForConditionalGeneration.register_for_auto_class("AutoModelForImageTextToText")
SwinVedProcessor.register_for_auto_class()
