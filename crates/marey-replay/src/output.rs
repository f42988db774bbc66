//! From what devices do to the profiler's buffers: what is dropped, held back or turned round on the way.

use crate::activity::{self, CLIENTS, Clients};
use crate::buffers::{self, Buffer, Buffers, Flush, Put};
use crate::record::{KernelRecord, Record, Version};
use crate::{clock, lock, settings, worker};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Streams whose ids agree modulo this wait for each other.
const LANES: usize = 4096;
const LANES_A_DEVICE: usize = 256;

/// How records come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    AsTheyCome,
    /// So many are kept, and come last first.
    Reversed { window: usize },
    /// So many are kept, and come in an order that this number makes.
    Shuffled { window: usize, seed: u64 },
    /// All are kept until they are flushed.
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

/// A record that is kept, with who wants it and whose buffer it belongs to.
type Kept = (Clients, u32, Vec<u8>);

/// The way of records, and what the streams are at.
pub(crate) struct Output {
    /// When each stream is free.
    lanes: [u64; LANES],
    to_drop: u64,
    written: u64,
    order: Order,
    kept: Vec<Kept>,
    buffers: [Buffers; CLIENTS],
    pub(crate) staging: worker::Staging,
}

static OUTPUT: Mutex<Output> = Mutex::new(Output {
    lanes: [0; LANES],
    to_drop: 0,
    written: 0,
    order: Order::AsTheyCome,
    kept: Vec::new(),
    buffers: [const { Buffers::new() }; CLIENTS],
    staging: worker::Staging::new(),
});

/// Records that were lost, since each client last asked and ever.
static DROPPED: [AtomicU64; CLIENTS] = [const { AtomicU64::new(0) }; CLIENTS];
static DROPPED_EVER: AtomicU64 = AtomicU64::new(0);

pub(crate) fn output() -> MutexGuard<'static, Output> {
    lock(&OUTPUT)
}

/// Begins anew, with the buffers that there are.
pub(crate) fn reset() {
    let mut output = output();
    output.lanes.fill(0);
    output.written = 0;
    output.to_drop = 0;
    output.order = Order::AsTheyCome;
    output.kept.clear();
    output.finish();
    drop(output);
    for dropped in &DROPPED {
        dropped.store(0, Relaxed);
    }
    DROPPED_EVER.store(0, Relaxed);
}

/// Forgets the buffers of profilers that are gone.
pub(crate) fn forget_buffers() {
    let mut output = output();
    output.buffers.iter_mut().for_each(Buffers::forget);
    output.kept.clear();
}

/// Records that were written to buffers.
pub(crate) fn written() -> u64 {
    output().written
}

/// Records that were lost, for whoever has been told or not.
pub(crate) fn dropped_ever() -> u64 {
    DROPPED_EVER.load(Relaxed)
}

/// Records that a client has lost since it last asked.
pub(crate) fn take_dropped(client: usize) -> u64 {
    DROPPED[client].swap(0, Relaxed)
}

fn drop_record(client: usize) {
    DROPPED[client].fetch_add(1, Relaxed);
    DROPPED_EVER.fetch_add(1, Relaxed);
}

impl Output {
    /// Finds the time of something that takes so long on a stream, after what the stream is at.
    #[inline]
    pub(crate) fn occupy(&mut self, device: u32, stream: u32, gap: u64, nanos: u64) -> (u64, u64) {
        let lane = self.lane(device, stream);
        let start = clock::now().max(*lane) + gap;
        *lane = start + nanos;
        (start, start + nanos)
    }

    /// When a stream is free.
    pub(crate) fn free_at(&mut self, device: u32, stream: u32) -> u64 {
        *self.lane(device, stream)
    }

    /// When the streams of a device are free.
    pub(crate) fn device_free_at(&self, device: u32) -> u64 {
        let first = device as usize * LANES_A_DEVICE % LANES;
        self.lanes[first..first + LANES_A_DEVICE].iter().copied().max().unwrap_or_default()
    }

    /// Lets a stream wait.
    pub(crate) fn wait_until(&mut self, device: u32, stream: u32, then: u64) {
        let lane = self.lane(device, stream);
        *lane = then.max(*lane);
    }

    fn lane(&mut self, device: u32, stream: u32) -> &mut u64 {
        let lane = stream as usize % LANES_A_DEVICE;
        &mut self.lanes[(device as usize * LANES_A_DEVICE + lane) % LANES]
    }

    /// Puts a record into the client's buffer at hand.
    #[inline]
    fn put(&mut self, client: usize, lane: u32, record: &[u8], is_open: bool) -> Put {
        let put = self.buffers[client].put(lane, record, is_open);
        self.written += u64::from(matches!(put, Put::Written));
        put
    }

    /// Lets the kernels end that do not.
    fn finish(&mut self) {
        let (now, version) = (clock::now(), settings::version());
        self.buffers.iter_mut().for_each(|buffers| buffers.finish(now, version));
    }
}

