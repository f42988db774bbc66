//! Execution of scripts.

use crate::activity::PROCESS_CLIENT;
use crate::api::{self, ApiFunction, CallArguments};
use crate::buffers::FlushMode;
use crate::context::{self, Context};
use crate::ffi::Handle;
use crate::graph::{self, ExecutableGraph, Graph, RecordIds};
use crate::name::{self, Name};
use crate::operation::{Copy, GraphIds, Operation, TargetIds, Work};
use crate::output::{self, output};
use crate::record::{MarkerRecord, NameRecord, OverheadRecord, kind};
use crate::script::{CallMode, Statement};
use crate::{activity, clock, lock, thread, tool};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// The graphs of the current script, by name.
#[derive(Default)]
struct Graphs {
    captured: HashMap<String, Handle<Graph>>,
    executable: HashMap<String, Handle<ExecutableGraph>>,
}

static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);

/// Forgets all graphs.
pub(crate) fn reset() {
    *lock(&GRAPHS) = Graphs::default();
}

/// Plays statements. Joins the threads that they create at the end.
pub(crate) fn play(statements: &[Statement]) {
    let mut threads = Vec::new();
    for statement in statements {
        if let Statement::Thread { statements } = statement {
            let statements = Arc::clone(statements);
            let builder = std::thread::Builder::new().name("replay-thread".to_owned());
            threads.extend(builder.spawn(move || play(&statements)).ok());
        } else {
            play_statement(statement);
        }
    }
    for thread in threads {
        // A thread can only fail by a panic, which a script cannot cause.
        drop(thread.join());
    }
}

fn play_statement(statement: &Statement) {
    match statement {
        Statement::Run { operation, target, call_mode } => {
            run_operation(operation, *target, *call_mode);
        }
        Statement::RunTogether { operations } => run_together(operations),
        Statement::Synchronize { wait, target } => {
            wait.run(*target, 0, call_arguments(*target, None));
        }
        Statement::Overhead { kind, nanos } => record_overhead(*kind, *nanos),
        Statement::Name { object_kind, object, name } => record_name(*object_kind, *object, name),
        Statement::Mark { name, domain, id, flags } => {
            record_mark(name, domain.as_deref(), *id, *flags);
        }
        Statement::CreateContext { device_id: device } => {
            if let Some(context) = context::for_device(*device).get() {
                context.announce();
            }
        }
        Statement::PushExternalId(external) => thread::push_external_id(*external),
        Statement::PopExternalId { kind } => drop(thread::pop_external_id(PROCESS_CLIENT, *kind)),
        Statement::Capture { graph, operations, target } => capture(graph, operations, *target),
        Statement::Instantiate { graph, target } => {
            instantiate(graph, *target);
        }
        Statement::LaunchGraph { graph, ids, target } => launch_graph(graph, *ids, *target),
        Statement::DestroyGraph { graph, target } => destroy_graph(graph, *target),
        Statement::DropNext { records } => output::drop_next(*records),
        Statement::Order(order) => output::set_order(*order),
        Statement::Correlation { next } => api::set_next_correlation_id(*next),
        Statement::Finish => output::finish(),
        Statement::Flush { is_forced } => {
            output::flush(if *is_forced { FlushMode::Forced } else { FlushMode::Records });
        }
        Statement::Tool { subscribes: true } => tool::subscribe(),
        Statement::Tool { subscribes: false } => tool::leave(),
        Statement::Pass { nanos } => drop(clock::advance(*nanos)),
        Statement::Repeat { times, statements } => (0..*times).for_each(|_| play(statements)),
        Statement::Thread { statements } | Statement::Part { statements, .. } => play(statements),
    }
}

fn capture(name: &str, operations: &[Operation], target: TargetIds) {
    let arguments = call_arguments(target, None);
    let mut graph = Handle::NULL;
    api::call(&api::BEGIN_CAPTURE, arguments, |_| {
        graph = Graph::begin(arguments.context);
        0
    });
    for operation in operations {
        call_for_work(&operation.work, arguments, |_| {
            graph::add_node(graph, *operation, arguments.context);
            0
        });
    }
    api::call(&api::END_CAPTURE, arguments, |_| 0);
    let mut graphs = lock(&GRAPHS);
    graphs.captured.insert(name.to_owned(), graph);
    graphs.executable.remove(name);
}

fn instantiate(name: &str, target: TargetIds) -> Option<Handle<ExecutableGraph>> {
    let graph = *lock(&GRAPHS).captured.get(name)?;
    let executable = graph::instantiate(graph, call_arguments(target, None));
    lock(&GRAPHS).executable.insert(name.to_owned(), executable);
    Some(executable)
}

/// Launches a graph, after instantiating it if necessary.
fn launch_graph(name: &str, ids: RecordIds, target: TargetIds) {
    let existing = lock(&GRAPHS).executable.get(name).copied();
    if let Some(executable) = existing.or_else(|| instantiate(name, target)) {
        graph::launch(executable, ids, target, 0, call_arguments(target, None));
    }
}

/// Destroys the executable graph; a later launch instantiates it again.
fn destroy_graph(name: &str, target: TargetIds) {
    let removed = lock(&GRAPHS).executable.remove(name);
    if let Some(executable) = removed.and_then(Handle::get) {
        executable.destroy(context_of(target));
    }
}

