"""What a launch hook is, and which ones are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from marey.triton import contract


class Hook(ABC):
    """Is called around kernel launches while a session that asked for it is active.

    Hooks with a higher `priority` are entered earlier and left later.
    """

    priority: int = 0

    def init_handle(  # noqa: B027 - to be overridden or not
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel was loaded."""

    def destroy_handle(  # noqa: B027 - to be overridden or not
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """A kernel was unloaded. Triton 3.6 does not tell."""

    @abstractmethod
    def enter(self, metadata: Any) -> None:
        """A kernel is about to be launched; `metadata` is Triton's lazy dict."""

    @abstractmethod
    def exit(self, metadata: Any) -> None:
        """The kernel was launched. Not called if the launch failed."""

    @abstractmethod
    def activate(self) -> None:
        """The first session that asked for the hook became active."""

    @abstractmethod
    def deactivate(self) -> None:
        """No session that asked for the hook is active any more."""

    def settle(self) -> None:  # noqa: B027 - to be overridden or not
        """What was recorded is about to be read or to end. This may wait for the GPU."""


class HookManager:
    """Which sessions want which hooks, and so which hooks Triton calls."""

    active_hooks: ClassVar[list[Hook]] = []
    """The hooks that are called, highest priority first."""

    _wanted: ClassVar[dict[int, dict[Hook, bool]]] = {}

    @classmethod
    def register(cls, hook: Hook, session: int) -> None:
        """Has `hook` called while `session` is active, which it is.

        Raises:
            ImportError: The hook needs Triton, which is not installed.
        """
        cls._wanted.setdefault(session, {})[hook] = True
        try:
            cls._update()
        except BaseException:
            del cls._wanted[session][hook]
            raise

    @classmethod
    def activate(cls, session: int | None = None) -> None:
        """The session (`None`: every one) records again."""
        cls._set(session, True)

    @classmethod
    def deactivate(cls, session: int | None = None) -> None:
        """The session (`None`: every one) records no more."""
        cls._set(session, False)

    @classmethod
    def unregister(cls, session: int | None = None) -> None:
        """The session (`None`: every one) is over."""
        if session is None:
            cls._wanted.clear()
        else:
            cls._wanted.pop(session, None)
        cls._update()

    @classmethod
    def drop(cls, hook: Hook) -> None:
        """No session wants the hook any more."""
        for hooks in cls._wanted.values():
            hooks.pop(hook, None)
        cls._update()

    @classmethod
    def registered(cls) -> set[Hook]:
        """The hooks of all sessions, active or not."""
        return {hook for hooks in cls._wanted.values() for hook in hooks}

    @classmethod
    def settle(cls) -> None:
        """Has all hooks add what they still wait for."""
        for hook in cls.registered():
            hook.settle()

    @classmethod
    def _set(cls, session: int | None, active: bool) -> None:
        for number, hooks in cls._wanted.items():
            if session is None or session == number:
                hooks.update(dict.fromkeys(hooks, active))
        cls._update()

    @classmethod
    def _update(cls) -> None:
        """Makes the active hooks those that an active session wants."""
        wanted = {
            hook for hooks in cls._wanted.values() for hook, active in hooks.items() if active
        }
        for hook in [hook for hook in cls.active_hooks if hook not in wanted]:
            cls._set_active([other for other in cls.active_hooks if other is not hook])
            hook.deactivate()
        for hook in wanted.difference(cls.active_hooks):
            hook.activate()
            cls._set_active([*cls.active_hooks, hook])
        _listen(bool(cls.active_hooks))

    @classmethod
    def _set_active(cls, hooks: list[Hook]) -> None:
        """Always another list: a launch may be going through the old one."""
        cls.active_hooks = sorted(hooks, key=lambda hook: hook.priority, reverse=True)

    @classmethod
    def _init_handle(cls, *args: Any) -> None:
        for hook in cls.active_hooks:
            hook.init_handle(*args)

    @classmethod
    def _destroy_handle(cls, *args: Any) -> None:
        for hook in reversed(cls.active_hooks):
            hook.destroy_handle(*args)

    @classmethod
    def _enter(cls, metadata: Any) -> None:
        hooks = cls.active_hooks
        entered = 0
        try:
            for hook in hooks:
                hook.enter(metadata)
                entered += 1
        except BaseException:
            # The launch fails, and Triton calls no exit hook.
            for hook in reversed(hooks[:entered]):
                hook.exit(metadata)
            raise

    @classmethod
    def _exit(cls, metadata: Any) -> None:
        for hook in reversed(cls.active_hooks):
            hook.exit(metadata)


_is_listening = False
# Bound once: Triton's chains find a function again by identity.
_LISTENERS = {
    "kernel_load_end_hook": HookManager._init_handle,
    "kernel_unload_hook": HookManager._destroy_handle,
    "launch_enter_hook": HookManager._enter,
    "launch_exit_hook": HookManager._exit,
}


def _listen(wanted: bool) -> None:
    """Puts our functions into Triton's chains, or takes them out."""
    global _is_listening
    if wanted == _is_listening or not contract.is_installed():
        return
    (contract.listen if wanted else contract.unlisten)(_LISTENERS)
    _is_listening = wanted
