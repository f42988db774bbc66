//! The properties of the devices, and the notes on how their activities are recorded. Both go into
//! profiles and runs.

use crate::lock::lock;
use marey_model::json::quoted;
use std::borrow::Cow;
use std::sync::Mutex;

/// A device of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The device's number in the process.
    pub number: u32,
    /// The type: `CUDA` or `HIP`.
    pub device_type: String,
    /// The architecture as Proton writes it: `90` for compute capability 9.0.
    pub arch: String,
    /// The name of the model.
    pub name: String,
    /// The width of the memory bus.
    pub bus_width_bits: u64,
    /// The clock rate of the multiprocessors.
    pub clock_khz: u64,
    /// The clock rate of the memory.
    pub memory_clock_khz: u64,
    /// The number of multiprocessors.
    pub multiprocessors: u64,
    /// Further properties with integer values.
    pub properties: Vec<(String, u64)>,
}

/// The key and the text of a note.
pub(crate) type Note = (Cow<'static, str>, String);

static DEVICES: Mutex<Vec<DeviceInfo>> = Mutex::new(Vec::new());
static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());

/// Registers a device, replacing an earlier one with the same number.
pub fn announce(device: DeviceInfo) {
    let mut devices = lock(&DEVICES);
    devices.retain(|known| known.number != device.number);
    devices.push(device);
    devices.sort_by_key(|device| device.number);
}

/// Adds a note about how the process is recorded, such as the interface used for a device and the
/// reason. A later note with the same key replaces it; an empty text removes it.
pub fn note(key: impl Into<Cow<'static, str>>, text: impl Into<String>) {
    let (key, text) = (key.into(), text.into());
    let mut notes = lock(&NOTES);
    notes.retain(|(known, _)| *known != key);
    if !text.is_empty() {
        notes.push((key, text));
    }
}

/// Returns the registered devices, lowest number first.
pub(crate) fn devices() -> Vec<DeviceInfo> {
    lock(&DEVICES).clone()
}

/// Returns a device. An unregistered device has only its number and the type `CUDA`.
pub(crate) fn device(number: u32) -> DeviceInfo {
    let known = lock(&DEVICES).iter().find(|device| device.number == number).cloned();
    known.unwrap_or_else(|| DeviceInfo {
        number,
        device_type: "CUDA".to_owned(),
        ..DeviceInfo::default()
    })
}

/// Returns the notes, sorted by key.
pub(crate) fn notes() -> Vec<Note> {
    let mut notes = lock(&NOTES).clone();
    notes.sort();
    notes
}

/// Returns the properties of a device as a JSON object.
pub(crate) fn device_json(device: &DeviceInfo) -> String {
    let mut json = format!("{{\"arch\":{}", quoted(&device.arch));
    let numbers = [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_khz),
        ("memory_clock_rate", device.memory_clock_khz),
        ("num_sms", device.multiprocessors),
    ];
    let others = device.properties.iter().map(|(key, value)| (key.as_str(), *value));
    for (key, value) in numbers.into_iter().chain(others) {
        for part in [",", &quoted(key), ":", &value.to_string()] {
            json.push_str(part);
        }
    }
    json.push('}');
    json
}

/// Takes the locks for the duration of a fork.
pub(crate) fn lock_for_fork() -> impl Sized {
    (lock(&DEVICES), lock(&NOTES))
}
