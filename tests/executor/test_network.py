"""The executor against a loop over nodes, edge by edge, as its equations are written."""

import pytest
import torch
from torch import Tensor

from xlvin.errors import XLVINError
from xlvin.executor.network import FEW_SUCCESSORS, Executor, ExecutorConfig
from xlvin.mdp.tabular import TabularMDP

STATES, ACTIONS, DISCOUNT = 5, 3, 0.8


def random_mdp(successors: int, states: int = STATES, seed: int = 0) -> TabularMDP:
    generator = torch.Generator().manual_seed(seed)
    shape = (2, states, ACTIONS, successors)
    successor = torch.randint(states, shape, generator=generator)
    probability = torch.rand(shape, generator=generator).softmax(-1)
    return TabularMDP(successor, probability, torch.randn(shape[:3], generator=generator), DISCOUNT)


def loop(executor: Executor, mdp: TabularMDP, values: Tensor) -> Tensor:
    """V_{t+1} [B, S] node by node; candidates of the last step are kept in `loop.candidates`."""
    processor, config = executor.processor, executor.config
    edge = processor.edge(executor.edge_encoder(torch.tensor([1.0, mdp.discount])))
    result = torch.empty_like(values)
    for b in range(mdp.batch):
        inputs = [
            [executor.node_encoder(torch.stack((values[b, s], mdp.reward[b, s, a]))) for a in range(ACTIONS)]
            for s in range(mdp.states)
        ]
        nodes, embedding = inputs, []
        for step in range(config.steps):
            if step > 0:
                nodes = [[state + x for x in row] for state, row in zip(embedding, inputs, strict=True)]
            embedding = []
            for s in range(mdp.states):
                candidates = []
                for a in range(ACTIONS):
                    expected = torch.zeros(config.width)
                    for d in range(mdp.successor.shape[-1]):
                        sender = nodes[int(mdp.successor[b, s, a, d])][a]
                        message = processor.sender(sender) + processor.receiver(nodes[s][a]) + edge
                        if config.activation == "relu":
                            message = message.clamp(min=0.0)
                        expected = expected + mdp.probability[b, s, a, d] * message
                    candidates.append(processor.norm(nodes[s][a] + expected))
                together = torch.stack(candidates)
                embedding.append(
                    {"max": together.max(0).values, "sum": together.sum(0), "mean": together.mean(0)}[
                        config.reduction
                    ]
                )
        for s in range(mdp.states):
            result[b, s] = values[b, s] + executor.decoder(embedding[s])[0]
    return result


