//! Trace sessions: every scope and value reaches the spool, in order, or is counted as lost.

use crate::harness::{
    Fixture, Subprocess, enter, exit, memory_kib, on_thread, options, report_ready, run_and_kill,
    run_in_subprocess, scope, start, start_trace, wait_for_end_of_stdin, wait_until,
    wait_until_ready,
};
use crate::spool::{Spool, spool_of, spool_of_subprocess};
use marey_model::loss::LossCause;
use marey_model::metric::MetricValue;
use marey_model::spool::{SessionEvent, SpoolFrame, SpoolReader};
use marey_record::api::AutogradCall;
use marey_record::{ContextSource, Error, Format, NodeKind, SessionOptions, api};
use std::path::PathBuf;
use std::sync::Barrier;

#[test]
fn scopes_and_values_are_recorded_in_order_with_their_paths() {
    let Some(spool) = spool_of_subprocess(&[], || {
        let session = start_trace("trace");
        scope("a", || {
            scope("b", || add("n (exc)", MetricValue::Int(1)));
            add("v", MetricValue::Floats(vec![0.5; 9]));
            on_thread("helper", || scope("c", || add("t", MetricValue::Text("x".into()))));
        });
        enter("open");
        api::finalize(session, None).unwrap();
        exit("open");
    }) else {
        return;
    };
    assert_eq!(spool.events, [(0, SessionEvent::Started), (0, SessionEvent::Finalized)]);
    assert!(spool.has_end && spool.torn.is_none() && spool.losses.is_empty());
    let helper = spool.threads.iter().find(|(_, thread)| thread.name == "helper").unwrap();
    assert_eq!(spool.exited_paths(*helper.0, 0), ["c"]);
    assert_eq!(helper.1.values, [value("c", "t", MetricValue::Text("x".into()))]);
    let main = spool.threads.iter().find(|(_, thread)| thread.name != "helper").unwrap();
    assert_ne!(main.1.os_id, helper.1.os_id);
    assert_eq!(spool.exited_paths(*main.0, 0), ["a/b", "a"]);
    assert_eq!(
        main.1.values,
        [
            value("a/b", "n (exc)", MetricValue::Int(1)),
            value("a", "v", MetricValue::Floats(vec![0.5; 9]))
        ]
    );
    assert_eq!(main.1.open, ["open"]);
    for (span, _) in &main.1.spans {
        assert!(span.start_nanos <= span.end_nanos);
    }
}

fn add(metric: &str, value: MetricValue) {
    api::add_metrics(&[(api::intern_metric(metric).unwrap(), value)]).unwrap();
}

fn value(path: &str, metric: &str, value: MetricValue) -> (String, String, MetricValue) {
    (path.to_owned(), metric.to_owned(), value)
}

/// The names of a thread's scopes in rotation.
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Enters and exits scopes. The names show the position of each.
fn enter_in_rotation(scopes: usize) {
    let names = NAMES.map(api::intern);
    for position in 0..scopes {
        let name = names[position % names.len()];
        api::enter(name, NodeKind::Scope);
        api::exit(name);
    }
}

const THREADS: usize = 8;
const SCOPES: usize = 100_000;

fn record_on_threads(threads: usize) {
    let session = start_trace("trace");
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| enter_in_rotation(SCOPES));
        }
    });
    api::finalize(session, Some(Format::Hatchet)).unwrap();
}

#[test]
fn a_large_buffer_loses_no_scope() {
    let buffer = ("MAREY_TRACE_BUFFER_BYTES", "4194304");
    let Some(spool) = spool_of_subprocess(&[buffer], || record_on_threads(THREADS)) else { return };
    assert_eq!((spool.threads.len(), spool.losses.len()), (THREADS, 0));
    for (&number, thread) in &spool.threads {
        let paths = spool.exited_paths(number, 0);
        assert_eq!(paths.len(), SCOPES);
        assert!(paths.iter().zip(NAMES.iter().cycle()).all(|(path, name)| path == name));
        assert!(thread.spans.is_sorted_by(|(a, _), (b, _)| a.end_nanos <= b.start_nanos));
    }
}

#[test]
fn a_small_buffer_counts_every_lost_scope() {
    let spool_with = |limit| spool_of_subprocess(&[limit], || record_on_threads(THREADS));
    let entered = (THREADS * SCOPES) as u64;
    let Some(tiny) = spool_with(("MAREY_TRACE_BUFFER_BYTES", "1024")) else { return };
    assert_eq!(tiny.span_count() + tiny.loss_count(LossCause::TraceBuffer), entered);
    assert!(tiny.loss_count(LossCause::TraceBuffer) > 0 && tiny.losses.len() == 1);
    let Some(short) = spool_with(("MAREY_SPOOL_BYTES", "1000")) else { return };
    assert_eq!(short.span_count() + short.loss_count(LossCause::Spool), entered);
    assert!(short.loss_count(LossCause::Spool) > 0 && short.losses.len() == 1 && short.has_end);
}

