"""Operations that `wrap_py` makes of local functions cannot be pickled, even by cloudpickle."""

import cloudpickle
import numpy as np
import pytensor
import pytensor.tensor as pt


def build():
    """Return a local function and a graph with the operation made of it."""

    def shifted(x):
        return np.asarray(x + 1.0)

    x = pt.dscalar("x")
    return shifted, pytensor.wrap_py([pt.dscalar], [pt.dscalar])(shifted)(x)


shifted, y = build()
print("PyTensor", pytensor.__version__)
for name, thing in {"the function": shifted, "the graph with it": y}.items():
    try:
        cloudpickle.loads(cloudpickle.dumps(thing))
        print(f"{name}: pickled")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
