"""Environments of the user's own, by the file that registers them."""

from pathlib import Path

import pytest

from xlvin.envs.environment import Environment


@pytest.mark.filterwarnings("ignore:.*Overriding environment")
def test_each_file_keeps_its_environment(tmp_path: Path) -> None:
    names = []
    for folder, limit in (("first", 3), ("second", 5)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "twin.py"
        path.write_text(
            "import gymnasium\n"
            "gymnasium.register('Twin-v0', 'gymnasium.envs.classic_control:CartPoleEnv', "
            f"max_episode_steps={limit})\n"
        )
        names.append(f"{path}:Twin-v0")
    assert [Environment(name)._limit for name in (*names, *names)] == [3, 5, 3, 5]
