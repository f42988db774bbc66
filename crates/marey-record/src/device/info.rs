//! What is known of the devices, and of how their activities are recorded.

use crate::lock::lock;
use crate::output::json_string;
use std::sync::Mutex;

/// A device of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number in the process.
    pub number: u32,
    /// What it is: `CUDA` or `HIP`.
    pub device_type: String,
    /// Its architecture, as Proton writes it: `90` for compute capability 9.0.
    pub arch: String,
    /// Name of the model.
    pub name: String,
    /// Width of the memory bus.
    pub bus_width_bits: u64,
    /// Clock of the multiprocessors.
    pub clock_khz: u64,
    /// Clock of the memory.
    pub memory_clock_khz: u64,
    /// Multiprocessors.
    pub multiprocessors: u64,
    /// What else is known: keys, and values that are whole numbers.
    pub properties: Vec<(String, u64)>,
}

static DEVICES: Mutex<Vec<DeviceInfo>> = Mutex::new(Vec::new());
static NOTES: Mutex<Vec<(&'static str, String)>> = Mutex::new(Vec::new());

/// Says what a device is. One that is known already is replaced.
pub fn announce(device: DeviceInfo) {
    let mut devices = lock(&DEVICES);
    devices.retain(|known| known.number != device.number);
    devices.push(device);
    devices.sort_by_key(|device| device.number);
}

/// Says something about how the process is recorded, such as which interface of a device is used and
/// why. A later note with its key replaces it.
pub fn note(key: &'static str, text: impl Into<String>) {
    let mut notes = lock(&NOTES);
    notes.retain(|(known, _)| *known != key);
    notes.push((key, text.into()));
}

/// The devices that are known, lowest number first.
pub(crate) fn devices() -> Vec<DeviceInfo> {
    lock(&DEVICES).clone()
}

/// A device; of one that nobody has announced only its number is known.
pub(crate) fn device(number: u32) -> DeviceInfo {
    let known = lock(&DEVICES).iter().find(|device| device.number == number).cloned();
    known.unwrap_or_else(|| DeviceInfo {
        number,
        device_type: "CUDA".to_owned(),
        ..DeviceInfo::default()
    })
}

/// The notes, in the order of their keys.
pub(crate) fn notes() -> Vec<(&'static str, String)> {
    let mut notes = lock(&NOTES).clone();
    notes.sort();
    notes
}

/// Properties of a device as a JSON object.
pub(crate) fn device_json(device: &DeviceInfo) -> String {
    let mut json = format!("{{\"arch\":{}", json_string(&device.arch));
    let numbers = [
        ("bus_width", device.bus_width_bits),
        ("clock_rate", device.clock_khz),
        ("memory_clock_rate", device.memory_clock_khz),
        ("num_sms", device.multiprocessors),
    ];
    let others = device.properties.iter().map(|(key, value)| (key.as_str(), *value));
    for (key, value) in numbers.into_iter().chain(others) {
        for part in [",", &json_string(key), ":", &value.to_string()] {
            json.push_str(part);
        }
    }
    json.push('}');
    json
}

/// Holds the locks over a fork.
pub(super) fn hold() -> impl Sized {
    (lock(&DEVICES), lock(&NOTES))
}
