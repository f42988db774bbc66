"""Names of modules as scopes."""

from __future__ import annotations

import gc
import sys

import pytest
from torch_programs import Shape, net_scopes, profile

torch = pytest.importorskip("torch")

from marey import _torch_names  # noqa: E402


def test_a_module_in_two_roots_has_the_name_of_the_root_that_calls() -> None:
    scopes = profile(
        """
        shared = Part()
        first = nn.Sequential(shared)
        second = nn.Sequential(nn.Identity(), nn.Sequential(shared))
        with torch.no_grad():
            second(first(second(x)))
            shared(x)
        """,
    ).scopes
    assert scopes == {
        "Sequential": (
            3,
            {
                "0": (3, {"0.inner": (1, {})}),
                "1": (2, {"1.0": (2, {"1.0.inner": (2, {})})}),
            },
        ),
        "Part": (1, {"inner": (1, {})}),
    }


def test_a_module_without_a_name_has_the_name_of_its_class() -> None:
    scopes = profile(
        """
        class Student(nn.Module):
            def __init__(self, teacher):
                super().__init__()
                self.teacher = [teacher]
                self.own = nn.Linear(4, 1)

            def forward(self, x):
                return nn.Softmax(dim=0)(self.own(x) + self.teacher[0](x))

        student = Student(net)
        with torch.no_grad():
            student(x)
            student(x)
        """,
    ).scopes
    inside: Shape = {"own": (2, {}), "Net": (2, net_scopes(2)), "Softmax": (2, {})}
    assert scopes == {"Student": (2, inside)}


def test_a_module_that_is_added_later_gets_its_dotted_name() -> None:
    scopes = profile(
        """
        with torch.no_grad():
            net(x)
            net.parts.insert(0, nn.Sequential(nn.Linear(4, 4)))
            net.parts[1].inner = nn.Sequential(nn.Linear(4, 4))
            net(x)
        """,
    ).scopes
    calls, inside = scopes["Net"]
    assert calls == 2
    linear: Shape = {"parts.1.inner.0": (1, {})}
    assert inside["parts.0"] == (2, {"parts.0.inner": (1, {}), "parts.0.0": (1, {})})
    assert inside["parts.1"] == (2, {"parts.1.inner": (2, linear)})
    assert inside["parts.2"] == (1, {"parts.2.inner": (1, {})})


def test_a_model_may_call_itself() -> None:
    scopes = profile(
        """
        class Tree(nn.Module):
            def __init__(self):
                super().__init__()
                self.leaf = nn.Linear(4, 4)

            def forward(self, x, depth):
                return self(self.leaf(x), depth - 1) if depth else x

        with torch.no_grad():
            Tree()(x, depth=2)
        """,
    ).scopes
    inner: Shape = {"leaf": (1, {}), "Tree": (1, {})}
    assert scopes == {"Tree": (1, {"leaf": (1, {}), "Tree": (1, inner)})}


def test_a_forward_that_is_a_generator_runs_outside_of_its_own_call() -> None:
    scopes = profile(
        """
        class Stream(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()

            def forward(self, xs):
                for x in xs:
                    yield self.part(x)

        with torch.no_grad():
            for y in Stream()([x, x]):
                net(y)
        """,
    ).scopes
    assert scopes == {
        "Stream": (1, {}),
        "Part": (2, {"inner": (2, {})}),
        "Net": (2, net_scopes(2)),
    }


def test_threads_may_call_one_model_at_the_same_time() -> None:
    scopes = profile(
        """
        import threading

        everyone = threading.Barrier(4)

        def call():
            everyone.wait()
            with torch.no_grad():
                for _ in range(50):
                    net(x)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
    ).scopes
    assert scopes == {"Net": (200, net_scopes(200))}


def test_names_are_those_of_named_modules() -> None:
    root = torch.nn.Sequential(
        torch.nn.ModuleDict({"a": torch.nn.Linear(1, 1), "b": torch.nn.ModuleList()}),
        torch.nn.TransformerEncoderLayer(4, 2),
    )
    root.again = root[0]
    names = _torch_names.of_root(root)
    modules = {name: names.find(id(module)) for name, module in root.named_modules() if name}
    assert all(found == name for name, found in modules.items())
    assert names.find(id(root)) is None
    assert _torch_names.of_root(root) is names
    assert all(found is sys.intern(name) for name, found in modules.items())


def test_names_are_forgotten_with_their_modules() -> None:
    gc.collect()  # the models of other tests
    roots = len(_torch_names.roots)
    root = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    names = _torch_names.of_root(root)
    keys = [id(module) for module in root]
    del root[1]
    gc.collect()
    assert [names.find(key) for key in keys] == ["0", None]
    assert len(_torch_names.roots) == roots + 1
    del root
    gc.collect()
    assert len(_torch_names.roots) == roots


def test_a_model_with_failing_named_modules_has_class_names() -> None:
    scopes = profile(
        """
        class Odd(Part):
            def named_modules(self, *args, **kwargs):
                raise RuntimeError("not now")

        with torch.no_grad():
            Odd()(x)
        """,
    ).scopes
    assert scopes == {"Odd": (1, {"Linear": (1, {})})}
