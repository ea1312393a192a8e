"""CEL, the expression language of Kubernetes' validation rules, compiled to Python closures.

The maintained native engine converts the whole object on every evaluation (50-130 µs a rule); closures read the
object where it lies, about a microsecond a rule, and rules run on every write of a custom resource. The native engine
stays as the oracle of the tests.
"""

from corral.core.cel.compiler import Program, compile_expression
from corral.core.cel.values import CelError

__all__ = ["CelError", "Program", "compile_expression"]
