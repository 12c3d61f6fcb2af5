from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from xlvin.agents.base import Batch, Output
from xlvin.agents.distributions import Categorical
from xlvin.agents.mazes import make_maze_agent
from xlvin.errors import RunFailedError, XLVINError
from xlvin.mdp.mazes import generate, optimal_actions
from xlvin.training.config import PPOConfig
from xlvin.training.mazes.continual import ContinualConfig, ContinualTrainer
from xlvin.training.mazes.evaluation import Journeys, arrivals, held_out
from xlvin.training.mazes.hindsight import HindsightConfig
from xlvin.training.mazes.transe import train_transe
from xlvin.training.returns import advantages

MAZES = generate(40, 8, 0, "train")
PPO = PPOConfig(epochs=1, minibatches=2)
CONFIG = ContinualConfig(levels=3, window=20, trajectories=400, agents=16, steps=8, ppo=PPO)


class Oracle(nn.Module):
    """Knows the shortest ways of some mazes; errs with a certain probability, by staying undecided."""

    def __init__(self, mazes=MAZES, sharpness: float = 1000.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8))
        self.mazes, self.sharpness = mazes, sharpness
        self.index = {tuple(m.flatten().tolist()): n for n, m in enumerate(mazes.maps())}

    def forward(self, observation: Tensor) -> Output:
        numbers = [self.index[tuple(image[:2].flatten().tolist())] for image in observation]
        cell = observation[:, 2].flatten(1).argmax(1)
        best = optimal_actions(self.mazes).flatten(2)[torch.tensor(numbers), :, cell]
        value = self.weight.sum().expand(len(observation))
        return Output(best * self.sharpness + self.weight, value, observation.new_empty(len(observation), 0))

    def distribution(self, logits: Tensor) -> Categorical:
        return Categorical(logits)

    def auxiliary_losses(self, output: Output, batch: Batch) -> dict[str, Tensor]:
        return {}


def test_who_knows_the_way_passes_all_levels() -> None:
    trainer = ContinualTrainer(Oracle(), MAZES, CONFIG)
    seen = []
    while not trainer.finished:
        seen.append(trainer.train_round())
    assert [result.level for result in trainer.results] == [1, 2, 3]
    assert all(result.passed and result.success == 1.0 for result in trainer.results)
    # A level is over as soon as its window is full; its episodes are of its own length.
    for result in trainer.results:
        assert result.trajectories >= CONFIG.window
        assert result.steps / result.level >= result.trajectories


def test_who_does_not_learn_fails_when_the_episodes_are_used_up() -> None:
    trainer = ContinualTrainer(Oracle(sharpness=0.0), MAZES, replace(CONFIG, trajectories=100))
    while not trainer.finished:
        result = trainer.train_round()
    assert [r.passed for r in trainer.results] == [False]
    assert result.trajectories >= 100
    assert result.success < 0.9


def test_a_small_vin_learns_level_one() -> None:
    torch.manual_seed(0)
    ppo = PPOConfig(learning_rate=1e-2, epochs=4, minibatches=4, entropy_coef=0.0)
    config = ContinualConfig(
        levels=1, success=0.5, window=200, trajectories=6000, agents=64, steps=8, ppo=ppo
    )
    trainer = ContinualTrainer(make_maze_agent("vin", (8, 8)), MAZES, config)
    first = trainer.train_round().success
    while not trainer.finished:
        trainer.train_round()
    assert first < 0.3
    assert trainer.results[0].passed


@pytest.mark.parametrize("hindsight", [None, HindsightConfig(updates=3, batch=16, memory=200)])
def test_a_run_continues_where_it_stopped(hindsight: HindsightConfig | None) -> None:
    config = replace(CONFIG, hindsight=hindsight)
    trainer = ContinualTrainer(make_maze_agent("vin", (8, 8)), MAZES, config)
    for _ in range(3):
        trainer.train_round()
    other = ContinualTrainer(make_maze_agent("vin", (8, 8), 5), MAZES, config)
    other.restore(trainer.state(), trainer.results)
    first, second = trainer.train_round(), other.train_round()
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    for name, tensor in trainer.state().items():
        assert name == "counters" or torch.equal(tensor, other.state()[name]), name


def test_rollouts_hold_the_true_successors_and_cut_episodes_bootstrap() -> None:
    trainer = ContinualTrainer(make_maze_agent("vin", (8, 8)), MAZES, CONFIG)
    trainer.world.step_limit = 2
    rollout = trainer.collect()
    assert rollout.truncated.any()
    going = ~rollout.ended[:-1]
    assert torch.equal(rollout.successor[:-1][going], rollout.place[1:][going])
    assert (MAZES.distance.flatten()[rollout.place[1:][~going]] == 1).all()
    rewards = rollout.reward[rollout.terminated]
    assert set(rewards.tolist()) <= {1.0, -1.0}
    targets = trainer._targets(rollout)
    with torch.no_grad():
        following = trainer.agent(trainer.world.observe(rollout.successor.flatten())).value.view(8, 16)
    columns = (rollout.reward, rollout.value, following, rollout.terminated, rollout.ended)
    expected = advantages(*(column.T for column in columns), PPO.discount, PPO.gae_lambda).T + rollout.value
    torch.testing.assert_close(targets.target.view(8, 16), expected)
    assert abs(float(targets.advantage.mean())) < 1e-5


def test_values_that_explode_stop_the_run() -> None:
    agent = make_maze_agent("vin", (8, 8))
    trainer = ContinualTrainer(agent, MAZES, CONFIG)
    with torch.no_grad():
        for weight in agent.parameters():
            weight.fill_(float("nan"))
    with pytest.raises(RunFailedError, match="lower the learning rate"):
        trainer.train_round()


def test_bad_protocols_are_refused() -> None:
    for fields in ({"levels": 0}, {"success": 0.0}, {"agents": 1, "steps": 1}):
        with pytest.raises(XLVINError):
            replace(CONFIG, **fields)
    for option in ({"anneal": True}, {"recompute": True}, {"first_discount": 0.9}, {"novelty_coef": 1.0}):
        with pytest.raises(XLVINError, match=f"{next(iter(option))} is not available for the continual maze"):
            replace(CONFIG, ppo=replace(PPO, **option))


def test_arrivals_are_counted_per_level() -> None:
    journeys = held_out(8, 5, 6, 3, mazes=60)
    assert journeys.place.shape == (5, 6)
    for level in range(1, 6):
        assert (journeys.mazes.distance.flatten()[journeys.place[level - 1]] == level).all()
    assert arrivals(Oracle(journeys.mazes), journeys).all()
    assert torch.equal(
        arrivals(Oracle(journeys.mazes), journeys, step_limit=3).all(1), torch.arange(1, 6) <= 3
    )
    with pytest.raises(XLVINError, match="fewer starts or more mazes"):
        held_out(8, 5, 6000, 3, mazes=60)
    assert isinstance(journeys, Journeys)


def test_transe_alone_learns_where_moves_lead() -> None:
    agent = make_maze_agent("xlvin", (8, 8), hidden=16, latent=8, depth=1)
    losses = train_transe(agent, MAZES, 25, learning_rate=3e-3, groups=4, states=16)  # type: ignore[arg-type]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
