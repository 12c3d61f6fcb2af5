"""Frames as a film: GIF by Pillow, MP4 by ffmpeg where there is one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from xlvin.errors import RunFailedError, XLVINError
from xlvin.files import replacing

Frame = NDArray[np.uint8]  # [height, width, 3]
# Browsers slow down GIFs whose frames are shorter than this, in milliseconds.
SHORTEST_GIF_FRAME = 20
LAST_GIF_FRAME = 1000  # milliseconds to see how it ended, before it starts over


def check_film(path: Path | str) -> None:
    """Refuse a name that `save_film` could not write, before an episode was played for it."""
    kind = Path(path).suffix
    if kind not in (".gif", ".mp4"):
        raise XLVINError(f'"{path}" is no name for a film; let it end in .gif or .mp4.')
    if kind == ".mp4":
        _ffmpeg()


def save_film(path: Path | str, frames: Sequence[Frame], fps: float) -> None:
    """Write frames of one size to `path`, a .gif or .mp4."""
    check_film(path)
    with replacing(path) as temporary:
        if Path(path).suffix == ".gif":
            _write_gif(temporary, frames, fps)
        else:
            _write_mp4(temporary, frames, fps)


def _write_gif(path: Path, frames: Sequence[Frame], fps: float) -> None:
    paint = _Palette([frames[0], frames[len(frames) // 2], frames[-1]])
    images = [paint(frame) for frame in frames]
    duration = max(SHORTEST_GIF_FRAME, round(1000 / fps))
    durations = [duration] * (len(images) - 1) + [max(duration, LAST_GIF_FRAME)]
    images[0].save(path, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)


class _Palette:
    """256 colours for all frames, so that nothing flickers.

    Drawn frames have fewer, and keep them exactly; a palette of Pillow's would tint even these.
    """

    def __init__(self, samples: Sequence[Frame]) -> None:
        pixels = np.concatenate([frame.reshape(-1, 3) for frame in samples])
        colours = np.unique(_packed(pixels))
        if len(colours) > 256:
            palette = Image.fromarray(pixels[:, None]).quantize(256).getpalette()
            colours = np.unique(_packed(np.array(palette).reshape(-1, 3)))
        self._colours = _unpacked(colours)  # [<= 256, 3]
        self._index = np.full(2**24, -1, np.int16)  # by packed colour; -1 where not asked for yet

    def __call__(self, frame: Frame) -> Image.Image:
        """The frame in the palette's colours."""
        packed = _packed(frame)
        unknown = np.unique(packed[self._index[packed] < 0])
        for some in np.array_split(unknown, len(unknown) // 1024 + 1):  # bounds memory
            distance = np.square(_unpacked(some)[:, None] - self._colours).sum(-1)
            self._index[some] = distance.argmin(-1)
        image = Image.fromarray(self._index[packed].astype(np.uint8))
        image.putpalette(self._colours.astype(np.uint8).tobytes())
        return image


def _packed(colours: NDArray[Any]) -> NDArray[np.int64]:
    """One number per colour, [..., 3] -> [...]."""
    return np.asarray(colours.astype(np.int64) @ np.array([65536, 256, 1]))


def _unpacked(packed: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.stack((packed >> 16, packed >> 8 & 255, packed & 255), -1)


def _write_mp4(path: Path, frames: Sequence[Frame], fps: float) -> None:
    height, width = frames[0].shape[:2]
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{fps:g}", "-i", "-"]
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]  # the format wants even sides
    target = ["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4", str(path)]
    command: list[Any] = [_ffmpeg(), "-loglevel", "error", "-y", *source, *even, *target]
    done = subprocess.run(command, input=b"".join(frame.tobytes() for frame in frames), capture_output=True)
    if done.returncode:
        told = done.stderr.decode(errors="replace").strip().splitlines()
        reason = told[-1] if told else f"it ended with {done.returncode}"
        raise RunFailedError(
            f"ffmpeg could not write the film ({reason}); free some space, or write a .gif instead."
        )


def _ffmpeg() -> str:
    """The system's ffmpeg, else the one that imageio-ffmpeg brings."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise XLVINError("An .mp4 needs ffmpeg; `pip install 'xlvin[video]'`, or write a .gif.") from error
    return str(get_ffmpeg_exe())
