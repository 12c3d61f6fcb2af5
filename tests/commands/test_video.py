"""`xlvin video`: an episode on film."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import xlvin
from xlvin.cli import main
from xlvin.commands.video import film
from xlvin.errors import XLVINError
from xlvin.report.film import save_film

from ..environments import CORRIDOR

SMALL = {"hidden": 8, "latent": 6, "epochs": 1, "evaluation_episodes": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("video") / "run"
    xlvin.train("CartPole-v0", "ppo", trajectories=2, folder=folder, **SMALL)
    return folder


def test_a_gif_has_every_frame_of_the_episode(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["video", str(run), "--episode-seed", "5", "--fps", "25", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["path"] == str(run / "video.gif")
    seen = film(xlvin.load(run), "CartPole-v0", 5, 1000)
    frames = seen.frames
    assert told["return"] == seen.total == told["steps"] == len(frames) - 1  # a reward of one per step
    assert not seen.cut
    assert not told["cut"]
    with Image.open(run / "video.gif") as picture:
        assert picture.size == (600, 400)
        durations = []
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            durations.append(picture.info["duration"])
        last = np.asarray(picture.convert("RGB"), np.int64)
    assert durations[-1] == 1000, "how it ended is seen for a second"
    assert sum(durations[:-1]) == 40 * (len(frames) - 1)  # frames that look alike are one that lasts longer
    assert len(durations) > 0.8 * len(frames)
    assert np.array_equal(last, frames[-1])
    assert not np.array_equal(frames[0], frames[-1])


def test_the_environment_says_how_fast_it_is_seen(run: Path, tmp_path: Path) -> None:
    assert film(xlvin.load(run), "CartPole-v0", 5, 2).fps == 50
    path = tmp_path / "film.gif"
    assert main(["video", str(run), "--episode-seed", "5", "--steps", "2", "--output", str(path)]) == 0
    with Image.open(path) as picture:
        assert picture.info["duration"] == 20


def test_film_and_page_are_of_one_episode(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for command in ("show", "video"):
        assert main([command, str(run), "--environment", "CartPole-v1", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    for name in ("episode_seed", "steps", "return", "environment"):
        assert found[0][name] == found[1][name]
    assert found[0]["environment"] == "CartPole-v1"


def test_a_gif_of_more_colours_than_it_can_hold_comes_near(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 512).astype(np.uint8)
    frame = np.stack((np.tile(ramp, (8, 1)), np.tile(ramp[::-1], (8, 1)), np.tile(ramp // 2, (8, 1))), -1)
    save_film(str(tmp_path / "film.gif"), [frame, 255 - frame], 10.0)
    with Image.open(tmp_path / "film.gif") as picture:
        found = np.asarray(picture.convert("RGB"), np.int64)
    assert np.abs(found - frame).mean() < 4.0


def test_an_mp4_where_ffmpeg_is(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="`pip install 'xlvin[video]'` for MP4")
    path = tmp_path / "film.mp4"
    assert main(["video", str(run), "--steps", "4", "--fps", "10", "--output", str(path)]) == 0
    out = capsys.readouterr().out
    assert "4 steps, return 4; it goes on, --steps films more than 4" in out
    assert "episode seed " in out
    count, seconds = imageio_ffmpeg.count_frames_and_secs(path)
    assert (count, round(seconds, 1)) == (5, 0.5)
    odd = [np.full((31, 33, 3), value, np.uint8) for value in (0, 255)]
    save_film(tmp_path / "odd.mp4", odd, 2.0)
    assert imageio_ffmpeg.count_frames_and_secs(tmp_path / "odd.mp4")[0] == 2


def test_what_cannot_be_filmed_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    xlvin.train(CORRIDOR, "ppo", trajectories=2, folder=tmp_path / "blind", **SMALL)
    (tmp_path / "agent.safetensors").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    for arguments, told in [
        ([str(run), "--output", "film.avi"], "end in .gif or .mp4"),
        ([str(run), "--steps", "0"], "at least 1 step"),
        ([str(run), "--seed", "9"], "no seed 9"),
        ([str(run), "--environment", "Acrobot-v1"], "choose an environment with the same"),
        ([str(tmp_path / "blind")], "draws no pictures"),
        ([str(tmp_path / "agent.safetensors")], "which environment"),
        ([str(tmp_path / "nowhere")], "holds no run"),
    ]:
        assert main(["video", *arguments]) == 2
        assert told in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(XLVINError, match=r"pip install 'xlvin\[video\]'"):
        save_film(tmp_path / "film.mp4", [np.zeros((4, 4, 3), np.uint8)], 1.0)
    assert sorted(tmp_path.rglob("*")) == before
