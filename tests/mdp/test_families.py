"""Contracts that every family keeps, and the structure of those that can be checked by hand."""

import math

import networkx as nx
import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.mdp.families import CARTPOLE_STATES, FAMILIES, GRAPHS, SUPPORT, Family, graph_walk, sample
from xlvin.mdp.tabular import TabularMDP
from xlvin.mdp.value_iteration import value_iteration


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(family: str, count: int, states: int, actions: int = 4, seed: int = 0) -> TabularMDP:
    return sample(family, count, states, FAMILIES[family].actions or actions, 0.9, generator(seed))


def reached(family: str, states: int, actions: int = 64) -> list[set[int]]:
    """For each state of one MDP the successors that 64 actions find: all its neighbours, almost surely."""
    mdp = draw(family, 1, states, actions)
    return [set(successors.flatten().tolist()) for successors in mdp.successor[0]]


@pytest.mark.parametrize("states", [1, 2, 3, 20, 23, 50])
@pytest.mark.parametrize("family", FAMILIES)
def test_families_have_exactly_the_size_asked_for(family: str, states: int) -> None:
    mdp = draw(family, 3, states)
    assert (mdp.batch, mdp.states, mdp.actions) == (3, states, FAMILIES[family].actions or 4)
    assert mdp.discount == 0.9
    assert torch.isfinite(value_iteration(mdp).final).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_families_are_reproducible_from_the_generator(family: str) -> None:
    first, again, other = (draw(family, 4, 31, seed=seed) for seed in (0, 0, 1))
    for name in ("successor", "probability", "reward"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    if family != "cartpole-tree":  # whose few positions seldom differ in their falls
        assert not torch.equal(first.reward, other.reward)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"cartpole-tree"}))
def test_members_of_a_batch_differ_and_rewards_are_standard_normal(family: str) -> None:
    mdp = draw(family, 30, 25, 8)
    assert abs(mdp.reward.mean()) < 0.06
    assert abs(mdp.reward.std() - 1.0) < 0.06
    assert not torch.equal(mdp.successor[0], mdp.successor[1]) or family == "dense"
    assert not torch.equal(mdp.reward[0], mdp.reward[1])


@pytest.mark.parametrize("family", GRAPHS)
def test_graph_families_move_to_neighbours_of_their_graph(family: str) -> None:
    _, build = GRAPHS[family]
    # The first draw of the generator is the graph's seed.
    graph = build(23, int(torch.randint(2**31, (1,), generator=generator())))
    assert sorted(graph) == list(range(23))
    for form in (family, f"{family}-stochastic"):
        for state, successors in enumerate(reached(form, 23)):
            assert successors <= (set(graph[state]) or {state})


@pytest.mark.parametrize("family", sorted(set(GRAPHS) - {"erdos-renyi"}))
@pytest.mark.parametrize("states", [2, 3, 4, 7, 20, 33])
def test_graphs_are_connected(family: str, states: int) -> None:
    graph = GRAPHS[family][1](states, 5)
    assert sorted(graph) == list(range(states))
    assert nx.is_connected(graph)
    if family in ("star", "tree", "line", "caterpillar", "lobster"):
        assert nx.is_tree(graph)


def test_deterministic_forms_are_certain_and_stochastic_ones_are_not() -> None:
    for family in GRAPHS:
        assert draw(family, 2, 20).probability.eq(1.0).all()
        stochastic = draw(f"{family}-stochastic", 2, 20)
        assert stochastic.successor.shape[-1] == SUPPORT
        assert stochastic.probability.max() < 1.0


def test_random_deterministic_is_uniform_over_all_states() -> None:
    mdp = draw("random-deterministic", 2000, 20, 8)
    assert mdp.successor.shape == (2000, 20, 8, 1)
    share = mdp.successor.flatten().bincount(minlength=20) / mdp.successor.numel()
    torch.testing.assert_close(share, torch.full((20,), 0.05), atol=2e-3, rtol=0.0)


def test_dense_reaches_every_state() -> None:
    mdp = draw("dense", 2, 6)
    assert (mdp.transition() > 0).all()


def test_neighbours_are_chosen_uniformly() -> None:
    mdp = draw("line", 1, 3, 4000)
    assert abs(mdp.successor[0, 1].float().mean() - 1.0) < 0.05  # from the middle: 0 and 2, equally often
    assert set(mdp.successor[0, 1].flatten().tolist()) == {0, 2}


def test_line_star_and_grid_by_hand() -> None:
    assert reached("line", 5) == [{1}, {0, 2}, {1, 3}, {2, 4}, {3}]
    assert reached("star", 5) == [{1, 2, 3, 4}, {0}, {0}, {0}, {0}]
    # 7 states: rows of 4 and 3.
    assert reached("grid", 7) == [{1, 4}, {0, 2, 5}, {1, 3, 6}, {2}, {0, 5}, {1, 4, 6}, {2, 5}]


