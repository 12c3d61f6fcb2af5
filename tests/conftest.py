"""One thread for everything that tests start: their tensors are small, and many threads spin for nothing."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
