//! The event path allocates nothing on a path that the thread has taken before, as counted by the
//! allocator.

#![cfg(not(loom))]

use marey_model::sketch;
use marey_record::device::LaunchKind;
use marey_record::{NodeKind, SessionOptions, api};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

/// The system's allocator with a count of the calling thread's allocations.
struct CountingAllocator;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

fn count_allocation() {
    // The thread-local may be destroyed while the thread ends.
    ALLOCATIONS.try_with(|count| count.set(count.get() + 1)).unwrap_or(());
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all calls are forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count_allocation();
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Locked by each test: in a session of another test, a thread's first event allocates.
static TURN: Mutex<()> = Mutex::new(());

/// Returns the number of allocations of this thread in `run`.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

fn scope(name: u32, body: impl FnOnce()) {
    api::enter(name, NodeKind::Scope);
    body();
    api::exit(name);
}

fn launch(call: u32) {
    api::launch_enter(1, call, LaunchKind::Kernel);
    api::launch_exit(1, true);
}

/// The occasions that `marey.h` lists for signal handlers: after a thread's first events, only the
/// first duration of a scope or state in each power of two.
#[test]
fn a_known_scope_or_state_allocates_only_for_a_new_power_of_two_of_its_duration() {
    let _turn = TURN.lock();
    let folder = tempfile::TempDir::new().unwrap();
    let name = folder.path().join("profile");
    let session = api::start(&SessionOptions::named(name.to_str().unwrap())).unwrap();
    let [known, state] = ["known", "state"].map(api::intern);
    let (mut at_entry, mut at_exit) = (0, 0);
    for is_known in std::iter::repeat_n(false, 3).chain(std::iter::repeat_n(true, 10_000)) {
        let entries = allocations(|| {
            api::enter(known, NodeKind::Scope);
            api::enter_state(state);
        });
        let exits = allocations(|| {
            api::exit_state();
            api::exit(known);
        });
        if is_known {
            at_entry += entries;
            at_exit += exits;
        }
    }
    api::discard(session).unwrap();
    assert_eq!(at_entry, 0);
    // Pages of counters are allocated in growing blocks: 16, 32 and 64 pages are enough for every
    // power of two of the scope and of the state.
    const { assert!(2 * sketch::PAGES <= 16 + 32 + 64) };
    assert!(at_exit <= 3, "{at_exit} allocations");
}

/// Steps of the main thread, each with launches on an autograd thread of PyTorch.
#[test]
fn launches_during_backward_allocate_nothing_on_known_paths() {
    const STEPS: usize = 20;
    let _turn = TURN.lock();
    let folder = tempfile::TempDir::new().unwrap();
    let name = folder.path().join("profile");
    let session = api::start(&SessionOptions::named(name.to_str().unwrap())).unwrap();
    let [step, layer, call] = ["step", "layer", "cuLaunchKernel"].map(api::intern);
    let (go, wait) = sync_channel(0);
    let (done, finished) = sync_channel(0);
    let engine = std::thread::Builder::new().name("pt_autograd_0".to_owned()).spawn(move || {
        for () in wait {
            done.send(allocations(|| (0..100).for_each(|_| launch(call)))).unwrap();
        }
    });
    let mut counts = Vec::new();
    for _ in 0..STEPS {
        scope(step, || {
            scope(layer, || {
                scope(layer, || {
                    go.send(()).unwrap();
                    counts.push(finished.recv().unwrap());
                });
            });
            // Below another scope, so that the engine's thread alternates between two
            // paths.
            go.send(()).unwrap();
            counts.push(finished.recv().unwrap());
        });
    }
    drop(go);
    engine.unwrap().join().unwrap();
    api::discard(session).unwrap();
    assert!(counts[0] > 0, "the allocator counted no allocation");
    assert_eq!(counts[4..], [0; 2 * STEPS - 4]);
}
