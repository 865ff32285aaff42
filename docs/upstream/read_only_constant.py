"""A compiled function stops working when another one with the same constant is compiled."""

import pytensor
import pytensor.tensor as pt

zero, x = pt.constant(0.0), pt.vector("x")
draw = pytensor.function([], pt.random.halfnormal(zero[None], [5.0, 3.0]), mode="FAST_COMPILE")

print("PyTensor", pytensor.__version__)
print("before:", draw().shape)
pytensor.function([x], x + zero)
try:
    print("after: ", draw().shape)
except ValueError as error:
    print("after: ", str(error).splitlines()[0])