#[test]
fn each_session_has_its_own_paths_and_pauses() {
    let Some(spool) = spool_of_subprocess(&[], || {
        let first = start_trace("trace");
        let tree = start("tree", Format::Hatchet);
        enter("outer");
        let second = start_trace("second");
        let python = options("python", Format::ChromeTrace);
        let python = SessionOptions { context: ContextSource::Python, ..python };
        let python = api::start(&python).unwrap();
        scope("both", || ());
        api::deactivate(first).unwrap();
        scope("second only", || ());
        api::activate(first).unwrap();
        exit("outer");
        for session in [first, second, python, tree] {
            api::finalize(session, Some(Format::Hatchet)).unwrap();
        }
    }) else {
        return;
    };
    let sessions: Vec<_> =
        spool.events.iter().filter(|event| event.1 == SessionEvent::Started).collect();
    let [first, second, python] = [0, 1, 2].map(|index| sessions[index].0);
    assert_eq!(spool.exited_paths(0, first), ["outer/both", "outer"]);
    assert_eq!(spool.exited_paths(0, second), ["both", "second only"]);
    assert_eq!(spool.exited_paths(0, python), ["both", "second only"]);
    let first_events = spool.events.iter().filter(|event| event.0 == first).map(|event| event.1);
    let expected = [
        SessionEvent::Started,
        SessionEvent::Deactivated,
        SessionEvent::Activated,
        SessionEvent::Finalized,
    ];
    assert_eq!(first_events.collect::<Vec<_>>(), expected);
}

#[test]
fn a_reused_slot_separates_its_sessions() {
    let fixture = Fixture::begin();
    let beside = start_trace(fixture.path("beside"));
    // There are 64 slots.
    for round in 0..70 {
        let session = start_trace(fixture.path("again"));
        scope(&format!("round {round}"), || ());
        api::finalize(session, None).unwrap();
        let trace = std::fs::read_to_string(fixture.path("again.chrome_trace")).unwrap();
        assert_eq!(trace.matches("\"ph\":\"X\"").count(), 1, "round {round}: {trace}");
    }
    api::discard(beside).unwrap();
    assert_eq!(fixture.files(), ["again.chrome_trace", "beside.marey"]);
}

#[test]
fn a_trace_session_also_has_a_tree() {
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("both"));
    scope("a", || scope("b", || ()));
    assert!(matches!(api::get_data(session, 0, Format::Hatchet), Err(Error::DataNeedsTree)));
    api::finalize(session, Some(Format::Hatchet)).unwrap();
    assert_eq!(fixture.read("both.hatchet").counts(), [("a", 1), ("a/b", 1)]);
    assert_eq!(fixture.files(), ["both.hatchet", "both.marey"]);
}

#[test]
fn a_tree_session_has_no_trace_and_continues() {
    let fixture = Fixture::begin();
    let session = fixture.start("tree");
    let refused = api::finalize(session, Some(Format::ChromeTrace));
    assert!(matches!(refused, Err(Error::FormatNeedsTrace(Format::ChromeTrace))));
    assert_eq!(api::live_sessions(), [session]);
}

#[test]
fn without_a_spool_a_trace_session_does_not_start() {
    let fixture = Fixture::begin();
    std::fs::write(fixture.path("file"), "").unwrap();
    let options = options(fixture.path("file/inside"), Format::ChromeTrace);
    let error = api::start(&options).unwrap_err().to_string();
    assert!(error.starts_with("cannot create "), "{error}");
    assert!(api::live_sessions().is_empty());
    assert_eq!(api::enter(api::intern("nothing"), NodeKind::Scope), 0);
}

#[test]
fn an_unwritable_trace_keeps_the_spool() {
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("folder/trace"));
    scope("a", || ());
    std::fs::create_dir(fixture.path("folder/.trace.chrome_trace")).unwrap();
    let temporary = format!("folder/.trace.chrome_trace.{}.tmp", std::process::id());
    std::fs::create_dir(fixture.path(&temporary)).unwrap();
    assert!(matches!(api::finalize(session, None), Err(Error::Write { .. })));
    assert_eq!(Spool::of(fixture.path("folder/trace")).span_count(), 1);
}

