"""Calls a function of `marey._attached` and writes its answer into a pipe.

Runs in the process that is attached to, between two instructions of any code, so that it only
starts a thread. The constants PID, ANSWERS, PARENT, VERSION, FUNCTION and ARGUMENTS precede it.
"""

# A thread that waits for the GIL asks for it when nobody has released it for this long. One that
# releases it more often, in short system calls, would be asked never, and take it back each time.
SWITCH_INTERVAL_S = 1e-6
LOOK_PAUSE_S = 1e-3
looks_left = 2000
ended = []  # the thread's id in the system, once it has answered


def begin():
    """Starts the thread, unless this is a child that was forked after the request."""
    import _thread
    import posix

    if posix.getpid() == PID:
        posix.register_at_fork(before=wait_before_fork)
        restore_interval = shorten_switch_interval()
        try:
            _thread.start_new_thread(run, (restore_interval,))
        except BaseException:
            restore_interval()
            raise


def shorten_switch_interval():
    """Lets threads take the GIL soon, which may happen at each file that the import reads.

    Returns a function that undoes this, unless the program has set an interval meanwhile.
    """
    import sys

    interval = sys.getswitchinterval()
    # It is short while another request runs, which will restore it.
    if interval <= SWITCH_INTERVAL_S:
        return lambda: None
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    short_interval = sys.getswitchinterval()

    def restore():
        if sys.getswitchinterval() == short_interval:
            sys.setswitchinterval(interval)

    return restore


def run(restore_interval):
    """Answers, and ends."""
    from _thread import get_native_id

    try:
        wait_exactly()
        write_answer(restore_interval)
    finally:
        restore_interval()
        ended.append(str(get_native_id()))


def wait_exactly():
    """Ends the waits of this thread when they are over, not up to 50 us later as by default.

    The wait for the GIL is one of them. The kernel may have no such file.
    """
    import os
    from _thread import get_native_id

    try:
        slack = os.open(f"/proc/{get_native_id()}/timerslack_ns", os.O_WRONLY)
    except OSError:
        return
    try:
        os.write(slack, b"1")
    except OSError:
        pass
    finally:
        os.close(slack)


def write_answer(restore_interval):
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
        restore_interval()  # before the answer, after which nothing of the request is to be seen
        os.write(answers, parts.encode(errors="replace")[:32768] + b"\n")
    except OSError:
        pass
    finally:
        os.close(answers)


def answer():
    """Returns the answer of the function; the kind `failed` with the error if there is none."""
    try:
        return getattr(attached(), FUNCTION)(**ARGUMENTS)
    except BaseException as error:
        return ["failed", f"{type(error).__name__}: {error}"]


def has_ended():
    """Whether the thread has ended for the system too, which counts it."""
    import posix

    return ended and ended[0] not in posix.listdir("/proc/self/task")


def wait_before_fork():
    """Delays a fork until the thread has ended.

    A child without it would wait for ever for a module that the thread was importing, and CPython
    3.12 warns of forks in a process with several threads.
    """
    global looks_left
    import sys
    import time

    if looks_left > 0:
        while looks_left > 0 and not has_ended():
            looks_left -= 1
            time.sleep(LOOK_PAUSE_S)
        looks_left = 0
        # This fork does not see the handler that marey has registered meanwhile.
        if "marey._native" in sys.modules:
            sys.modules["marey._native"].before_fork()


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
