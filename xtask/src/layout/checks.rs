//! The sizes, offsets and constants that the ABI tables of `marey-gpu` claim for a version.

use marey_gpu::cupti::abi::calls::{driver, runtime};
use marey_gpu::cupti::abi::constants::Constant;
use marey_gpu::cupti::abi::layout::{self, RecordLayout};
use marey_gpu::cupti::abi::{constants, result};
use marey_gpu::cupti::driver::attribute;
use marey_gpu::cupti::driver_error;

use super::headers::Headers;

/// A claimed number, and the C expression with its actual value.
#[derive(Debug)]
pub(super) struct Check {
    /// Description of the number.
    pub(super) name: String,
    /// C expression.
    pub(super) expression: String,
    /// Claimed value.
    pub(super) expected: u64,
}

/// Returns all checks for these headers, and the records in them that are newer than the tables.
pub(super) fn create_checks(headers: &Headers) -> (Vec<Check>, Vec<String>) {
    let mut checks = Vec::new();
    let mut unknown = Vec::new();
    for layout in layout::ALL {
        if layout.structs[0].since <= headers.api_version {
            record_checks(layout, headers, &mut checks, &mut unknown);
        }
    }
    let constants = constants::ALL.iter().copied().flatten().chain(result::ALL);
    let is_known = |constant: &&Constant| constant.since <= headers.api_version;
    checks.extend(
        constants.filter(is_known).map(|constant| constant_check(constant.c_name, constant.value)),
    );
    for calls in driver::ALL.iter().chain(runtime::ALL) {
        let known = calls.known_to(headers.api_version);
        checks.extend(
            known.map(|call| constant_check(&[calls.prefix, call.name].concat(), call.callback_id)),
        );
    }
    checks.extend(driver_error::all().map(|(code, name)| constant_check(name, code)));
    checks.extend(DEVICE_ATTRIBUTES.map(|(name, value)| constant_check(name, value)));
    (checks, unknown)
}

const DEVICE_ATTRIBUTES: [(&str, u32); 6] = [
    ("CU_DEVICE_ATTRIBUTE_CLOCK_RATE", attribute::CLOCK_RATE),
    ("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", attribute::MULTIPROCESSOR_COUNT),
    ("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE", attribute::MEMORY_CLOCK_RATE),
    ("CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH", attribute::GLOBAL_MEMORY_BUS_WIDTH),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", attribute::COMPUTE_CAPABILITY_MAJOR),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", attribute::COMPUTE_CAPABILITY_MINOR),
];

/// Adds the checks of the newest version of a record in the headers. A version unknown to the
/// tables must still begin like the newest known one, by which it is read.
fn record_checks(
    layout: &RecordLayout,
    headers: &Headers,
    checks: &mut Vec<Check>,
    unknown: &mut Vec<String>,
) {
    let record = layout.written_by(headers.api_version);
    let newest = headers.newest_version(record.c_name);
    if newest == record.c_name {
        checks.push(Check {
            name: format!("the size of {newest}"),
            expression: format!("sizeof({newest})"),
            expected: record.bytes as u64,
        });
    } else {
        unknown.push(newest.clone());
    }
    for field_layout in
        layout.fields.iter().filter(|field_layout| field_layout.field.since <= headers.api_version)
    {
        let (name, field) = (field_layout.c_name, field_layout.field);
        checks.push(Check {
            name: format!("the offset of {newest}.{name}"),
            expression: format!("offsetof({newest}, {name})"),
            expected: field.offset as u64,
        });
        checks.push(Check {
            name: format!("the size of {newest}.{name}"),
            expression: format!("sizeof((({newest} *)0)->{name})"),
            expected: field.size as u64,
        });
    }
}

fn constant_check(name: &str, expected: u32) -> Check {
    Check { name: name.to_owned(), expression: name.to_owned(), expected: u64::from(expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(api_version: u32, text: &str) -> (Vec<String>, Vec<String>) {
        let headers = Headers { api_version, text: text.to_owned(), include: Vec::new() };
        let (checks, unknown) = create_checks(&headers);
        (checks.into_iter().map(|check| check.name).collect(), unknown)
    }

    #[test]
    fn checks_depend_on_the_version() {
        let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
        let (old, _) = names(28, "");
        let (new, _) = names(130_001, "");
        assert!(has(&old, "the size of CUpti_ActivityKernel9"));
        assert!(has(&new, "the size of CUpti_ActivityKernel10"));
        let device_launched = "the offset of CUpti_ActivityKernel10.isDeviceLaunched";
        assert!(
            has(&new, device_launched) && !old.iter().any(|name| name.contains("isDeviceLaunched"))
        );
        assert!(!old.iter().any(|name| name.contains("CUpti_SubscriberParams")));
        assert!(!has(&old, "CUPTI_ERROR_INVALID_CHIP_NAME"));
    }

    #[test]
    fn an_unknown_version_of_a_record_is_reported_and_its_known_fields_checked() {
        let (names, unknown) = names(140_000, "typedef struct {\n} CUpti_ActivityKernel14;\n");
        assert_eq!(unknown, ["CUpti_ActivityKernel14"]);
        assert!(names.contains(&"the offset of CUpti_ActivityKernel14.start".to_owned()));
        assert!(!names.contains(&"the size of CUpti_ActivityKernel14".to_owned()));
    }
}
