//! The path of records to the profilers' buffers: losses, delays and reordering.

use crate::activity::{self, CLIENTS, Clients};
use crate::buffers::{self, Buffer, Buffers, Flush, PutResult, RecordState};
use crate::record::{KernelRecord, Record, Version};
use crate::{clock, lock, settings, worker};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Streams whose ids are congruent modulo this number share a lane and run one after the other.
const LANES: usize = 4096;
const LANES_PER_DEVICE: usize = 256;

/// Order of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    AsTheyCome,
    /// Groups of this size are reversed.
    Reversed { window: usize },
    /// Groups of this size are shuffled with a seed.
    Shuffled { window: usize, seed: u64 },
    /// All records are held until a flush.
    Held,
}

impl Order {
    const fn window(self) -> Option<usize> {
        match self {
            Self::AsTheyCome => None,
            Self::Reversed { window } | Self::Shuffled { window, .. } => Some(window),
            Self::Held => Some(usize::MAX),
        }
    }
}

/// A held record, with its clients and lane.
type HeldRecord = (Clients, u32, Vec<u8>);

/// The state of records and streams.
pub(crate) struct Output {
    /// Time at which each stream becomes free.
    lanes: [u64; LANES],
    records_to_drop: u64,
    written_records: u64,
    order: Order,
    held: Vec<HeldRecord>,
    buffers: [Buffers; CLIENTS],
    pub(crate) staging: worker::Staging,
}

static OUTPUT: Mutex<Output> = Mutex::new(Output {
    lanes: [0; LANES],
    records_to_drop: 0,
    written_records: 0,
    order: Order::AsTheyCome,
    held: Vec::new(),
    buffers: [const { Buffers::new() }; CLIENTS],
    staging: worker::Staging::new(),
});

/// Lost records, per client since its last query, and in total.
static DROPPED: [AtomicU64; CLIENTS] = [const { AtomicU64::new(0) }; CLIENTS];
static DROPPED_TOTAL: AtomicU64 = AtomicU64::new(0);

pub(crate) fn output() -> MutexGuard<'static, Output> {
    lock(&OUTPUT)
}

/// Resets the state, except for buffers.
pub(crate) fn reset() {
    let mut output = output();
    output.lanes.fill(0);
    output.written_records = 0;
    output.records_to_drop = 0;
    output.order = Order::AsTheyCome;
    output.held.clear();
    output.finish();
    drop(output);
    for dropped in &DROPPED {
        dropped.store(0, Relaxed);
    }
    DROPPED_TOTAL.store(0, Relaxed);
}

/// Forgets the buffers of profilers that have left.
pub(crate) fn forget_buffers() {
    let mut output = output();
    output.buffers.iter_mut().for_each(Buffers::forget);
    output.held.clear();
}

/// Returns the number of records written to buffers.
pub(crate) fn written() -> u64 {
    output().written_records
}

/// Returns the total number of lost records.
pub(crate) fn dropped_total() -> u64 {
    DROPPED_TOTAL.load(Relaxed)
}

/// Returns the number of records that a client lost since its last query.
pub(crate) fn take_dropped(client: usize) -> u64 {
    DROPPED[client].swap(0, Relaxed)
}

fn drop_record(client: usize) {
    DROPPED[client].fetch_add(1, Relaxed);
    DROPPED_TOTAL.fetch_add(1, Relaxed);
}

impl Output {
    /// Occupies a stream for a duration, after its earlier operations. Returns start and end.
    #[inline]
    pub(crate) fn occupy(
        &mut self,
        device: u32,
        stream: u32,
        gap_nanos: u64,
        nanos: u64,
    ) -> (u64, u64) {
        let lane = self.lane(device, stream);
        let start = clock::now().max(*lane) + gap_nanos;
        *lane = start + nanos;
        (start, start + nanos)
    }

    /// Returns the time at which a stream becomes free.
    pub(crate) fn free_at(&mut self, device: u32, stream: u32) -> u64 {
        *self.lane(device, stream)
    }

    /// Returns the time at which all streams of a device become free.
    pub(crate) fn device_free_at(&self, device: u32) -> u64 {
        let first = device as usize * LANES_PER_DEVICE % LANES;
        self.lanes[first..first + LANES_PER_DEVICE].iter().copied().max().unwrap_or_default()
    }

    /// Makes a stream wait.
    pub(crate) fn wait_until(&mut self, device: u32, stream: u32, until_nanos: u64) {
        let lane = self.lane(device, stream);
        *lane = until_nanos.max(*lane);
    }

    fn lane(&mut self, device: u32, stream: u32) -> &mut u64 {
        let lane = stream as usize % LANES_PER_DEVICE;
        &mut self.lanes[(device as usize * LANES_PER_DEVICE + lane) % LANES]
    }

    /// Writes a record to the client's current buffer.
    #[inline]
    fn put(&mut self, client: usize, lane: u32, record: &[u8], state: RecordState) -> PutResult {
        let result = self.buffers[client].put(lane, record, state);
        self.written_records += u64::from(matches!(result, PutResult::Written));
        result
    }

    /// Ends all unfinished kernels.
    fn finish(&mut self) {
        let (now, version) = (clock::now(), settings::version());
        self.buffers.iter_mut().for_each(|buffers| buffers.finish(now, version));
    }
}