/// Loses the next records.
pub(crate) fn drop_next(records: u64) {
    output().to_drop += records;
}

/// Changes how records come, after those that were kept.
pub(crate) fn set_order(order: Order) {
    let kept = take_kept(&mut output());
    output().order = order;
    write_all(&kept);
}

/// Sends a record on its way to all who want it. The lock goes with it, because profilers may be called.
#[inline]
pub(crate) fn send<R: Record>(output: MutexGuard<'_, Output>, record: R) {
    let clients = activity::wanting(record.kind());
    send_to(output, clients, record);
}

/// Sends a record on its way to these.
#[inline]
pub(crate) fn send_to<R: Record>(mut output: MutexGuard<'_, Output>, clients: Clients, record: R) {
    let bytes = record.bytes(settings::version());
    if output.to_drop > 0 {
        output.to_drop -= 1;
        clients.numbers().for_each(drop_record);
    } else if let Some(window) = output.order.window() {
        output.kept.push((clients, buffers::lane(), bytes.to_vec()));
        if output.kept.len() >= window {
            let kept = take_kept(&mut output);
            drop(output);
            write_all(&kept);
        }
    } else {
        hand_on(output, clients, buffers::lane(), bytes);
    }
}

/// Has a kernel begin that does not end: its record has a place in the buffers from now on.
pub(crate) fn begin(output: MutexGuard<'_, Output>, kernel: KernelRecord) {
    let kernel = KernelRecord { end: 0, completed: 0, ..kernel };
    let (clients, bytes) = (activity::wanting(kernel.kind), kernel.bytes(settings::version()));
    write_as(output, clients, buffers::lane(), bytes, true);
}

/// Gives a record to the worker, or to the profilers.
#[inline]
fn hand_on(output: MutexGuard<'_, Output>, clients: Clients, lane: u32, bytes: &[u8]) {
    if settings::is_delivered_by_worker() {
        worker::stage(output, clients, lane, bytes);
    } else {
        write(output, clients, lane, bytes);
    }
}

/// Writes a record to the buffers of these.
#[inline]
pub(crate) fn write(output: MutexGuard<'_, Output>, clients: Clients, lane: u32, bytes: &[u8]) {
    write_as(output, clients, lane, bytes, false);
}

#[inline]
fn write_as(
    output: MutexGuard<'_, Output>,
    clients: Clients,
    lane: u32,
    bytes: &[u8],
    is_open: bool,
) {
    let mut held = Some(output);
    for client in clients.numbers() {
        let put = match held.take() {
            Some(mut output) => output.put(client, lane, bytes, is_open),
            None => self::output().put(client, lane, bytes, is_open),
        };
        if !matches!(put, Put::Written) {
            settle(client, lane, put, bytes, is_open);
        }
    }
}

fn take_kept(output: &mut Output) -> Vec<Kept> {
    let mut kept = std::mem::take(&mut output.kept);
    match output.order {
        Order::Reversed { .. } => kept.reverse(),
        Order::Shuffled { seed, .. } => shuffle(&mut kept, seed),
        Order::AsTheyCome | Order::Held => {}
    }
    kept
}

fn write_all(records: &[Kept]) {
    for (clients, lane, bytes) in records {
        hand_on(output(), *clients, *lane, bytes);
    }
}

/// Sees to it that a record is written, or counted as lost.
fn settle(client: usize, lane: u32, mut put: Put, bytes: &[u8], is_open: bool) {
    loop {
        match put {
            Put::Written => return,
            Put::Again => {}
            Put::Full(buffer) => buffer.complete(),
            Put::Missing => match Buffer::request(client, bytes.len()) {
                Some(buffer) => output().buffers[client].add(buffer),
                None => return drop_record(client),
            },
        }
        put = output().put(client, lane, bytes, is_open);
    }
}

/// Hands records over, after those that were kept.
pub(crate) fn flush(flush: Flush) {
    let kept = take_kept(&mut output());
    write_all(&kept);
    if settings::is_delivered_by_worker() {
        worker::flush(flush);
    } else {
        hand_back(flush);
    }
}

/// Hands buffers back.
pub(crate) fn hand_back(flush: Flush) {
    for client in 0..CLIENTS {
        hand_back_to(client, flush);
    }
}

/// Hands a client's buffers back.
pub(crate) fn hand_back_to(client: usize, flush: Flush) {
    let buffers = output().buffers[client].take(flush);
    buffers.into_iter().for_each(Buffer::complete);
}

/// Lets the kernels end that do not.
pub(crate) fn finish() {
    output().finish();
}

/// The size of the record at the start of these bytes, and its bytes.
pub(crate) fn split_record(bytes: &[u8], version: Version) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(version.size_of(crate::record::kind_of(bytes))?)
}

/// Fisher and Yates, by a generator that is the same everywhere (xorshift64*).
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
