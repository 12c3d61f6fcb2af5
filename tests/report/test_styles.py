"""What figures have in common."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from xlvin.report.styles import bare, save


def test_bare_axes_have_a_grid_and_two_spines() -> None:
    axes = Figure().subplots()
    bare(axes, "y")
    assert [name for name, spine in axes.spines.items() if spine.get_visible()] == ["left", "bottom"]
    assert {line.get_alpha() for line in axes.get_ygridlines() if line.get_visible()} == {0.25}
    assert not any(line.get_visible() for line in axes.get_xgridlines())


def test_a_picture_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figures" / "empty.png"
    save(Figure(figsize=(1, 1)), path, dpi=20)
    whole = path.read_bytes()
    assert whole.startswith(b"\x89PNG")

    def half(self: Figure, target: Path, **options: object) -> None:
        target.write_bytes(whole[:20])
        raise MemoryError

    monkeypatch.setattr(Figure, "savefig", half)
    with pytest.raises(MemoryError):
        save(Figure(), path)
    assert path.read_bytes() == whole
    assert list(path.parent.iterdir()) == [path]
