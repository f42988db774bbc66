"""The interface of launch hooks, and the manager that calls the active ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from marey.triton import contract


class Hook(ABC):
    """A hook around kernel launches, called while a session that requested it is active.

    Hooks with a higher `priority` are entered earlier and left later.
    """

    priority: int = 0

    def init_handle(  # noqa: B027 - optional to override
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """Called after a kernel was loaded."""

    def destroy_handle(  # noqa: B027 - optional to override
        self, module: Any, function: Any, name: str, metadata_group: dict[str, str], hash: str
    ) -> None:
        """Called when a kernel is unloaded; never by Triton 3.6."""

    @abstractmethod
    def enter(self, metadata: Any) -> None:
        """Called before a kernel is launched; `metadata` is Triton's lazy dict."""

    @abstractmethod
    def exit(self, metadata: Any) -> None:
        """Called after the kernel was launched, unless the launch failed."""

    @abstractmethod
    def activate(self) -> None:
        """Called when the first session that requested the hook becomes active."""

    @abstractmethod
    def deactivate(self) -> None:
        """Called when no session that requested the hook is active any more."""

    def settle(self) -> None:  # noqa: B027 - optional to override
        """Called before recorded data is read or a session ends. May wait for the GPU."""


class HookManager:
    """The hooks that each session requested, and the hooks that Triton calls."""

    active_hooks: ClassVar[list[Hook]] = []
    """The hooks of active sessions, highest priority first."""

    session_hooks: ClassVar[dict[int, dict[Hook, bool]]] = {}
    """The hooks that each session was started with, and whether the session is active."""

    _companions: ClassVar[dict[int, dict[Hook, bool]]] = {}
    """The hooks that marey added to each session by itself, and whether the session is active."""

    _called: ClassVar[list[Hook]] = []
    """The hooks of both kinds that are called, highest priority first."""

    @classmethod
    def register(cls, hook: Hook, session: int) -> None:
        """Adds a hook to a session, which must be active.

        Raises:
            ImportError: The hook needs Triton, which is not installed.
        """
        cls.session_hooks.setdefault(session, {})[hook] = True
        try:
            cls._update()
        except BaseException:
            del cls.session_hooks[session][hook]
            raise

    @classmethod
    def accompany(cls, hook: Hook, session: int) -> None:
        """Adds a hook of marey itself to a session, which must be active."""
        cls._companions.setdefault(session, {})[hook] = True
        cls._update()

    @classmethod
    def activate(cls, session: int | None = None) -> None:
        """Activates the hooks of a session, or of all sessions."""
        cls._set_active(session, True)

    @classmethod
    def deactivate(cls, session: int | None = None) -> None:
        """Deactivates the hooks of a session, or of all sessions."""
        cls._set_active(session, False)

    @classmethod
    def unregister(cls, session: int | None = None) -> None:
        """Removes the hooks of a session, or of all sessions."""
        for hooks_by_session in (cls.session_hooks, cls._companions):
            if session is None:
                hooks_by_session.clear()
            else:
                hooks_by_session.pop(session, None)
        cls._update()

    @classmethod
    def drop(cls, hook: Hook) -> None:
        """Removes a hook from all sessions."""
        for _, hooks in cls._by_session():
            hooks.pop(hook, None)
        cls._update()

    @classmethod
    def registered(cls) -> set[Hook]:
        """Returns the hooks of all sessions, active or not."""
        return {hook for _, hooks in cls._by_session() for hook in hooks}

    @classmethod
    def settle(cls) -> None:
        """Makes all hooks add the metrics that they wait for."""
        for hook in cls.registered():
            hook.settle()

    @classmethod
    def _set_active(cls, session: int | None, active: bool) -> None:
        for number, hooks in cls._by_session():
            if session is None or session == number:
                hooks.update(dict.fromkeys(hooks, active))
        cls._update()

    @classmethod
    def _update(cls) -> None:
        """Updates the called hooks to those that an active session requested."""
        requested = {
            hook for _, hooks in cls._by_session() for hook, active in hooks.items() if active
        }
        for hook in [hook for hook in cls._called if hook not in requested]:
            cls._set_called([other for other in cls._called if other is not hook])
            hook.deactivate()
        for hook in requested.difference(cls._called):
            hook.activate()
            cls._set_called([*cls._called, hook])
        _set_listening(bool(cls._called))

    @classmethod
    def _by_session(cls) -> Iterator[tuple[int, dict[Hook, bool]]]:
        """Yields the hooks of each session, of both kinds."""
        yield from cls.session_hooks.items()
        yield from cls._companions.items()

    @classmethod
    def _set_called(cls, hooks: list[Hook]) -> None:
        """Sets the called hooks, as a new list, because a launch may be iterating the old one."""
        cls._called = sorted(hooks, key=lambda hook: hook.priority, reverse=True)
        registered = {hook for hooks in cls.session_hooks.values() for hook in hooks}
        cls.active_hooks = [hook for hook in cls._called if hook in registered]

    @classmethod
    def _init_handle(cls, *args: Any) -> None:
        for hook in cls._called:
            hook.init_handle(*args)

    @classmethod
    def _destroy_handle(cls, *args: Any) -> None:
        for hook in reversed(cls._called):
            hook.destroy_handle(*args)

    @classmethod
    def _enter(cls, metadata: Any) -> None:
        hooks = cls._called
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
        for hook in reversed(cls._called):
            hook.exit(metadata)


_is_listening = False
# Bound once, because Triton's chains remove a function by identity.
_LISTENERS = {
    "kernel_load_end_hook": HookManager._init_handle,
    "kernel_unload_hook": HookManager._destroy_handle,
    "launch_enter_hook": HookManager._enter,
    "launch_exit_hook": HookManager._exit,
}


def _set_listening(is_wanted: bool) -> None:
    """Adds our functions to Triton's chains, or removes them."""
    global _is_listening
    if is_wanted == _is_listening or not contract.is_installed():
        return
    (contract.listen if is_wanted else contract.unlisten)(_LISTENERS)
    _is_listening = is_wanted
