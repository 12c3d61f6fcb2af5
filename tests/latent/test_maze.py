import pytest
import torch

from xlvin.envs.maze_world import observe, scenes
from xlvin.errors import XLVINError
from xlvin.latent.maze import MazeEncoder, RecurrentMazeEncoder
from xlvin.mdp.mazes import generate

MAZES = generate(6, 8, 0)
IMAGES = observe(scenes(MAZES), torch.cat([MAZES[i : i + 1].starts(1)[:1] + 64 * i for i in range(6)]))


@pytest.mark.parametrize("encoder", [MazeEncoder, RecurrentMazeEncoder])
def test_embeddings_have_the_asked_for_shape(encoder: type[MazeEncoder | RecurrentMazeEncoder]) -> None:
    network = encoder((3, 8, 8), 12, 10)
    embedding = network(IMAGES)
    assert embedding.shape == (6, 10)
    torch.testing.assert_close(network(IMAGES.view(2, 3, 3, 8, 8)), embedding.view(2, 3, 10))
    torch.testing.assert_close(network(IMAGES[0]), embedding[0])
    torch.testing.assert_close(network(IMAGES.to(torch.uint8)), embedding)
    with pytest.raises(XLVINError, match=r"\[3, height, width\]"):
        encoder((2, 8, 8))


def test_the_recurrent_encoder_reads_where_the_agent_stands() -> None:
    torch.manual_seed(0)
    network = RecurrentMazeEncoder((3, 8, 8), 8, 4, passes=0)
    image = IMAGES[:1].clone()
    here = divmod(int(image[0, 2].argmax()), 8)
    before = network(image)
    for row, column in ((1, 1), (6, 6), (1, 6)):
        changed = image.clone()
        changed[0, 0, row, column] = 1.0 - changed[0, 0, row, column]
        # One convolution sees one cell further than the window of 3 x 3.
        near = max(abs(row - here[0]), abs(column - here[1])) <= 2
        assert torch.equal(network(changed), before) != near
    moved = image.clone()
    moved[0, 2] = moved[0, 2].roll(1, 1)
    assert not torch.equal(network(moved), before)


def test_passes_carry_information_one_cell_each() -> None:
    torch.manual_seed(0)
    image = torch.zeros(1, 3, 8, 12)
    image[0, 2, 4, 1] = 1.0
    far = image.clone()
    far[0, 1, 4, 10] = 1.0  # nine columns away
    for passes, seen in ((6, False), (7, True)):
        network = RecurrentMazeEncoder((3, 8, 12), 16, 4, passes=passes)
        assert torch.equal(network(image), network(far)) != seen
