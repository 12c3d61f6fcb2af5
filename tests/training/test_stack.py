"""Many seeds at once are each seed alone."""

import copy

import pytest
import torch
from torch import Tensor, nn

from xlvin.agents.base import Agent, Batch
from xlvin.agents.registry import AGENTS, make_agent
from xlvin.training.config import PPOConfig
from xlvin.training.objective import Objective, Sample, Targets
from xlvin.training.stack import Stack

SEEDS, ROWS, ACTIONS = 3, 5, 2


def agents(name: str, count: int = SEEDS, **fields: object) -> list[Agent]:
    return [
        make_agent(name, observation=(4,), actions=ACTIONS, seed=s, hidden=8, latent=6, **fields)
        for s in range(count)
    ]


def samples(count: int = SEEDS, vectors: bool = False) -> Sample:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(count, ROWS, *shape, generator=generator)

    integers = torch.randint(2, (2, count, ROWS), generator=generator)
    weight = torch.ones(count, ROWS)
    weight[:, -1] = 0.0
    action = random(ACTIONS) if vectors else integers[0]
    batch = Batch(random(4), action, random(), random(4), 2 * integers[1])
    return Sample(batch, Targets(-random().abs(), random(), random(), random()), weight)


def one(sample: Sample, index: int) -> Sample:
    return torch.utils._pytree.tree_map(lambda tensor: tensor[index], sample)


CASES = [(name, {}) for name in AGENTS] + [
    ("xlvin-r", {"beam": 2, "depth": 3}),
    ("xlvin-r", {"wiring": "skeleton"}),
    ("xlvin-r", {"bins": (2,), "low": (-1.0,), "high": (1.0,)}),
]


@pytest.mark.parametrize(("name", "fields"), CASES)
@pytest.mark.parametrize("count", [1, SEEDS])
def test_applying_and_its_gradient_equal_a_loop_over_members(name: str, fields: dict, count: int) -> None:
    members, sample = agents(name, count, **fields), samples(count, name == "ppo-gaussian")
    config = PPOConfig(transe_coef=0.3, entropy_coef=0.1)
    expected, gradients = [], []
    for index, member in enumerate(copy.deepcopy(members)):
        loss, terms = Objective(member, config)(one(sample, index))
        trainable = [weight for weight in member.parameters() if weight.requires_grad]
        grads = torch.autograd.grad(loss, trainable, materialize_grads=True)
        expected.append(terms)
        gradients.append(torch.cat([grad.flatten() for grad in grads]))
    stack = Stack(members)
    loss, found = stack.apply(Objective(members[0], config), sample, prefix="agent.")
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-5, atol=1e-6)
    gradient = stack.gradient(loss.sum())
    torch.testing.assert_close(gradient, torch.stack(gradients), rtol=1e-4, atol=1e-6)
    assert gradient.abs().sum() > 0.0


@pytest.mark.parametrize("count", [1, SEEDS])
def test_a_function_is_called_with_the_weights_of_every_member(count: int) -> None:
    members, observation = agents("xlvin-r", count), torch.randn(count, ROWS, 4)
    pairs = zip(copy.deepcopy(members), observation, strict=True)
    expected = torch.stack([2.0 * member.embed(seen) for member, seen in pairs])
    found = Stack(members).call(
        lambda agent, seen, factor: factor * agent.embed(seen), observation, torch.full((count,), 2.0)
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_images_are_lifted_too() -> None:
    members = [make_agent("ppo", observation=(1, 36, 36), actions=2, seed=s, latent=6) for s in range(2)]
    images = torch.randint(0, 256, (2, 3, 1, 36, 36), dtype=torch.uint8)
    expected = torch.stack([member(image).value for member, image in zip(members, images, strict=True)])
    found = Stack(members).apply(members[0], images).value
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [1, SEEDS])
def test_steps_on_the_flat_weights_move_every_member(count: int) -> None:
    members = agents("xlvin-r", count)
    observation = torch.randn(count, ROWS, 4)
    stack = Stack(members)
    before = stack.apply(members[0], observation).value
    with torch.no_grad():
        stack.flat += 0.1
    after = stack.apply(members[0], observation).value
    assert (after - before).abs().amin(1).gt(0.0).all()
    for index in range(count):
        alone = agents("xlvin-r", count)[index]
        alone.load_state_dict(stack.member(index))
        torch.testing.assert_close(alone(observation[index]).value, after[index], rtol=1e-5, atol=1e-5)


def test_loading_overwrites_every_weight_in_place() -> None:
    members = agents("xlvin-r")
    stack, other = Stack(members), Stack(list(reversed(agents("xlvin-r"))))
    flat = stack.flat
    stack.load(other.weights)
    assert stack.flat is flat
    assert torch.equal(flat, other.flat)
    assert all(torch.equal(weight, other.frozen[name]) for name, weight in stack.frozen.items())


def test_weights_that_a_loss_does_not_touch_get_a_zero_gradient() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return (self.used * x).sum()

    for count in (1, 2):
        modules = [Two() for _ in range(count)]
        stack = Stack(modules)
        loss = stack.apply(modules[0], torch.full((count, 2), 3.0)).sum()
        assert stack.gradient(loss).tolist() == [[3.0, 3.0, 0.0, 0.0, 0.0]] * count
