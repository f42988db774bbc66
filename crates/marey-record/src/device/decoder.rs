//! The decoder of activities: attributes each one to the context node that launched it.

use super::capture;
use super::launches::Launch;
use super::sessions::{self, Devices};
use crate::control::CONTROL;
use crate::lock::Locked;
use crate::losses;
use crate::trace;
use marey_model::loss::LossCause;
use marey_model::spool::{ActivityKind, Detail};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// An activity, as a device's library reports it.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'a> {
    /// The kind of activity.
    pub kind: ActivityKind,
    /// The interned id of its name, from [`crate::api::intern`].
    pub name_id: u32,
    /// The number of the device.
    pub device: u32,
    /// The stream, `u32::MAX` for none.
    pub stream: u32,
    /// The start on the recorder's clock; see [`super::now`].
    pub start_ticks: u64,
    /// The duration, `None` if it is unknown.
    pub duration_nanos: Option<u64>,
    /// The number of bytes copied or filled, else 0.
    pub bytes: u64,
    /// The correlation id of the launch, 0 for none.
    pub correlation_id: u32,
    /// The graph node that launched it, 0 for none.
    pub graph_node: u64,
    /// Further properties, read only if [`ActivityBatch::keeps_activities`].
    pub details: &'a [(Detail, u64)],
}

/// An activity with its launch, for the spool.
#[derive(Debug)]
pub(crate) struct JoinedActivity {
    pub(crate) kind: ActivityKind,
    pub(crate) name_id: u32,
    pub(crate) device: u32,
    pub(crate) stream: u32,
    pub(crate) start_ticks: u64,
    pub(crate) duration_nanos: u64,
    pub(crate) bytes: u64,
    pub(crate) correlation_id: u32,
    /// The number of the thread that launched it, and the launch.
    pub(crate) launched: Option<(u32, Launch)>,
    /// The number of the capture site, 0 for none.
    pub(crate) site_number: u32,
    /// The range of its details in the list that all activities share.
    pub(crate) details: Range<usize>,
}

/// The receiver of activities, one per process.
#[derive(Debug, Default)]
pub struct ActivityDecoder {
    joined: Vec<JoinedActivity>,
    details: Vec<(Detail, u64)>,
}

/// A batch of activities, added with the devices locked.
#[derive(Debug)]
pub struct ActivityBatch<'a> {
    devices: Locked<'static, Devices>,
    decoder: &'a mut ActivityDecoder,
    trace_sessions: u64,
}

/// The maximum number of activities buffered for the spool.
const MAX_BUFFERED: usize = 4096;

impl ActivityDecoder {
    /// Begins a batch. All launches logged before this will be found.
    pub fn batch(&mut self) -> ActivityBatch<'_> {
        let mut devices = sessions::devices();
        devices.take_launches();
        ActivityBatch {
            devices,
            decoder: self,
            trace_sessions: CONTROL.trace_sessions.load(Ordering::Relaxed),
        }
    }
}

impl ActivityBatch<'_> {
    /// Whether single activities are kept, and not only sums.
    pub fn keeps_activities(&self) -> bool {
        self.trace_sessions != 0
    }

    /// Adds an activity.
    #[inline]
    pub fn add(&mut self, activity: &Activity) {
        let launched = match activity.correlation_id {
            0 => None,
            correlation_id => self.devices.find_launch(correlation_id),
        };
        let site_number = match activity.graph_node {
            0 => 0,
            node => capture::with_sites(|sites| sites.site_number(node)),
        };
        if activity.duration_nanos.is_none() {
            losses::count(LossCause::DeviceTime);
        }
        if activity.kind == ActivityKind::Kernel {
            match &launched {
                Some(launched) => self.devices.add_kernel(launched, site_number, activity),
                None => losses::count(LossCause::UnmatchedActivity),
            }
        }
        if self.keeps_activities() {
            self.buffer(
                activity,
                launched.map(|found| (found.thread_number, found.launch)),
                site_number,
            );
        }
    }

    /// Releases the launch of an activity whose end will never be reported. Counts the activity as
    /// a loss if a session saw its launch.
    pub fn add_unfinished(&mut self, correlation_id: u32) {
        let launched = self.devices.find_launch(correlation_id);
        if launched.is_none_or(|found| found.launch.sessions != 0) {
            losses::count(LossCause::DeviceRecord);
        }
    }

    fn buffer(&mut self, activity: &Activity, launched: Option<(u32, Launch)>, site_number: u32) {
        let ActivityDecoder { joined, details } = &mut *self.decoder;
        let details_start = details.len();
        details.extend_from_slice(activity.details);
        joined.push(JoinedActivity {
            kind: activity.kind,
            name_id: activity.name_id,
            device: activity.device,
            stream: activity.stream,
            start_ticks: activity.start_ticks,
            duration_nanos: activity.duration_nanos.unwrap_or(0),
            bytes: activity.bytes,
            correlation_id: activity.correlation_id,
            launched,
            site_number,
            details: details_start..details.len(),
        });
        if joined.len() >= MAX_BUFFERED {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let ActivityDecoder { joined, details } = &mut *self.decoder;
        if !joined.is_empty() {
            trace::add_activities(&self.devices.threads, joined, details);
        }
        joined.clear();
        details.clear();
    }
}

impl Drop for ActivityBatch<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
