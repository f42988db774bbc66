//! The event path allocates nothing once a thread has been where it is: counted by the allocator.

#![cfg(not(loom))]

use marey_record::device::LaunchKind;
use marey_record::{NodeKind, SessionOptions, api};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::mpsc::sync_channel;

/// The system's allocator, which counts what the calling thread asks of it.
struct Counting;

thread_local!(static ASKED: Cell<u64> = const { Cell::new(0) });

fn count() {
    // A thread that is ending may have none any more.
    ASKED.try_with(|asked| asked.set(asked.get() + 1)).unwrap_or(());
}

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often this thread asks for memory in `run`.
fn allocations(run: impl FnOnce()) -> u64 {
    let before = ASKED.get();
    run();
    ASKED.get() - before
}

fn scope(name: u32, inside: impl FnOnce()) {
    api::enter(name, NodeKind::Scope);
    inside();
    api::exit(name);
}

fn launch(call: u32) {
    api::launch_enter(1, call, LaunchKind::Kernel);
    api::launch_exit(1, true);
}

/// Main's steps, each with a backward on a thread of PyTorch's engine that launches.
#[test]
fn launches_of_backward_allocate_nothing_once_the_path_is_known() {
    const STEPS: usize = 20;
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
            // The same from elsewhere: the engine's thread stands at other places in turn.
            go.send(()).unwrap();
            counts.push(finished.recv().unwrap());
        });
    }
    drop(go);
    engine.unwrap().join().unwrap();
    api::discard(session).unwrap();
    assert!(counts[0] > 0, "nothing was counted");
    assert_eq!(counts[4..], [0; 2 * STEPS - 4]);
}
