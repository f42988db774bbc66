//! Scripts: settings and statements. The crate documentation describes the syntax.

mod line;
mod parse;

use crate::graph::RecordIds;
use crate::operation::{Operation, TargetIds};
use crate::output::RecordOrder;
use crate::settings::Settings;
use crate::thread::ExternalId;
use crate::wait::Wait;
pub(crate) use parse::DEFAULT_DURATION_NANOS;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub settings: Settings,
    pub statements: Vec<Statement>,
}

/// The kind of call that starts an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMode {
    /// By a call with the next correlation id.
    Call,
    /// By a call with this correlation id.
    CallWithId { correlation_id: u32 },
    /// Without a call: the record has a correlation id that no call had.
    NoCall { correlation_id: u32 },
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Run {
        operation: Operation,
        target: TargetIds,
        call_mode: CallMode,
    },
    /// Operations of one call, each with its own record.
    RunTogether {
        operations: Vec<(Operation, TargetIds)>,
    },
    Synchronize {
        wait: Wait,
        target: TargetIds,
    },
    Overhead {
        kind: u32,
        nanos: u64,
    },
    Name {
        object_kind: u32,
        object: [u32; 3],
        name: String,
    },
    Mark {
        name: String,
        domain: Option<String>,
        id: u32,
        flags: u32,
    },
    CreateContext {
        device_id: u32,
    },
    PushExternalId(ExternalId),
    PopExternalId {
        kind: u32,
    },
    Capture {
        graph: String,
        operations: Vec<Operation>,
        target: TargetIds,
    },
    Instantiate {
        graph: String,
        target: TargetIds,
    },
    LaunchGraph {
        graph: String,
        ids: RecordIds,
        target: TargetIds,
    },
    DestroyGraph {
        graph: String,
        target: TargetIds,
    },
    DropNext {
        records: u64,
    },
    Order(RecordOrder),
    Correlation {
        next: u32,
    },
    Finish,
    Flush {
        is_forced: bool,
    },
    /// Another tool subscribes or unsubscribes.
    Tool {
        subscribes: bool,
    },
    Pass {
        nanos: u64,
    },
    Repeat {
        times: u64,
        statements: Arc<[Statement]>,
    },
    Thread {
        statements: Arc<[Statement]>,
    },
    Part {
        name: String,
        statements: Arc<[Statement]>,
    },
}
