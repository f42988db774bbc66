"""Reads values of a program without running its code.

A value is found by names, attributes and items, and described by numbers and texts. Only types of
CPython, numbers of NumPy and tensors of PyTorch are read, by functions in C: no property, no
`__getattr__`, no `__eq__`, no `__repr__` of the program is called.
"""

from __future__ import annotations

import ast
import collections
import ctypes
import struct
import sys
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

MAX_EXPRESSIONS = 16
_MAX_KEYS = 10_000
_CO_OPTIMIZED = 1

Value = int | float | str

# Attributes of types, which a metaclass cannot hide.
_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
_class_dict: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_module_dict: Callable[[types.ModuleType], dict[str, Any]] = vars(types.ModuleType)[
    "__dict__"
].__get__


class Unreadable(Exception):
    """A value that does not exist, or that only code of the program can read."""


class Expression:
    """A name with attributes and items, such as ``self.scale`` or ``losses[-1]``."""

    def __init__(self, text: str, node: ast.expr) -> None:
        self.text = text
        self._steps: list[tuple[Callable[[Any, Any], Any], str | int]] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                self._steps.append((attribute, node.attr))
                node = node.value
            elif isinstance(node, ast.Subscript):
                self._steps.append((_item, _constant_key(text, node.slice)))
                node = node.value
            else:
                raise ValueError(
                    f"`{text}` is not a name with attributes and constant items: no code is run"
                )
        self._steps.reverse()
        self.name = node.id

    def value(self, frame: types.FrameType) -> Any:
        """Returns the value in a frame.

        Raises:
            Unreadable: There is none, or only code of the program can read it.
        """
        value = _variable(frame, self.name)
        for read, key in self._steps:
            value = read(value, key)
        return value


def parse(text: str) -> list[Expression]:
    """Returns the expressions of a list such as ``loss, self.scale``.

    Raises:
        ValueError: The text is not such a list.
    """
    try:
        body = ast.parse(f"({text.strip()}\n,)", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"`{text}` is not a list of names, such as `loss, lr`") from None
    nodes = body.elts if isinstance(body, ast.Tuple) else []
    if not 0 < len(nodes) <= MAX_EXPRESSIONS:
        raise ValueError(f"a watch has from 1 to {MAX_EXPRESSIONS} variables, not {len(nodes)}")
    return [Expression(ast.unparse(node), node) for node in nodes]


def describe(value: Any, text_length: int) -> tuple[str, Value]:
    """Returns the name of a value's type, and the value as a number or a text.

    Texts have at most `text_length` characters. Of containers the text is their length, of tensors
    and arrays type and shape, of other objects their type.

    Raises:
        Unreadable: The value is a tensor without a shape.
    """
    kind = type(value)
    name = _type_name(kind)
    if kind is str:
        # Lone surrogates have no encoding.
        return name, value[:text_length].encode("utf-8", "replace").decode()
    if kind is float:
        return name, value
    if kind is int:
        if -(2**63) <= value < 2**63:
            return name, value
        return name, f"an integer of {value.bit_length()} bits"
    if value is None or kind is bool or kind is complex or value is Ellipsis:
        return name, repr(value)
    if kind is bytes or kind is bytearray:
        return name, repr(bytes(value[:text_length]))[:text_length]
    if _is_one_of(kind, _CONTAINERS):
        return name, f"{len(value)} items"
    foreign = _describe_foreign(value, kind)
    return name, f"<{name}>"[:text_length] if foreign is None else foreign


def _constant_key(text: str, node: ast.expr) -> str | int:
    try:
        key = ast.literal_eval(node)
    except ValueError:
        key = None
    if type(key) is not int and type(key) is not str:
        raise ValueError(f"`{text}` has an item that is neither a whole number nor a text")
    return key