#[test]
fn phases_of_a_trace_add_up() {
    const PHASES: u32 = 20;
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("phases"));
    let stop = crate::harness::StopFlag::default();
    let entered = std::thread::scope(|threads| {
        let worker = threads.spawn(|| {
            let mut entered = 0;
            while !stop.is_set() {
                enter_in_rotation(100);
                entered += 100;
                std::thread::yield_now();
            }
            entered
        });
        let guard = stop.guard();
        for _ in 0..PHASES {
            scope("main", || ());
            api::advance_phase(session).unwrap();
        }
        drop(guard);
        worker.join().unwrap()
    });
    let files: Vec<PathBuf> = api::finalize(session, None).unwrap();
    assert_eq!(files.len(), PHASES as usize + 1);
    let traces: Vec<_> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    for trace in &traces[..PHASES as usize] {
        assert_eq!(trace.matches("\"name\":\"main\"").count(), 1);
    }
    let scopes = traces.iter().map(|trace| trace.matches("\"ph\":\"X\"").count()).sum::<usize>();
    assert_eq!(scopes, entered + PHASES as usize);
}

#[test]
fn memory_does_not_grow_with_the_number_of_scopes() {
    // Each part is written before the next one, so the buffers grow with neither the load of the
    // machine nor the speed of the disk.
    let enter = |scopes| {
        for _ in 0..scopes / 50_000 {
            enter_in_rotation(50_000);
            api::write_checkpoints();
        }
    };
    run_in_subprocess(&[], || {
        start("trace", Format::Run);
        enter(1_000_000);
        let before = peak_kib();
        enter(4_000_000);
        // The kernel counts pages per processor, so that the peak may seem to have shrunk by a few.
        let grown = peak_kib().saturating_sub(before);
        api::discard(0).unwrap();
        assert!(grown < 1024, "{grown} KiB");
    });
}

#[test]
fn a_checkpoint_removes_nothing_from_later_traces() {
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("trace"));
    for name in ["first", "second"] {
        scope(name, || ());
        api::write_checkpoints();
        api::advance_phase(session).unwrap();
        api::write_checkpoints();
    }
    api::finalize(session, None).unwrap();
    for (part, name) in ["first", "second"].iter().enumerate() {
        let trace = fixture.path(&format!("trace.part_{part}.chrome_trace"));
        let trace = std::fs::read_to_string(trace).unwrap();
        assert_eq!(trace.matches(&format!("\"name\":\"{name}\"")).count(), 1, "{trace}");
    }
}

#[test]
fn logs_are_freed_when_the_last_trace_ends() {
    const LOGS: u64 = 4;
    const LOG_KIB: u64 = 2048;
    run_in_subprocess(&[("MAREY_TRACE_BUFFER_BYTES", "2097152")], || {
        let tree = start("tree", Format::Hatchet);
        let step = Barrier::new(LOGS as usize + 1);
        let memory = std::thread::scope(|threads| {
            for _ in 0..LOGS {
                threads.spawn(|| {
                    for _ in 0..2 {
                        step.wait();
                        enter_in_rotation(LOG_KIB as usize * 1024 / 32);
                        step.wait();
                    }
                    step.wait();
                });
            }
            let before = memory_kib("RssAnon:");
            let grown = || memory_kib("RssAnon:").saturating_sub(before);
            let memory = ["first", "second"].map(|name| {
                let session = start_trace(name);
                step.wait();
                step.wait();
                let logged = grown();
                api::finalize(session, None).unwrap();
                (logged, grown())
            });
            step.wait();
            memory
        });
        for (logged, freed) in memory {
            assert!(logged >= LOGS * LOG_KIB && freed < LOGS * LOG_KIB / 2, "{memory:?} KiB");
        }
        api::finalize(tree, None).unwrap();
    });
}

fn peak_kib() -> u64 {
    memory_kib("VmHWM:")
}

#[test]
fn closing_all_descriptors_loses_no_file_and_no_trace() {
    let Some(spool) = spool_of_subprocess(&[], || {
        let session = start_trace("trace");
        scope("before", || ());
        close_all_descriptors();
        let files: Vec<_> =
            (0..20).map(|number| std::fs::File::create(format!("own {number}")).unwrap()).collect();
        scope("after", || ());
        api::finalize(session, None).unwrap();
        assert!(files.iter().all(|file| file.metadata().unwrap().len() == 0));
    }) else {
        return;
    };
    assert_eq!(spool.exited_paths(0, 0), ["before", "after"]);
    assert!(spool.has_end && spool.losses.is_empty());
}

