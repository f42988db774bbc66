"""Installing and removing the PyTorch hooks."""

from __future__ import annotations

import pytest
from torch_programs import net_scopes, profile, run_plain

torch = pytest.importorskip("torch")


def test_enable_does_not_import_torch() -> None:
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

        assert type(torch.nn.Module.__call__).__name__ == "ModuleCall"
        assert len(sys.meta_path) == finders - 1

        import torch.utils as same_loader

        assert type(torch.__spec__.loader) is type(same_loader.__spec__.loader)
        assert torch.__loader__ is torch.__spec__.loader
        """
    )


def test_an_import_error_of_torch_is_unchanged() -> None:
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

        assert type(torch.nn.Module.__call__).__name__ == "ModuleCall"
        """
    )


@pytest.mark.parametrize("imported", ["before", "after"])
def test_disable_removes_all_hooks(imported: str) -> None:
    run_plain(
        f"""
        import sys

        def global_hooks():
            modules = vars(torch.nn.modules.module)
            return [name for name in modules if name.startswith("_global_") and modules[name]]

        finders = list(sys.meta_path)
        from marey import torch as hooks

        if {imported!r} == "before":
            import torch
            before = torch.autograd.backward, torch.nn.Module.__call__
            hooks.enable()
            held = torch.autograd.backward, torch.nn.Module.__call__
            assert all(ours is not original for ours, original in zip(held, before))
            assert not global_hooks()
            hooks.disable()
            assert torch.autograd.backward is before[0]
            assert torch.nn.Module.__call__ is before[1]
            held[0](torch.ones((), requires_grad=True))
            assert held[1](torch.nn.Identity(), 5) == 5
        else:
            hooks.enable()
            hooks.disable()
            assert sys.meta_path == finders
            import torch

        assert not hooks.is_enabled()
        assert not global_hooks()
        has_any = getattr(torch.nn.modules.module, "_has_any_global_hook", None)
        assert has_any is None or has_any.__module__ == "torch.nn.modules.module"
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

        called = torch.nn.Module.__call__
        assert type(called).__name__ == "ModuleCall"
        assert called.__wrapped__ is torch.nn.Module._wrapped_call_impl
        """
    )


def test_disable_during_a_call_closes_its_scopes() -> None:
    scopes = profile(
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


def test_others_may_replace_the_call_of_modules_before_and_after() -> None:
    outcome = profile(
        """
        from marey import torch as hooks

        def replace(word):
            original = nn.Module.__call__
            def call(self, *args, **kwargs):
                words.append(word)
                return original(self, *args, **kwargs)
            nn.Module.__call__ = call
            return original

        words, plain = [], nn.Module._wrapped_call_impl
        ours = replace("after")
        layer = nn.Linear(4, 4)
        with torch.no_grad():
            layer(x)
            hooks.disable()
            layer(x)  # by ours, which is inert
            hooks.enable()
            layer(x)
            nn.Module.__call__ = ours
            layer(x)
            hooks.disable()
            assert nn.Module.__call__ is plain
            replace("before")
            hooks.enable()
            layer(x)
            hooks.disable()
            assert nn.Module.__call__.__name__ == "call"
        print(*words)
        """,
    )
    assert outcome.stdout == "after after after before\n"
    assert outcome.scopes == {"Linear": (4, {})}


def test_modules_are_recorded_after_a_tool_has_put_their_method_back() -> None:
    outcome = profile(
        """
        from marey import torch as hooks

        hooks.disable()
        plain = nn.Module.__call__
        nn.Module.__call__ = lambda *args: plain(*args)
        hooks.enable()
        nn.Module.__call__ = plain
        hooks.disable()
        hooks.enable()
        net(x)
        """,
    )
    assert outcome.scopes["step"][1] == {"Net": (1, net_scopes(1))}


def test_the_method_of_modules_is_put_back_a_limited_number_of_times() -> None:
    outcome = profile(
        """
        from marey import torch as hooks

        plain = nn.Module._wrapped_call_impl
        layer, removals = nn.Linear(4, 4), 0
        with torch.no_grad():
            for _ in range(300):
                hooks.disable()
                removals += vars(nn.Module)["__call__"] is plain
                layer(x)
                hooks.enable()
            layer(x)
        print(removals)
        """,
    )
    assert outcome.stdout == "250\n"
    assert outcome.scopes == {"Linear": (1, {})}


def test_modules_are_recorded_however_they_are_called() -> None:
    scopes = profile(
        """
        class Calling(nn.Linear):
            def __call__(self, x):
                return super().__call__(x)

        with torch.no_grad():
            layer = Calling(4, 4)
            layer(x)
            layer.__call__(x)
            nn.Module.__call__(layer, x)
            nn.Module.__call__(layer, input=x)
        assert nn.Module.__call__.__code__ is nn.Module._wrapped_call_impl.__code__
        try:
            nn.Module.__call__()
        except TypeError as error:
            assert "self" in str(error)
        """,
    ).scopes
    assert scopes == {"Calling": (4, {})}
