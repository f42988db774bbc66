"""PyTorch programs under `marey run`: small live programs, and the tree that they leave."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from marey import torch as hooks  # noqa: E402

GPT = Path(__file__).parents[1] / "examples" / "train_gpt.py"

# Opens every program: a net of two named parts, one of them nested, and a training step.
PRELUDE = """
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.inner(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([Part(), Part()])
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.head(x)

def train(net, optimizer, x):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()

torch.manual_seed(0)
net, x = Net(), torch.ones(2, 4)
"""

Shape = dict[str, tuple[int, "Shape"]]


class Outcome(NamedTuple):
    """What a program printed, and its scopes: name to number of calls and scopes inside."""

    stdout: str
    stderr: str
    scopes: Shape


def profile(tmp_path: Path, source: str, *args: str) -> Outcome:
    """Runs `PRELUDE` and the source under `marey run`, which must succeed."""
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + textwrap.dedent(source))
    return profile_script(tmp_path, script, *args)


def profile_script(tmp_path: Path, script: Path, *args: str) -> Outcome:
    path = tmp_path / "out.hatchet"
    command = ["-m", "marey", "run", "-o", str(path), str(script), *args]
    done = python(*command)
    assert done.returncode == 0, done.stderr
    return Outcome(done.stdout, done.stderr, shape(json.loads(path.read_text())[0]))


def python(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def run_plain(source: str) -> str:
    """Runs a source without a profiler, which must succeed; returns what it printed."""
    done = python("-c", textwrap.dedent(source))
    assert done.returncode == 0, done.stderr
    return done.stdout


def shape(node: dict[str, Any]) -> Shape:
    children = {
        child["frame"]["name"]: (child["metrics"].get("wall_count", 0), shape(child))
        for child in node["children"]
    }
    assert len(children) == len(node["children"]), "two scopes of one name and kind under one node"
    return children


def net_scopes(calls: int, *, prefix: str = "") -> Shape:
    """What `calls` calls of a `Net` leave inside of its own scope."""
    parts: Shape = {
        f"{prefix}parts.{index}": (calls, {f"{prefix}parts.{index}.inner": (calls, {})})
        for index in range(2)
    }
    return {**parts, f"{prefix}head": (calls, {})}


# What a training loop leaves


def test_modules_backward_and_optimizer_nest_in_the_step(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(3):
            train(net, optimizer, x)
        """,
    ).scopes
    inside: Shape = {"Net": (3, net_scopes(3)), "backward": (3, {}), "AdamW.step": (3, {})}
    assert scopes == {"step": (3, inside)}


def test_nodes_tell_their_kinds(tmp_path: Path) -> None:
    profile(tmp_path, "train(net, torch.optim.SGD(net.parameters()), x)")
    step = json.loads((tmp_path / "out.hatchet").read_text())[0]["children"][0]
    assert step["marey"]["kind"] == "step"
    assert {child["frame"]["name"]: child["marey"]["kind"] for child in step["children"]} == {
        "Net": "module",
        "backward": "scope",
        "SGD.step": "scope",
    }


def test_evaluation_opens_no_step(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        with torch.no_grad():
            net(x)
        with torch.inference_mode():
            net(x)
        """,
    ).scopes
    assert scopes == {"Net": (2, net_scopes(2))}


def test_two_models_share_a_step_and_each_optimizer_closes_one(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        critic = nn.Sequential(nn.Linear(1, 1))
        optimizer = torch.optim.SGD([*net.parameters(), *critic.parameters()])
        for _ in range(2):
            critic(net(x)).sum().backward()
            optimizer.step()
        """,
    ).scopes
    calls, inside = scopes["step"]
    assert calls == 2
    assert inside["Net"] == (2, net_scopes(2))
    assert inside["Sequential"] == (2, {"0": (2, {})})


def test_backward_is_under_the_scope_that_called_it(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        import marey

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, gradient):
                with marey.scope("in the function"):
                    return 2 * gradient * ctx.saved_tensors[0]

        weight = torch.ones(2, requires_grad=True)
        net(x).sum().backward()
        with marey.scope("caller"):
            Square.apply(weight).sum().backward()
        print(weight.grad.tolist())
        """,
    )
    assert scopes.stdout == "[2.0, 2.0]\n"
    assert scopes.scopes == {
        "step": (
            0,
            {
                "Net": (1, net_scopes(1)),
                "backward": (1, {}),
                "caller": (1, {"backward": (1, {"in the function": (1, {})})}),
            },
        )
    }


def test_closures_run_inside_the_optimizer_step(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)

        def closure():
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        """,
    ).scopes
    inside: Shape = {"Net": (2, net_scopes(2)), "backward": (2, {})}
    assert scopes == {"step": (2, {"LBFGS.step": (2, inside)})}


