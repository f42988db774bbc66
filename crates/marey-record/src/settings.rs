//! The current values of the settings. A user may change them from outside while the process
//! records.

use crate::{device, environment, names, sampling};
use marey_model::setting::{self, Declaration, InvalidValue, Setting, SettingKind, SettingValue};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The bits that mean that a value was not read from the environment yet. As a float they are a
/// NaN.
const UNREAD: u64 = u64::MAX;

static VALUES: [AtomicU64; setting::ALL.len()] =
    [const { AtomicU64::new(UNREAD) }; setting::ALL.len()];

/// Returns the value of a setting: the last one set, else that of its environment variable, else
/// the default. Ignores a variable whose value the setting cannot have. The start of a session adds
/// a note about it.
pub fn value(setting: Setting) -> f64 {
    let Some(stored) = VALUES.get(setting.number()) else { return setting.declaration().default };
    let bits = stored.load(Ordering::Relaxed);
    if bits != UNREAD {
        return f64::from_bits(bits);
    }
    let initial = initial_value(setting).to_bits();
    match stored.compare_exchange(UNREAD, initial, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => f64::from_bits(initial),
        Err(set_meanwhile) => f64::from_bits(set_meanwhile),
    }
}

/// Returns the value of a setting whose values are whole numbers.
pub fn whole(setting: Setting) -> u64 {
    value(setting) as u64
}

/// Whether a switch is on.
pub fn is_on(setting: Setting) -> bool {
    value(setting) != 0.0
}

/// Returns the value of a setting as a text.
pub(crate) fn text(declared: &Declaration) -> String {
    let value = value(declared.setting);
    match declared.kind {
        SettingKind::Name if value != 0.0 => names::name(value as u32).to_string(),
        _ => declared.format(value),
    }
}

/// Sets a setting to a number in its range. Fails if the process cannot take the value now.
pub fn set(setting: Setting, value: f64) -> Result<(), InvalidValue> {
    if setting == Setting::SampleSignal {
        sampling::handle_signal(value as i32)?;
    }
    if let Some(stored) = VALUES.get(setting.number()) {
        stored.store(value.to_bits(), Ordering::Relaxed);
    }
    Ok(())
}

/// The function that a thread of the recorder calls after a setting was changed from outside, and
/// when there is a request that Python has to answer. Returns whether Python has taken notice; if
/// not, it is called again.
pub type Listener = extern "C" fn() -> bool;

static LISTENER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the function that is called after a setting was changed from outside.
pub fn set_listener(listener: Listener) {
    LISTENER.store(listener as *mut (), Ordering::Release);
}

/// Sets a setting to the value that a text from outside means. Returns the setting.
pub(crate) fn parse_and_set(key: &str, text: &str) -> Result<Setting, InvalidValue> {
    let Some(declared) = setting::find(key) else {
        return Err(InvalidValue(format!("there is no setting `{key}`")));
    };
    set(declared.setting, number(declared.parse(text)?))?;
    Ok(declared.setting)
}

/// Returns the number that stands for a value.
fn number(value: SettingValue<'_>) -> f64 {
    match value {
        SettingValue::Number(number) => number,
        SettingValue::Name("") => 0.0,
        SettingValue::Name(name) => f64::from(names::intern(name)),
    }
}

/// Calls the listener. Returns whether it has taken notice, `None` if there is none.
pub(crate) fn notify_listener() -> Option<bool> {
    let listener = LISTENER.load(Ordering::Acquire);
    if listener.is_null() {
        return None;
    }
    // SAFETY: not null, so `set_listener` has stored a function of this type.
    #[expect(unsafe_code, reason = "an atomic has no type for functions")]
    let listener = unsafe { std::mem::transmute::<*mut (), Listener>(listener) };
    Some(listener())
}

/// Adds a note for each variable whose value its setting cannot have.
pub(crate) fn note_ignored_variables() {
    for declared in &setting::ALL {
        let Some((name, text)) =
            declared.env.and_then(|name| Some((name, environment::text(name)?)))
        else {
            continue;
        };
        if let Err(invalid) = declared.parse(&text) {
            device::note(name, format!("ignored: {}", invalid.0));
        }
    }
}

fn initial_value(setting: Setting) -> f64 {
    let declared = setting.declaration();
    let text = declared.env.and_then(environment::text);
    text.and_then(|text| declared.parse(&text).ok().map(number)).unwrap_or(declared.default)
}