/// Drops the next records.
pub(crate) fn drop_next(records: u64) {
    output().records_to_drop += records;
}

/// Sets the order of later records, after writing the held ones.
pub(crate) fn set_order(order: Order) {
    let held = take_held(&mut output());
    output().order = order;
    write_all(&held);
}

/// Sends a record to all clients that have enabled its kind. Takes the guard, because profilers may
/// be called.
#[inline]
pub(crate) fn send<R: Record>(output: MutexGuard<'_, Output>, record: R) {
    let clients = activity::enabled_clients(record.kind());
    send_to(output, clients, record);
}

/// Sends a record to these clients.
#[inline]
pub(crate) fn send_to<R: Record>(mut output: MutexGuard<'_, Output>, clients: Clients, record: R) {
    let bytes = record.bytes(settings::version());
    if output.records_to_drop > 0 {
        output.records_to_drop -= 1;
        clients.numbers().for_each(drop_record);
    } else if let Some(window) = output.order.window() {
        output.held.push((clients, buffers::lane(), bytes.to_vec()));
        if output.held.len() >= window {
            let held = take_held(&mut output);
            drop(output);
            write_all(&held);
        }
    } else {
        deliver(output, clients, buffers::lane(), bytes);
    }
}

/// Begins a kernel that does not end: its record is written to the buffers now.
pub(crate) fn begin_kernel(output: MutexGuard<'_, Output>, kernel: KernelRecord) {
    let kernel = KernelRecord { end: 0, completed: 0, ..kernel };
    let (clients, bytes) =
        (activity::enabled_clients(kernel.kind), kernel.bytes(settings::version()));
    write_record(output, clients, buffers::lane(), bytes, RecordState::Unfinished);
}

/// Passes a record to the worker, or writes it.
#[inline]
fn deliver(output: MutexGuard<'_, Output>, clients: Clients, lane: u32, bytes: &[u8]) {
    if settings::is_delivered_by_worker() {
        worker::stage(output, clients, lane, bytes);
    } else {
        write(output, clients, lane, bytes);
    }
}

/// Writes a record to the buffers of these clients.
#[inline]
pub(crate) fn write(output: MutexGuard<'_, Output>, clients: Clients, lane: u32, bytes: &[u8]) {
    write_record(output, clients, lane, bytes, RecordState::Ended);
}

#[inline]
fn write_record(
    output: MutexGuard<'_, Output>,
    clients: Clients,
    lane: u32,
    bytes: &[u8],
    state: RecordState,
) {
    let mut guard = Some(output);
    for client in clients.numbers() {
        let result = match guard.take() {
            Some(mut output) => output.put(client, lane, bytes, state),
            None => self::output().put(client, lane, bytes, state),
        };
        if !matches!(result, PutResult::Written) {
            write_or_drop(client, lane, result, bytes, state);
        }
    }
}

fn take_held(output: &mut Output) -> Vec<HeldRecord> {
    let mut held = std::mem::take(&mut output.held);
    match output.order {
        Order::Reversed { .. } => held.reverse(),
        Order::Shuffled { seed, .. } => shuffle(&mut held, seed),
        Order::AsTheyCome | Order::Held => {}
    }
    held
}

fn write_all(records: &[HeldRecord]) {
    for (clients, lane, bytes) in records {
        deliver(output(), *clients, *lane, bytes);
    }
}

/// Repeats writing a record until it is written or counted as lost.
fn write_or_drop(
    client: usize,
    lane: u32,
    mut result: PutResult,
    bytes: &[u8],
    state: RecordState,
) {
    loop {
        match result {
            PutResult::Written => return,
            PutResult::Retry => {}
            PutResult::Full(buffer) => buffer.complete(),
            PutResult::NoBuffer => match Buffer::request(client, bytes.len()) {
                Some(buffer) => output().buffers[client].add(buffer),
                None => return drop_record(client),
            },
        }
        result = output().put(client, lane, bytes, state);
    }
}

/// Flushes, including held records.
pub(crate) fn flush(flush: Flush) {
    let held = take_held(&mut output());
    write_all(&held);
    if settings::is_delivered_by_worker() {
        worker::flush(flush);
    } else {
        complete_buffers(flush);
    }
}

/// Completes buffers.
pub(crate) fn complete_buffers(flush: Flush) {
    for client in 0..CLIENTS {
        complete_buffers_of(client, flush);
    }
}

/// Completes a client's buffers.
pub(crate) fn complete_buffers_of(client: usize, flush: Flush) {
    let buffers = output().buffers[client].remove_ready(flush);
    buffers.into_iter().for_each(Buffer::complete);
}

/// Ends all unfinished kernels.
pub(crate) fn finish() {
    output().finish();
}

/// Splits off the record at the start of these bytes.
pub(crate) fn split_record(bytes: &[u8], version: Version) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(version.size_of(crate::record::kind_of(bytes))?)
}

/// Fisher-Yates shuffle with a reproducible generator (xorshift64*).
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed | 1;
    for last in (1..items.len()).rev() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let random = state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        items.swap(last, random as usize % (last + 1));
    }
}