#[expect(unsafe_code, reason = "as programs do that become daemons")]
fn close_all_descriptors() {
    // SAFETY: only the code under test uses descriptors above 2 in this process.
    unsafe { libc::close_range(3, u32::MAX, 0) };
}

#[test]
fn open_scopes_of_a_killed_process_are_in_the_spool() {
    let Some(fixture) = run_and_kill(&[], || {
        start_trace("trace");
        enter("open");
        scope("left", || ());
        let file = spool_of("trace");
        let is_written = || {
            let spool = Spool::read(&file);
            spool.span_count() == 1 && spool.threads[&0].open == ["open"]
        };
        wait_until("the scopes are not written", is_written);
    }) else {
        return;
    };
    let spool = Spool::of(fixture.path("trace"));
    assert_eq!(spool.threads[&0].open, ["open"]);
    assert_eq!(spool.exited_paths(0, 0), ["open/left"]);
    assert!(!spool.has_end && spool.torn.is_none());
}

#[test]
fn clocks_are_written_at_the_start_periodically_and_at_the_end() {
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("clocks"));
    let file = spool_of(fixture.path("clocks"));
    let clocks = || Spool::read(&file).clocks;
    assert_eq!(clocks().len(), 1);
    // One is written in the background, in an idle process.
    while clocks().len() < 2 {
        std::thread::yield_now();
    }
    let before = clocks().len();
    api::write_checkpoints();
    assert!(clocks().len() > before);
    api::finalize(session, Some(Format::Run)).unwrap();
    let frames: Vec<_> = SpoolReader::new(std::fs::File::open(&file).unwrap())
        .unwrap()
        .map(|frame| std::mem::discriminant(&frame.unwrap()))
        .collect();
    let clock = std::mem::discriminant(&SpoolFrame::Clock { monotonic_nanos: 0, unix_nanos: 0 });
    assert_eq!(frames[1], clock, "after the process");
    assert_eq!(frames[frames.len() - 2], clock, "before the end");
    for pair in clocks().windows(2) {
        let [(monotonic, unix), (next_monotonic, next_unix)] = [pair[0], pair[1]];
        assert!(next_monotonic > monotonic);
        let drift = (next_unix - unix) - (next_monotonic - monotonic);
        assert!(drift.abs() < 10_000_000, "{drift} ns");
    }
}

#[test]
fn overhead_is_written_with_every_clock_except_the_first() {
    let fixture = Fixture::begin();
    let session = start_trace(fixture.path("overhead"));
    let file = spool_of(fixture.path("overhead"));
    let overheads = || Spool::read(&file).overhead;
    assert_eq!(overheads(), []);
    enter_in_rotation(1_000);
    api::write_checkpoints();
    let first = overheads()[0];
    // One scope is entered and exited.
    assert!(first.events >= 2_000 && first.scope_nanos > 0.0 && first.flushing_nanos > 0);
    let expected_nanos = first.events as f64 * first.scope_nanos / 2.0;
    assert!((first.recording_nanos as f64 - expected_nanos).abs() <= 1.0);
    enter_in_rotation(1_000);
    api::finalize(session, Some(Format::Run)).unwrap();
    let last = *overheads().last().unwrap();
    assert!(last.events >= first.events + 2_000 && last.flushing_nanos > first.flushing_nanos);
    assert_eq!(last.scope_nanos.to_bits(), first.scope_nanos.to_bits());
    let spool = Spool::read(&file);
    assert_eq!(spool.overhead.len() + 1, spool.clocks.len());
}

#[test]
fn a_run_being_collected_stays_and_the_next_gets_a_number() {
    let Some(subprocess) = Subprocess::of(|name| {
        let session = start_trace("trace");
        scope(name, || ());
        report_ready();
        wait_for_end_of_stdin();
        api::finalize(session, Some(Format::Run)).unwrap();
    }) else {
        return;
    };
    let fixture = Fixture::begin();
    let run = |name| subprocess.run(name, &fixture, &[]);
    run("first");
    let collecting_lock = std::fs::File::create(fixture.path("trace.marey/.collecting")).unwrap();
    collecting_lock.lock().unwrap();
    run("second");
    let mut third = subprocess.spawn("third", &fixture, &[]);
    let pipe = wait_until_ready(&mut third);
    run("beside third");
    drop(third.stdin.take());
    assert!(third.wait().unwrap().success());
    drop(pipe);
    drop(collecting_lock);
    run("last");
    let mut runs = Vec::new();
    for file in fixture.files() {
        let spools = fixture.path(&file).join("spool").read_dir().unwrap();
        let mut names: Vec<_> = spools
            .flat_map(|spool| Spool::read(&spool.unwrap().path()).exited_paths(0, 0))
            .collect();
        names.sort();
        runs.push((file, names.join(", ")));
    }
    let run = |file: &str, names: &str| (file.to_owned(), names.to_owned());
    assert_eq!(
        runs,
        [
            run("trace.1.marey", "second"),
            run("trace.2.marey", "beside third, third"),
            run("trace.3.marey", "first"),
            run("trace.marey", "last"),
        ]
    );
}

