import pytest
import torch
from torch import nn

from xlvin.errors import XLVINError
from xlvin.latent.encoders import ImageEncoder, MLPEncoder


def test_the_mlp_has_the_published_widths() -> None:
    encoder = MLPEncoder(4, 64, 50)
    shapes = [tuple(layer.weight.shape) for layer in encoder.layers if isinstance(layer, nn.Linear)]
    assert shapes == [(128, 4), (64, 128), (50, 64)]
    assert encoder(torch.randn(2, 3, 4)).shape == (2, 3, 50)
    assert (encoder(torch.randn(100, 4)) < 0).any()  # the embedding itself is not rectified


def test_the_image_encoder_is_kostrikovs() -> None:
    encoder = ImageEncoder((4, 84, 84), 512)
    shapes = [tuple(layer.weight.shape) for layer in encoder.modules() if hasattr(layer, "weight")]
    assert shapes == [(32, 4, 8, 8), (64, 32, 4, 4), (32, 64, 3, 3), (512, 32 * 7 * 7)]
    output = encoder(torch.randint(0, 255, (2, 4, 84, 84), dtype=torch.uint8))
    assert output.shape == (2, 512)
    assert (output >= 0).all()


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_leading_dimensions_are_kept(leading: tuple[int, ...]) -> None:
    encoder = ImageEncoder((1, 36, 44), 5)
    images = torch.rand(*leading, 1, 36, 44)
    together = encoder(images)
    assert together.shape == (*leading, 5)
    alone = torch.stack([encoder(image) for image in images.view(-1, 1, 36, 44)])
    assert torch.allclose(together.view(-1, 5), alone, atol=1e-6)


def test_bytes_are_scaled_and_floats_are_not() -> None:
    encoder = ImageEncoder((1, 36, 36), 5)
    image = torch.randint(0, 255, (2, 1, 36, 36), dtype=torch.uint8)
    assert torch.allclose(encoder(image), encoder(image.float() / 255), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 35, 84), (1, 84, 35), (3, 7, 7)])
def test_small_images_are_refused_with_advice(shape: tuple[int, ...]) -> None:
    with pytest.raises(XLVINError, match="at least 36 x 36"):
        ImageEncoder(shape)


def test_images_need_three_dimensions() -> None:
    with pytest.raises(XLVINError, match="channels, height, width"):
        ImageEncoder((84, 84))


def test_an_empty_layer_is_refused() -> None:
    with pytest.raises(XLVINError, match="empty layer"):
        MLPEncoder(0, 64, 50)
