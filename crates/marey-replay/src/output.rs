//! The path of records to the profilers' buffers: losses, delays and reordering.

use crate::activity::{self, CLIENT_COUNT, Clients};
use crate::buffers::{self, Buffer, Buffers, FlushMode, PutResult, RecordState};
use crate::record::{KernelRecord, Record, Version};
use crate::{clock, lock, settings, worker};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Streams whose ids are congruent modulo this number share a lane and run one after the other.
const STREAM_SLOTS: usize = 4096;
const STREAM_SLOTS_PER_DEVICE: usize = 256;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordOrder {
    #[default]
    AsTheyCome,
    /// Groups of this size are reversed.
    Reversed { window: usize },
    /// Groups of this size are shuffled with a seed.
    Shuffled { window: usize, seed: u64 },
    /// All records are held until a flush.
    Held,
}

impl RecordOrder {
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
    stream_free_nanos: [u64; STREAM_SLOTS],
    records_to_drop: u64,
    written_records: u64,
    order: RecordOrder,
    held_records: Vec<HeldRecord>,
    buffers: [Buffers; CLIENT_COUNT],
    pub(crate) staging: worker::Staging,
}

const NO_BUFFERS: [Buffers; CLIENT_COUNT] = [const { Buffers::new() }; CLIENT_COUNT];

static OUTPUT: Mutex<Output> = Mutex::new(Output {
    stream_free_nanos: [0; STREAM_SLOTS],
    records_to_drop: 0,
    written_records: 0,
    order: RecordOrder::AsTheyCome,
    held_records: Vec::new(),
    buffers: NO_BUFFERS,
    staging: worker::Staging::new(),
});

/// Lost records, per client since its last query, and in total.
static DROPPED: [AtomicU64; CLIENT_COUNT] = [const { AtomicU64::new(0) }; CLIENT_COUNT];
static DROPPED_TOTAL: AtomicU64 = AtomicU64::new(0);

pub(crate) fn output() -> MutexGuard<'static, Output> {
    lock(&OUTPUT)
}

/// Resets the state, except for buffers.
pub(crate) fn reset() {
    let mut output = output();
    output.stream_free_nanos.fill(0);
    output.written_records = 0;
    output.records_to_drop = 0;
    output.order = RecordOrder::AsTheyCome;
    output.held_records.clear();
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
    output.buffers = NO_BUFFERS;
    output.held_records.clear();
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
        device_id: u32,
        stream_id: u32,
        gap_nanos: u64,
        duration_nanos: u64,
    ) -> (u64, u64) {
        let free_nanos = self.free_nanos_of_stream(device_id, stream_id);
        let start_nanos = clock::now_nanos().max(*free_nanos) + gap_nanos;
        *free_nanos = start_nanos + duration_nanos;
        (start_nanos, start_nanos + duration_nanos)
    }

    /// Returns the time at which a stream becomes free.
    pub(crate) fn stream_free_at_nanos(&mut self, device_id: u32, stream_id: u32) -> u64 {
        *self.free_nanos_of_stream(device_id, stream_id)
    }

    /// Returns the time at which all streams of a device become free.
    pub(crate) fn device_free_at_nanos(&self, device_id: u32) -> u64 {
        let first = device_id as usize * STREAM_SLOTS_PER_DEVICE % STREAM_SLOTS;
        self.stream_free_nanos[first..first + STREAM_SLOTS_PER_DEVICE]
            .iter()
            .copied()
            .max()
            .unwrap_or_default()
    }

    /// Makes a stream wait.
    pub(crate) fn wait_until(&mut self, device_id: u32, stream_id: u32, until_nanos: u64) {
        let free_nanos = self.free_nanos_of_stream(device_id, stream_id);
        *free_nanos = until_nanos.max(*free_nanos);
    }

    fn free_nanos_of_stream(&mut self, device_id: u32, stream_id: u32) -> &mut u64 {
        let slot = stream_id as usize % STREAM_SLOTS_PER_DEVICE;
        &mut self.stream_free_nanos
            [(device_id as usize * STREAM_SLOTS_PER_DEVICE + slot) % STREAM_SLOTS]
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
        let (now_nanos, version) = (clock::now_nanos(), settings::version());
        self.buffers.iter_mut().for_each(|buffers| buffers.finish(now_nanos, version));
    }
}

/// Drops the next records.
pub(crate) fn drop_next(records: u64) {
    output().records_to_drop += records;
}

/// Sets the order of later records, after writing the held ones.
pub(crate) fn set_order(order: RecordOrder) {
    let held_records = take_held_records(&mut output());
    output().order = order;
    write_all(&held_records);
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
        clients.indexes().for_each(drop_record);
    } else if let Some(window) = output.order.window() {
        output.held_records.push((clients, buffers::lane(), bytes.to_vec()));
        if output.held_records.len() >= window {
            let held_records = take_held_records(&mut output);
            drop(output);
            write_all(&held_records);
        }
    } else {
        deliver(output, clients, buffers::lane(), bytes);
    }
}

/// Begins a kernel that does not end: its record is written to the buffers now.
pub(crate) fn begin_kernel(output: MutexGuard<'_, Output>, kernel: KernelRecord) {
    let kernel = KernelRecord { end_nanos: 0, completed_nanos: 0, ..kernel };
    let (clients, bytes) =
        (activity::enabled_clients(kernel.kind), kernel.bytes(settings::version()));
    write(output, clients, buffers::lane(), bytes, RecordState::Unfinished);
}

/// Passes a record to the worker, or writes it.
#[inline]
fn deliver(output: MutexGuard<'_, Output>, clients: Clients, lane: u32, bytes: &[u8]) {
    if settings::is_delivered_by_worker() {
        worker::stage(output, clients, lane, bytes);
    } else {
        write(output, clients, lane, bytes, RecordState::Ended);
    }
}

/// Writes a record to the buffers of these clients.
#[inline]
pub(crate) fn write(
    output: MutexGuard<'_, Output>,
    clients: Clients,
    lane: u32,
    bytes: &[u8],
    state: RecordState,
) {
    let mut guard = Some(output);
    for client in clients.indexes() {
        let result = match guard.take() {
            Some(mut output) => output.put(client, lane, bytes, state),
            None => self::output().put(client, lane, bytes, state),
        };
        if !matches!(result, PutResult::Written) {
            write_or_drop(client, lane, result, bytes, state);
        }
    }
}

fn take_held_records(output: &mut Output) -> Vec<HeldRecord> {
    let mut held_records = std::mem::take(&mut output.held_records);
    match output.order {
        RecordOrder::Reversed { .. } => held_records.reverse(),
        RecordOrder::Shuffled { seed, .. } => shuffle(&mut held_records, seed),
        RecordOrder::AsTheyCome | RecordOrder::Held => {}
    }
    held_records
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
pub(crate) fn flush(flush: FlushMode) {
    let held_records = take_held_records(&mut output());
    write_all(&held_records);
    if settings::is_delivered_by_worker() {
        worker::flush(flush);
    } else {
        complete_buffers(flush);
    }
}

pub(crate) fn complete_buffers(flush: FlushMode) {
    for client in 0..CLIENT_COUNT {
        complete_buffers_of(client, flush);
    }
}

pub(crate) fn complete_buffers_of(client: usize, flush: FlushMode) {
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
    let mut random_state = seed | 1;
    for last in (1..items.len()).rev() {
        random_state ^= random_state >> 12;
        random_state ^= random_state << 25;
        random_state ^= random_state >> 27;
        let random = random_state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        items.swap(last, random as usize % (last + 1));
    }
}
