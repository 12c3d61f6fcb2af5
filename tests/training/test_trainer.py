"""The loop: frozen executors, independent seeds, the same bits twice, small and odd rounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import named
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.training.adam import Adam
from xlvin.training.config import Budget, PPOConfig, TrainConfig
from xlvin.training.trainer import Trainer

from ..environments import CORRIDOR, DEPTHS, PICTURE

EPISODES, STEPS = Budget(total=6, per_round=3), Budget("transitions", 48, 8, 2)


def configure(
    agent: str = "xlvin-r", environment: str = CORRIDOR, budget: Budget = EPISODES, **fields: Any
) -> TrainConfig:
    network = AgentConfig(**named(agent), hidden=8, latent=6)
    ppo = PPOConfig(epochs=2, minibatches=2, transe_coef=0.1)
    config = TrainConfig(environment, agent, network, budget, ppo, evaluation_episodes=2)
    return replace(config, **fields)


def trained(config: TrainConfig, rounds: int | None = None) -> Trainer:
    trainer = Trainer(config)
    for _ in range(config.budget.rounds if rounds is None else rounds):
        trainer.train_round()
    trainer.actors.close()
    return trainer


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_executor_stays_bit_identical_while_gradients_pass_through_it(seeds: int) -> None:
    trainer = Trainer(configure(seeds=seeds))
    before = {name: weight.clone() for name, weight in trainer.stack.weights.items()}
    trainer.train_round()
    after = trainer.stack.weights
    frozen = [name for name in after if "processor" in name]
    assert frozen
    assert all(torch.equal(before[name], after[name]) for name in frozen)
    moved = [name for name in after if name.startswith(("encoder", "planner.transition", "planner.project"))]
    assert len(moved) > 10
    assert all(not torch.equal(before[name], after[name]) for name in moved)


def test_gradients_reach_encoder_and_transition_through_the_executor() -> None:
    agent = trained(configure(), 1).agent
    width = agent.config.latent
    with torch.no_grad():
        agent.critic.weight[:, :width] = 0.0  # the value reads chi only
    value = agent(torch.randn(4, 2)).value.sum()
    for part in (agent.encoder, agent.planner.transition):
        grads = torch.autograd.grad(value, list(part.parameters()), retain_graph=True)
        assert all(grad.abs().sum() > 0.0 for grad in grads)


@pytest.mark.parametrize("agent", ["xlvin-r", "xlvin-aligned", "ppo", "atreec"])
@pytest.mark.parametrize("budget", [EPISODES, STEPS])
def test_a_seed_in_company_is_the_seed_alone(agent: str, budget: Budget) -> None:
    config = configure(agent, budget=budget)
    company, alone = Trainer(replace(config, seeds=3)), Trainer(replace(config, first_seed=1))
    (together, _), (single, _) = company._collect(), alone._collect()
    count = single.count[0]
    assert together.count[1] == count
    for column in ("state", "action", "reward", "terminated", "ended"):
        assert torch.equal(getattr(together, column)[1, :count], getattr(single, column)[0, :count]), column
    assert torch.equal(together.pool[1, : single.pool.shape[1]], single.pool[0])

    company, alone = trained(replace(config, seeds=3), 1), trained(replace(config, first_seed=1), 1)
    torch.testing.assert_close(company.stack.flat[1], alone.stack.flat[0], rtol=0, atol=1e-5)
    assert (company.stack.flat[1] - Trainer(replace(config, first_seed=1)).stack.flat[0]).abs().max() > 1e-3


@pytest.mark.parametrize("budget", [EPISODES, STEPS])
@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"novelty_coef": 0.5, "recompute": True, "anneal": True, "clip_value": True},
        {"recompute": True, "vtrace": True},
    ],
)
def test_the_same_command_twice_gives_the_same_bits(budget: Budget, extra: dict[str, Any]) -> None:
    config = configure(budget=budget, seeds=2)
    config = replace(config, ppo=replace(config.ppo, **extra))
    first, second = trained(config), trained(config)
    assert torch.equal(first.stack.flat, second.stack.flat)
    assert not torch.equal(first.stack.flat, trained(replace(config, first_seed=5)).stack.flat)


def off_policy(agent: str = "ppo", **fields: Any) -> TrainConfig:
    config = configure(agent, **fields)
    return replace(config, ppo=replace(config.ppo, epochs=4, recompute=True, vtrace=True))


def test_vtrace_is_the_plain_estimate_until_the_policy_moves() -> None:
    config = off_policy(network=AgentConfig(**named("ppo"), hidden=8, latent=6, inputs="raw"))
    with_epochs = {n: replace(config, ppo=replace(config.ppo, epochs=n)) for n in (1, 2)}
    flat = {n: trained(each, 1).stack.flat for n, each in with_epochs.items()}
    plain = {n: replace(each, ppo=replace(each.ppo, vtrace=False)) for n, each in with_epochs.items()}
    assert torch.equal(flat[1], trained(plain[1], 1).stack.flat)
    assert not torch.equal(flat[2], trained(plain[2], 1).stack.flat)


def test_vtrace_forgets_what_the_policy_would_not_do() -> None:
    trainer = Trainer(off_policy())
    experience, _ = trainer._collect()
    output = trainer.learner.evaluate(experience.pool)
    taken = trainer._log_prob(experience, output)
    never = trainer._targets(experience, experience.reward, output, taken + 50.0)
    # All that is left of the return is the critic's word: nothing that followed counts.
    torch.testing.assert_close(never.target, never.old_value)
    same = trainer._targets(experience, experience.reward, output, taken)
    assert (same.target - same.old_value).abs().max() > 0.1


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r"])
def test_vtrace_in_company_and_resumed_is_the_same(agent: str) -> None:
    config = off_policy(agent, budget=STEPS)
    company, alone = trained(replace(config, seeds=3), 1), trained(replace(config, first_seed=1), 1)
    torch.testing.assert_close(company.stack.flat[1], alone.stack.flat[0], rtol=0, atol=1e-5)
    whole, resumed = trained(config), Trainer(config)
    resumed.restore(trained(config, 1).state())
    while not resumed.finished:
        resumed.train_round()
    assert torch.equal(resumed.stack.flat, whole.stack.flat)


def test_what_is_spent_is_what_was_granted() -> None:
    trainer = trained(configure(budget=STEPS, seeds=2))
    assert trainer.finished
    assert trainer.steps.tolist() == [48, 48]
    played = Trainer(configure("ppo", budget=Budget(total=6, per_round=3)))
    metrics = [played.train_round(), played.train_round()]
    assert played.finished
    # Two rounds, an episode in each of three environments.
    assert [actor.episode for actor in played.actors.all] == [1, 1, 1]
    assert int(metrics[-1]["steps"][0]) == int(played.steps[0]) >= 6


def test_more_minibatches_than_transitions_do_no_harm() -> None:
    config = configure("ppo", budget=Budget(total=1, per_round=1), seeds=2)
    metrics = trained(replace(config, ppo=replace(config.ppo, minibatches=50)))
    assert metrics.stack.flat.isfinite().all()


def test_agents_see_standardised_data_and_members_carry_the_statistics() -> None:
    trainer = Trainer(configure("ppo", seeds=2))
    experience, _ = trainer._collect()
    trainer._learn(experience, None)
    for index, member in enumerate(trainer.members()):
        seen = experience.pool[index, experience.state[index, : experience.count[index]]]
        normalised = member.normaliser(seen)
        torch.testing.assert_close(normalised.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
        torch.testing.assert_close(normalised.std(0, correction=0), torch.ones(2), atol=1e-4, rtol=0)


def test_bounded_inputs_are_scaled_by_the_declared_range() -> None:
    config = configure("ppo")
    trainer = Trainer(replace(config, network=replace(config.network, inputs="bounds")))
    normalised = trainer.agent.normaliser(torch.tensor([-1.0, 10.0]))
    torch.testing.assert_close(normalised, torch.tensor([-1.0, 1.0]))
    trainer.train_round()
    torch.testing.assert_close(trainer.agent.normaliser(torch.tensor([4.5, 4.5])), torch.zeros(2))


def test_members_are_copies() -> None:
    trainer = trained(configure(seeds=2), 1)
    member = trainer.members()[1]
    assert torch.equal(
        torch.cat([w.flatten() for w in member.parameters() if w.requires_grad]), trainer.stack.flat[1]
    )
    trainer.train_round()
    assert not torch.equal(
        torch.cat([w.flatten() for w in member.parameters() if w.requires_grad]), trainer.stack.flat[1]
    )


def test_images_train() -> None:
    trainer = trained(configure("xlvin-r", PICTURE, Budget(total=2, per_round=2), seeds=2))
    assert trainer.agent.config.observation == (3, 36, 40)
    assert trainer.agent.config.given == (36, 40, 3)


@pytest.mark.parametrize(("name", "image"), [(CORRIDOR, "uint8"), (PICTURE, "uint8"), (DEPTHS, "float32")])
def test_an_agent_reads_observations_as_its_training_does(name: str, image: str) -> None:
    trainer = Trainer(configure("ppo", name))
    assert trainer.agent.config.image == image
    environment = Environment(name)
    seen = environment.reset(0)
    read, _ = trainer.members()[0]._read(environment.given)
    environment.close()
    trainer.close()
    assert read.dtype == seen.dtype == trainer.actors.shapes.dtype
    assert np.array_equal(read[0], seen)


def test_annealing_ends_near_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr(Adam, "step", lambda adam, gradient, rate: rates.append(rate))
    config = configure("ppo", budget=Budget(total=4, per_round=1))
    trained(replace(config, ppo=replace(config.ppo, anneal=True, learning_rate=1.0, minibatches=1)))
    assert rates == pytest.approx([1.0 - step / 8 for step in range(8)])  # 4 rounds x 2 epochs


def test_progress_hears_of_every_epoch() -> None:
    heard: list[tuple[int, int]] = []
    trainer = Trainer(configure("ppo"))
    while not trainer.finished:
        trainer.train_round(lambda round_, epoch, metrics: heard.append((round_, epoch)))
    assert heard == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(XLVINError, match='device "gpu5"'):
        Trainer(configure("ppo"), "gpu5")


def test_returns_are_those_of_whole_episodes() -> None:
    trainer = Trainer(configure("ppo", budget=Budget("transitions", 80, 40, 2)))
    metrics = trainer.train_round()
    assert -0.6 - 1e-6 <= float(metrics["return"][0]) <= 1.0
    assert np.isfinite(metrics["return"]).all()
