"""What a launch hook is, and which ones are called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
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
    """The hooks of active sessions, highest priority first."""

    session_hooks: ClassVar[dict[int, dict[Hook, bool]]] = {}
    """The hooks that each session was started with, and whether the session is active."""

    _companions: ClassVar[dict[int, dict[Hook, bool]]] = {}
    """The same for hooks that marey added by itself."""

    _called: ClassVar[list[Hook]] = []
    """The hooks of both kinds that are called, highest priority first."""

    @classmethod
    def register(cls, hook: Hook, session: int) -> None:
        """Has `hook` called while `session` is active, which it is.

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
        """Has a hook of marey's own called while `session` is active, which it is."""
        cls._companions.setdefault(session, {})[hook] = True
        cls._update()

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
        for hooks_by_session in (cls.session_hooks, cls._companions):
            if session is None:
                hooks_by_session.clear()
            else:
                hooks_by_session.pop(session, None)
        cls._update()

    @classmethod
    def drop(cls, hook: Hook) -> None:
        """No session wants the hook any more."""
        for _, hooks in cls._by_session():
            hooks.pop(hook, None)
        cls._update()

    @classmethod
    def registered(cls) -> set[Hook]:
        """The hooks of all sessions, active or not."""
        return {hook for _, hooks in cls._by_session() for hook in hooks}

    @classmethod
    def settle(cls) -> None:
        """Has all hooks add what they still wait for."""
        for hook in cls.registered():
            hook.settle()

    @classmethod
    def _set(cls, session: int | None, active: bool) -> None:
        for number, hooks in cls._by_session():
            if session is None or session == number:
                hooks.update(dict.fromkeys(hooks, active))
        cls._update()

    @classmethod
    def _update(cls) -> None:
        """Makes the active hooks those that an active session wants."""
        wanted = {
            hook for _, hooks in cls._by_session() for hook, active in hooks.items() if active
        }
        for hook in [hook for hook in cls._called if hook not in wanted]:
            cls._call([other for other in cls._called if other is not hook])
            hook.deactivate()
        for hook in wanted.difference(cls._called):
            hook.activate()
            cls._call([*cls._called, hook])
        _listen(bool(cls._called))

    @classmethod
    def _by_session(cls) -> Iterator[tuple[int, dict[Hook, bool]]]:
        """The hooks of each session, of both kinds."""
        yield from cls.session_hooks.items()
        yield from cls._companions.items()

    @classmethod
    def _call(cls, hooks: list[Hook]) -> None:
        """Has these called. Makes another list: a launch may be going through the old one."""
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
