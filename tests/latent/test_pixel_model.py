"""The pixel model: shapes, its losses by hand, and that it can learn to paint a foreground at all."""

import pytest
import torch

from xlvin.agents.base import AgentConfig, Batch
from xlvin.agents.pixels import PixelXLVINAgent
from xlvin.agents.registry import build
from xlvin.errors import XLVINError
from xlvin.latent.pixel_model import PixelModel, divergence, newest_frame, reconstruction_loss


def test_frames_come_in_their_size_and_noise_moves_them() -> None:
    torch.manual_seed(0)
    model, embedding = PixelModel(12, code=5), torch.randn(3, 12)
    mean, sample = model(embedding), model(embedding, torch.randn(3, 5))
    assert mean.frame.shape == (3, 84, 84)
    assert mean.mean.shape == mean.log_variance.shape == (3, 5)
    assert mean.frame.min() >= 0.0
    assert mean.frame.max() <= 1.0
    assert torch.equal(mean.mean, sample.mean)
    assert not torch.equal(mean.frame, sample.frame)


def test_losses_by_hand() -> None:
    assert divergence(torch.zeros(2, 3), torch.zeros(2, 3)).tolist() == [0.0, 0.0]
    # One number of mean 2 and variance 1: 2^2 / 2.
    assert divergence(torch.tensor([[2.0]]), torch.zeros(1, 1)).item() == 2.0
    assert reconstruction_loss(torch.zeros(1, 2, 2), torch.full((1, 2, 2), 0.5)).item() == 1.0
    observation = torch.zeros(1, 4, 84, 84, dtype=torch.uint8)
    observation[:, -1] = 255
    assert newest_frame(observation).min() == 1.0


def test_it_learns_to_paint_what_embeddings_tell() -> None:
    torch.manual_seed(0)
    embedding, frames = torch.eye(2, 8), torch.zeros(2, 84, 84)
    frames[0, :42], frames[1, 42:] = 1.0, 1.0
    model = PixelModel(8, code=4)
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(40):
        optimiser.zero_grad()
        reconstruction_loss(model(embedding).frame, frames).sum().backward()
        optimiser.step()
    assert reconstruction_loss(model(embedding).frame, frames).max() < 0.1 * 84 * 84


def test_the_agent_learns_transition_and_encoder_through_pixels() -> None:
    config = AgentConfig("pixels", (4, 84, 84), actions=3, latent=8, hidden=4, depth=1)
    agent = build(config, 0)
    assert isinstance(agent, PixelXLVINAgent)
    images = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    batch = Batch(images, torch.tensor([0, 2]), torch.zeros(2), images.flip(0), torch.tensor([1, 0]))
    losses = agent.auxiliary_losses(agent(images), batch)
    assert losses.keys() == {"pixels"}
    assert losses["pixels"].shape == (2,)
    losses["pixels"].sum().backward()
    for part in (agent.encoder, agent.transition, agent.world):
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in part.parameters())
    assert all(p.grad is None for p in agent.planner.processor.parameters())


def test_other_images_are_refused() -> None:
    with pytest.raises(XLVINError, match="84 x 84"):
        build(AgentConfig("pixels", (4,), actions=2), 0)
