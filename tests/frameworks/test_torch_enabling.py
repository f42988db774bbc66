"""Installing and removing the PyTorch hooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch_programs import (
    net_scopes,
    profile,
    run_plain,
)

torch = pytest.importorskip("torch")


def test_enable_does_not_import_torch() -> None:
    run_plain(
        """
        import importlib.util
        import sys

        from marey import _torch_scopes
        from marey import torch as hooks

        hooks.enable()
        assert hooks.is_enabled()
        assert "torch" not in sys.modules
        assert importlib.util.find_spec("torch") is not None
        finders = len(sys.meta_path)

        import torch

        modules = torch.nn.modules.module
        assert list(modules._global_forward_pre_hooks.values()) == [_torch_scopes.enter_module]
        assert list(modules._global_forward_hooks.values()) == [_torch_scopes.leave_module]
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

        assert len(torch.nn.modules.module._global_forward_pre_hooks) == 1
        """
    )


@pytest.mark.parametrize("imported", ["before", "after"])
def test_disable_removes_all_hooks(imported: str) -> None:
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


def test_disable_during_a_call_closes_its_scopes(tmp_path: Path) -> None:
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
