"""The path for frames: stacks, the arithmetic against a plain reference, the loop, its runs on disk."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from xlvin.agents.base import AgentConfig, Batch
from xlvin.agents.registry import build, named
from xlvin.errors import XLVINError
from xlvin.training.config import Budget, ImaginationConfig, PPOConfig, TrainConfig
from xlvin.training.evaluation import evaluate
from xlvin.training.frames.frames import Frames
from xlvin.training.frames.learner import FrameLearner
from xlvin.training.frames.trainer import FrameTrainer, Seat
from xlvin.training.graphs import Graph
from xlvin.training.minibatches import shuffle
from xlvin.training.objective import Objective, Sample, Targets
from xlvin.training.presets import preset
from xlvin.training.run import open_run, run

GAME = "BreakoutNoFrameskip-v4"  # loses lives soon
STEPS, GAMES = 30, 2
PPO = PPOConfig(epochs=2, minibatches=2, clip=0.1, clip_value=True, transe_coef=0.1, learning_rate=1e-3)


def configure(agent: str = "xlvin-r", rounds: int = 2, **fields: Any) -> TrainConfig:
    network = AgentConfig(**named(agent), latent=12, hidden=8, depth=1)
    budget = Budget("transitions", rounds * STEPS * GAMES, STEPS, GAMES)
    return replace(TrainConfig(GAME, agent, network, budget, PPO, evaluation_episodes=1), **fields)


@pytest.fixture
def full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlvin.training.frames.learner.mixes_precision", lambda device: False)


def test_stacks_are_the_last_four_frames_of_the_same_episode() -> None:
    frames = Frames(steps=5, games=2, device=torch.device("cpu"))
    ages = torch.tensor([[0, 2], [1, 3], [0, 3], [1, 3], [2, 3], [3, 3]], dtype=torch.uint8)

    def value(step: int, game: int) -> int:
        return 10 * (step + 4) + game + 1

    def write(step: int, first: int) -> None:
        pixels = torch.tensor([value(first + step, game) for game in range(2)], dtype=torch.uint8)
        frames.write(torch.tensor([step]), pixels.view(2, 1, 1).expand(-1, 84, 84), ages[step])

    for step in range(6):
        write(step, 0)
    told = frames.stacks(torch.arange(12))[:, :, 40, 7].view(6, 2, 4).tolist()
    assert told[0][0] == [0, 0, 0, value(0, 0)]
    assert told[1][0] == [0, 0, value(0, 0), value(1, 0)]
    assert told[2][0] == [0, 0, 0, value(2, 0)]
    assert told[5][0] == [value(step, 0) for step in (2, 3, 4, 5)]
    assert told[4][1] == [value(step, 1) for step in (1, 2, 3, 4)]
    frames.carry_over()
    ages = torch.full((6, 2), 3, dtype=torch.uint8)
    write(0, 5)  # the round begins with the last round's end
    assert frames.stacks(torch.arange(2))[:, :, 0, 0].tolist() == [
        [value(step, game) for step in (2, 3, 4, 5)] for game in range(2)
    ]


def collected(agent: str) -> tuple[FrameTrainer, Seat, list[Tensor]]:
    """A round of data, and every observation of it [E, 4, 84, 84], stacked by hand."""
    trainer = FrameTrainer(configure(agent), threads=1)
    trainer._seats = [Seat(trainer.learners[0], trainer._games[0], 0)]
    stack, observations, seat = torch.zeros(GAMES, 4, 84, 84, dtype=torch.uint8), [], trainer._seats[0]
    original = seat.look

    def look() -> None:
        nonlocal stack
        newest = torch.from_numpy(seat.seen.frames.copy()).unsqueeze(1)
        fresh = torch.from_numpy(seat.seen.age == 0).view(-1, 1, 1, 1)
        stack = torch.cat((torch.where(fresh, 0, stack[:, 1:]), newest), 1)
        observations.append(stack)
        original()

    seat.look = look  # type: ignore[method-assign]
    trainer._collect()
    return trainer, seat, observations


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("agent", ["ppo", "xlvin-r", "atreec"])
def test_a_round_is_what_plain_ppo_makes_of_it(agent: str) -> None:
    trainer, seat, observations = collected(agent)
    assert seat.weight.min() == 0.0
    assert seat.terminated[seat.weight > 0].any()
    learner, network = trainer.learners[0], build(trainer.config.network, 0)
    network.load_state_dict(learner.learner.stack.member(0))
    flat = torch.cat(observations)  # row t * E + e
    with torch.no_grad():
        output = network(flat)
    value = output.value.view(STEPS + 1, GAMES)
    torch.testing.assert_close(learner._value, value, rtol=0, atol=1e-5)
    action = learner._action[:-1].flatten()
    log_prob = output.logits.log_softmax(-1)[: STEPS * GAMES].gather(1, action.unsqueeze(1)).squeeze(1)

    # Generalised advantages, step by step from behind.
    advantage = torch.zeros(STEPS, GAMES)
    for game in range(GAMES):
        following = 0.0
        for step in reversed(range(STEPS)):
            beyond = 0.0 if seat.terminated[step, game] else 0.99 * float(value[step + 1, game])
            delta = float(seat.reward[step, game]) + beyond - float(value[step, game])
            following = delta + (0.0 if seat.ended[step, game] else 0.99 * 0.95 * following)
            advantage[step, game] = following
    weight = torch.from_numpy(seat.weight).flatten()
    kept = advantage.flatten()[weight > 0]
    standard = (advantage.flatten() - kept.mean()) / (kept.std(correction=0) + 1e-8)
    target = (advantage + value[:-1]).flatten()

    reward = torch.from_numpy(seat.reward).flatten()
    optimiser = torch.optim.Adam(
        [w for w in network.parameters() if w.requires_grad], 1e-3, eps=PPO.adam_epsilon
    )
    objective = Objective(network, PPO)
    for epoch in range(PPO.epochs):
        rows, negative, _ = shuffle([0], [STEPS * GAMES], PPO.minibatches, 0, epoch)
        for part in range(PPO.minibatches):
            row, other = torch.from_numpy(rows[0, part]), torch.from_numpy(negative[0, part])
            batch = Batch(flat[row], action[row], reward[row], flat[row + GAMES], other)
            old = value[:-1].flatten()[row]
            targets = Targets(log_prob[row], old, standard[row], target[row])
            optimiser.zero_grad()
            objective(Sample(batch, targets, weight[row]))[0].backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), PPO.max_grad_norm)
            optimiser.step()
    before = learner.learner.stack.flat.clone()
    seat.learn(0, 1e-3)
    after = learner.learner.stack.member(0)
    assert (learner.learner.stack.flat - before).abs().max() > 1e-3
    for name, weight_ in network.state_dict().items():
        torch.testing.assert_close(after[name], weight_, rtol=0, atol=1e-5, msg=name)


def test_pairs_never_cross_an_end() -> None:
    trainer, seat, observations = collected("ppo")
    learner = trainer.learners[0]
    ends = np.argwhere((seat.weight > 0) & seat.terminated)
    assert len(ends)
    for step, game in ends:
        row = torch.tensor([step * GAMES + game])
        successor = learner.frames.stacks(row + GAMES)[0]
        assert torch.equal(successor, observations[step + 1][game])
        assert torch.equal(successor[:3], observations[step][game][1:])  # the same episode, one frame on
        assert seat.weight[step + 1 : step + 2, game].sum() == 0  # and no transition starts from there


def test_seeds_are_their_own_and_repeat_themselves() -> None:
    def trained(config: TrainConfig) -> FrameTrainer:
        trainer = FrameTrainer(config, threads=1)
        trainer.train_round()
        trainer.close()
        return trainer

    config = configure()
    company, alone = trained(replace(config, seeds=2)), trained(replace(config, first_seed=1))
    weights = [learner.learner.stack.flat for learner in company.learners]
    assert torch.equal(weights[1], alone.learners[0].learner.stack.flat)
    assert not torch.equal(weights[0], weights[1])
    frozen = {name: w for name, w in alone.learners[0].learner.stack.frozen.items() if "processor" in name}
    fresh = build(alone.config.network, 5).state_dict()
    assert all(torch.equal(weight[0], fresh[name]) for name, weight in frozen.items())
    assert frozen


def test_mixed_precision_is_near_full_precision() -> None:
    encoder = build(replace(configure("ppo").network, observation=(4, 84, 84), actions=3), 0).encoder
    images = torch.randint(0, 256, (5, 4, 84, 84), dtype=torch.uint8)
    full = encoder(images)
    encoder.mixed = True  # type: ignore[assignment]
    mixed = encoder(images)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, full, rtol=0.1, atol=0.05)
    assert not torch.equal(mixed, full)


def test_a_run_is_kept_resumed_and_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlvin.envs.atari.LONGEST_GAME", 20)
    config = configure(rounds=3, seeds=2)

    def stop(round_: int, epoch: int, metrics: Any) -> None:
        if round_ == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, progress=stop, checkpoint_every=0.0)
    assert open_run(tmp_path)[0].network.observation == (4, 84, 84)
    result = run(config, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [(line["round"], line["seed"]) for line in lines] == [(r, s) for r in (1, 2, 3) for s in (0, 1)]
    assert lines[-1]["steps"] == 3 * STEPS * GAMES
    assert {"clipped", "games", "transe"} <= lines[-1].keys()
    assert result.returns.shape == (2, 1)
    again = evaluate(open_run(tmp_path)[1], GAME, (0, 1), 1)
    assert np.array_equal(again, result.returns)
    action, _ = result.agent.predict(np.zeros((4, 84, 84), np.uint8))
    assert 0 <= action < 4


def test_a_checkpoint_brings_weights_and_optimiser_back() -> None:
    first, second = FrameTrainer(configure(seeds=2), threads=1), FrameTrainer(configure(seeds=2), threads=1)
    first.train_round()
    second.restore(first.state())
    assert all(torch.equal(value, second.state()[name]) for name, value in first.state().items())
    assert second.learners[1].learner.optimiser.steps == 4
    assert (second.round, second.steps.tolist()) == (1, [60, 60])


def test_what_does_not_work_on_atari_is_refused() -> None:
    config = configure()
    for wrong, told in [
        (replace(config, budget=Budget()), "--transitions"),
        (replace(config, ppo=replace(PPO, novelty_coef=1.0)), "novelty_coef"),
        (replace(config, ppo=replace(PPO, recompute=True, vtrace=True)), "recompute"),
        (replace(config, ppo=replace(PPO, first_discount=0.9)), "first_discount"),
        (replace(config, imagination=ImaginationConfig(iterations=3)), "Imagination"),
    ]:
        with pytest.raises(XLVINError, match=told):
            FrameTrainer(wrong)


def test_presets_follow_the_paper_and_kostrikov() -> None:
    freeway, alien, pong = (
        preset(name, "xlvin-r") for name in ("ALE/Freeway-v5", "AlienNoFrameskip-v4", "ALE/Pong-v5")
    )
    assert [config.network.depth for config in (freeway, alien, pong)] == [2, 1, 1]
    assert freeway.network.latent == 512
    assert (freeway.budget.total, freeway.budget.actors, freeway.budget.steps) == (1_000_000, 8, 128)
    assert freeway.ppo.learning_rate == 2.5e-4
    assert freeway.ppo.anneal


def test_without_a_gpu_a_graph_is_the_function() -> None:
    count = torch.zeros(1)
    graph = Graph(lambda: count.add_(1), None, [count])
    graph()
    assert count.item() == 1.0


def test_learners_need_no_games() -> None:
    network = replace(configure("ppo").network, observation=(4, 84, 84), actions=3)
    learner = FrameLearner(build(network, 0), PPO, 0, STEPS, GAMES, torch.device("cpu"))
    learner.begin(np.full((STEPS + 1, GAMES), 0.5, np.float32))
    learner.look(np.zeros((GAMES, 84, 84), np.uint8), np.zeros(GAMES, np.uint8))
    assert learner.chosen().tolist() == [1, 1]  # the middle of a uniform policy
