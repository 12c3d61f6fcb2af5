"""XLVIN whose world model paints pixels (appendix G): the same planner and heads, no TransE."""

from __future__ import annotations

import torch
from torch import Tensor

from xlvin.agents.base import AgentConfig, Batch, Output
from xlvin.agents.networks import XLVINAgent
from xlvin.errors import XLVINError
from xlvin.executor.network import Processor
from xlvin.latent.pixel_model import PixelModel, divergence, newest_frame, reconstruction_loss


class PixelXLVINAgent(XLVINAgent):
    """The embedding must tell the frame, and the predicted embedding the next frame."""

    def __init__(self, config: AgentConfig, processor: Processor | None = None) -> None:
        if config.observation[-2:] != (84, 84):
            raise XLVINError(
                'An agent of kind "pixels" paints Atari frames of 84 x 84 pixels and reads no others.'
            )
        super().__init__(config, processor)
        self.world = PixelModel(config.latent)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        """A variational autoencoder's loss on s, and the painted successor h + T(h, a) against s'.

        The autoencoder's noise comes from torch's own stream, not from the seed.
        """
        h = output.embedding
        now = self.world(h, torch.randn(len(h), self.world.code, device=h.device))
        then = self.world(h + self.transition.translation(h, batch.action))
        here = reconstruction_loss(now.frame, newest_frame(batch.observation))
        next_ = reconstruction_loss(then.frame, newest_frame(batch.next_observation))
        return {"pixels": here + divergence(now.mean, now.log_variance) + next_}
