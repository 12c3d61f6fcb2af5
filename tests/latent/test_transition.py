import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import one_hot

from xlvin.errors import XLVINError
from xlvin.latent.transition import TransitionModel


def make() -> TransitionModel:
    torch.manual_seed(0)
    transition = TransitionModel(5, 3, 8)
    nn.init.normal_(transition.norm.weight)
    nn.init.normal_(transition.norm.bias)
    return transition


def test_it_is_an_mlp_on_the_state_and_a_one_hot_action() -> None:
    transition = make()
    first = nn.Linear(5 + 3, 8)
    with torch.no_grad():
        first.weight.copy_(torch.cat((transition.state.weight, transition.action.weight.T), 1))
        first.bias.copy_(transition.state.bias)
    mlp = nn.Sequential(first, nn.ReLU(), transition.hidden, transition.norm, nn.ReLU(), transition.output)
    h = torch.randn(4, 5)
    for action in range(3):
        onehot = one_hot(torch.full((4,), action), 3).float()
        assert torch.allclose(transition(h)[:, action], mlp(torch.cat((h, onehot), -1)), atol=1e-6)


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
def test_one_action_is_a_row_of_all_actions(leading: tuple[int, ...]) -> None:
    transition, h = make(), torch.randn(*leading, 5)
    action = torch.randint(0, 3, leading)
    every = transition(h)
    assert every.shape == (*leading, 3, 5)
    chosen = every.gather(-2, action[..., None, None].expand(*leading, 1, 5)).squeeze(-2)
    assert torch.allclose(transition.translation(h, action), chosen, atol=1e-6)
    assert torch.allclose(transition.successors(h), h.unsqueeze(-2) + every)


def test_features_lie_before_the_last_layer() -> None:
    transition, h = make(), torch.randn(2, 4, 5)
    assert transition.features(h).shape == (2, 4, 3, 8)
    assert torch.allclose(transition.output(transition.features(h)), transition(h))
    ahead = transition.features(h, dim=-3)
    assert ahead.shape == (2, 3, 4, 8)
    assert torch.allclose(ahead, transition.features(h).transpose(1, 2), atol=1e-6)


def test_the_parts_of_the_first_layer_start_as_one() -> None:
    torch.manual_seed(0)
    transition = TransitionModel(60, 40, 200)
    for part in (transition.state.weight, transition.state.bias, transition.action.weight):
        assert 0.09 < part.abs().max() <= 0.1


def test_stacked_parameters_equal_a_loop() -> None:
    members = [TransitionModel(5, 3, 8) for _ in range(2)]
    names = [name for name, _ in members[0].named_parameters()]
    stacked = {name: torch.stack([m.get_parameter(name).detach() for m in members]) for name in names}
    h, action = torch.randn(2, 4, 5), torch.randint(0, 3, (2, 4))

    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = members[0]

        def forward(self, h: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            return self.model.translation(h, action)

    wrapped = {f"model.{name}": value for name, value in stacked.items()}
    chosen = Chosen()
    got = torch.vmap(lambda p, x, a: functional_call(chosen, p, (x, a)))(wrapped, h, action)
    want = torch.stack([m.translation(x, a) for m, x, a in zip(members, h, action, strict=True)])
    assert torch.allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("sizes", [(0, 2, 3), (4, 0, 3), (4, 2, 0)])
def test_impossible_sizes_are_told(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(XLVINError, match="at least 1"):
        TransitionModel(*sizes)