def test_ladder_and_caveman_by_hand() -> None:
    assert reached("ladder", 5) == [{1, 3}, {0, 2, 4}, {1}, {0, 4}, {1, 3}]
    # Cliques 0-1-2 and 3-4-5, whose first edges are rewired to the clique before; state 6 joins the last one.
    assert reached("caveman", 7) == [{2, 5}, {2}, {0, 1, 3}, {2, 5, 6}, {5, 6}, {0, 3, 4, 6}, {3, 4, 5}]


def test_random_graphs_have_the_density_they_promise() -> None:
    edges = [GRAPHS["erdos-renyi"][1](50, seed).number_of_edges() for seed in range(40)]
    expected = 2.0 * math.log(50) / 50 * 50 * 49 / 2
    assert abs(sum(edges) / 40 / expected - 1.0) < 0.05
    assert GRAPHS["barabasi-albert"][1](50, 0).number_of_edges() == 2 * 48


def test_isolated_states_lead_to_themselves() -> None:
    mdp = graph_walk(lambda states, seed: nx.empty_graph(states), 2, 3, 4, 5, 0.9, generator())
    torch.testing.assert_close(mdp.transition(), torch.eye(4).view(1, 4, 1, 4).expand(3, 4, 5, 4))
    assert all(reached(family, 1) == [{0}] for family in GRAPHS)


def test_cartpole_tree_by_hand() -> None:
    mdp = sample("cartpole-tree", 8, CARTPOLE_STATES, 2, 0.9, generator())
    successor, reward = mdp.successor.squeeze(-1), mdp.reward
    assert CARTPOLE_STATES == 2047
    assert successor[:, 0].tolist() == [[1, 2]] * 8
    # From |x| <= 0.05, three moves to the right lead to at most 0.39 and five to at least 0.51.
    for state, following in [(0, 2), (2, 6), (6, 14)]:
        assert (successor[:, state, 1] == following).all()
        assert (reward[:, state, 1] == 1.0).all()
    fallen = 62
    assert (successor[:, fallen] == fallen).all()
    assert (reward[:, fallen] == 0.0).all()
    # Alternating keeps the pole up to the deepest level, where it stays and earns 1.
    state = 0
    for level in range(10):
        state = 2 * state + 1 + level % 2
    assert state >= 1023
    assert (successor[:, state] == state).all()
    assert (reward[:, state] == 1.0).all()


def test_cartpole_tree_pays_nothing_on_entering_a_fall_and_below_it() -> None:
    mdp = sample("cartpole-tree", 3, 255, 2, 0.9, generator())
    successor = mdp.successor.squeeze(-1)
    terminal = (mdp.reward == 0.0).all(-1) & (successor == torch.arange(255).view(-1, 1)).all(-1)  # [B, S]
    assert 0 < terminal.sum() < terminal.numel()
    entered = terminal.gather(1, successor.flatten(1)).view(successor.shape)
    assert torch.equal(mdp.reward == 0.0, entered)
    parent = (torch.arange(1, 255) - 1) // 2
    assert (terminal[:, 1:] | ~terminal[:, parent]).all()  # a child of a fall is a fall
    # Both actions are tied where nothing can go wrong any more.
    assert value_iteration(mdp).final[terminal].eq(0.0).all()


def test_cartpole_tree_falls_where_the_position_says() -> None:
    mdp = sample("cartpole-tree", 4, 127, 2, 0.9, generator())
    start = torch.empty(4, 1).uniform_(-0.05, 0.05, generator=generator()).flatten().tolist()
    for member, root in enumerate(start):
        for path in range(64):
            x, state = root, 0
            for level in range(6):
                action = path >> level & 1
                x = x if abs(x) > 0.5 else 1.05 * (x + (0.1 if action else -0.1))
                state = 2 * state + 1 + action
            assert (mdp.reward[member, state].sum() == 0.0) == (abs(x) > 0.5)


@pytest.mark.parametrize(
    ("family", "count", "states", "actions", "sentence"),
    [
        ("random-determinstic", 1, 20, 8, 'Did you mean "random-deterministic"'),
        ("xyz", 1, 20, 8, "Choose one of: random-deterministic, "),
        ("line", 1, 0, 8, "give at least 1"),
        ("line", 1, 20, 0, "give at least 1"),
        ("line", 0, 20, 8, "give at least 1"),
        ("cartpole-tree", 1, 2047, 8, "have 2 actions; 8 were asked for"),
    ],
)
def test_bad_input(family: str, count: int, states: int, actions: int, sentence: str) -> None:
    with pytest.raises(XLVINError, match=sentence):
        sample(family, count, states, actions, 0.9, generator())


def test_a_new_family_is_one_function_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def stay(count: int, states: int, actions: int, discount: float, random: torch.Generator) -> TabularMDP:
        successor = torch.arange(states).view(1, -1, 1).expand(count, -1, actions)
        return TabularMDP.deterministic(successor, torch.ones(count, states, actions), discount)

    monkeypatch.setitem(FAMILIES, "stay", Family("nothing ever happens", stay))
    assert sample("stay", 2, 3, 1, 0.5, generator()).transition()[0, :, 0].equal(torch.eye(3))