def test_a_step_that_grad_scaler_skips_stays_open(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        optimizer = torch.optim.SGD(net.parameters())
        scaler = torch.amp.GradScaler("cpu")
        for factor in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(net(x).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
    ).scopes
    calls, inside = scopes["step"]
    assert calls == 2
    assert inside["backward"] == (3, {})
    assert inside["SGD.step"] == (2, {})


def test_optimizers_that_run_in_backward_make_one_step(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        for parameter in net.parameters():
            optimizer = torch.optim.SGD([parameter])
            parameter.register_post_accumulate_grad_hook(lambda _, step=optimizer.step: step())
        for _ in range(3):
            net(x).sum().backward()
        """,
    ).scopes
    calls, inside = scopes["step"]
    assert calls == 3
    assert inside["backward"] == (3, {"SGD.step": (18, {})})


# Names


def test_a_module_in_two_roots_has_the_name_of_the_root_that_calls(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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


def test_a_module_that_no_name_reaches_goes_by_its_class(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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


def test_a_module_that_is_added_later_gets_its_dotted_name(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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


def test_a_model_may_call_itself(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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


def test_a_forward_that_is_a_generator_runs_outside_of_its_own_call(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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


def test_threads_that_call_one_model_at_once(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
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
    names = hooks._names_of_root(root)
    assert names == {id(module): name for name, module in root.named_modules() if name}
    assert hooks._names_of_root(root) is names
    assert all(sys.intern(name) is name for name in names.values())


def test_names_are_forgotten_with_their_modules() -> None:
    roots = len(hooks._roots)
    root = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    names = hooks._names_of_root(root)
    del root[1]
    gc.collect()
    assert names == {id(root[0]): "0"}
    assert len(hooks._roots) == roots + 1
    del root
    gc.collect()
    assert len(hooks._roots) == roots


def test_a_model_whose_own_named_modules_fails_goes_by_class_names(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        class Odd(Part):
            def named_modules(self, *args, **kwargs):
                raise RuntimeError("not now")

        with torch.no_grad():
            Odd()(x)
        """,
    ).scopes
    assert scopes == {"Odd": (1, {"Linear": (1, {})})}


# The program cannot tell


def test_models_are_not_modified(tmp_path: Path) -> None:
    outcome = profile(
        tmp_path,
        """
        import copy, pickle

        def content():
            return [{k: repr(v) for k, v in vars(m).items()} for m in net.modules()]

        before = content()
        y = net(x)
        assert content() == before
        for twin in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert torch.equal(twin(x), y)
        assert content() == before
        """,
    )
    assert outcome.scopes["step"][1] == {"Net": (4, net_scopes(4))}


def test_models_are_not_kept_alive(tmp_path: Path) -> None:
    profile(
        tmp_path,
        """
        import gc, weakref

        def interrupt(*_):
            raise KeyboardInterrupt

        train(net, torch.optim.SGD(net.parameters()), x)
        modules = [weakref.ref(module) for module in net.modules()]
        net.head.register_forward_hook(interrupt)
        try:
            net(x)
        except KeyboardInterrupt:
            pass
        del net
        gc.collect()
        assert all(module() is None for module in modules), modules
        """,
    )


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt", "SystemExit"])
def test_an_exception_in_forward_closes_its_scopes(tmp_path: Path, error: str) -> None:
    outcome = profile(
        tmp_path,
        f"""
        class Failing(nn.Module):
            def forward(self, x):
                raise {error}("on purpose")

        whole = nn.Sequential(Part(), nn.Sequential(Failing()))
        with torch.no_grad():
            for model in (whole, whole, net):
                try:
                    model(x)
                except {error} as caught:
                    print(caught)
        """,
    )
    assert outcome.stdout == "on purpose\n" * 2
    whole: Shape = {"0": (2, {"0.inner": (2, {})}), "1": (2, {"1.0": (2, {})})}
    assert outcome.scopes == {"Sequential": (2, whole), "Net": (1, net_scopes(1))}


def test_exceptions_in_backward_and_in_a_closure_close_their_scopes(tmp_path: Path) -> None:
    outcome = profile(
        tmp_path,
        """
        def fail(*_):
            raise ValueError("on purpose")

        optimizer = torch.optim.SGD(net.parameters())
        for _ in range(2):
            y = net(x)
            y.register_hook(fail)
            for act in (lambda: y.sum().backward(), lambda: optimizer.step(fail)):
                try:
                    act()
                except ValueError as error:
                    print(error)
        train(net, optimizer, x)
        """,
    )
    assert outcome.stdout == "on purpose\n" * 4
    inside: Shape = {"Net": (3, net_scopes(3)), "backward": (3, {}), "SGD.step": (3, {})}
    assert outcome.scopes == {"step": (1, inside)}


def test_compile_sees_no_break_and_no_warning(tmp_path: Path) -> None:
    outcome = profile(
        tmp_path,
        """
        import copy, warnings

        warnings.simplefilter("error")
        plain = copy.deepcopy(net)
        expected = plain(x)
        expected.sum().backward()

        compiled = torch.compile(net, backend="eager", fullgraph=True)
        assert torch.equal(compiled(x), expected)
        compiled(x).sum().backward()
        for ours, theirs in zip(net.parameters(), plain.parameters()):
            assert torch.equal(ours.grad, theirs.grad)

        plain.compile(backend="eager", fullgraph=True)
        assert torch.equal(plain(x), expected)
        """,
    )
    assert outcome.scopes["step"][1]["OptimizedModule"] == (2, {})


def test_compile_with_breaks_keeps_scopes_in_order(tmp_path: Path) -> None:
    outcome = profile(
        tmp_path,
        """
        class Breaking(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()
                self.outside = [nn.ReLU()]

            def forward(self, x):
                x = self.part(x)
                torch._dynamo.graph_break()
                return self.outside[0](self.part(x))

        model = nn.Sequential(Breaking(), Breaking())
        compiled = torch.compile(model, backend="eager")
        with torch.no_grad():
            for _ in range(3):
                assert torch.equal(compiled(x), model.forward(x))
            net(x)
        """,
    )
    assert outcome.scopes["OptimizedModule"][0] == 3
    assert outcome.scopes["Net"] == (1, net_scopes(1))


def test_other_global_hooks_still_make_compile_warn(tmp_path: Path) -> None:
    outcome = profile(
        tmp_path,
        """
        nn.modules.module.register_module_forward_hook(lambda *_: None)
        torch.compile(net, backend="eager")(x)
        """,
    )
    assert "when there are global hooks" in outcome.stderr


def test_tracers_and_exporters_get_the_same_graphs(tmp_path: Path) -> None:
    source = """
        import torch.fx

        net.eval()
        with torch.no_grad():
            y = net(x)
            traced = torch.jit.trace(net, x)
            scripted = torch.jit.script(net)
            symbolic = torch.fx.symbolic_trace(net)
            exported = torch.export.export(net, (x,))
            strictly = torch.export.export(net, (x,), strict=True)
            for model in (traced, scripted, symbolic, exported.module(), strictly.module()):
                assert torch.equal(model(x), y)
        print(traced.graph, scripted.graph, symbolic.graph, exported.graph, strictly.graph)

        def script_backward(loss: torch.Tensor):
            torch.autograd.backward([loss])

        print("aten::backward" in str(torch.jit.script(script_backward).graph))
        """
    program = tmp_path / "plain.py"
    program.write_text(PRELUDE + textwrap.dedent(source))
    plain = python(str(program)).stdout
    outcome = profile(tmp_path, source)
    assert outcome.scopes["Net"][0] > 1
    assert without_positions(outcome.stdout) == without_positions(plain)
    assert plain.endswith("True\n")


def without_positions(graphs: str) -> str:
    """Graphs without the `# file:line` that TorchScript appends."""
    return "\n".join(line.partition(" # ")[0] for line in graphs.splitlines())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_recompute_inside_backward(tmp_path: Path, reentrant: bool) -> None:
    scopes = profile(
        tmp_path,
        f"""
        from torch.utils.checkpoint import checkpoint

        x.requires_grad_()
        optimizer = torch.optim.SGD(net.parameters())
        for _ in range(2):
            y = net.head(checkpoint(net.parts[0], x, use_reentrant={reentrant}))
            y.sum().backward()
            optimizer.step()
        """,
    ).scopes
    again: Shape = {"Part": (2, {"inner": (2, {})})}
    if reentrant:
        again["backward"] = (2, {})
    calls, inside = scopes["step"]
    assert calls == 2
    assert inside["backward"] == (2, again)
    assert inside["Linear"] == (2, {})


def test_the_example_trains_the_same_and_calls_46_modules_a_step(tmp_path: Path) -> None:
    args = ("--steps", "3", "--report-every", "1", "--device", "cpu")
    plain = python(str(GPT), *args).stdout.splitlines()
    outcome = profile_script(tmp_path, GPT, *args)
    assert outcome.stdout.splitlines()[:3] == plain[:3]

    def modules(scopes: Shape) -> int:
        return sum(1 + modules(inside) for _, inside in scopes.values())

    calls, inside = outcome.scopes["step"]
    assert calls == 3
    assert inside["GPT"][0] == 3
    assert modules({"GPT": inside["GPT"]}) == 46
    assert inside["AdamW.step"] == (3, {})


# Setting and removing the hooks


def test_enable_leaves_the_import_of_torch_to_the_program() -> None:
    run_plain(
        """
        import importlib.util
        import sys

        from marey import torch as hooks

        hooks.enable()
        assert hooks.is_enabled()
        assert "torch" not in sys.modules
        assert importlib.util.find_spec("torch") is not None
        finders = len(sys.meta_path)

        import torch

        modules = torch.nn.modules.module
        assert list(modules._global_forward_pre_hooks.values()) == [hooks._enter_module]
        assert list(modules._global_forward_hooks.values()) == [hooks._leave_module]
        assert len(sys.meta_path) == finders - 1

        import torch.utils as same_loader

        assert type(torch.__spec__.loader) is type(same_loader.__spec__.loader)
        assert torch.__loader__ is torch.__spec__.loader
        """
    )


def test_a_torch_that_does_not_import_fails_as_it_would() -> None:
    run_plain(
        """
        import sys
        import tempfile
        from pathlib import Path

        from marey import torch as hooks

        hooks.enable()
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "torch.py").write_text("raise ImportError('broken')")
            sys.path.insert(0, directory)
            try:
                import torch
            except ImportError as error:
                assert str(error) == "broken"
            sys.path.remove(directory)
        sys.path_importer_cache.clear()

        import torch

        assert len(torch.nn.modules.module._global_forward_pre_hooks) == 1
        """
    )


@pytest.mark.parametrize("imported", ["before", "after"])
def test_disable_puts_everything_back(imported: str) -> None:
    run_plain(
        f"""
        import sys

        finders = list(sys.meta_path)
        from marey import torch as hooks

        if {imported!r} == "before":
            import torch
            before = torch.autograd.backward
            hooks.enable()
            assert torch.autograd.backward is not before
            held = torch.autograd.backward
            hooks.disable()
            assert torch.autograd.backward is before
            held(torch.ones((), requires_grad=True))
        else:
            hooks.enable()
            hooks.disable()
            assert sys.meta_path == finders
            import torch

        assert not hooks.is_enabled()
        assert not torch.nn.modules.module._has_any_global_hook()
        assert torch.nn.modules.module._has_any_global_hook.__module__ == "torch.nn.modules.module"
        optimizer = sys.modules["torch.optim.optimizer"]
        assert not optimizer._global_optimizer_pre_hooks
        assert not optimizer._global_optimizer_post_hooks
        """
    )


def test_many_threads_may_enable_while_torch_is_imported() -> None:
    run_plain(
        """
        import threading

        from marey import torch as hooks

        everyone = threading.Barrier(8)

        def enable(number):
            everyone.wait()
            if number % 2:
                import torch
            hooks.enable()

        threads = [threading.Thread(target=enable, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        import torch

        assert len(torch.nn.modules.module._global_forward_pre_hooks) == 1
        assert len(torch.nn.modules.module._global_forward_hooks) == 1
        """
    )


def test_disable_in_the_middle_of_a_call_closes_its_scopes(tmp_path: Path) -> None:
    scopes = profile(
        tmp_path,
        """
        from marey import torch as hooks

        class Switch(nn.Module):
            def forward(self, x):
                hooks.disable()
                net(x)
                hooks.enable()
                return net(x)

        with torch.no_grad():
            nn.Sequential(Switch())(x)
            net(x)
        """,
    ).scopes
    assert scopes == {"Sequential": (1, {"0": (1, {})}), "Net": (2, net_scopes(2))}
