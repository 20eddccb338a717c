# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's entry points load, in each process that imports torch or runs torchrun.

Nothing here may fail, since a failure would break `import torch`; and nothing loads the library or
c10dd.torch before somebody uses c10dd://.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def register() -> None:
    """Registers the scheme c10dd:// and, with C10DD_TORCH=env, replaces env://.

    The entry point of group torch.backends (PyTorch 2.5 on).
    """
    try:
        # torch.distributed has a function of this name. Its table is private, but
        # register_rendezvous_handler() refuses a second registration, and one of env://.
        handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
        handlers.setdefault("c10dd", _c10dd_handler)
        chosen = os.environ.get("C10DD_TORCH", "")
        if chosen == "env":
            handlers["env"] = _env_handler
        elif chosen:
            sys.stderr.write(f"c10dd: C10DD_TORCH={chosen} is ignored: set it to env, or unset it\n")
        if sys.modules["torch"].__version__.startswith("2.5."):  # does not know torchrun.handlers
            registry = importlib.import_module("torch.distributed.elastic.rendezvous")
            registry.rendezvous_handler_registry.register("c10dd", _create_torchrun_handler)
    except Exception:  # noqa: S110 -- PyTorch without torch.distributed
        pass


def _c10dd_handler(url: str, **options: Any) -> Any:
    from c10dd.torch import c10dd_handler

    return c10dd_handler(url, **options)


def _env_handler(url: str, **options: Any) -> Any:
    from c10dd.torch import env_handler

    return env_handler(url, **options)


def _create_torchrun_handler(parameters: Any) -> Any:
    from c10dd.torchrun import create_handler

    return create_handler(parameters)


def torchrun_handler() -> Any:
    """Returns the function that makes a RendezvousHandler. The entry point of group torchrun.handlers."""
    return _create_torchrun_handler
