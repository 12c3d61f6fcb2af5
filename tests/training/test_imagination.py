"""Imagination: what is remembered, how models are fitted, what branches teach, and that runs resume."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, ImaginationConfig, PPOConfig, TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.imagination.imagination import Imagination, Step
from xlvin.training.imagination.worlds import Worlds
from xlvin.training.log import reward_scale
from xlvin.training.presets import patience, preset
from xlvin.training.replay import Replay, Seen
from xlvin.training.returns import standardise
from xlvin.training.run import run
from xlvin.training.trainer import Trainer

from ..environments import CORRIDOR, PICTURE
from ..resuming import assert_goes_on_as

SMALL = ImaginationConfig(
    iterations=2, last_iterations=3, branches=10, horizon=6, hidden=16, first_model_steps=30, model_steps=20
)


def configure(agent: str = "ppo", imagination: ImaginationConfig = SMALL, **fields: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6, inputs="symlog")
    ppo = PPOConfig(epochs=2, minibatches=2)
    config = TrainConfig(CORRIDOR, agent, network, Budget(total=9, per_round=3), ppo, evaluation_episodes=2)
    return replace(config, imagination=imagination, **fields)


def imagination_of(trainer: Trainer) -> Imagination:
    assert trainer.imagination is not None
    return trainer.imagination


def trained(config: TrainConfig, rounds: int | None = None) -> Trainer:
    trainer = Trainer(config)
    for _ in range(config.budget.rounds if rounds is None else rounds):
        trainer.train_round()
    return trainer


def test_replay_holds_what_was_collected_in_order() -> None:
    trainer = Trainer(configure(seeds=2))
    replay = Replay(2, (2,), torch.device("cpu"))
    rounds = [trainer._collect()[0] for _ in range(2)]
    for experience in rounds:
        replay.add(experience)
    for index, seen in enumerate(replay.seeds):
        counts = [experience.count[index] for experience in rounds]
        assert len(seen) == sum(counts)
        assert int(seen.first.sum()) == 6  # two rounds of three episodes
        second = rounds[1]
        assert torch.equal(seen.action[counts[0] :], second.action[index, : counts[1]])
        # Within a segment every successor is the next observation.
        inside = ~seen.first[1:]
        assert torch.equal(seen.next_observation[:-1][inside], seen.observation[1:][inside])
        assert torch.equal(seen.starts[:, 1], torch.zeros(6))  # no move made yet


def episode(*rewards: float, terminated: bool = True) -> Seen:
    count = len(rewards)
    states = torch.arange(count, dtype=torch.float32).unsqueeze(1)
    ends = torch.zeros(count)
    ends[-1] = float(terminated)
    first = torch.zeros(count, dtype=torch.bool)
    first[0] = True
    return Seen(states, torch.zeros(count, dtype=torch.int64), torch.tensor(rewards), states + 1, ends, first)


def test_best_return_and_pay() -> None:
    seen = episode(-1.0, -1.0, 5.0).followed_by(episode(-1.0, 3.0, 3.0, terminated=False))
    assert seen.best_return(0.5).item() == pytest.approx(max(5.0, 3.0 + 1.5))
    assert not seen.steps_pay_alike
    assert episode(-1.0, -1.0, 0.0).steps_pay_alike  # only the last step pays otherwise


def test_the_model_learns_a_corridor() -> None:
    config = ImaginationConfig(last_iterations=1, hidden=32, first_model_steps=600)
    trainer = Trainer(configure(imagination=config, budget=Budget(total=60, per_round=60)))
    imagination = imagination_of(trainer)
    imagination.replay.add(trainer._collect()[0])
    loss = imagination.worlds.fit(imagination.replay, 0)
    assert loss.shape == (1,)
    places = torch.tensor([1.0, 2.0, 3.0, 3.0, 1.0])
    action = torch.tensor([1, 2, 0, 2, 0])
    state = torch.stack((places, torch.ones(5)), 1).repeat(1, 5, 1)  # every member sees all of them
    drawn = torch.full((1, 25, 2), 0.5)
    imagined = imagination.worlds.imagine(state.view(1, 25, 2), action.repeat(5).view(1, 25), drawn)
    moved = imagined.observation[0].view(5, 5, 2)
    assert torch.allclose(moved[..., 0], (places + action - 1).expand(5, 5), atol=0.2)
    assert torch.allclose(moved[..., 1], torch.full((5, 5), 2.0), atol=0.2)
    ends = torch.tensor([False, False, False, True, True])
    assert torch.equal(imagined.terminated.view(5, 5), ends.expand(5, 5))
    assert torch.allclose(imagined.reward.view(5, 5)[:, 3], torch.ones(5), atol=0.2)
    assert torch.allclose(imagined.reward.view(5, 5)[:, 0], torch.full((5,), -0.1), atol=0.1)


def test_a_feature_that_changes_only_at_the_end_is_imagined() -> None:
    trainer = Trainer(configure(imagination=ImaginationConfig(last_iterations=1, hidden=8)))
    worlds = imagination_of(trainer).worlds
    assert isinstance(worlds, Worlds)
    start, flagged = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[2.0, 0.0], [3.0, 1.0]])
    numbers = torch.tensor([0.0, 1.0])
    worlds._scale(0, Seen(start, numbers.long(), numbers, flagged, numbers, numbers == 0.0))
    frozen = {name: tensor[0].tolist() for name, tensor in worlds.stack.frozen.items()}
    assert (frozen["low"], frozen["high"]) == ([1.0, 0.0], [3.0, 1.0])
    assert frozen["binary"] == [False, True]


def test_advantages_of_branches_equal_a_plain_loop() -> None:
    trainer = Trainer(configure(seeds=2))
    imagination = imagination_of(trainer)
    imagination.replay.add(trainer._collect()[0])
    seeds, branches, horizon = 2, 10, 6
    torch.manual_seed(0)
    shape = (seeds, branches, horizon)
    steps = Step(
        torch.randn(*shape, 2),
        torch.randint(3, shape),
        -torch.rand(shape),
        torch.randn(shape),
        torch.randn(*shape, 2),
        torch.randn(shape),
        torch.rand(shape) < 0.2,
        torch.rand(shape),
    )
    strayed = (torch.rand(shape) < 0.2) & ~steps.terminated
    units, beyond = imagination.units(), torch.tensor([[7.0], [-3.0]])
    experience, targets = imagination._experience(steps, steps.terminated | strayed, strayed, units, beyond)
    final = imagination.learner.evaluate(steps.successor[:, :, -1].contiguous()).value
    discount, gae_lambda = imagination.ppo.discount, imagination.config.gae_lambda
    expected = torch.zeros(shape)
    for s in range(seeds):
        low, high = float(units.lowest[s]), float(units.highest[s])
        for b in range(branches):
            carried = 0.0
            for t in reversed(range(horizon)):
                value = min(max(float(steps.value[s, b, t]), low), high)
                ahead = float(final[s, b]) if t == horizon - 1 else float(steps.value[s, b, t + 1])
                ahead = min(max(ahead, low), high)
                if strayed[s, b, t]:
                    ahead = float(beyond[s])
                elif steps.terminated[s, b, t]:
                    ahead = 0.0
                ended = bool(steps.terminated[s, b, t] or strayed[s, b, t])
                delta = float(steps.reward[s, b, t] * units.reward[s]) + discount * ahead - value
                carried = delta + (0.0 if ended else discount * gae_lambda * carried)
                expected[s, b, t] = carried
    flat = expected.flatten(1)
    assert torch.allclose(targets.advantage, standardise(flat, torch.ones_like(flat)), atol=1e-5)
    # What is beyond counts for the policy; a reward model learns what steps pay.
    assert torch.allclose(experience.reward, steps.reward.flatten(1) * units.reward)
    assert experience.count == (branches * horizon,) * seeds
    pairs = experience.pool.view(seeds, -1, 2, 2)
    assert torch.equal(pairs[:, :, 1], steps.successor.flatten(1, 2))
    assert torch.equal(experience.pool[0, experience.state[0]], steps.observation[0].flatten(0, 1))


def test_branches_go_on_from_where_they_were_and_start_at_seen_states() -> None:
    trainer = trained(configure(), 1)
    imagination = imagination_of(trainer)
    steps, ended, strayed = imagination._imagine(1, 0, last=False)
    goes_on = ~ended[:, :, :-1]
    assert torch.equal(steps.observation[:, :, 1:][goes_on], steps.successor[:, :, :-1][goes_on])
    known = {tuple(state.tolist()) for state in imagination.replay.seeds[0].observation}
    fresh = torch.cat((steps.observation[:, :, 0].flatten(0, 1), steps.observation[:, :, 1:][~goes_on]))
    assert all(tuple(state.tolist()) in known for state in fresh)
    assert not (strayed & steps.terminated).any()


def test_only_where_steps_pay_alike_is_the_unknown_worth_a_visit() -> None:
    trainer = trained(configure(), 1)
    imagination = imagination_of(trainer)
    assert imagination._limit(last=True).item() == SMALL.support
    assert imagination._limit(last=False).item() == SMALL.curiosity  # cells cost 0.1, ends pay otherwise
    seen = imagination.replay.seeds[0]
    imagination.replay.seeds[0] = replace(seen, reward=torch.randn(len(seen)))
    assert imagination._limit(last=False).item() == np.inf


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r"])
def test_agents_learn_inside_their_model(agent: str) -> None:
    """From 12 random episodes, none of which the policy has learned from."""
    imagination = ImaginationConfig(
        last_iterations=25, hidden=32, horizon=10, first_model_steps=400, learning_rate=3e-3, real=False
    )
    trainer = trained(configure(agent, imagination, budget=Budget(total=12, per_round=12), seeds=2))
    scores = evaluate(trainer.members(), CORRIDOR, (0, 1), 20).mean(1)
    assert (scores > 0.7).all()  # the right end is at most three steps away


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r"])
def test_a_seed_does_not_notice_its_companions(agent: str) -> None:
    alone = trained(configure(agent, first_seed=1), 1)
    together = trained(configure(agent, seeds=2), 1)
    first = imagination_of(alone).replay.seeds[0]
    assert torch.equal(first.action, imagination_of(together).replay.seeds[1].action)
    for name, weight in alone.members()[0].state_dict().items():
        assert torch.allclose(weight, together.members()[1].state_dict()[name], atol=1e-4), name


def test_a_resumed_run_ends_with_the_same_bits() -> None:
    config = configure("xlvin-r", seeds=2)
    assert_goes_on_as(trained(config), trained(config, 1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("0.observation", torch.zeros(3, 5)),
        ("0.reward", torch.full((3,), torch.nan)),
        ("0.action", torch.full((3,), 9)),
        ("0.first", torch.zeros(2, dtype=torch.bool)),
    ],
)
def test_stored_transitions_that_make_no_sense_are_refused(name: str, value: torch.Tensor) -> None:
    replay = Replay(1, (2,), torch.device("cpu"))
    seen = episode(1.0, 1.0, 1.0)
    state = {f"0.{field}": tensor for field, tensor in vars(seen).items()}
    state |= {"0.observation": torch.zeros(3, 2), "0.next_observation": torch.zeros(3, 2)}
    replay.restore(state, 3)
    assert len(replay.seeds[0]) == 3
    with pytest.raises(XLVINError, match="make no sense"):
        replay.restore(state | {name: value}, 3)


def test_images_cannot_be_imagined() -> None:
    with pytest.raises(XLVINError, match="choose agent xlvin-r"):
        Trainer(configure(environment=PICTURE))


@pytest.mark.parametrize(
    "fields",
    [{"branches": 7}, {"horizon": 0}, {"initial_share": 2.0}, {"learning_rate": 0.0}, {"iterations": -1}],
)
def test_impossible_settings_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(XLVINError, match="Imagination"):
        ImaginationConfig(**fields)


def test_one_setting_for_every_environment() -> None:
    cartpole, lander = preset("CartPole-v0", "xlvin-imagine"), preset("LunarLander-v3", "xlvin-imagine")
    assert cartpole.imagination == lander.imagination
    assert replace(cartpole.ppo, discount=lander.ppo.discount) == lander.ppo
    assert (cartpole.ppo.discount, lander.ppo.discount) == (patience(200), patience(1000))
    assert (patience(200), patience(1000)) == (0.99, 1 - 1 / 300)
    assert patience(None) == 0.99


def test_a_run_tells_what_its_rewards_were_multiplied_by(tmp_path: Path) -> None:
    config = configure(seeds=2)
    run(config, tmp_path)
    trainer = trained(config)
    expected = imagination_of(trainer).units().reward.flatten().tolist()
    assert [reward_scale(tmp_path, config, seed) for seed in (0, 1)] == pytest.approx(expected)
    plain = replace(config, imagination=ImaginationConfig(), ppo=replace(config.ppo, reward_scale=0.3))
    assert reward_scale(tmp_path, plain, 0) == 0.3


@pytest.mark.parametrize("seeds", [1, 2])
def test_steps_in_the_model_are_recorded(seeds: int) -> None:
    """Otherwise they take several times as long."""
    imagination = imagination_of(trained(configure("xlvin-r", seeds=seeds), 2))
    assert imagination._recorded_step.recording is not None
    assert imagination.worlds._recorded_gradient.recording is not None
