"""All transitions that a run has collected: what models and action values learn from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.training.experience import Experience
from xlvin.training.returns import advantages

LIMIT = 200_000  # transitions kept per seed, the latest


@dataclass(frozen=True, eq=False)
class Seen:
    """What one seed has seen, in the order of collection."""

    observation: Tensor  # [N, ...]
    action: Tensor  # [N] int64
    reward: Tensor  # [N]
    next_observation: Tensor  # [N, ...], the true successor
    terminated: Tensor  # [N], one or zero
    first: Tensor  # [N] bool: begins a segment

    @classmethod
    def nothing(cls, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Seen:
        """No transition yet."""
        states, numbers = torch.zeros(0, *shape, device=device, dtype=dtype), torch.zeros(0, device=device)
        return cls(states, numbers.long(), numbers, states, numbers, numbers.bool())

    def __len__(self) -> int:
        return len(self.action)

    def followed_by(self, new: Seen) -> Seen:
        """Both, without what is too old."""
        pairs = ((getattr(self, field.name), getattr(new, field.name)) for field in fields(self))
        return Seen(*(torch.cat(pair)[-LIMIT:] for pair in pairs))

    @property
    def starts(self) -> Tensor:
        """The first observations of segments, [n, ...]."""
        return self.observation[self.first] if self.first.any() else self.observation[:1]

    @property
    def steps_pay_alike(self) -> bool:
        """Whether every step that ended no episode paid the same: then only ends can be good or bad."""
        paid = self.reward[self.terminated == 0.0]
        return len(paid) == 0 or bool(paid.max() - paid.min() < 1e-6)

    @property
    def no_state_pays(self) -> bool:
        """Whether every step that ended no episode paid by its action alone: no state beats another."""
        going = self.terminated == 0.0
        paid, action = self.reward[going], self.action[going]
        if len(paid) == 0:
            return True
        bounds = torch.stack((paid, -paid)).new_full((2, int(action.max()) + 1), -torch.inf)
        bounds.scatter_reduce_(1, action.expand(2, -1), torch.stack((paid, -paid)), "amax")
        spread = bounds.sum(0)  # largest minus smallest, of every action
        return bool(spread[spread.isfinite()].max() < 1e-6)

    @property
    def only_actions_cost(self) -> bool:
        """Whether steps pay by their action alone, and not all of them the same."""
        return self.no_state_pays and not self.steps_pay_alike

    def best_return(self, discount: float) -> Tensor:
        """The largest discounted sum of rewards from any state to the end of its segment, []."""
        zero, ended = torch.zeros_like(self.reward), self.first.roll(-1)
        ended[-1] = True
        return advantages(self.reward, zero, zero, self.terminated > 0.0, ended, discount, 1.0).max()


class Replay:
    """The transitions of every seed."""

    def __init__(
        self,
        seeds: int,
        shape: tuple[int, ...],
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.seeds = [Seen.nothing(shape, device, dtype) for _ in range(seeds)]

    def add(self, experience: Experience) -> None:
        """Append a round of data."""
        for index, count in enumerate(experience.count):
            state, ended = experience.state[index, :count], experience.ended[index, :count]
            first = ended.roll(1)
            first[0] = True
            new = Seen(
                experience.pool[index, state],
                experience.action[index, :count],
                experience.reward[index, :count],
                experience.pool[index, state + 1],
                experience.terminated[index, :count].float(),
                first,
            )
            self.seeds[index] = self.seeds[index].followed_by(new)

    def state(self) -> dict[str, Tensor]:
        """As tensors, for a checkpoint."""
        return {
            f"{index}.{name}": value
            for index, seen in enumerate(self.seeds)
            for name, value in vars(seen).items()
        }

    def restore(self, state: dict[str, Tensor], actions: int) -> None:
        """From tensors, after checking that they can be data of this run."""
        for index, seen in enumerate(self.seeds):
            stored = {name: state.get(f"{index}.{name}", torch.zeros(0)) for name in vars(seen)}
            count = len(stored["action"])
            for name, known in vars(seen).items():
                found = stored[name]
                if (
                    found.dtype != known.dtype
                    or found.shape != (count, *known.shape[1:])
                    or not found.isfinite().all()
                ):
                    raise XLVINError("The stored transitions make no sense; train anew in another folder.")
            if count and not 0 <= int(stored["action"].min()) <= int(stored["action"].max()) < actions:
                raise XLVINError("The stored transitions make no sense; train anew in another folder.")
            self.seeds[index] = replace(
                seen, **{name: found.to(seen.action.device) for name, found in stored.items()}
            )
