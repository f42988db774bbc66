//! Synchronisation of the host and of streams.

use crate::api::{self, ApiFunction, CallArguments};
use crate::callback::{SynchronizeData, domain, notify};
use crate::operation::TargetIds;
use crate::output::{self, output};
use crate::record::{SynchronizationRecord, kind};
use crate::{activity, clock};

/// Kind of synchronisation: `CUpti_ActivitySynchronizationType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Event { id: u32, until_nanos: u64 },
    StreamForEvent { id: u32, until_nanos: u64 },
    Stream,
    Context,
}

const NO_STREAM: u32 = u32::MAX;

impl Wait {
    const fn api(self) -> &'static ApiFunction {
        match self {
            Self::Event { .. } => &api::SYNCHRONIZE_EVENT,
            Self::StreamForEvent { .. } => &api::WAIT_FOR_EVENT,
            Self::Stream => &api::SYNCHRONIZE_STREAM,
            Self::Context => &api::SYNCHRONIZE_CONTEXT,
        }
    }

    /// Returns the `CUpti_CallbackIdSync`, for kinds with a callback.
    const fn cbid(self) -> Option<u32> {
        match self {
            Self::Stream => Some(1),
            Self::Context => Some(2),
            Self::Event { .. } | Self::StreamForEvent { .. } => None,
        }
    }

    /// Synchronises: advances the clock until the device has finished.
    pub(crate) fn run(self, target: TargetIds, stream: usize, arguments: CallArguments) -> i32 {
        api::call(self.api(), arguments, |correlation_id| {
            let start_nanos = clock::now_nanos();
            let (wait_kind, event_id) = match self {
                Self::Event { id, until_nanos } => {
                    clock::advance_to(until_nanos);
                    (1, id)
                }
                Self::StreamForEvent { id, until_nanos } => {
                    output().wait_until(target.device, target.stream, until_nanos);
                    (2, id)
                }
                Self::Stream => {
                    clock::advance_to(output().stream_free_at_nanos(target.device, target.stream));
                    (3, 0)
                }
                Self::Context => {
                    clock::advance_to(output().device_free_at_nanos(target.device));
                    (4, 0)
                }
            };
            if let Some(cbid) = self.cbid() {
                let data = SynchronizeData { context: arguments.context, stream };
                notify(domain::SYNCHRONIZE, cbid, &data);
            }
            if activity::is_enabled(kind::SYNCHRONIZATION) {
                let record = SynchronizationRecord {
                    kind: kind::SYNCHRONIZATION,
                    wait_kind,
                    start_nanos,
                    end_nanos: clock::now_nanos(),
                    correlation_id,
                    context_id: target.context,
                    stream_id: if self == Self::Context { NO_STREAM } else { target.stream },
                    event_id,
                    ..SynchronizationRecord::default()
                };
                output::send(output(), record);
            }
            0
        })
    }
}
