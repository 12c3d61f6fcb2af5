"""The small parts of the loop: random streams, minibatches, moments, novelty."""

import numpy as np
import pytest
import torch

from xlvin.agents.registry import make_agent
from xlvin.training.adam import Adam
from xlvin.training.experience import Experience
from xlvin.training.minibatches import Minibatches, at, shuffle
from xlvin.training.moments import Moments
from xlvin.training.novelty import MEMORY, Novelty
from xlvin.training.objective import Targets
from xlvin.training.rollouts import Segment
from xlvin.training.seeding import derive_seed, generator
from xlvin.training.stack import Stack


def test_streams_depend_on_seed_purpose_and_counters_alone() -> None:
    draws = {
        key: generator(*key).random()
        for key in [(0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 0), (0, "a", 0, 1)]
    }
    assert len(set(draws.values())) == len(draws)
    assert generator(0, "a", 1).random() == draws[0, "a", 1]
    assert derive_seed(3, "episode", 5) == derive_seed(3, "episode", 5) != derive_seed(3, "episode", 6)
    assert 0 <= derive_seed(2**40, "x") < 2**31


def test_minibatches_cover_every_row_once() -> None:
    rows, negative, weight = shuffle((3, 9), (10, 5), 4, 0, 0)
    assert rows.shape == negative.shape == weight.shape == (2, 4, 3)
    for index, count in enumerate((10, 5)):
        assert sorted(rows[index][weight[index] > 0].tolist()) == list(range(count))
        sizes = weight[index].sum(-1).astype(int).tolist()
        assert max(sizes) - min(sizes) <= 1
        for part, size in enumerate(sizes):
            assert (negative[index, part, :size] < size).all()
            assert not rows[index, part, size:].any()
            assert not negative[index, part, size:].any()


def test_a_seeds_minibatches_do_not_depend_on_its_companions() -> None:
    together, alone, other = (
        shuffle((3, 9), (50, 7), 3, 2, 1),
        shuffle((9,), (7,), 3, 2, 1),
        shuffle((9,), (7,), 3, 2, 2),
    )
    size = alone[0].shape[-1]
    for left, right in zip(together, alone, strict=True):
        assert np.array_equal(left[1, :, :size], right[0])
    assert not np.array_equal(alone[0], other[0])
    assert not np.array_equal(*shuffle((3, 9), (30, 30), 3, 2, 1)[0])


def test_minibatches_hold_what_belongs_together() -> None:
    steps = 10
    observations = np.arange(steps + 1, dtype=np.float32)[:, None]
    segment = Segment(observations, np.arange(steps), np.arange(steps, dtype=np.float32), True)
    experience = Experience.from_segments([[segment], [segment]], "cpu")
    columns = Targets(*(experience.reward + offset for offset in (10.0, 20.0, 30.0, 40.0)))
    batches = Minibatches(experience, 0.5 * experience.reward, columns, (1, 2), 3)
    seen: list[int] = []
    for minibatch in batches.shuffled(0, 0):
        batch, targets, weight = minibatch.sample()
        real = weight > 0
        number = batch.observation.squeeze(-1)[real]
        assert torch.equal(batch.next_observation.squeeze(-1)[real], number + 1)
        assert torch.equal(batch.action[real].float(), number)
        assert torch.equal(batch.reward[real], 0.5 * number)
        for column, offset in zip(targets, (10.0, 20.0, 30.0, 40.0), strict=True):
            assert torch.equal(column[real], number + offset)
        assert (batch.negative < weight.shape[1]).all()
        seen += number.int().tolist()
    assert sorted(seen) == sorted([*range(steps), *range(steps)])


def test_moments_in_parts_are_those_of_the_whole() -> None:
    values = np.random.default_rng(0).normal(5.0, 3.0, (100, 2)).astype(np.float32)
    values[:, 1] = 7.0  # a constant feature is left unscaled
    moments = Moments(2, (2,))
    for part in np.split(values, [10, 11, 60]):
        moments.update(1, part)
    mean, scale = moments.standardisation()
    np.testing.assert_allclose(mean[1], values.mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale[1], [1.0 / values[:, 0].std(), 1.0], rtol=1e-5)
    assert mean[0].tolist() == [0.0, 0.0]
    assert scale[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("shape", [(2,), (1, 36, 36)])
def test_novelty_is_zero_on_average_and_high_where_it_is_new(shape: tuple[int, ...]) -> None:
    agents = [
        make_agent("ppo", observation=shape, actions=2, seed=s, latent=6, inputs="raw") for s in range(2)
    ]
    stack = Stack(agents)
    dtype = torch.float32 if len(shape) == 1 else torch.uint8
    novelty = Novelty(agents[0], (0, 1), shape, dtype)

    def episodes(*levels: int) -> Experience:
        array = np.stack([np.full(shape, level) for level in levels]).astype(
            str(dtype).removeprefix("torch.")
        )
        steps = len(levels) - 1
        segment = Segment(array, np.zeros(steps, np.int64), np.zeros(steps, np.float32), True)
        return Experience.from_segments([[segment], [segment]], "cpu")

    known = episodes(*range(1, 12))
    assert novelty.bonus(stack, known).abs().sum() == 0.0  # nothing to compare with yet
    novelty.remember(known)
    assert novelty.memory.shape == (2, MEMORY, *shape)
    bonus = novelty.bonus(stack, episodes(1, 2, 3, 200))
    torch.testing.assert_close(bonus.mean(1), torch.zeros(2), atol=1e-5, rtol=0)
    assert (bonus[:, 2] > bonus[:, :2].amax(1)).all()
    again = Novelty(agents[0], (0, 1), shape, dtype)
    again.restore(novelty.state())
    assert torch.equal(again.bonus(stack, known), novelty.bonus(stack, known))


def test_adam_is_torchs_adam() -> None:
    torch.manual_seed(0)
    weights = torch.randn(2, 5)
    reference = weights.clone().requires_grad_()
    ours, theirs = Adam(weights, 1e-5), torch.optim.Adam([reference], lr=0.1, eps=1e-5)
    for step in range(5):
        gradient = torch.randn(2, 5) * 10.0**-step
        ours.step(gradient, 0.1)
        reference.grad = gradient
        theirs.step()
        torch.testing.assert_close(weights, reference.detach())
    again = Adam(weights.clone(), 1e-5)
    again.restore(ours.state())
    assert (again.steps, again.first.tolist()) == (5, ours.first.tolist())


def test_picking_rows() -> None:
    values = torch.arange(24).view(2, 4, 3)
    index = torch.tensor([[3, 0], [1, 1]])
    assert at(values, index).tolist() == [
        [values[0, 3].tolist(), values[0, 0].tolist()],
        [values[1, 1].tolist(), values[1, 1].tolist()],
    ]
    assert at(values[:1, :, 0], index[:1]).tolist() == [[9, 0]]