#[test]
fn a_slow_checkpoint_does_not_block_the_spool() {
    const ROUNDS: u64 = 5;
    let Some(fixture) = run_and_kill(&[("MAREY_CHECKPOINT_SECS", "0.001")], || {
        // No process reads from the pipe, so the first checkpoint blocks there.
        make_pipe(&format!(".tree.hatchet.{}.tmp", std::process::id()));
        start("tree", Format::Hatchet);
        start_trace("trace");
        let file = spool_of("trace");
        let start_time = std::time::Instant::now();
        for round in 1..=ROUNDS {
            scope("a", || ());
            // A bounded wait: if it is too short, the test finds too few scopes.
            while Spool::read(&file).span_count() < round && start_time.elapsed().as_secs() < 60 {
                std::thread::yield_now();
            }
        }
    }) else {
        return;
    };
    assert_eq!(Spool::of(fixture.path("trace")).span_count(), ROUNDS);
    assert!(!fixture.path("tree.hatchet").exists());
}

#[expect(unsafe_code, reason = "std makes no named pipes")]
fn make_pipe(path: &str) {
    let path = std::ffi::CString::new(path).unwrap();
    // SAFETY: a C string that lives until the call returns.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn the_parts_of_operators_in_a_backward_pass_are_in_the_spool() {
    let Some(spool) = spool_of_subprocess(&[], || {
        let session = start_trace("trace");
        let call = |sequence, forward_os_id| AutogradCall { sequence, forward_os_id };
        let [forward, backward] = ["aten::mm", "MmBackward0"].map(api::intern);
        for _ in 0..3 {
            api::enter(forward, NodeKind::Operator);
            scope("inner", || ());
            api::exit_autograd(forward, call(7, 0));
            api::enter(backward, NodeKind::Operator);
            api::exit_autograd(backward, call(7, 5));
        }
        // What was left open inside takes no part.
        api::enter(forward, NodeKind::Operator);
        enter("left open");
        api::exit_autograd(forward, call(8, 0));
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let (&number, thread) =
        spool.threads.iter().find(|(_, thread)| !thread.spans.is_empty()).unwrap();
    let names = spool.exited_paths(number, 0);
    let parts: Vec<_> = thread
        .autograd
        .iter()
        .map(|call| (&*names[call.span_index as usize], call.sequence, call.forward_os_id))
        .collect();
    assert_eq!(parts, [("aten::mm", 7, 0), ("MmBackward0", 7, 5)].repeat(3));
    assert_eq!(names.len(), 3 * 3 + 2);
}

#[test]
fn the_arguments_of_operators_are_in_the_spool_with_their_spans() {
    let Some(spool) = spool_of_subprocess(&[], || {
        let session = start_trace("trace");
        let [outer, inner] = ["aten::linear", "aten::addmm"].map(api::intern);
        let [first, second] = ["{\"n\":1}", "{\"n\":2}"].map(api::intern_text);
        for _ in 0..2 {
            api::enter(outer, NodeKind::Operator);
            assert!(api::record_inputs(outer, first).is_some());
            for args in [first, second] {
                api::enter(inner, NodeKind::Operator);
                assert!(api::record_inputs(inner, args).is_some());
                api::exit(inner);
            }
            api::enter(inner, NodeKind::Operator);
            // Not the innermost scope.
            assert!(api::record_inputs(outer, second).is_none());
            api::exit(inner);
            api::exit(outer);
        }
        api::finalize(session, None).unwrap();
    }) else {
        return;
    };
    let (&number, thread) =
        spool.threads.iter().find(|(_, thread)| !thread.spans.is_empty()).unwrap();
    let names = spool.exited_paths(number, 0);
    let found: Vec<_> = thread
        .args
        .iter()
        .map(|(index, args)| (&*names[*index as usize], &*spool.span_args[args]))
        .collect();
    let inner = "aten::linear/aten::addmm";
    let of_a_call = [(inner, "{\"n\":1}"), (inner, "{\"n\":2}"), ("aten::linear", "{\"n\":1}")];
    assert_eq!(found, of_a_call.repeat(2));
    assert_eq!(names.len(), 2 * 4);
}
