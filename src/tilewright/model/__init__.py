"""What is done to every model, whatever the machine: simplified, captured, sampled, observed.

`tw.model` is also the decorator of the model language; once this package is imported it takes that
name in `tilewright`, so calling the package is calling the decorator.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from tilewright.frontend.model_language import model

        return model(*arguments, **options)


sys.modules[__name__].__class__ = _Room
