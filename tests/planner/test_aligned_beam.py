"""The sparse aligned planner against the full one, and against its own words, node by node."""

import pytest
import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.executor.network import Executor, ExecutorConfig
from xlvin.latent.transition import TransitionModel
from xlvin.planner.aligned import AlignedPlanner
from xlvin.planner.aligned_beam import SparseAlignedPlanner

LATENT, HIDDEN, ACTIONS, DISCOUNT, TAUGHT = 4, 6, 3, 0.75, 0.875


def make(depth: int, beam: int) -> SparseAlignedPlanner:
    torch.manual_seed(0)
    transition = TransitionModel(LATENT, ACTIONS, HIDDEN)
    executor = Executor(ExecutorConfig(5))
    return SparseAlignedPlanner(executor, transition, depth, beam, DISCOUNT, TAUGHT).double()


def states(batch: int = 4) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(batch, LATENT, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_with_room_for_everything_it_is_the_full_planner(depth: int) -> None:
    sparse = make(depth, ACTIONS**depth)
    full = AlignedPlanner(sparse.executor, sparse.transition, depth, DISCOUNT, TAUGHT).double()
    full.load_state_dict(sparse.state_dict())
    found, wanted = sparse(states()), full(states())
    torch.testing.assert_close(found.value, wanted.value)
    torch.testing.assert_close(found.reward, wanted.reward)
    gradients = [
        torch.autograd.grad(planner(states()).value.square().sum(), list(planner.transition.parameters()))
        for planner in (sparse, full)
    ]
    torch.testing.assert_close(*gradients)


def followed(planner: SparseAlignedPlanner, root: Tensor) -> set[tuple[int, ...]]:
    """The paths that are expanded from one state [k], as the class's docstring says it."""
    levels: list[dict[tuple[int, ...], tuple[Tensor, float]]] = [{(): (root, 0.0)}]
    for depth in range(planner.depth - 1):
        promise, below = {}, {}
        for path, (node, earned) in levels[-1].items():
            for action, child in enumerate(planner.transition.successors(node)):
                total = earned + DISCOUNT**depth * planner.reward(node)[action].item()
                below[*path, action] = (child, total)
                promise[*path, action] = total + DISCOUNT ** (depth + 1) * planner.value(child).item()
        best = sorted(promise, key=promise.__getitem__, reverse=True)[: planner.beam]
        levels.append({path: below[path] for path in best})
    return {path for level in levels for path in level}


def planned(
    planner: SparseAlignedPlanner, expanded: set[tuple[int, ...]], node: Tensor, path: tuple[int, ...] = ()
) -> Tensor:
    """Q of one state, or V below it, with a planner of depth 1 as the one sweep at each node."""
    executor, processor = planner.executor, planner.executor.processor
    own = planner.value(node)[0]
    if path not in expanded:
        return own
    edge = executor.edge_encoder(torch.tensor([1.0, TAUGHT], dtype=node.dtype))
    candidates = []
    for action, child in enumerate(planner.transition.successors(node)):
        value = planned(planner, expanded, child, (*path, action)) * (DISCOUNT / TAUGHT)
        x = executor.node_encoder(torch.stack((own, planner.reward(node)[action])))
        sender = executor.node_encoder(torch.stack((value, planner.reward(child)[action])))
        candidates.append(
            x + processor.activate(processor.sender(sender) + processor.receiver(x) + processor.edge(edge))
        )
    y = torch.stack(candidates)
    return own + executor.decoder(y if path == () else processor.reduce(y)).squeeze(-1)


@pytest.mark.parametrize(("depth", "beam"), [(2, 1), (3, 2), (4, 2), (4, 4)])
def test_the_most_promising_paths_are_followed(depth: int, beam: int) -> None:
    planner = make(depth, beam)
    found = planner(states()).value
    for state, values in zip(states(), found, strict=True):
        expanded = followed(planner, state)
        assert len(expanded) == 1 + sum(min(beam, ACTIONS ** min(d, 2)) for d in range(1, depth))
        torch.testing.assert_close(values, planned(planner, expanded, state))


def test_members_of_a_stack_choose_their_own_paths() -> None:
    planner, batches = make(4, 2), torch.stack((states(), -states()))
    together = torch.vmap(lambda batch: planner(batch).value)(batches)
    torch.testing.assert_close(together, torch.stack([planner(batch).value for batch in batches]))


@pytest.mark.parametrize("depth", [1, 2])
def test_states_that_are_no_batch_are_refused(depth: int) -> None:
    planner = make(depth, 2)
    for shape in ((LATENT,), (2, 3, LATENT), (3, LATENT + 1)):
        for method in (planner, planner.tree):
            with pytest.raises(XLVINError, match="give a batch of embeddings"):
                method(torch.zeros(shape).double())


def test_a_beam_keeps_something() -> None:
    with pytest.raises(XLVINError, match="beam is 0; give at least 1"):
        make(2, 0)
