"""The three branches of BLIP-2-MultiView: queries, Q-Former and projection of each radiographic view.

Section 5.2 of the MIMIC-CXR-VQA paper, Figure 3. The paper calls the mask of missing views learned; the released code,
and this file, multiply by zero.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import Blip2QFormerModel
from transformers.utils import ModelOutput

from .configuration_blip2_multiview import VIEWS, Blip2MultiViewConfig


@dataclass
class Blip2MultiViewOutput(ModelOutput):
    """Encoded images of a batch of studies.

    Args:
        view_features: (studies, 3, queries, text hidden size), zeros where the study lacks the view.
        view_mask: (studies, 3), True where the study has the view.
    """

    view_features: torch.Tensor | None = None
    view_mask: torch.Tensor | None = None


class Blip2ViewBranch(nn.Module):
    """Queries, Q-Former and projection of one view."""

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__()
        qformer = config.qformer_config
        self.query_tokens = nn.Parameter(torch.zeros(1, config.num_query_tokens, qformer.hidden_size))
        self.qformer = Blip2QFormerModel._from_config(qformer)
        self.projection = nn.Linear(qformer.hidden_size, config.text_config.hidden_size)

    def forward(self, image_states: torch.Tensor, image_study: torch.Tensor, studies: int) -> torch.Tensor:
        """Features (studies, queries, text hidden size) of the images (images, patches, hidden) of this view.

        A study's images are averaged after the Q-Former; a study without one gets the mean of nothing, which is zero
        before the projection, and it is for the caller to zero the projection's bias too.
        """
        queries = self.query_tokens.expand(image_states.shape[0], -1, -1)
        states = self.qformer(query_embeds=queries, encoder_hidden_states=image_states).last_hidden_state
        total = states.new_zeros(studies, *states.shape[1:]).index_add(0, image_study, states)
        count = torch.bincount(image_study, minlength=studies).clamp(min=1)
        return self.projection((total / count[:, None, None]).to(self.projection.weight.dtype))


class Blip2ViewBranches(nn.Module):
    """The three branches, in one module so that peft can be told to train it by one name."""

    def __init__(self, config: Blip2MultiViewConfig):
        super().__init__()
        self.by_view = nn.ModuleDict({view: Blip2ViewBranch(config) for view in VIEWS})
        self.block_shape = (config.num_query_tokens, config.text_config.hidden_size)

    def forward(
        self, image_states: torch.Tensor, image_study: torch.Tensor, image_view: torch.Tensor, studies: int
    ) -> Blip2MultiViewOutput:
        """Route image states (images, patches, hidden) to the branches of their views.

        In training every branch runs, one that no image belongs to on the first image, with its block times zero:
        distributed training waits for a gradient, if only of zeros, of every trained weight on every process.
        """
        mask = torch.zeros(studies, len(VIEWS), dtype=torch.bool, device=image_states.device)
        mask[image_study, image_view] = True
        blocks = []
        for number, branch in enumerate(self.by_view.values()):
            chosen = image_view == number
            if chosen.any():
                block = branch(image_states[chosen], image_study[chosen], studies)
            elif self.training:
                block = branch(image_states[:1], torch.zeros_like(image_study[:1]), studies)
            else:
                # On the images' device: an offloaded branch has its weights on none.
                dtype = branch.projection.weight.dtype
                blocks.append(image_states.new_zeros(studies, *self.block_shape, dtype=dtype))
                continue
            blocks.append(block * mask[:, number, None, None].to(block.dtype))
        return Blip2MultiViewOutput(view_features=torch.stack(blocks, dim=1), view_mask=mask)
