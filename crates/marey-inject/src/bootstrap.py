"""Calls a function of `marey._attached` and writes its answer into a pipe.

Runs in the process that is attached to, between two instructions of any code, so that it only
starts a thread. The constants PID, ANSWERS, PARENT, VERSION, FUNCTION and ARGUMENTS precede it.
"""

FORK_TIMEOUT_S = 2
SWITCH_INTERVAL_S = 1e-4


def begin():
    """Starts the thread, unless this is a child that was forked after the request."""
    import _thread
    import posix

    if posix.getpid() == PID:
        _thread.start_new_thread(run, ())


def run():
    """Answers once; without effect if nobody waits any more."""
    import os

    try:
        os.close(os.open(ANSWERS, os.O_WRONLY | os.O_NONBLOCK))
        # A pipe that this process reads too never raises SIGPIPE.
        answers = os.open(ANSWERS, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(answers, b"begun\n")
        parts = "\0".join(answer()).replace("\n", " ")
        os.write(answers, parts.encode(errors="replace")[:32768] + b"\n")
    except OSError:
        pass
    finally:
        os.close(answers)


def answer():
    """Returns the answer of the function; the kind `failed` with the error if there is none."""
    import sys

    interval = sys.getswitchinterval()
    # Each file that the import reads may wait this long for the GIL.
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    changed_interval = sys.getswitchinterval()
    finish = delay_forks()
    try:
        return getattr(attached(), FUNCTION)(**ARGUMENTS)
    except BaseException as error:
        return ["failed", f"{type(error).__name__}: {error}"]
    finally:
        finish()
        if sys.getswitchinterval() == changed_interval:
            sys.setswitchinterval(interval)


def delay_forks():
    """Delays forks until the returned function is called: a child would wait for ever for an import
    of this thread, which it does not have."""
    import _thread
    import os
    import sys

    lock = _thread.allocate_lock()
    if "marey" in sys.modules:  # imported before, so that little is left to import
        return lambda: None
    lock.acquire()

    def wait():
        if lock.locked() and lock.acquire(timeout=FORK_TIMEOUT_S):
            lock.release()

    os.register_at_fork(before=wait)
    return lock.release


def attached():
    """Imports `marey._attached` from the folder PARENT, without a change of `sys.path`."""
    import sys

    finder = None if "marey" in sys.modules else package_finder()
    if finder is not None:
        sys.meta_path.insert(0, finder)
    try:
        import marey
    finally:
        if finder is not None:
            sys.meta_path.remove(finder)
    if marey.__version__ != VERSION:
        raise ImportError(
            f"the process has imported marey {marey.__version__}, and this command is {VERSION}"
        )
    from marey import _attached

    return _attached


def package_finder():
    """Returns a finder of the package alone."""
    from importlib.machinery import PathFinder

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return PathFinder.find_spec(name, [PARENT]) if name == "marey" else None

    return Finder


begin()
