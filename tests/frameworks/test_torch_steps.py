"""The context tree of a training loop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch_programs import Shape, net_scopes, profile

torch = pytest.importorskip("torch")


def test_modules_backward_and_optimizer_nest_in_the_step() -> None:
    scopes = profile(
        """
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(3):
            train(net, optimizer, x)
        """,
    ).scopes
    inside: Shape = {"Net": (3, net_scopes(3)), "backward": (3, {}), "AdamW.step": (3, {})}
    assert scopes == {"step": (3, inside)}


def test_nodes_have_their_kinds() -> None:
    profile("train(net, torch.optim.SGD(net.parameters()), x)")
    step = json.loads(Path("out.hatchet").read_text())[0]["children"][0]
    assert step["marey"]["kind"] == "step"
    assert {child["frame"]["name"]: child["marey"]["kind"] for child in step["children"]} == {
        "Net": "module",
        "backward": "scope",
        "SGD.step": "scope",
    }


def test_evaluation_opens_no_step() -> None:
    scopes = profile(
        """
        with torch.no_grad():
            net(x)
        with torch.inference_mode():
            net(x)
        """,
    ).scopes
    assert scopes == {"Net": (2, net_scopes(2))}


def test_two_models_share_a_step_and_each_optimizer_closes_one() -> None:
    scopes = profile(
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


def test_backward_is_under_the_scope_that_called_it() -> None:
    scopes = profile(
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


def test_closures_run_inside_the_optimizer_step() -> None:
    scopes = profile(
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


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="PyTorch 2.3 and later have it")
def test_a_step_that_grad_scaler_skips_stays_open() -> None:
    scopes = profile(
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


def test_optimizers_that_run_in_backward_make_one_step() -> None:
    scopes = profile(
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
