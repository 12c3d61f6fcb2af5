"""Q-learning from replay: targets that respect ends, target networks, exploration, the same bits twice."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import xlvin
from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import VALUE_BASED, make_agent, named
from xlvin.errors import XLVINError
from xlvin.storage import load_tensors
from xlvin.training.config import Budget, DQNConfig, ImaginationConfig, PPOConfig, TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.policies import exploring_policy
from xlvin.training.presets import preset
from xlvin.training.replay import Replay, Seen
from xlvin.training.run import make_trainer, run
from xlvin.training.stack import Stack
from xlvin.training.trainer import Trainer
from xlvin.training.values.trainer import ValueTrainer
from xlvin.training.values.windows import Windows

from ..environments import CORRIDOR, PICTURE

EPISODES, STEPS = Budget(total=9, per_round=3), Budget("transitions", 48, 8, 2)
QUICK = DQNConfig(updates=4, batch=8, n_step=2)


def configure(
    agent: str = "xlvin-dqn", budget: Budget = EPISODES, values: DQNConfig = QUICK, **fields: Any
) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6)
    ppo = PPOConfig(transe_coef=0.1)
    config = TrainConfig(CORRIDOR, agent, network, budget, ppo, values=values, evaluation_episodes=2)
    return replace(config, **fields)


def trained(config: TrainConfig, rounds: int | None = None) -> ValueTrainer:
    trainer = ValueTrainer(config)
    for _ in range(config.budget.rounds if rounds is None else rounds):
        trainer.train_round()
    trainer.close()
    return trainer


def replay_of(*segments: tuple[list[float], bool]) -> Replay:
    """One seed; observations and actions count the transitions."""
    replay, count = Replay(1, (1,), torch.device("cpu")), 0
    for rewards, terminated in segments:
        steps = torch.arange(count, count + len(rewards))
        last = steps == steps[-1]
        seen = Seen(
            steps.float().unsqueeze(1),
            steps,
            torch.tensor(rewards),
            100.0 + steps.float().unsqueeze(1),
            (last & terminated).float(),
            steps == steps[0],
        )
        replay.seeds[0] = replay.seeds[0].followed_by(seen)
        count += len(rewards)
    return replay


def test_windows_end_with_their_segment_and_bootstrap_only_where_life_goes_on() -> None:
    replay = replay_of(([1.0, 2.0, 4.0], True), ([8.0, 16.0], False))
    (window,) = Windows(replay, 2, 0.5).drawn((0,), 1, 400, 0, 0)
    trail = window.trail(torch.full((1, 400), 1000.0))
    first = window.observation[0, :, 0].long()
    assert set(first.tolist()) == {0, 1, 2, 3, 4}
    expected = {  # actions; end; returns of the states that exist
        0: ([0, 1], 101, [1 + 0.5 * 2 + 0.25 * 1000, 2 + 0.5 * 1000, 1000]),
        1: ([1, 2], 102, [2 + 0.5 * 4, 4, 0]),  # terminated
        2: ([2], 102, [4, 0]),
        3: ([3, 4], 104, [8 + 0.5 * 16 + 0.25 * 1000, 16 + 0.5 * 1000, 1000]),  # truncated
        4: ([4], 104, [16 + 0.5 * 1000, 1000]),
    }
    for row, start in enumerate(first.tolist()):
        actions, end, returns = expected[start]
        steps = len(actions)
        assert trail.taken[0, row].tolist() == [1.0] * steps + [0.0] * (2 - steps)
        assert trail.action[0, row, :steps].tolist() == actions
        assert window.end[0, row].item() == end
        assert trail.target[0, row, : steps + 1].tolist() == returns
        assert trail.terminated[0, row, :steps].tolist() == [float(action == 2) for action in actions]
        assert trail.first.action[0, row] == start
        assert trail.first.next_observation[0, row].item() == 100 + start
        assert 0 <= int(trail.first.negative[0, row]) < 400


def test_every_seed_draws_by_its_own_stream() -> None:
    one, other = replay_of(([1.0] * 30, True)), replay_of(([1.0] * 50, True))
    both = Replay(2, (1,), torch.device("cpu"))
    both.seeds = [*other.seeds, *one.seeds]
    (alone,) = Windows(one, 3, 0.9).drawn((7,), 1, 8, 4, 2)
    (together,) = Windows(both, 3, 0.9).drawn((3, 7), 1, 8, 4, 2)
    for left, right in zip(alone, together, strict=True):
        assert torch.equal(left[0], right[1])
    (later,) = Windows(one, 3, 0.9).drawn((7,), 1, 8, 5, 2)
    assert not torch.equal(later.observation, alone.observation)


@pytest.mark.parametrize("double", [True, False])
def test_the_target_network_values_what_the_learning_network_would_do(double: bool) -> None:
    trainer = ValueTrainer(configure("dqn", values=replace(QUICK, double=double), seeds=2))
    with torch.no_grad():
        trainer.stack.flat += 0.3 * torch.randn(trainer.stack.flat.shape, generator=torch.Generator())
    observation = torch.randn(2, 50, 2)
    found = trainer.values.bootstrap(observation)
    with torch.no_grad():
        target = trainer.values.target.apply(trainer.values._target_agent, observation).logits
        own = trainer.stack.apply(trainer.agent, observation).logits
    assert not torch.equal(target.argmax(-1), own.argmax(-1))
    chosen = own if double else target
    assert torch.equal(found, target.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1))


@pytest.mark.parametrize("mix", [1.0, 0.25])
def test_the_target_network_moves_when_its_time_has_come(mix: float) -> None:
    trainer = ValueTrainer(configure("dqn", values=replace(QUICK, target_every=3, target_mix=mix)))
    before = trainer.values.target.flat.clone()
    assert torch.equal(before, trainer.stack.flat)
    trainer.replay.add(trainer._collect()[0])
    windows = Windows(trainer.replay, 2, 0.99)
    for step, window in enumerate(windows.drawn((0,), 5, 8, 0, 0), 1):
        trainer.values.learn(window, 1e-2)
        if step == 3:
            expected = torch.lerp(before, trainer.stack.flat, mix)
        if step < 3:
            assert torch.equal(trainer.values.target.flat, before)
    assert torch.equal(trainer.values.target.flat, expected)
    assert not torch.equal(expected, trainer.stack.flat)


def test_the_gradient_of_every_seed_is_clipped_on_its_own() -> None:
    config = configure("dqn", seeds=2)
    trainer = ValueTrainer(replace(config, ppo=replace(config.ppo, max_grad_norm=1e-3)))
    experience, _ = trainer._collect()
    experience.reward[1] *= 0.0  # nothing to learn, nearly
    trainer.replay.add(experience)
    (window,) = Windows(trainer.replay, 2, 0.99).drawn((0, 1), 1, 32, 0, 0)
    norms = trainer.values.gradient(window)[0].norm(dim=1)
    assert norms[0] == pytest.approx(1e-3, rel=1e-2)
    assert 0.0 < norms[1] < norms[0]


def test_exploration_mixes_even_draws_with_the_best_action() -> None:
    agent = make_agent("dqn", observation=(2,), actions=4, seed=1, hidden=8, latent=6)
    observations = np.ones((1, 4000, 2), np.float32)
    uniform = np.random.default_rng(0).random((1, 4000))
    best = int(agent.predict(observations[0, 0])[0])
    for epsilon in (0.0, 0.5, 1.0):
        drawn = exploring_policy(Stack([agent]), agent, lambda: epsilon)(observations, uniform)  # noqa: B023
        shares = np.bincount(drawn.ravel(), minlength=4) / 4000
        expected = np.full(4, epsilon / 4)
        expected[best] += 1.0 - epsilon
        np.testing.assert_allclose(shares, expected, atol=0.03)


def test_random_actions_become_fewer() -> None:
    values = replace(QUICK, epsilon_start=0.9, epsilon_end=0.1, epsilon_share=0.5)
    trainer = ValueTrainer(configure("dqn", Budget(total=8, per_round=1), values))
    found = []
    while not trainer.finished:
        found.append(trainer.epsilon)
        trainer.train_round()
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.3, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("agent", VALUE_BASED)
@pytest.mark.parametrize("budget", [EPISODES, STEPS])
def test_a_seed_in_company_is_the_seed_alone(agent: str, budget: Budget) -> None:
    config = configure(agent, budget)
    company, alone = trained(replace(config, seeds=3), 1), trained(replace(config, first_seed=1), 1)
    for name, column in vars(alone.replay.seeds[0]).items():
        assert torch.equal(column, vars(company.replay.seeds[1])[name]), name
    torch.testing.assert_close(company.stack.flat[1], alone.stack.flat[0], rtol=0, atol=1e-5)
    fresh = ValueTrainer(replace(config, first_seed=1)).stack.flat[0]
    assert (company.stack.flat[1] - fresh).abs().max() > 1e-3


class StoppedError(Exception):
    pass


def stop_in(round_: int) -> Any:
    def progress(now: int, done: int, metrics: dict[str, np.ndarray]) -> None:
        if now == round_:
            raise StoppedError

    return progress


@pytest.mark.parametrize("agent", VALUE_BASED)
@pytest.mark.parametrize("budget", [EPISODES, STEPS], ids=["trajectories", "transitions"])
def test_a_stopped_run_ends_with_the_same_bits(tmp_path: Path, agent: str, budget: Budget) -> None:
    config = configure(agent, budget, seeds=2)
    config = replace(config, ppo=replace(config.ppo, novelty_coef=0.1, anneal=True))
    whole = run(config, tmp_path / "whole")
    for stopped in range(config.budget.rounds):
        with pytest.raises(StoppedError):
            run(config, tmp_path / "parts", progress=stop_in(stopped))
    parts = run(config, tmp_path / "parts")
    left, right = (load_tensors(tmp_path / name / "checkpoint.safetensors")[0] for name in ("whole", "parts"))
    assert left.keys() == right.keys()
    assert {"target.flat", "replay.0.action", "weights.encoder.layers.0.weight"} <= left.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert np.array_equal(whole.returns, parts.returns)
    member = xlvin.load(tmp_path / "parts", seed=1)
    for name, weight in whole.agents[1].state_dict().items():
        assert torch.equal(weight, member.state_dict()[name]), name


def test_damaged_replay_is_refused() -> None:
    config = configure("dqn")
    state = trained(config, 1).state()
    for name, value in (("replay.0.action", torch.full((3,), 9)), ("target.flat", torch.zeros(1, 3))):
        with pytest.raises(XLVINError):
            ValueTrainer(config).restore(state | {name: value})


def test_the_executor_stays_as_it_was() -> None:
    trainer = ValueTrainer(configure(seeds=2))
    before = {name: weight.clone() for name, weight in trainer.stack.weights.items()}
    trainer.train_round()
    frozen = [name for name in before if "processor" in name]
    assert frozen
    assert all(torch.equal(before[name], trainer.stack.weights[name]) for name in frozen)
    assert not torch.equal(before["planner.project.weight"], trainer.stack.weights["planner.project.weight"])


@pytest.mark.parametrize("agent", VALUE_BASED)
def test_the_corridor_is_learned(agent: str) -> None:
    values = replace(preset(CORRIDOR, agent).values, updates=150, batch=32, n_step=2, target_mix=0.05)
    config = configure(agent, Budget(total=20, per_round=20), values, seeds=2)
    config = replace(config, ppo=PPOConfig(learning_rate=3e-3, discount=0.9, max_grad_norm=10.0))
    trainer = trained(config)
    scores = evaluate(trainer.members(), CORRIDOR, (0, 1), 20).mean(1)
    assert (scores > 0.7).all()  # the right end is at most three steps away
    observation = torch.tensor([[[3.0, 1.0]]] * 2)
    value = trainer.stack.apply(trainer.agent, observation).value
    assert ((value - 1.0).abs() < 0.25).all(), "one step before the end, which pays 1"


def test_images_are_replayed_as_bytes() -> None:
    config = configure("xlvin-dqn", Budget(total=4, per_round=2), environment=PICTURE)
    trainer = trained(config)
    assert trainer.replay.seeds[0].observation.dtype == torch.uint8
    assert not trainer.light
    again = ValueTrainer(config)
    again.restore(trainer.state())
    assert torch.equal(again.replay.seeds[0].observation, trainer.replay.seeds[0].observation)


def test_progress_hears_of_every_pass() -> None:
    config = configure("dqn", values=replace(QUICK, updates=120))
    trainer, heard = make_trainer(config), []
    assert isinstance(trainer, ValueTrainer)
    trainer.train_round(lambda round_, done, metrics: heard.append((round_, done)))
    assert heard == [(0, 1), (0, 2), (0, 3)]
    assert config.passes == (3, 3)
    assert trainer.learner.optimiser.steps == 120


def test_settings_of_q_learning_are_found_by_name() -> None:
    result = xlvin.train(
        CORRIDOR, "dqn", trajectories=4, updates=2, n_step=4, learning_rate=0.5, evaluation_episodes=1
    )
    assert (result.config.values.n_step, result.config.ppo.learning_rate) == (4, 0.5)


@pytest.mark.parametrize(
    "fields",
    [
        {"updates": 0},
        {"n_step": 0},
        {"epsilon_start": 1.5},
        {"epsilon_share": 0.0},
        {"target_mix": 0.0},
        {"q_coef": float("nan")},
    ],
)
def test_impossible_settings_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(XLVINError, match="Values: "):
        replace(DQNConfig(), **fields)


def test_configurations_from_before_there_were_value_tails_are_read() -> None:
    stored = asdict(configure("ppo-imagine"))
    del stored["values"], stored["network"]["tail"]
    config = TrainConfig.from_dict(stored)
    assert (config.values, config.network.tail) == (DQNConfig(), "policy")


@pytest.mark.parametrize("agent", VALUE_BASED)
def test_the_loop_of_policies_refuses_action_values(agent: str) -> None:
    with pytest.raises(XLVINError, match=f"{agent} has a values tail and Trainer teaches a policy tail"):
        Trainer(configure(agent))


def test_what_value_tails_cannot_do_is_refused() -> None:
    for agent in VALUE_BASED:
        with pytest.raises(XLVINError, match=f"no {agent}"):
            preset("CartPole-v0", agent, "paper")
    with pytest.raises(XLVINError, match="leave imagination out"):
        ValueTrainer(configure("dqn", imagination=ImaginationConfig(last_iterations=1)))
    with pytest.raises(XLVINError, match="leave vtrace off"):
        ValueTrainer(configure("dqn", ppo=PPOConfig(recompute=True, vtrace=True)))
    with pytest.raises(XLVINError, match="can be counted"):
        ValueTrainer(configure("ppo-gaussian"))
    with pytest.raises(XLVINError, match="ppo has a policy tail and ValueTrainer teaches a values tail"):
        ValueTrainer(configure("ppo"))
    with pytest.raises(XLVINError, match="On Atari"):
        make_trainer(configure("dqn", environment="ALE/Pong-v5"))
