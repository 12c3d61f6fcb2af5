"""`PPO(XLVINPolicy, env)` with Stable-Baselines3's own code: learning, TransE, saving, loading."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

import xlvin
from xlvin.agents.networks import ModelBasedAgent
from xlvin.errors import XLVINError
from xlvin.executor.artefact import load_executor
from xlvin.sb3 import TransE, XLVINPolicy

from .environments import CORRIDOR, DICT, PICTURE

SMALL = {"hidden": 8, "latent": 6, "depth": 2}


def model(environment: str = CORRIDOR, algorithm: Any = PPO, agent: str = "xlvin-r", **options: Any) -> Any:
    settings = {"n_steps": 16, **({"batch_size": 16, "n_epochs": 2} if algorithm is PPO else {}), **options}
    venv = DummyVecEnv([lambda: gymnasium.make(environment, disable_env_checker=True)] * 2)
    kwargs = {"agent": agent, "network": SMALL}
    return algorithm(XLVINPolicy, venv, seed=0, device="cpu", policy_kwargs=kwargs, **settings)


@pytest.mark.parametrize("algorithm", [PPO, A2C])
@pytest.mark.parametrize("agent", ["xlvin-cp", "atreec", "ppo"])
def test_every_agent_learns_with_the_algorithms_as_they_are(algorithm: Any, agent: str) -> None:
    trained = model(algorithm=algorithm, agent=agent)
    before = {name: weight.clone() for name, weight in trained.policy.agent.state_dict().items()}
    trained.learn(64, callback=None if agent == "ppo" else TransE())
    after = trained.policy.agent.state_dict()
    frozen = {name for name, weight in trained.policy.agent.named_parameters() if not weight.requires_grad}
    for name, weight in after.items():
        moved = not torch.equal(weight, before[name])
        assert moved != (name in frozen or name.endswith("edge_features")), name
    if agent == "xlvin-cp":
        for name, weight in load_executor("cartpole-tree").processor.state_dict().items():
            assert torch.equal(after[f"planner.processor.{name}"], weight)


def test_the_policy_is_the_agent() -> None:
    policy = model().policy
    observation = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    tensor = torch.from_numpy(observation)
    actions, values, log_prob = policy(tensor, deterministic=True)
    output = policy.agent(tensor)
    assert torch.equal(actions, output.logits.argmax(-1))
    assert torch.equal(values, output.value.unsqueeze(-1))
    assert torch.allclose(log_prob, output.logits.log_softmax(-1).amax(-1))
    assert torch.equal(policy.predict_values(tensor), values)
    assert np.array_equal(
        policy.predict(observation, deterministic=True)[0], policy.agent.predict(observation)[0]
    )
    assert policy.agent.plan(observation[0]).depth == SMALL["depth"]


def test_transe_adds_its_gradient_to_the_algorithms_own() -> None:
    """d(own loss + 0.5 TransE) is the sum of both gradients, whatever the own loss is."""
    trained = model()
    trained.learn(32, callback=(callback := TransE(0.5)))
    policy, weights = trained.policy, [w for w in trained.policy.parameters() if w.requires_grad]
    callback._on_rollout_end()
    observation, action = policy.experience.observation[:8], policy.experience.action[:8]

    def gradient() -> list[torch.Tensor]:
        torch.manual_seed(3)
        value, log_prob, _ = policy.evaluate_actions(observation, action)
        found = torch.autograd.grad(value.square().mean() - log_prob.mean(), weights, allow_unused=True)
        return [torch.zeros_like(w) if g is None else g for g, w in zip(found, weights, strict=True)]

    both = gradient()
    torch.manual_seed(3)
    loss = policy._auxiliary_loss(policy.experience, 8)
    assert loss.item() == pytest.approx(0.5 * policy.auxiliary["transe"].item())
    alone = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    policy.experience = None
    own = gradient()
    for total, left, right in zip(both, own, alone, strict=True):
        assert torch.allclose(total, left + right, atol=1e-6)
    assert any(part.abs().max() > 1e-3 for part in alone)


def test_transe_sees_the_true_last_observation() -> None:
    trained, seen = model(), []

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            seen.append(self.model.policy.experience)

    trained.learn(64, callback=[TransE(), Look()])
    ends = 0
    for batch in seen:
        place, moves = batch.observation.T
        assert torch.equal(batch.next_observation[:, 0], place + batch.action - 1)
        assert torch.equal(batch.next_observation[:, 1], moves + 1)  # a reset would have set it to 0
        ends += int(((batch.next_observation[:, 0] == 0) | (batch.next_observation[:, 0] == 4)).sum())
    assert ends > 5
    assert trained.policy.experience is None  # and training is over


def test_transe_teaches_the_transition_model() -> None:
    errors = {}
    for coefficient in (0.0, 1.0):
        trained = model(learning_rate=1e-2)
        trained.learn(320, callback=TransE(coefficient))
        errors[coefficient] = trained.policy.auxiliary["transe"].item()
    assert errors[1.0] < 0.5 * errors[0.0]


def test_it_learns() -> None:
    """The right end of the corridor pays; a uniform policy finds it in less than half of the episodes."""
    trained = model(learning_rate=1e-2, n_steps=64, batch_size=64, n_epochs=4)
    trained.learn(1000, callback=TransE())
    states = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 2.0], [2.0, 0.0]], np.float32)
    assert trained.predict(states, deterministic=True)[0].tolist() == [2, 2, 2, 2]


def test_saving_and_loading_is_sb3s_own(tmp_path: Path) -> None:
    trained = model()
    trained.learn(32, callback=TransE())
    observation = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    trained.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", device="cpu")
    for name, weight in trained.policy.state_dict().items():
        assert torch.equal(loaded.policy.state_dict()[name], weight), name
    assert np.array_equal(*(m.predict(observation, deterministic=True)[0] for m in (trained, loaded)))
    loaded.set_env(trained.env)
    loaded.learn(32, callback=TransE())
    trained.policy.save(tmp_path / "policy.pth")
    alone = XLVINPolicy.load(tmp_path / "policy.pth")
    assert np.array_equal(*(m.predict(observation, deterministic=True)[0] for m in (alone, trained)))
    trained.policy.agent.save(tmp_path / "agent.safetensors")
    agent = xlvin.load(tmp_path / "agent.safetensors")
    assert np.array_equal(agent.predict(observation)[0], trained.predict(observation, deterministic=True)[0])


def test_the_seed_decides_the_weights() -> None:
    weights = [model(seed_).policy.agent.actor.weight for seed_ in (CORRIDOR, CORRIDOR)]
    assert torch.equal(*weights)


@pytest.mark.parametrize(
    ("environment", "encoder"), [(PICTURE, "ImageEncoder"), ("FrozenLake-v1", "MLPEncoder")]
)
def test_images_and_discrete_states(environment: str, encoder: str) -> None:
    trained = model(environment)
    trained.learn(32, callback=TransE())
    assert type(trained.policy.agent.encoder).__name__ == encoder
    given = trained.env.reset()
    assert np.array_equal(
        trained.predict(given, deterministic=True)[0], trained.policy.agent.predict(given)[0]
    )


class Icon(gymnasium.Env[Any, Any]):
    """An image too small for convolutions."""

    observation_space = spaces.Box(0, 255, (6, 5, 3), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return self._observe(), float(action), bool(self.np_random.random() < 0.2), False, {}

    def _observe(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (6, 5, 3), np.uint8)


@pytest.mark.parametrize("normalised", [True, False])
def test_small_images_are_scaled_once_whoever_reads_them(tmp_path: Path, normalised: bool) -> None:
    kwargs = {"network": SMALL | {"initialisation": "torch"}, "normalize_images": normalised}
    options = {"n_steps": 16, "batch_size": 16, "device": "cpu", "seed": 0, "policy_kwargs": kwargs}
    trained = PPO(XLVINPolicy, DummyVecEnv([Icon]), **options)
    trained.learn(16, callback=TransE())
    policy, images = trained.policy, np.random.default_rng(0).integers(0, 256, (50, 3, 6, 5), np.uint8)
    read = torch.from_numpy(images).flatten(1) / (255.0 if normalised else 1.0)
    assert torch.allclose(policy.agent.normaliser(policy._read(torch.from_numpy(images))), read)
    policy.agent.save(tmp_path / "agent.safetensors")
    wanted = trained.predict(images, deterministic=True)[0]
    for agent in (policy.agent, xlvin.load(tmp_path / "agent.safetensors")):
        assert np.array_equal(agent.predict(images)[0], wanted)


class Doubler(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=7)
        self.layer = nn.Linear(2, 7)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        return self.layer(2.0 * observation)


def test_an_encoder_of_your_own(tmp_path: Path) -> None:
    kwargs = {"network": {"hidden": 8, "depth": 1}, "features_extractor_class": Doubler}
    venv = DummyVecEnv([lambda: gymnasium.make(CORRIDOR, disable_env_checker=True)])
    trained = PPO(
        XLVINPolicy, venv, n_steps=16, batch_size=16, n_epochs=1, device="cpu", policy_kwargs=kwargs
    )
    before = trained.policy.features_extractor.layer.weight.clone()
    trained.learn(16, callback=TransE(1.0))
    assert isinstance(trained.policy.agent, ModelBasedAgent)
    assert trained.policy.agent.embed(torch.zeros(1, 2)).shape == (1, 7)
    assert not torch.equal(trained.policy.agent.encoder.layer.weight, before)
    trained.save(tmp_path / "model.zip")
    loaded = PPO.load(tmp_path / "model.zip", device="cpu")
    observation = np.ones((3, 2), np.float32)
    assert np.array_equal(*(m.predict(observation, deterministic=True)[0] for m in (trained, loaded)))


class Shaped(BaseFeaturesExtractor):
    """Remembers what it was given."""

    def __init__(self, observation_space: spaces.Space[Any]) -> None:
        super().__init__(observation_space, features_dim=7)
        self.layer, self.seen = nn.Linear(int(np.prod(observation_space.shape or (1,))), 7), torch.empty(0)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        self.seen = observation.detach().clone()
        return self.layer(observation.flatten(1))


class Screen(Icon):
    """An image that convolutions would fit."""

    observation_space = spaces.Box(0, 255, (40, 36, 1), np.uint8)


class Table(Icon):
    """Numbers in two dimensions."""

    observation_space = spaces.Box(-1.0, 1.0, (4, 3), np.float32)


class Pair(Icon):
    """Two states at once."""

    observation_space = spaces.MultiDiscrete([3, 4])


@pytest.mark.parametrize("world", [Icon, Screen, Table])
@pytest.mark.parametrize("normalised", [True, False])
def test_an_encoder_of_your_own_sees_the_same_without_sb3(
    world: type[gymnasium.Env[Any, Any]], normalised: bool
) -> None:
    kwargs = {"network": {"hidden": 8, "depth": 1}, "features_extractor_class": Shaped}
    kwargs["normalize_images"] = normalised
    options = {"n_steps": 16, "batch_size": 16, "device": "cpu", "seed": 0, "policy_kwargs": kwargs}
    policy = PPO(XLVINPolicy, DummyVecEnv([world]), **options).policy
    space = policy.observation_space
    observation = np.stack([space.sample() for _ in range(40)])  # too many to be recorded
    wanted = policy.predict(observation, deterministic=True)[0]
    seen = policy.features_extractor.seen
    scale = 255.0 if normalised and space.dtype == np.uint8 else 1.0
    assert torch.allclose(seen, torch.from_numpy(observation) / scale)
    assert np.array_equal(policy.agent.predict(observation)[0], wanted)
    assert torch.equal(policy.features_extractor.seen, seen)
    assert [policy.agent.predict(one)[0] for one in observation] == wanted.tolist()


def test_bad_input_is_told_in_one_sentence() -> None:
    with pytest.raises(XLVINError, match="FlattenObservation"):
        PPO(XLVINPolicy, gymnasium.make(DICT, disable_env_checker=True), device="cpu")
    with pytest.raises(XLVINError, match="FlattenObservation"):
        PPO(XLVINPolicy, DummyVecEnv([Pair]), device="cpu")
    with pytest.raises(XLVINError, match="discrete actions"):
        PPO(XLVINPolicy, "Pendulum-v1", device="cpu")
    with pytest.raises(XLVINError, match="not configured like this"):
        PPO(XLVINPolicy, "CartPole-v1", device="cpu", policy_kwargs={"network": {"deepth": 2}})
    for agent in ("ppo-gaussian", "xlvin-dqn"):
        with pytest.raises(XLVINError, match=f"{agent} has no policy over discrete actions"):
            PPO(XLVINPolicy, "CartPole-v1", policy_kwargs={"agent": agent}, device="cpu")
    with pytest.raises(XLVINError, match='Did you mean "ppo"'):
        PPO(XLVINPolicy, "CartPole-v1", device="cpu", policy_kwargs={"agent": "ppoo"})
    with pytest.raises(XLVINError, match="leave normalize_images on"):
        PPO(XLVINPolicy, DummyVecEnv([Screen]), device="cpu", policy_kwargs={"normalize_images": False})
    with pytest.raises(XLVINError, match="transition model"):
        model(agent="ppo").learn(32, callback=TransE())
    with pytest.raises(XLVINError, match="transition model"):
        PPO("MlpPolicy", "CartPole-v1", device="cpu", n_steps=16, batch_size=16).learn(16, callback=TransE())


@pytest.mark.parametrize("coefficient", [float("nan"), -1.0, float("inf"), "a"])
def test_coefficients_that_mean_nothing_are_refused(coefficient: Any) -> None:
    with pytest.raises(XLVINError, match="not negative"):
        TransE(coefficient)
