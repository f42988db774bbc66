//! Synchronisation of the host and of streams.

use crate::api::{self, ApiFunction, CallArguments};
use crate::callback::{SynchronizeData, domain, notify};
use crate::operation::TargetIds;
use crate::output::{self, output};
use crate::record::{SynchronizationRecord, kind};
use crate::{activity, clock};

/// Kind of synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Event { id: u32, until_nanos: u64 },
    StreamForEvent { id: u32, until_nanos: u64 },
    Stream,
    Context,
}

const NO_STREAM: u32 = u32::MAX;

impl Wait {
    /// Returns the function, the `CUpti_ActivitySynchronizationType`, and the
    /// `CUpti_CallbackIdSync` for kinds with a callback.
    const fn api(self) -> (&'static ApiFunction, u32, Option<u32>) {
        match self {
            Self::Event { .. } => (&api::SYNCHRONIZE_EVENT, 1, None),
            Self::StreamForEvent { .. } => (&api::WAIT_FOR_EVENT, 2, None),
            Self::Stream => (&api::SYNCHRONIZE_STREAM, 3, Some(1)),
            Self::Context => (&api::SYNCHRONIZE_CONTEXT, 4, Some(2)),
        }
    }

    /// Synchronises: advances the clock until the device has finished.
    pub(crate) fn run(self, target: TargetIds, stream: usize, arguments: CallArguments) -> i32 {
        let (api, wait_kind, cbid) = self.api();
        api::call(api, arguments, |correlation_id| {
            let start_nanos = clock::now_nanos();
            let event_id = match self {
                Self::Event { id, until_nanos } => {
                    clock::advance_to(until_nanos);
                    id
                }
                Self::StreamForEvent { id, until_nanos } => {
                    output().wait_until(target.device, target.stream, until_nanos);
                    id
                }
                Self::Stream => {
                    clock::advance_to(output().stream_free_at_nanos(target.device, target.stream));
                    0
                }
                Self::Context => {
                    clock::advance_to(output().device_free_at_nanos(target.device));
                    0
                }
            };
            if let Some(cbid) = cbid {
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
