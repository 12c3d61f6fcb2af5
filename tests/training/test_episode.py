"""One episode with everything that the agent thought."""

import numpy as np
import pytest
import torch

from xlvin.agents.base import Agent
from xlvin.agents.registry import make_agent
from xlvin.envs.environment import Environment
from xlvin.errors import XLVINError
from xlvin.training.episode import play

from ..environments import CORRIDOR, MAP, PICTURE

SMALL = {"hidden": 8, "latent": 6, "depth": 2}


def agent_for(name: str, kind: str = "xlvin-r") -> Agent:
    environment = Environment(name)
    shapes = environment.shapes
    environment.close()
    return make_agent(
        kind, observation=shapes.observation, given=shapes.given, actions=shapes.actions, **SMALL
    )


def test_an_episode_is_what_the_agent_does_greedily() -> None:
    agent = agent_for("CartPole-v1")
    episode = play(agent, "CartPole-v1", seed=5, steps=30)
    environment = Environment("CartPole-v1")
    observation, rewards, ended = environment.reset(5), [], False
    for moment in episode.moments:
        assert not ended
        assert moment.observation is not None
        assert (moment.observation == observation).all()
        assert moment.action == agent.predict(observation)[0] == moment.policy.argmax()
        assert moment.plan is not None
        assert moment.value == pytest.approx(float(moment.plan.levels[0].value[0]), abs=1e-5)
        assert moment.policy == pytest.approx(moment.plan.levels[0].policy[0], abs=1e-5)
        assert moment.embedding == pytest.approx(moment.plan.levels[0].embedding[0], abs=1e-6)
        observation, reward, terminated, truncated = environment.step(moment.action)
        rewards.append(reward)
        ended = terminated or truncated
    environment.close()
    assert [moment.reward for moment in episode.moments] == rewards
    assert episode.end == ("terminated" if ended else "cut")
    assert episode.actions == ("push left", "push right")
    with torch.no_grad():
        last = agent(torch.from_numpy(observation)[None])
    assert episode.last_value == pytest.approx(float(last.value), abs=1e-6)
    assert episode.moments[0].frame is not None
    assert episode.moments[0].frame.shape == (400, 600, 3)


def test_what_enters_the_executor_leaves_the_leaves_as_it_is() -> None:
    moment = play(agent_for(CORRIDOR), CORRIDOR, seed=0, steps=1).moments[0]
    assert moment.plan is not None
    assert moment.entered is not None
    for depth, (before, level) in enumerate(zip(moment.entered, moment.plan.levels, strict=True)):
        assert before.shape == level.executed.shape
        assert np.allclose(before, level.executed, atol=1e-6) == (depth == 2)


def test_agents_without_executor_or_tree_say_so() -> None:
    scalar = play(agent_for(CORRIDOR, "atreec"), CORRIDOR, seed=0, steps=2).moments[0]
    assert scalar.plan is not None
    assert scalar.entered is None
    free = play(agent_for(CORRIDOR, "ppo"), CORRIDOR, seed=0, steps=2).moments[0]
    assert free.plan is None
    assert free.entered is None
    assert free.frame is None  # the corridor cannot be drawn


def test_an_image_that_cannot_be_drawn_is_its_own_frame() -> None:
    episode = play(agent_for(PICTURE), PICTURE, seed=1, steps=3)
    frame = episode.moments[0].frame
    assert frame is not None
    assert frame.shape == (36, 40, 3)
    assert (frame == 255).any()
    assert episode.moments[0].observation is None
    assert episode.actions == ("action 0", "action 1")


def test_a_map_says_where_its_actions_lead() -> None:
    moment = play(agent_for(MAP), MAP, seed=0, steps=1).moments[0]
    assert moment.places is not None
    assert [len(places) for places in moment.places] == [1, 3, 9]
    start = moment.places[0][0, 0]
    assert moment.places[1][:, 0] == pytest.approx(start + np.array([-0.2, 0.0, 0.2]))
    assert moment.places[2][:, 0] == pytest.approx(start + 0.2 * np.array([-2, -1, 0, -1, 0, 1, 0, 1, 2]))


def test_an_agent_of_another_environment_is_refused() -> None:
    with pytest.raises(XLVINError, match=r"observations \(2,\) and 3 actions, .* trained with \(4,\) and 2"):
        play(agent_for("CartPole-v1"), CORRIDOR, seed=0, steps=1)


def test_an_agent_of_continuous_actions_is_refused_where_as_many_are_discrete() -> None:
    box = {"bins": (3,), "low": (0.0,), "high": (1.0,)}
    with pytest.raises(XLVINError, match="choose an environment with the same"):
        play(make_agent("ppo", observation=(2,), actions=3, **SMALL, **box), CORRIDOR, seed=0, steps=1)


def test_an_episode_needs_a_step() -> None:
    with pytest.raises(XLVINError, match="0 steps are none"):
        play(agent_for(CORRIDOR), CORRIDOR, seed=0, steps=0)
