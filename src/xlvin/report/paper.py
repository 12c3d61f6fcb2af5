"""The tables and figures of the paper, what each says, and the experiment that answers to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exhibit:
    """A table or figure with results."""

    experiment: str  # the name of ours
    title: str
    place: str | None  # where in the paper; None: the experiment is not in it
    says: str  # what the paper reports, or what the experiment adds


EXHIBITS = (
    Exhibit(
        "table1",
        "Control from a handful of trajectories",
        "Table 1",
        "XLVIN solves CartPole from 10 trajectories (199.2 ± 1.6 against 104.6 ± 48.5 for PPO), gets off "
        "the ground on Acrobot and MountainCar where PPO and ATreeC stay at the lowest score, and leads on "
        "LunarLander.",
    ),
    Exhibit(
        "table2",
        "CartPole beside earlier methods",
        "Table 2, appendix D",
        "From 10 trajectories XLVIN-R scores 199.2 ± 1.6; from 100, REINFORCE scores 23.84, WM-AE 114.47, "
        "LD-AE 154.73, DMDP-H 72.81 and PRAE 171.53.",
    ),
    Exhibit(
        "atari",
        "Atari in the first million transitions",
        "Figure 2",
        "On Freeway, Alien, Enduro and H.E.R.O. XLVIN's clipped reward stays ahead of PPO's for most of the "
        "first million transitions, and ATreeC trails XLVIN during the first half.",
    ),
    Exhibit(
        "embedding-geometry",
        "The geometry of the embeddings",
        "Figure 3",
        "TransE alone lays a maze out as a grid; the agent reorganises it until states lie in order of "
        "their distance to the goal.",
    ),
    Exhibit(
        "value-predictability",
        "How well V* can be read from the embeddings",
        "Figure 4",
        "Linear regression of V* explains R² ≈ 0.85 from the encoder's embeddings and ≈ 1 from the "
        "executor's.",
    ),
    Exhibit(
        "bottleneck",
        "Algorithmic bottleneck",
        "Figure 5",
        "With growing noise, value iteration on noisy scalars loses accuracy faster than the executor on "
        "noisy embeddings.",
    ),
    Exhibit(
        "continual-maze",
        "Continual mazes",
        "Figure 9, appendix F",
        "Level by level on 8 x 8 and 16 x 16 mazes, XLVIN is competitive with VIN, GVIN and GPPN, which "
        "know the grid.",
    ),
    Exhibit(
        "pixel-model",
        "A world model of pixels",
        "Figure 10, appendix G",
        "A model trained to reconstruct frames ignores the foreground, and its representations do not help.",
    ),
    Exhibit(
        "executor",
        "The executor by itself",
        None,
        "How exactly the executor imitates value iteration, on MDPs unlike those it was trained on.",
    ),
    Exhibit(
        "planning-bed",
        "Does the executor plan?",
        None,
        "Tabular MDPs seen through random observations, few states labelled: what a pretrained executor "
        "adds.",
    ),
    Exhibit(
        "depth-width",
        "Depth and width of the tree",
        None,
        "What K = 1 to 10 and 2 to 18 actions cost and earn, on full trees and along a beam.",
    ),
    Exhibit(
        "speed",
        "Speed",
        None,
        "Ratios of time against plain versions of the same thing; the rounds of a comparison are its seeds.",
    ),
    Exhibit(
        "imagination",
        "Learning from imagined steps",
        None,
        "What the latent model is worth as a source of training data.",
    ),
    Exhibit(
        "stochastic",
        "Worlds that roll dice",
        None,
        "What section 3.1's remedy is worth: a tree with several outcomes for every action.",
    ),
    Exhibit(
        "continuous",
        "Continuous actions",
        None,
        "Actions cut into bins, with and without imagination, against a Gaussian policy.",
    ),
    Exhibit(
        "imitation",
        "Maze planners by imitation",
        None,
        "VIN, GVIN, GPPN and others on shortest paths, beside their published scores.",
    ),
)
