"""Counted worlds: what is counted, what is drawn, what a policy is worth, and that runs resume."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.training.config import Budget, ImaginationConfig, PPOConfig, TrainConfig
from xlvin.training.imagination.counted_worlds import (
    LARGEST,
    RARE,
    CountedWorlds,
    chances,
    count,
    countable,
    evidence,
)
from xlvin.training.imagination.worlds import Worlds
from xlvin.training.presets import preset
from xlvin.training.replay import Replay, Seen
from xlvin.training.seeding import generator
from xlvin.training.trainer import Trainer

from ..resuming import assert_goes_on_as

STATES, ACTIONS = 3, 2
# (state, action, successor, reward, terminated): action 0 in state 0 leads to 1 or 2, action 1 is safe.
STEPS = [(0, 0, 1, 0.0, 0), (0, 0, 2, 1.0, 1), (0, 0, 2, 3.0, 1), (0, 0, 2, 2.0, 0), (0, 1, 0, 0.5, 0)]
STEPS += [(1, 0, 0, -1.0, 0), (1, 0, 0, -1.0, 0)]
CONFIG = ImaginationConfig(last_iterations=1, branches=400, members=2)


def seen(steps: list[tuple[int, int, int, float, int]] = STEPS) -> Seen:
    state, action, successor, reward, terminated = (
        torch.tensor(column) for column in zip(*steps, strict=True)
    )
    one_hot = torch.eye(STATES)
    first = torch.ones(len(steps), dtype=torch.bool)
    return Seen(one_hot[state], action, reward, one_hot[successor], terminated.float(), first)


def worlds(seeds: int = 1, last: bool = True) -> CountedWorlds:
    replay = Replay(seeds, (STATES,), torch.device("cpu"))
    replay.seeds = [seen() for _ in range(seeds)]
    made = CountedWorlds(CONFIG, range(seeds), STATES, ACTIONS, torch.device("cpu"))
    made.fit(replay, 0, last)
    return made


def test_counts_rewards_and_ends() -> None:
    counts = count(seen(), STATES, ACTIONS)
    assert counts.seen[0].tolist() == [[0, 1, 3], [1, 0, 0]]
    assert counts.reward[0, 0].tolist() == [0.5, 0.0, 2.0]  # 0 -> 0 was seen by the other action only
    assert counts.ends[0, 0, 2] == pytest.approx(2 / 3)
    assert counts.ends[0, 1, 2] == pytest.approx(2 / 3)


def test_the_prior_knows_neighbours_and_how_random_the_world_is() -> None:
    weight = evidence(count(seen(), STATES, ACTIONS).seen)
    # Tried more than once: (0, 0) with two outcomes, (1, 0) with one; half an outcome more on average.
    assert weight[0, 0].tolist() == pytest.approx([0.5 / 3, 1 + 0.5 / 3, 3 + 0.5 / 3])
    assert weight[1, 0].tolist() == pytest.approx([2.5, 0.0, 0.0])
    assert not weight[1, 1].any()  # never tried
    assert not weight[2].any()
    certain = count(seen(STEPS[:1] + STEPS[4:]), STATES, ACTIONS).seen
    assert np.array_equal(evidence(certain), certain)  # no chance seen


def test_members_are_draws_of_the_posterior_and_its_mean_at_last() -> None:
    weight = evidence(count(seen(), STATES, ACTIONS).seen)
    mean = weight[0, 0] / weight[0, 0].sum()
    assert chances(weight, 2, None)[:, 0, 0] == pytest.approx(np.stack((mean, mean)))
    drawn = chances(weight, 4000, generator(0, "test"))
    assert drawn[:, 0, 0].mean(0) == pytest.approx(mean, abs=0.02)
    expected = mean * (1 - mean) / (weight[0, 0].sum() + 1)
    assert drawn[:, 0, 0].var(0) == pytest.approx(expected, abs=0.005)
    assert not drawn[:, 2].any()


def branches(state: int, action: int) -> tuple[Tensor, Tensor, Tensor]:
    count = CONFIG.branches
    uniform = torch.rand(1, count, 2, generator=torch.Generator().manual_seed(0))
    uniform[0, 0] = 0.0  # the edge of the interval
    return torch.eye(STATES)[state].expand(1, count, -1), torch.full((1, count), action), uniform


def test_branches_follow_the_chances() -> None:
    known = worlds()
    imagined = known.imagine(*branches(0, 0))
    arrived = imagined.observation[0].mean(0)
    assert torch.allclose(arrived, torch.tensor([0.5 / 3, 1 + 0.5 / 3, 3 + 0.5 / 3]) / 4.5, atol=0.07)
    at_two = imagined.observation[..., 2] == 1.0
    assert (imagined.reward[at_two] == 2.0).all()
    assert imagined.terminated[at_two].float().mean() == pytest.approx(2 / 3, abs=0.08)
    assert not imagined.terminated[~at_two].any()
    alone = known.imagine(*branches(1, 0))
    assert (alone.observation[..., 0] == 1.0).all()  # zero chances are never drawn, not even at the edge
    assert (alone.reward == -1.0).all()


def test_what_was_never_tried_is_strange_and_leads_nowhere() -> None:
    known, nothing = worlds(), (torch.zeros(1, 1, 1), torch.zeros(1, 1))
    for state in range(STATES):
        for action in range(ACTIONS):
            observation, chosen, uniform = branches(state, action)
            tried = (state, action) in {(0, 0), (0, 1), (1, 0)}
            assert known.distance(observation, chosen, observation, *nothing).isinf().all() == (not tried)
            if not tried:
                assert torch.equal(known.imagine(observation, chosen, uniform).observation, observation)


def test_action_values_equal_repeated_backups() -> None:
    known, discount, scale, beyond = worlds(last=False), 0.9, 2.0, 5.0
    policy = torch.tensor([[[0.3, 0.7], [0.9, 0.1], [0.5, 0.5]]])
    values = known.action_values(policy, torch.tensor([[scale]]), torch.tensor([[beyond]]), discount)
    counts = count(seen(), STATES, ACTIONS)
    drawn = chances(evidence(counts.seen), CONFIG.members, generator(0, "posterior", 0))
    never = counts.seen.sum(-1) == 0.0
    for member in range(CONFIG.members):
        expected = np.zeros((STATES, ACTIONS))
        for _ in range(400):
            value = (policy[0].numpy() * expected).sum(-1)
            outcome = scale * counts.reward + discount * (1.0 - counts.ends) * value
            expected = np.where(never, discount * beyond, (drawn[member] * outcome).sum(-1))
        assert values[0, member].numpy() == pytest.approx(expected, abs=1e-3)


def test_a_policy_that_never_ends_has_a_value() -> None:
    known = worlds()
    stay = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]])
    values = known.action_values(stay, torch.ones(1, 1), torch.zeros(1, 1), 1.0)
    assert values.isfinite().all()


def test_only_small_worlds_are_counted() -> None:
    assert countable(500, 6)  # Taxi
    assert not countable(LARGEST, 1)


def configure(agent: str = "ppo", **fields: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6, inputs="symlog")
    imagination = ImaginationConfig(iterations=2, last_iterations=3, branches=10, horizon=6)
    ppo, budget = PPOConfig(epochs=2, minibatches=2), Budget(total=60, per_round=20)
    config = TrainConfig("FrozenLake-v1", agent, network, budget, ppo, evaluation_episodes=2)
    return replace(config, imagination=imagination, **fields)


def trained(config: TrainConfig, rounds: int) -> Trainer:
    trainer = Trainer(config)
    for _ in range(rounds):
        trainer.train_round()
    return trainer


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r"])
def test_a_seed_does_not_notice_its_companions(agent: str) -> None:
    alone, together = trained(configure(agent, first_seed=1), 1), trained(configure(agent, seeds=2), 1)
    for name, weight in alone.members()[0].state_dict().items():
        assert torch.allclose(weight, together.members()[1].state_dict()[name], atol=1e-4), name


def test_a_resumed_run_ends_with_the_same_bits() -> None:
    config = configure("xlvin-r", seeds=2)
    assert_goes_on_as(trained(config, 3), trained(config, 1))


def test_steps_are_recorded_and_read_what_was_counted_last() -> None:
    imagination = trained(configure(), 2).imagination
    assert imagination is not None
    assert imagination._recorded_step.recording is not None
    known = imagination.worlds
    assert isinstance(known, CountedWorlds)
    for table in (known._cumulative, known._reward, known._ends, known.tried):
        table.zero_()
    known._cumulative[..., 7] = known._cumulative[..., 8:] = 1.0  # everything leads to state 7
    steps, _, strayed = imagination._imagine(2, 0, last=False)
    arrived = steps.successor.flatten(0, 2).argmax(-1)
    assert (arrived == 7).all()
    assert strayed.all()


def test_targets_are_exact_and_leave_rare_actions_alone() -> None:
    trainer = trained(configure(), 1)
    imagination = trainer.imagination
    assert imagination is not None
    known = imagination.worlds
    assert isinstance(known, CountedWorlds)
    steps, ended, strayed = imagination._imagine(1, 0, last=False)
    units = imagination.units()
    experience, sampled = imagination._experience(steps, ended, strayed, units, units.best)
    policy = imagination._policy(known.states)
    rarely = sampled._replace(old_log_prob=torch.full_like(sampled.old_log_prob, np.log(RARE) - 1e-3))
    often = sampled._replace(old_log_prob=torch.full_like(sampled.old_log_prob, np.log(RARE) + 1e-3))
    arguments = (units.reward, units.best, 0.9)
    usual, lenient = (
        known.targets(lambda _: policy, experience, each, *arguments) for each in (often, rarely)
    )
    assert torch.equal(lenient.advantage, usual.advantage.clamp(min=0.0))
    assert (usual.advantage < 0.0).any()
    values = known.action_values(policy, *arguments)
    value = (values * policy.unsqueeze(1)).sum(-1)
    branch, time = 7, 3  # of the fourth of five members, who have two branches each
    state = int(steps.observation[0, branch, time].argmax())
    target = usual.target.view(steps.reward.shape)[0, branch, time]
    assert target == pytest.approx(float(value[0, 3, state]), abs=1e-5)


def test_discrete_environments_are_counted_and_others_are_not() -> None:
    small = ImaginationConfig(last_iterations=1, branches=10, hidden=8)
    for environment, kind in (("FrozenLake-v1", CountedWorlds), ("CartPole-v0", Worlds)):
        trainer = Trainer(replace(preset(environment, "ppo-imagine"), imagination=small))
        assert trainer.imagination is not None
        assert isinstance(trainer.imagination.worlds, kind)
        trainer.close()
