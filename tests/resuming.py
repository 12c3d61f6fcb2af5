"""A check that several kinds of training share."""

import torch

from xlvin.training.trainer import Trainer


def assert_goes_on_as(whole: Trainer, stopped: Trainer) -> None:
    """A run that is restored from where another stopped ends with the same bits as one that never did."""
    resumed = Trainer(whole.config)
    resumed.restore(stopped.state())
    while not resumed.finished:
        resumed.train_round()
    ours, theirs = resumed.state(), whole.state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
