//! From what a device did to the place that launched it.

use super::capture;
use super::launches::Launch;
use super::sessions::{self, Devices};
use super::threads::Threads;
use crate::control::CONTROL;
use crate::lock::Locked;
use crate::losses;
use crate::trace;
use marey_model::loss::LossCause;
use marey_model::spool::{ActivityKind, Detail};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Something that a device did, as its library tells it.
#[derive(Clone, Copy, Debug)]
pub struct Activity<'a> {
    /// What it is.
    pub kind: ActivityKind,
    /// Number of its name: [`crate::api::intern`].
    pub name: u32,
    /// Number of the device.
    pub device: u32,
    /// The stream that it ran on; `u32::MAX` for none.
    pub stream: u32,
    /// When the device began, on the recorder's counter: [`super::now`].
    pub start_ticks: u64,
    /// How long it took; `None` where that is not known.
    pub duration_nanos: Option<u64>,
    /// Bytes that were copied or filled; else 0.
    pub bytes: u64,
    /// The number that it shares with its launch; 0 for none.
    pub correlation: u32,
    /// The node of the graph that it was launched by; 0 for none.
    pub graph_node: u64,
    /// What else is known; only read if [`Batch::keeps_activities`].
    pub details: &'a [(Detail, u64)],
}

/// An activity for the spool.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) kind: ActivityKind,
    pub(crate) name: u32,
    pub(crate) device: u32,
    pub(crate) stream: u32,
    pub(crate) start_ticks: u64,
    pub(crate) duration_nanos: u64,
    pub(crate) bytes: u64,
    pub(crate) correlation: u32,
    /// Thread and launch.
    pub(crate) launched: Option<(u32, Launch)>,
    /// The place that captured it; 0 for none.
    pub(crate) site: u32,
    /// Its part of the details of all.
    pub(crate) details: Range<usize>,
}

/// Takes in what devices did. There is one in a process.
#[derive(Debug, Default)]
pub struct Decoder {
    joined: Vec<Joined>,
    details: Vec<(Detail, u64)>,
}

/// Activities that are taken in together.
#[derive(Debug)]
pub struct Batch<'a> {
    devices: Locked<'static, Devices>,
    decoder: &'a mut Decoder,
    traces: u64,
}

/// So many activities wait for the spool at most.
const MOST_WAITING: usize = 4096;

impl Decoder {
    /// Begins a batch: everything that was launched before this will be found.
    pub fn batch(&mut self) -> Batch<'_> {
        let mut devices = sessions::devices();
        devices.take_launches();
        Batch { devices, decoder: self, traces: CONTROL.trace.load(Ordering::Relaxed) }
    }
}

impl Batch<'_> {
    /// Whether single activities are kept, and not only sums.
    pub fn keeps_activities(&self) -> bool {
        self.traces != 0
    }

    /// Takes in an activity.
    #[inline]
    pub fn add(&mut self, activity: &Activity) {
        let launched = match activity.correlation {
            0 => None,
            correlation => self.devices.find(correlation),
        };
        let site = match activity.graph_node {
            0 => 0,
            node => capture::with(|sites| sites.number_of(node)),
        };
        if activity.duration_nanos.is_none() {
            losses::count(LossCause::DeviceTime);
        }
        if activity.kind == ActivityKind::Kernel {
            match &launched {
                Some(launched) => self.devices.add_kernel(launched, site, activity),
                None => losses::count(LossCause::UnmatchedActivity),
            }
        }
        if self.keeps_activities() {
            self.trace(activity, launched.map(|found| (found.thread, found.launch)), site);
        }
    }

    /// Releases the launch of an activity whose end will never be told, and counts the activity as a loss if
    /// a session saw its launch.
    pub fn add_unfinished(&mut self, correlation: u32) {
        let launched = self.devices.find(correlation);
        if launched.is_none_or(|found| found.launch.sessions != 0) {
            losses::count(LossCause::DeviceRecord);
        }
    }

    fn trace(&mut self, activity: &Activity, launched: Option<(u32, Launch)>, site: u32) {
        let Decoder { joined, details } = &mut *self.decoder;
        let start = details.len();
        details.extend_from_slice(activity.details);
        joined.push(Joined {
            kind: activity.kind,
            name: activity.name,
            device: activity.device,
            stream: activity.stream,
            start_ticks: activity.start_ticks,
            duration_nanos: activity.duration_nanos.unwrap_or(0),
            bytes: activity.bytes,
            correlation: activity.correlation,
            launched,
            site,
            details: start..details.len(),
        });
        if joined.len() >= MOST_WAITING {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let Decoder { joined, details } = &mut *self.decoder;
        if !joined.is_empty() {
            trace::add_activities(&self.devices.threads, joined, details);
        }
        joined.clear();
        details.clear();
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Threads {
    /// The spool's view of a place that captured kernels.
    pub(crate) fn site(number: u32) -> Option<capture::Site> {
        capture::with(|sites| sites.get(number).cloned())
    }
}