def _variable(frame: types.FrameType, name: str) -> Any:
    code = frame.f_code
    if not code.co_flags & _CO_OPTIMIZED:
        # The namespace of a module or a class.
        namespace = frame.f_locals
        if type(namespace) is dict:
            for value in _entries(namespace.items(), name):
                return value
    elif name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars:
        try:
            return _local(frame, name)
        except (KeyError, NameError):
            raise Unreadable(f"`{name}` has no value yet") from None
    for value in _entries(frame.f_globals.items(), name):
        return value
    raise Unreadable(f"there is no variable `{name}`")


def _frame_locals(frame: types.FrameType, name: str) -> Any:
    return frame.f_locals[name]


def _local_reader() -> Callable[[types.FrameType, str], Any]:
    if sys.version_info[:2] != (3, 12):
        return _frame_locals
    # Before 3.13 `f_locals` makes a dict, which keeps the values alive as long as the frame.
    get = ctypes.pythonapi.PyFrame_GetVar
    get.restype = ctypes.py_object
    get.argtypes = [ctypes.py_object, ctypes.py_object]
    return get


_local = _local_reader()


def _entries(items: Collection[tuple[Any, Any]], key: str | int) -> Iterator[Any]:
    """Returns the value of a key, if there is one.

    A look-up would call `__eq__` of keys of the program, so the keys are compared one by one.
    """
    if len(items) > _MAX_KEYS:
        raise Unreadable(f"a dict of more than {_MAX_KEYS} items is not searched")
    kind = type(key)
    try:
        for known, value in items:
            if type(known) is kind and known == key:
                yield value
                return
    except RuntimeError:
        raise Unreadable("a dict changed while it was searched") from None


def attribute(value: Any, name: str | int) -> Any:
    """Returns an attribute that a module, a class or an object stores.

    Raises:
        Unreadable: There is none, or only code of the program can read it.
    """
    kind = type(value)
    if kind is types.ModuleType:
        for found in _entries(_module_dict(value).items(), name):
            return found
        raise Unreadable(f"the module has no `{name}`")
    if _is_one_of(type, _bases(kind)):  # a class
        for found in _class_entries(value, name):
            return _without_code(found, value, name)
        raise Unreadable(f"the class has no `{name}`")
    inherited = list(_class_entries(kind, name))
    for found in inherited:
        if type(found) is types.MemberDescriptorType:  # of `__slots__`
            try:
                return found.__get__(value)
            except AttributeError:
                raise Unreadable(f"`{name}` has no value yet") from None
    for found in _entries(_instance_dict(value, kind).items(), name):
        return found
    for found in inherited:
        return _without_code(found, kind, name)
    raise Unreadable(f"{_type_name(kind)} has no `{name}` that is read without code")


def _class_entries(kind: type, name: str | int) -> Iterator[Any]:
    """Returns what the first base of a class that has this name has under it, if one does."""
    for base in _bases(kind):
        for found in _entries(_class_dict(base).items(), name):
            yield found
            return


def _without_code(found: Any, kind: type, name: str | int) -> Any:
    """Returns what a class has under a name, unless it is a descriptor, such as a property."""
    for _ in _class_entries(type(found), "__get__"):
        raise Unreadable(f"`{name}` of {_type_name(kind)} is read by code")
    return found


def _instance_dict(value: Any, kind: type) -> dict[str, Any]:
    for found in _class_entries(kind, "__dict__"):
        if type(found) is types.GetSetDescriptorType:
            namespace = found.__get__(value)
            if type(namespace) is dict:
                return namespace
    return {}


def _item(value: Any, key: str | int) -> Any:
    kind = type(value)
    if kind is list or kind is tuple:
        if isinstance(key, str) or not -len(value) <= key < len(value):
            raise Unreadable(f"{_type_name(kind)} of {len(value)} items has no item {key!r}")
        return value[key]
    if _is_one_of(kind, _DICTS):
        for found in _entries(dict.items(value), key):
            return found
        raise Unreadable(f"{_type_name(kind)} has no key {key!r}")
    raise Unreadable(f"items of {_type_name(kind)} are read by code")


