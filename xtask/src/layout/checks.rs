//! What is claimed of a version: every size, offset and number that its headers should have.

use marey_gpu::cupti::abi::calls::{driver, runtime};
use marey_gpu::cupti::abi::constants::Constant;
use marey_gpu::cupti::abi::layout::{self, Layout};
use marey_gpu::cupti::abi::{constants, result};
use marey_gpu::cupti::driver::attribute;
use marey_gpu::cupti::driver_error;

use super::headers::Headers;

/// A number that the tables claim, and the expression in C that gives it.
#[derive(Debug)]
pub(super) struct Check {
    /// What it is the number of.
    pub(super) name: String,
    /// In C.
    pub(super) expression: String,
    /// As claimed.
    pub(super) expected: u64,
}

/// All that is claimed of these headers, and the records of theirs that the tables do not know.
pub(super) fn checks(headers: &Headers) -> (Vec<Check>, Vec<String>) {
    let mut all = Vec::new();
    let mut unknown = Vec::new();
    for layout in layout::ALL {
        if layout.structs[0].since <= headers.api_version {
            of_record(layout, headers, &mut all, &mut unknown);
        }
    }
    let constants = constants::ALL.iter().copied().flatten().chain(result::ALL);
    let is_known = |one: &&Constant| one.since <= headers.api_version;
    all.extend(constants.filter(is_known).map(|one| number(one.c_name, one.value)));
    for calls in driver::ALL.iter().chain(runtime::ALL) {
        let known = calls.known_to(headers.api_version);
        all.extend(known.map(|call| number(&[calls.prefix, call.name].concat(), call.id)));
    }
    all.extend(driver_error::all().map(|(code, name)| number(name, code)));
    all.extend(DEVICE_ATTRIBUTES.map(|(name, value)| number(name, value)));
    (all, unknown)
}

const DEVICE_ATTRIBUTES: [(&str, u32); 6] = [
    ("CU_DEVICE_ATTRIBUTE_CLOCK_RATE", attribute::CLOCK_RATE),
    ("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT", attribute::MULTIPROCESSOR_COUNT),
    ("CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE", attribute::MEMORY_CLOCK_RATE),
    ("CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH", attribute::GLOBAL_MEMORY_BUS_WIDTH),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR", attribute::COMPUTE_CAPABILITY_MAJOR),
    ("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR", attribute::COMPUTE_CAPABILITY_MINOR),
];

/// The record that the version writes: the newest that its headers declare. One that the tables do not
/// know must still begin as they say, for it is read by them.
fn of_record(layout: &Layout, headers: &Headers, all: &mut Vec<Check>, unknown: &mut Vec<String>) {
    let known = layout.written_by(headers.api_version);
    let newest = headers.newest_of(known.c_name);
    if newest == known.c_name {
        all.push(Check {
            name: format!("the size of {newest}"),
            expression: format!("sizeof({newest})"),
            expected: known.bytes as u64,
        });
    } else {
        unknown.push(newest.clone());
    }
    for named in layout.fields.iter().filter(|named| named.field.since <= headers.api_version) {
        let (name, field) = (named.c_name, named.field);
        all.push(Check {
            name: format!("the offset of {newest}.{name}"),
            expression: format!("offsetof({newest}, {name})"),
            expected: field.offset as u64,
        });
        all.push(Check {
            name: format!("the size of {newest}.{name}"),
            expression: format!("sizeof((({newest} *)0)->{name})"),
            expected: field.size as u64,
        });
    }
}

fn number(name: &str, expected: u32) -> Check {
    Check { name: name.to_owned(), expression: name.to_owned(), expected: u64::from(expected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(api_version: u32, text: &str) -> (Vec<String>, Vec<String>) {
        let headers = Headers { api_version, text: text.to_owned(), include: Vec::new() };
        let (checks, unknown) = checks(&headers);
        (checks.into_iter().map(|check| check.name).collect(), unknown)
    }

    #[test]
    fn a_version_is_asked_for_what_it_has() {
        let has = |names: &[String], name: &str| names.iter().any(|it| it == name);
        let (old, _) = names(28, "");
        let (new, _) = names(130_001, "");
        assert!(has(&old, "the size of CUpti_ActivityKernel9"));
        assert!(has(&new, "the size of CUpti_ActivityKernel10"));
        let device_launched = "the offset of CUpti_ActivityKernel10.isDeviceLaunched";
        assert!(
            has(&new, device_launched) && !old.iter().any(|it| it.contains("isDeviceLaunched"))
        );
        assert!(!old.iter().any(|it| it.contains("CUpti_SubscriberParams")));
        assert!(!has(&old, "CUPTI_ERROR_INVALID_CHIP_NAME"));
    }

    #[test]
    fn a_record_that_is_newer_than_the_tables_is_named_and_its_beginning_checked() {
        let (names, unknown) = names(140_000, "typedef struct {\n} CUpti_ActivityKernel14;\n");
        assert_eq!(unknown, ["CUpti_ActivityKernel14"]);
        assert!(names.contains(&"the offset of CUpti_ActivityKernel14.start".to_owned()));
        assert!(!names.contains(&"the size of CUpti_ActivityKernel14".to_owned()));
    }
}