CONFIGS = [
    ExecutorConfig(width=6),
    ExecutorConfig(width=6, reduction="sum"),
    ExecutorConfig(width=6, reduction="mean", layer_norm=True),
    ExecutorConfig(width=6, activation="identity"),
    ExecutorConfig(width=6, steps=3),
    ExecutorConfig(width=6, steps=2, activation="identity", layer_norm=True),
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("successors", [1, 2, FEW_SUCCESSORS + 1])
def test_forward_equals_a_loop_over_nodes(config: ExecutorConfig, successors: int) -> None:
    torch.manual_seed(1)
    executor, mdp = Executor(config), random_mdp(successors)
    if successors == 1:
        mdp = TabularMDP.deterministic(mdp.successor.squeeze(-1), mdp.reward, DISCOUNT)
    values = torch.randn(2, STATES)
    torch.testing.assert_close(executor(mdp, values), loop(executor, mdp, values), atol=1e-5, rtol=1e-4)


def test_gradients_of_many_successors_equal_those_of_the_loop() -> None:
    torch.manual_seed(2)
    executor, mdp = Executor(ExecutorConfig(width=6)), random_mdp(FEW_SUCCESSORS + 1)
    values = torch.randn(2, STATES)
    executor(mdp, values).square().sum().backward()
    found = [parameter.grad.clone() for parameter in executor.parameters()]
    executor.zero_grad()
    loop(executor, mdp, values).square().sum().backward()
    for gradient, parameter in zip(found, executor.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad, atol=1e-4, rtol=1e-3)


def test_one_certain_successor_among_many_is_a_deterministic_mdp() -> None:
    torch.manual_seed(3)
    executor = Executor(ExecutorConfig(width=8))
    successor = torch.randint(STATES, (2, STATES, ACTIONS))
    reward, values = torch.randn(2, STATES, ACTIONS), torch.randn(2, STATES)
    certain = torch.nn.functional.one_hot(successor, STATES).float()
    torch.testing.assert_close(
        executor(TabularMDP.stochastic(certain, reward, DISCOUNT), values),
        executor(TabularMDP.deterministic(successor, reward, DISCOUNT), values),
    )


def test_a_message_is_the_expectation_over_successors_not_their_sum() -> None:
    torch.manual_seed(4)
    executor, values = Executor(ExecutorConfig(width=8)), torch.randn(1, STATES)
    once = torch.randint(STATES, (1, STATES, ACTIONS, 1))
    reward = torch.randn(1, STATES, ACTIONS)
    twice = TabularMDP(once.expand(-1, -1, -1, 2), torch.full((1, STATES, ACTIONS, 2), 0.5), reward, DISCOUNT)
    torch.testing.assert_close(
        executor(twice, values),
        executor(TabularMDP(once, torch.ones_like(once).float(), reward, DISCOUNT), values),
    )


def test_processor_on_a_neighbourhood_equals_process_on_the_graph() -> None:
    torch.manual_seed(5)
    executor, mdp = Executor(ExecutorConfig(width=8)), random_mdp(1)
    values = torch.randn(2, STATES)
    inputs = executor.encode(mdp, values)
    successor = mdp.successor[..., 0]
    batch, action = torch.arange(2).view(-1, 1, 1), torch.arange(ACTIONS)
    neighbours = inputs[batch, successor, action]
    edge = executor.edge_encoder(torch.tensor([1.0, DISCOUNT]))
    torch.testing.assert_close(executor.processor(inputs, neighbours, edge), executor.process(mdp, values))


def test_action_values_of_the_only_action_are_the_values() -> None:
    torch.manual_seed(6)
    executor, values = Executor(ExecutorConfig(width=8)), torch.randn(1, STATES)
    mdp = TabularMDP.deterministic(torch.randint(STATES, (1, STATES, 1)), torch.randn(1, STATES, 1), DISCOUNT)
    torch.testing.assert_close(executor.action_values(mdp, values).squeeze(-1), executor(mdp, values))


def test_rollout_feeds_predictions_back() -> None:
    torch.manual_seed(7)
    executor, mdp = Executor(ExecutorConfig(width=8)), random_mdp(2)
    trace = executor.rollout(mdp, 3)
    assert trace.shape == (4, 2, STATES)
    assert not trace[0].any()
    torch.testing.assert_close(trace[3], executor(mdp, executor(mdp, executor(mdp, trace[0]))))


def exact_executor(bias: float) -> Executor:
    """One unit that holds relu(R + gamma V' - V + c), read with weight one, solves the task."""
    executor = Executor(ExecutorConfig(width=4))
    with torch.no_grad():
        for parameter in executor.parameters():
            parameter.zero_()
        executor.node_encoder.weight[0] = torch.tensor([1.0, 0.0])  # x_0 = V
        executor.node_encoder.weight[1] = torch.tensor([0.0, 1.0])  # x_1 = R
        executor.processor.sender.weight[2, 0] = DISCOUNT
        executor.processor.receiver.weight[2, :2] = torch.tensor([-1.0, 1.0])
        executor.processor.edge.bias[2] = bias
        executor.decoder.weight[0, 2] = 1.0
        executor.decoder.bias.fill_(-bias)
    return executor


@pytest.mark.parametrize("successors", [1, 3, STATES * 2])
def test_value_iteration_itself_is_an_executor(successors: int) -> None:
    mdp = random_mdp(successors)
    if successors == 1:
        mdp = TabularMDP.deterministic(mdp.successor.squeeze(-1), mdp.reward, DISCOUNT)
    values = torch.randn(2, STATES)
    expected = mdp.action_values(values)
    executor = exact_executor(bias=20.0)
    torch.testing.assert_close(executor(mdp, values), expected.amax(-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(executor.action_values(mdp, values), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"steps": 0}, {"reduction": "median"}, {"activation": "tanh"}], ids=str
)
def test_impossible_shapes_are_refused(wrong: dict) -> None:
    with pytest.raises(XLVINError, match=r"width|steps|reduction|activation"):
        ExecutorConfig(**wrong)
