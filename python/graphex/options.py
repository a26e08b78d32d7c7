"""Every option of the backend: name, type, default, meaning, environment twin. An unknown name is an error.

An option is ours, or has the name of one of npugraph_ex's and then a state: "same" (does the same thing), "satisfied"
(accepted; what it asks for is always so here) or "refused" (accepted only at its harmless value; the reason is given).
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from .native import core

log = logging.getLogger("graphex")


class OptionError(ValueError):
    """A wrong option: unknown, of the wrong type, or refused."""


@dataclass(frozen=True)
class Option:
    """One row of the table."""

    name: str
    kinds: tuple[type, ...]
    default: Any
    doc: str
    choices: tuple[Any, ...] = ()
    limits: tuple[int, int] | None = None  # least and most
    core: bool = False  # handed on to the native module
    state: str = ""  # of npugraph_ex's names: same, satisfied, refused

    @property
    def env(self) -> str:
        """The environment variable that sets the default, or "" if the option has none."""
        return (
            f"GRAPHEX_{self.name.upper()}"
            if self.kinds[0] in (bool, int, str, list) and self.state in ("", "same")
            else ""
        )


def _ours(name: str, kinds: Any, default: Any, doc: str, **more: Any) -> Option:
    return Option(name, kinds if isinstance(kinds, tuple) else (kinds,), default, doc, **more)


def _named(state: str, name: str, kinds: Any, default: Any, doc: str, **more: Any) -> Option:
    return Option(name, kinds if isinstance(kinds, tuple) else (kinds,), default, doc, state=state, **more)


_NONE = type(None)
_MOST_THREADS = 1024
OPTIONS: tuple[Option, ...] = (
    _ours(
        "fallback",
        str,
        "eager",
        "what runs a node without native code: eager PyTorch, or an error",
        choices=("eager", "error"),
    ),
    _ours(
        "emulate_precision_casts", bool, False, "keep the rounding between fused operators of f16 and bf16", core=True
    ),
    _ours("profile", bool, False, "time each kernel; graphex.explain then shows time and bandwidth", core=True),
    _ours("threads", int, 0, "threads of a replay; 0 is torch.get_num_threads()", limits=(0, _MOST_THREADS), core=True),
    _ours(
        "huge_pages",
        bool,
        True,
        "the first call moves its large inputs, weights above all, into huge pages where they lie",
        core=True,
    ),
    _ours(
        "isa",
        str,
        "native",
        "highest instruction set to use",
        choices=("generic", "avx2", "avx512", "avx512bf16", "native"),
        core=True,
    ),
    _ours("cache_dir", str, "", 'folder of compiled kernels; "" is the default one, "off" is none', core=True),
    _ours(
        "disable_passes",
        (list, tuple),
        (),
        "passes to leave out, fuse_loops (a loop for each operator), or all; with commas in the environment",
        core=True,
    ),
    _ours("dump_dir", str, "", 'folder that gets the graph before and after each pass; "" is none', core=True),
    # npugraph_ex's
    _named(
        "same",
        "force_eager",
        bool,
        False,
        "run the captured ATen graph by eager PyTorch, to tell our faults from the model's",
    ),
    _named(
        "satisfied", "frozen_parameter", bool, False, "weights are read in place at full speed without such a promise"
    ),
    _named(
        "same",
        "post_grad_custom_pre_pass",
        (_NONE, Callable),
        None,
        "f(gm, example_inputs, options) before the lowering",
    ),
    _named(
        "same",
        "post_grad_custom_post_pass",
        (_NONE, Callable),
        None,
        "f(gm, example_inputs, options) after the pre pass",
    ),
    _named(
        "satisfied",
        "force_recapture",
        bool,
        False,
        "inputs are slots: nothing that a capture could hold on to goes stale",
    ),
    _named("satisfied", "use_graph_pool", object, None, "memory is planned per graph and shared between its sizes"),
    _named("satisfied", "reuse_graph_pool_in_same_fx", bool, True, "all sizes of a graph share one arena"),
    _named("satisfied", "clone_input", bool, True, "inputs are read where they are; none is copied or written into"),
    _named("satisfied", "clone_output", bool, False, "outputs are fresh on each call"),
    _named("satisfied", "capture_limit", int, 64, "sizes are slots: a new size is no new capture"),
    _named("satisfied", "static_kernel_compile", bool, False, "kernels are always compiled for the graph"),
    _named("satisfied", "remove_noop_ops", bool, True, "operators without effect are removed"),
    _named("satisfied", "remove_cat_ops", bool, True, "the storage plan writes parts of a cat in place where it can"),
    _named("satisfied", "inplace_pass", bool, True, "the storage plan reuses dead operands"),
    _named("satisfied", "input_inplace_pass", bool, True, "the storage plan writes mutated inputs in place"),
    _named("satisfied", "pattern_fusion_pass", bool, True, "fusion is by rule, not by a list of patterns"),
    _named("satisfied", "capture_error_mode", str, "global", "a capture runs nothing, so nothing can spoil it"),
    _named("refused", "disable_static_kernel_compile_cache", bool, False, 'use cache_dir="off"'),
    _named("refused", "dump_tensor_data", bool, False, "not offered yet"),
    _named("refused", "data_dump_stage", str, "optimized", "not offered yet"),
    _named("refused", "data_dump_dir", str, "./", "not offered yet"),
    _named("refused", "super_kernel_optimize", bool, False, "a replay is one dispatch already"),
    _named("refused", "super_kernel_optimize_options", (_NONE, dict), None, "a replay is one dispatch already"),
    _named("refused", "deadlock_check", bool, False, "streams are not offered yet"),
)
BY_NAME: dict[str, Option] = {option.name: option for option in OPTIONS}
_MODES = (None, "default", "reduce-overhead", "max-autotune", "npugraph_ex")


def resolve(options: Mapping[str, Any] | None = None, mode: str | None = None) -> dict[str, Any]:
    """Checks the user's options and fills in the environment's and the default values."""
    if mode not in _MODES:
        raise OptionError(
            f"graphex has no mode {mode!r}; known are {', '.join(repr(m) for m in _MODES if m)}, all of one meaning"
        )
    _warn_of_unknown_variables()
    values = {option.name: _from_environment(option) for option in OPTIONS}
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(f"graphex takes options as a dict of names and values, not {options!r}")
    for name, value in (options or {}).items():
        option = BY_NAME.get(name)
        if option is None:
            raise OptionError(_unknown(name))
        values[name] = _checked(option, value, f"option {name!r}")
    return values


def core_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """The part that the native module takes, in plain types; OptionError for what this machine can't do."""
    chosen = {o.name: list(values[o.name]) if list in o.kinds else values[o.name] for o in OPTIONS if o.core}
    for folder in ("cache_dir", "dump_dir"):
        chosen[folder] = os.path.expanduser(str(chosen[folder]))
    try:
        core().check_options(chosen)
    except (ValueError, NotImplementedError, OSError) as why:
        raise OptionError(f"graphex options: {why}") from None
    return chosen


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(str(name), BY_NAME, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"graphex has no option {name!r}{hint}; known are {', '.join(sorted(BY_NAME))}"


def _checked(option: Option, value: Any, what: str) -> Any:
    kinds = option.kinds
    right = any(callable(value) if kind is Callable else isinstance(value, kind) for kind in kinds)
    if not right or (isinstance(value, bool) and bool not in kinds and object not in kinds):
        names = " or ".join("callable" if k is Callable else "None" if k is _NONE else k.__name__ for k in kinds)
        raise OptionError(f"graphex {what} takes {names}, not {value!r}")
    if option.choices and value not in option.choices:
        raise OptionError(f"graphex {what} takes {', '.join(map(repr, option.choices))}, not {value!r}")
    if option.limits and not option.limits[0] <= value <= option.limits[1]:
        raise OptionError(f"graphex {what} takes {option.limits[0]} to {option.limits[1]}, not {value!r}")
    if option.state == "refused" and value != option.default:
        raise OptionError(f"graphex {what} can only be {option.default!r}: {option.doc}")
    if list in kinds and not all(isinstance(item, str) for item in value):
        raise OptionError(f"graphex {what} takes a list of names, not {value!r}")
    return value


@cache
def _warn_of_unknown_variables() -> None:
    """Once in a process: a misspelt variable would be ignored in silence."""
    known = [option.env for option in OPTIONS if option.env]
    for name in sorted(os.environ):
        if name.startswith("GRAPHEX_") and not name.startswith("GRAPHEX_TEST_") and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            log.warning("environment variable %s sets no option; %sknown are %s", name, hint, ", ".join(known))


def _from_environment(option: Option) -> Any:
    text = os.environ.get(option.env) if option.env else None
    if not text:
        return option.default
    kind = option.kinds[0]
    if kind is bool:
        if text.lower() not in ("0", "1", "true", "false"):
            raise OptionError(f"{option.env} is 0, 1, true or false, not {text!r}")
        return text.lower() in ("1", "true")
    if kind is int:
        try:
            value: Any = int(text)
        except ValueError:
            raise OptionError(f"{option.env} is an integer, not {text!r}") from None
    else:
        value = [name.strip() for name in text.split(",")] if kind is list else text
    return _checked(option, value, f"environment variable {option.env}")
