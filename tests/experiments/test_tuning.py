"""The search: equal settings for agents of a family, on seeds that are not reported."""

import json
from pathlib import Path

import pytest

from xlvin.agents.base import AgentConfig
from xlvin.agents.registry import VALUE_BASED
from xlvin.experiments import tuning
from xlvin.training.presets import CONTROL, with_settings


@pytest.mark.parametrize("environment", CONTROL)
def test_sampled_settings_fit_every_agent(environment: str) -> None:
    for trial in range(8):
        settings = tuning.sample(environment, trial, values=True)
        for agent in VALUE_BASED:
            config = with_settings(tuning.untuned(environment, agent), settings)
            assert (config.values.n_step, config.ppo.discount) == (settings["n_step"], settings["discount"])
            assert config.values.q_coef == (0.0 if agent == "vpn" else 1.0)
        with_settings(tuning.untuned(environment, "ppo"), tuning.sample(environment, trial))


@pytest.mark.parametrize("agent", ["ppo", "xlvin-r", "atreec", *VALUE_BASED])
def test_a_search_does_not_start_from_what_an_earlier_one_found(agent: str) -> None:
    for environment, (hidden, depth, budget) in CONTROL.items():
        start = tuning.untuned(environment, agent)
        assert (start.network.hidden, start.network.depth, start.budget) == (hidden, depth, budget)
        assert start.network.inputs == AgentConfig().inputs


def test_a_search_keeps_every_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuning.Trial] = []
    monkeypatch.setattr(
        tuning, "run_jobs", lambda function, jobs, workers: ((job, function(job)) for job in jobs)
    )
    monkeypatch.setattr(tuning, "run_trial", lambda trial: tried.append(trial) or [1.0] * trial.seeds)
    tuning.search(["CartPole-v0"], ["ppo", "dqn", "vpn"], range(2), 4, tmp_path / "trials.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    assert [line["agent"] for line in lines] == ["ppo", "dqn", "vpn"] * 2
    assert all(line["first_seed"] == 1000 and line["scores"] == [1.0] * 4 for line in lines)
    assert lines[1]["settings"] == lines[2]["settings"] != lines[0]["settings"]
    assert len(tried) == 6
