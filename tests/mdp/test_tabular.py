import pytest
import torch

from xlvin.errors import XLVINError
from xlvin.mdp.families import sample
from xlvin.mdp.tabular import TabularMDP

SUCCESSOR = torch.tensor([[[1, 0], [1, 1]]])
REWARD = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])


def test_deterministic_table_has_one_certain_successor() -> None:
    mdp = TabularMDP.deterministic(SUCCESSOR, REWARD, 0.5)
    assert (mdp.batch, mdp.states, mdp.actions) == (1, 2, 2)
    dense = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    assert torch.equal(mdp.transition(), dense)
    assert torch.equal(mdp.action_values(torch.tensor([[10.0, 20.0]])), torch.tensor([[[11, 7], [13, 14.0]]]))


def test_sparse_and_dense_forms_agree() -> None:
    mdp = sample("grid-stochastic", 5, 9, 3, 0.9, torch.Generator().manual_seed(0))
    dense = TabularMDP.stochastic(mdp.transition(), mdp.reward, mdp.discount)
    values = torch.randn(5, 9, generator=torch.Generator().manual_seed(1))
    by_hand = torch.einsum("bsat,bt->bsa", mdp.transition(), values)
    torch.testing.assert_close(mdp.expectation(values), by_hand)
    torch.testing.assert_close(dense.expectation(values), by_hand)


def test_select_takes_a_sub_batch_and_to_moves_nothing_else() -> None:
    mdp = sample("dense", 4, 3, 2, 0.9, torch.Generator().manual_seed(0))
    part = mdp.select(torch.tensor([2, 0])).to("cpu")
    assert torch.equal(part.reward, mdp.reward[[2, 0]])
    assert torch.equal(part.transition(), mdp.transition()[[2, 0]])


def test_double_precision_stays_double() -> None:
    mdp = TabularMDP.deterministic(SUCCESSOR, REWARD.double(), 0.5)
    assert mdp.transition().dtype == mdp.action_values(torch.zeros(1, 2).double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"discount": 1.0}, "converges for 0 <= discount < 1"),
        ({"discount": float("nan")}, "converges for 0 <= discount < 1"),
        ({"successor": SUCCESSOR}, r"give \[batch, states, actions, successors\]"),
        ({"successor": SUCCESSOR.unsqueeze(-1)[:, :0]}, "at least one of each"),
        ({"successor": SUCCESSOR.unsqueeze(-1).int()}, "give int64"),
        ({"successor": SUCCESSOR.unsqueeze(-1) + 1}, "outside the states 0 to 1"),
        ({"successor": SUCCESSOR.unsqueeze(-1) - 1}, "outside the states 0 to 1"),
        ({"reward": REWARD[..., :1]}, "do not fit successors"),
        ({"reward": REWARD / 0.0}, "finite"),
        ({"probability": torch.full((1, 2, 2, 1), 0.9)}, "sum to one"),
        ({"probability": torch.full((1, 2, 2, 1), float("nan"))}, "sum to one"),
    ],
)
def test_bad_mdps_are_refused(change: dict[str, object], sentence: str) -> None:
    good = {
        "successor": SUCCESSOR.unsqueeze(-1),
        "probability": torch.ones(1, 2, 2, 1),
        "reward": REWARD,
        "discount": 0.9,
    }
    TabularMDP(**good)  # type: ignore[arg-type]
    with pytest.raises(XLVINError, match=sentence):
        TabularMDP(**(good | change))  # type: ignore[arg-type]