/// Finds a part of the script, at any depth.
pub(crate) fn find_part<'a>(statements: &'a [Statement], name: &str) -> Option<&'a [Statement]> {
    statements.iter().find_map(|statement| match statement {
        Statement::Part { name: part_name, statements } if part_name == name => {
            Some(&statements[..])
        }
        Statement::Part { statements, .. }
        | Statement::Repeat { statements, .. }
        | Statement::Thread { statements } => find_part(statements, name),
        _ => None,
    })
}

fn context_of(target: TargetIds) -> Handle<Context> {
    context::for_device(target.device)
}

fn call_arguments(target: TargetIds, correlation_id: Option<u32>) -> CallArguments {
    context::ensure_current(target.device);
    CallArguments {
        goes_through_runtime: api::calls_go_through_runtime(),
        correlation_id,
        ..CallArguments::context(context_of(target))
    }
}

/// Makes the call for an operation.
fn call_for_work(work: &Work, arguments: CallArguments, body: impl FnOnce(u32) -> i32) {
    call_function(function_for(work), work, arguments, body);
}

/// Makes a call of this function for an operation.
fn call_function(
    api: &'static ApiFunction,
    work: &Work,
    arguments: CallArguments,
    body: impl FnOnce(u32) -> i32,
) {
    let memory = work.parameters(0, 0);
    let (symbol, parameters) = match work {
        Work::Kernel(kernel) => (kernel.name.address(), arguments.parameters),
        Work::Copy(_) | Work::Fill(_) => (0, memory.as_ptr().cast()),
    };
    api::call(api, CallArguments { symbol, parameters, ..arguments }, body);
}

/// Returns the function that a program calls for an operation.
fn function_for(work: &Work) -> &'static ApiFunction {
    match work {
        Work::Kernel(_) => &api::LAUNCH_KERNEL,
        Work::Fill(_) if api::calls_go_through_runtime() => &api::SET_BYTES_ASYNC,
        Work::Fill(_) => &api::SET_WORDS_ASYNC,
        Work::Copy(Copy { is_async: true, .. }) if api::calls_go_through_runtime() => {
            &api::COPY_ASYNC
        }
        Work::Copy(_) if api::calls_go_through_runtime() => &api::COPY,
        Work::Copy(copy) => match (copy.kind, copy.is_async) {
            (1, true) => &api::COPY_TO_DEVICE_ASYNC,
            (1, false) => &api::COPY_TO_DEVICE,
            (2, true) => &api::COPY_TO_HOST_ASYNC,
            (2, false) => &api::COPY_TO_HOST,
            (_, true) => &api::COPY_ON_DEVICE_ASYNC,
            (_, false) => &api::COPY_ON_DEVICE,
        },
    }
}

fn run_operation(operation: &Operation, target: TargetIds, call_mode: CallMode) {
    let correlation_id = match call_mode {
        CallMode::NoCall { correlation_id } => {
            operation.run(target, GraphIds::default(), correlation_id);
            return;
        }
        CallMode::CallWithId { correlation_id } => Some(correlation_id),
        CallMode::Call => None,
    };
    call_for_work(&operation.work, call_arguments(target, correlation_id), |correlation_id| {
        operation.run(target, GraphIds::default(), correlation_id);
        0
    });
}

/// Makes one call for several operations, such as a kernel on several devices or a copy in parts.
fn run_together(operations: &[(Operation, TargetIds)]) {
    let Some((first, target)) = operations.first() else { return };
    let api = match first.work {
        Work::Kernel(_) => &api::LAUNCH_COOPERATIVE_ON_DEVICES,
        _ => function_for(&first.work),
    };
    call_function(api, &first.work, call_arguments(*target, None), |correlation_id| {
        for (operation, target) in operations {
            operation.run(*target, GraphIds::default(), correlation_id);
        }
        0
    });
}

fn record_overhead(overhead_kind: u32, nanos: u64) {
    let start_nanos = clock::advance(nanos);
    if activity::is_enabled(kind::OVERHEAD) {
        let record = OverheadRecord {
            kind: kind::OVERHEAD,
            overhead_kind,
            object_kind: 2,
            object: [std::process::id(), thread::id(), 0],
            start_nanos,
            end_nanos: start_nanos + nanos,
            correlation_id: api::next_correlation_id().saturating_sub(1),
            ..OverheadRecord::default()
        };
        output::send(output(), record);
    }
}

fn record_name(object_kind: u32, object: [u32; 3], name: &str) {
    if activity::is_enabled(kind::NAME) {
        let record = NameRecord {
            kind: kind::NAME,
            object_kind,
            object,
            name: name_address(name),
            ..NameRecord::default()
        };
        output::send(output(), record);
    }
}

fn record_mark(name: &str, domain: Option<&str>, id: u32, flags: u32) {
    if activity::is_enabled(kind::MARKER) {
        let record = MarkerRecord {
            kind: kind::MARKER,
            flags,
            timestamp: clock::now_nanos(),
            id,
            object_kind: 2,
            object: [std::process::id(), thread::id(), 0],
            name: name_address(name),
            domain: domain.map_or(0, name_address),
            ..MarkerRecord::default()
        };
        output::send(output(), record);
    }
}

/// Returns the address of a name for a record.
fn name_address(name: &str) -> usize {
    name::for_record(Name::copied(name).address())
}
