"""CartPole in gusts of wind, registered as `xlvin/PushedCartPole-v0` when this module is imported.

gymnasium.make("xlvin.envs.pushed:xlvin/PushedCartPole-v0", chance=0.2, push=20.0)

Everything but the gusts is Gymnasium's CartPole: observations, rewards, ends; 200 steps as in CartPole-v0.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from numpy.typing import NDArray

from xlvin.errors import XLVINError


class PushedCartPoleEnv(CartPoleEnv):
    """A cart that is pushed by chance.

    chance: the probability of a gust in each step.
    push: its force in newtons, to the left or to the right with equal probability, on top of the action's
        own 10 N. One above 10 N is stronger than any action.

    What comes of an action is one of three states: undisturbed, pushed to the left, pushed to the right.
    `info["gust"]` is the force that blew.
    """

    def __init__(self, chance: float = 0.2, push: float = 20.0, render_mode: str | None = None) -> None:
        if not 0.0 <= chance <= 1.0 or not np.isfinite(push):
            raise XLVINError(
                f"A gust of {push} N with probability {chance} cannot blow; give a probability and a force."
            )
        super().__init__(render_mode=render_mode)
        self.chance, self.push = chance, push
        self._own_force = self.force_mag

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Act, and perhaps be pushed."""
        blows, left = self.np_random.random(2) < (self.chance, 0.5)
        gust = 0.0 if not blows else -self.push if left else self.push
        # CartPole applies +force_mag or -force_mag: what is added must point the same way for both.
        self.force_mag = self._own_force + (gust if action == 1 else -gust)
        observation, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return observation, float(reward), terminated, truncated, info | {"gust": gust}


gymnasium.register(
    "xlvin/PushedCartPole-v0",
    entry_point="xlvin.envs.pushed:PushedCartPoleEnv",
    max_episode_steps=200,
    reward_threshold=195.0,
)
