"""The program behaves the same under the profiler."""

from __future__ import annotations

import sys
import textwrap

import pytest
from marey import _torch_operators
from programs import run_command, run_program
from torch_programs import GPT, PRELUDE, Shape, net_scopes, profile, profile_script

torch = pytest.importorskip("torch")

MINOR = _torch_operators.minor_of(torch.__version__) or (0, 0)


def test_models_are_not_modified() -> None:
    outcome = profile(
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


def test_models_are_not_kept_alive() -> None:
    profile(
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
def test_an_exception_in_forward_closes_its_scopes(error: str) -> None:
    outcome = profile(
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


def test_tracebacks_have_no_line_of_marey() -> None:
    outcome = profile(
        """
        import os, traceback
        import marey

        folder = os.path.dirname(marey.__file__)

        class Failing(nn.Module):
            def forward(self, x):
                raise ValueError("on purpose")

        for _ in range(2):
            try:
                nn.Sequential(nn.Sequential(Failing()))(x)
            except ValueError as error:
                files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
                print(len(files), any(name.startswith(folder) for name in files))
                assert error.__context__ is None
        """,
    )
    # The line above, and three of each module.
    assert outcome.stdout == "10 False\n" * 2


def test_exceptions_in_backward_and_in_a_closure_close_their_scopes() -> None:
    outcome = profile(
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


def test_compile_has_no_graph_break_and_no_warning() -> None:
    outcome = profile(
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
    calls, inside = outcome.scopes["step"][1]["OptimizedModule"]
    assert calls == 2
    # Before 2.5, compiled code calls the modules of PyTorch as modules.
    assert (inside == {}) == (MINOR >= (2, 5))


@pytest.mark.parametrize("imported", ["before", "after"])
def test_hooks_of_submodules_are_compiled_once_by_either_order(imported: str) -> None:
    # Before 2.5, the compiler knows no `__call__` of a module that is not a Python function.
    call = "__call__" if MINOR >= (2, 5) else "forward"
    outcome = profile(
        f"""
        from marey import torch as hooks

        if {imported!r} == "before":
            hooks.disable()
        import torch._dynamo
        from torch._dynamo.utils import counters

        hooks.enable()
        net.parts[0].register_forward_hook(lambda module, args, output: output * 2)

        class Calling(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = net

            def __call__(self, x):
                return super().__call__(x)

            def forward(self, x):
                return self.inner(x) + self.inner.head.{call}(x)

        model = Calling()
        expected = model(x)
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        function = torch.compile(lambda x: model.inner(x), backend="eager", fullgraph=True)
        for call in (compiled, function):
            for _ in range(3):
                call(x)
        assert torch.equal(compiled(x), expected)
        print(counters["stats"]["unique_graphs"])
        for switch in (hooks.disable, hooks.enable) * 3:
            switch()
            compiled(x), function(x)
        print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]))
        """,
    )
    # Without hooks, the class that calls what it overrides is compiled once more, not by 2.8 yet.
    graphs = {3} if MINOR >= (2, 15) else {2} if MINOR <= (2, 8) else {2, 3}
    assert outcome.stdout in {f"2\n{count} {{}}\n" for count in graphs}


def test_compile_with_breaks_keeps_scopes_in_order() -> None:
    outcome = profile(
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


@pytest.mark.parametrize("memory", [False, True])
def test_functions_of_marey_are_not_compiled_with_the_program(memory: bool) -> None:
    source = """
        import warnings
        from torch._dynamo.utils import counters

        class Breaking(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = Part()

            def forward(self, x):
                x = self.part(x)
                torch._dynamo.graph_break()
                return self.part(x)

        warnings.simplefilter("error")
        torch._dynamo.config.error_on_recompile = True
        compiled = torch.compile(nn.Sequential(Breaking()), backend="eager")
        with torch.no_grad():
            for _ in range(3):
                compiled(x)
        print(sum(counters["graph_break"].values()), dict(counters["frames"]))
        """
    plain = run_program(PRELUDE + textwrap.dedent(source)).stdout
    switch = f"import marey.torch\nmarey.torch.enable(memory={memory})\n"
    outcome = profile(switch + textwrap.dedent(source))
    assert outcome.stdout == plain


def test_a_model_that_native_code_calls_has_its_scope() -> None:
    # No Python frame is around a function that ends the program.
    outcome = profile("import atexit; atexit.register(net, x)")
    assert outcome.stderr.startswith("marey: "), outcome.stderr
    assert "Error" not in outcome.stderr
    assert outcome.scopes["step"][1] == {"Net": (1, net_scopes(1))}


@pytest.mark.skipif(
    not hasattr(torch.nn.modules.module, "_has_any_global_hook"),
    reason="this version does not warn of global hooks",
)
def test_other_global_hooks_still_make_compile_warn() -> None:
    outcome = profile(
        """
        nn.modules.module.register_module_forward_hook(lambda *_: None)
        torch.compile(net, backend="eager")(x)
        """,
    )
    assert "when there are global hooks" in outcome.stderr


def test_tracers_and_exporters_get_the_same_graphs() -> None:
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
    plain = run_program(PRELUDE + textwrap.dedent(source)).stdout
    outcome = profile(source)
    assert outcome.scopes["Net"][0] > 1
    assert without_positions(outcome.stdout) == without_positions(plain)
    assert plain.endswith("True\n")


def without_positions(graphs: str) -> str:
    """Removes the `# file:line` comments that TorchScript appends."""
    return "\n".join(line.partition(" # ")[0] for line in graphs.splitlines())


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_recompute_inside_backward(reentrant: bool) -> None:
    scopes = profile(
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


def test_the_example_trains_the_same_and_calls_46_modules_a_step() -> None:
    args = ("--steps", "3", "--report-every", "1", "--device", "cpu")
    plain = run_command(sys.executable, GPT, *args).stdout.splitlines()
    outcome = profile_script(GPT, *args)
    assert outcome.stdout.splitlines()[:3] == plain[:3]

    def modules(scopes: Shape) -> int:
        return sum(1 + modules(inside) for _, inside in scopes.values())

    calls, inside = outcome.scopes["step"]
    assert calls == 3
    assert inside["GPT"][0] == 3
    assert modules({"GPT": inside["GPT"]}) == 46
    assert inside["AdamW.step"] == (3, {})