_DICTS: tuple[type, ...] = (dict, collections.OrderedDict, collections.defaultdict)
_CONTAINERS: tuple[type, ...] = (*_DICTS, list, tuple, set, frozenset, range, collections.deque)


def _is_one_of(kind: type, kinds: tuple[type, ...]) -> bool:
    """Whether a type is one of several. `in` would call `__eq__` of a metaclass."""
    return any(kind is known for known in kinds)


def _describe_foreign(value: Any, kind: type) -> Value | None:
    """Returns the value of a tensor of PyTorch, or an array or a number of NumPy."""
    if torch := _loaded("torch"):
        parameter = _loaded("torch.nn.parameter").get("Parameter")
        if kind is torch.get("Tensor") or (parameter is not None and kind is parameter):
            return _describe_tensor(value, torch["_C"])
    if numpy := _loaded("numpy"):
        return _describe_numpy(value, kind, numpy)
    return None


def _loaded(name: str) -> dict[str, Any]:
    """Returns the namespace of a module, which is empty if the module is not loaded."""
    module = sys.modules.get(name)
    return _module_dict(module) if type(module) is types.ModuleType else {}


_FORMATS = {
    "torch.float32": "f",
    "torch.float64": "d",
    "torch.float16": "e",
    "torch.bfloat16": "f",
    "torch.int64": "q",
    "torch.int32": "i",
    "torch.int16": "h",
    "torch.int8": "b",
    "torch.uint8": "B",
}
"""Formats of `struct` by element type."""


def _describe_tensor(tensor: Any, native: Any) -> Value:
    """Returns the number of a tensor without dimensions on the CPU, else type, shape and device."""
    attributes = _class_dict(native.TensorBase)
    # The program may have a mode that sees each use of a tensor.
    with native.DisableTorchFunction():
        dtype = str(attributes["dtype"].__get__(tensor))
        try:
            shape = list(attributes["shape"].__get__(tensor))
        except RuntimeError:  # a nested tensor has one shape for each row
            raise Unreadable("the tensor has no shape") from None
        device = str(attributes["device"].__get__(tensor))
        if not shape and device == "cpu" and dtype in _FORMATS:
            # From memory, because an operator would be recorded and could be observed.
            try:
                address = attributes["data_ptr"].__get__(tensor)()
                is_negated = attributes["is_neg"].__get__(tensor)()
            except RuntimeError:  # a tensor that only wraps another one
                address, is_negated = 0, False
            if address and not is_negated:
                return _number(address, dtype)
    return f"{dtype.removeprefix('torch.')}{shape} {device}"


def _number(address: int, dtype: str) -> Value:
    layout = _FORMATS[dtype]
    if dtype == "torch.bfloat16":  # the upper half of a float32
        upper = ctypes.string_at(address, 2)
        data = b"\0\0" + upper if sys.byteorder == "little" else upper + b"\0\0"
    else:
        data = ctypes.string_at(address, struct.calcsize(layout))
    number: int | float = struct.unpack(layout, data)[0]
    return number


def _describe_numpy(value: Any, kind: type, numpy: dict[str, Any]) -> Value | None:
    if kind is numpy.get("ndarray"):
        attributes = _class_dict(kind)
        dtype = attributes["dtype"].__get__(value)
        element = _class_dict(numpy["dtype"])["str"].__get__(dtype)
        return f"{element}{list(attributes['shape'].__get__(value))}"
    name = _type_name(kind)
    if name.startswith(("int", "uint", "float", "bool")) and kind is numpy.get(name):
        item = _class_dict(numpy["generic"])["item"].__get__(value)()
        if type(item) is bool:
            return repr(item)
        if type(item) is int or type(item) is float:  # not a longdouble, which is its own item
            return describe(item, 0)[1]
    return None
