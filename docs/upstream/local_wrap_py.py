"""Operations that `wrap_py` makes of local functions cannot be pickled, even by cloudpickle."""

import cloudpickle
import pytensor
import pytensor.tensor as pt

local = (lambda: lambda x: x + 1.0)()
y = pytensor.wrap_py([pt.dscalar], [pt.dscalar])(local)(pt.dscalar())

print("PyTensor", pytensor.__version__)
for name, thing in {"function": local, "graph": y}.items():
    try:
        cloudpickle.dumps(thing)
        print(f"{name}: pickled")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
