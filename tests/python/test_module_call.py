"""The native replacement of `torch.nn.Module.__call__`, in a class without PyTorch."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
from marey import _native


class Model:
    """A class whose calls are replaced."""

    def __call__(self, argument: object) -> tuple[Any, ...]:
        """Returns the model, the argument."""
        return (self, argument)


PLAIN = vars(Model)["__call__"]


@pytest.fixture(autouse=True)
def plain_calls() -> Any:
    """Puts the method back after a test."""
    yield
    Model.__call__ = PLAIN  # type: ignore[method-assign]


def replace_call(original: Any = PLAIN, **options: Any) -> list[str]:
    """Replaces the method by one that logs; returns the log."""
    log: list[str] = []
    call = _native.wrap_module_call(Model, original)
    options = {
        "enter": lambda _model: log.append("enter"),
        "leave": lambda _model: log.append("leave"),
        "is_compiling": lambda: False,
        **options,
    }
    _native.set_module_call(call, **options)
    Model.__call__ = call  # type: ignore[method-assign]
    return log


class Bound:
    """A wrapper that is bound to the object, as those of monkey-patching libraries are."""

    def __init__(self, function: Callable[..., Any], model: object = None) -> None:
        self.function, self.model = function, model

    def __get__(self, model: object, owner: type | None = None) -> Bound:
        return Bound(self.function, model)

    def __call__(self, *args: object) -> Any:
        return self.function(self.model, *args)


def test_a_method_of_any_kind_gets_what_it_got_before() -> None:
    kinds = (
        PLAIN,
        Bound(PLAIN),
        functools.partialmethod(PLAIN),
        functools.partial(lambda *args: args, "no method"),
    )
    for method in kinds:
        setattr(Model, "__call__", method)  # noqa: B010
        model = Model()
        expected = model(1)
        log = replace_call(method)
        assert model(1) == expected
        assert log == ["enter", "leave"]


def test_the_method_is_copied_reduced_and_changed_as_the_function_is() -> None:
    PLAIN.mark = "set before"
    replace_call()
    call: Any = vars(Model)["__call__"]
    assert copy.copy(call) is copy.deepcopy({"call": call})["call"] is call
    # A pickle has this call of `getattr`.
    function, arguments = call.__reduce_ex__(4)
    assert function(*arguments) is call
    assert call.mark == "set before"
    call.mark = "set later"
    assert PLAIN.mark == "set later"
    del call.mark
    assert not hasattr(PLAIN, "mark")
    assert vars(call) == vars(PLAIN)
    assert (call.__module__, call.__doc__) == (PLAIN.__module__, PLAIN.__doc__)
    assert type(call).__module__ == "marey._native"


def test_a_switch_while_a_compiler_is_asked_for_leaves_the_call_as_it_is() -> None:
    def switch_off() -> bool:
        _native.set_module_call(vars(Model)["__call__"], None)
        return False

    log = replace_call(is_compiling=switch_off)
    model = Model()
    assert model(1) == (model, 1)
    assert log == ["enter", "leave"]
    assert model(2) == (model, 2)
    assert log == ["enter", "leave"]


@pytest.mark.parametrize(
    ("raised", "seen"), [(KeyboardInterrupt, KeyboardInterrupt), (OSError, ValueError)]
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_at_the_end_does_not_hide_that_of_the_call_unless_it_ends_the_program(
    raised: type[BaseException], seen: type[BaseException]
) -> None:
    def fail(self: object) -> None:
        raise ValueError("of the call")

    def leave(_model: object) -> None:
        raise raised("at the end")

    replace_call(fail, leave=leave)
    with pytest.raises(seen) as caught:
        Model()()  # type: ignore[call-arg]
    if seen is raised:
        assert isinstance(caught.value.__context__, ValueError)


def test_the_callback_of_the_compiler_is_off_in_functions_of_marey_alone() -> None:
    callbacks: list[object] = ["of the program"]
    seen: list[object] = []

    def set_callback(callback: object) -> object:
        callbacks.append(callback)
        return callbacks[-2]

    def original(_self: object, argument: object) -> object:
        seen.append(callbacks[-1])
        return argument

    def act(_model: object) -> None:
        seen.append(callbacks[-1])

    replace_call(original, enter=act, leave=act, set_frame_callback=set_callback)
    assert Model()(1) == 1  # type: ignore[comparison-overlap]
    assert seen == [None, "of the program", None]
    assert callbacks[-1] == "of the program"


def test_another_object_is_no_replacement() -> None:
    with pytest.raises(TypeError, match="wrap_module_call"):
        _native.set_module_call(PLAIN, None)
