"""How long ``import squeak`` takes beyond ``import sklearn``, each in processes of its own, in turn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from benchmarks.common import save

CODE = """
import time
import sklearn.base, sklearn.gaussian_process.kernels, sklearn.utils.validation
start = time.perf_counter()
{then}
print(time.perf_counter() - start)
"""


def run(rounds: int = 9) -> None:
    seconds = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", CODE.format(then="import squeak")], capture_output=True, text=True, check=True
        )
        seconds.append(float(done.stdout))
    median = float(np.median(seconds))
    print(f"  import squeak after scikit-learn: {median:.3f} s ({min(seconds):.3f} to {max(seconds):.3f})")
    save("start", {"seconds": median, "spread": [min(seconds), max(seconds)]})


if __name__ == "__main__":
    run()
