//! Bounds-checked access to the fields of a record of any version.

use std::ffi::{c_char, c_void};
use std::ops::Range;

use super::layout::{RecordLayout, common};

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset.
    pub offset: usize,
    /// Size.
    pub size: usize,
    /// First API version with the field; 0 for all. In older versions there is padding, or the end
    /// of the record.
    pub since: u32,
}

/// Range of user-space addresses: above the pages that are never mapped, below the kernel's half.
const USER_ADDRESSES: Range<usize> = 1 << 16..1 << 47;

/// A record in a buffer. Reads return `None` if the API version is too old for the field, or the
/// record ends before it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
    api_version: u32,
}

impl<'a> Record<'a> {
    /// Creates a record at the start of these bytes, which may extend beyond it, written by this
    /// API version.
    #[inline]
    pub const fn new(bytes: &'a [u8], api_version: u32) -> Self {
        Self { bytes, api_version }
    }

    /// Creates a record at this address.
    ///
    /// # Safety
    ///
    /// `valid_bytes` bytes from `address` on are readable and unchanged during `'a`.
    #[inline]
    #[expect(unsafe_code, reason = "the library gives records by their address")]
    pub const unsafe fn from_address(
        address: *const u8,
        valid_bytes: usize,
        api_version: u32,
    ) -> Self {
        // SAFETY: guaranteed by the caller.
        Self::new(unsafe { std::slice::from_raw_parts(address, valid_bytes) }, api_version)
    }

    /// Limits the record to the size of this layout, so that reads cannot reach data after it.
    #[inline]
    #[must_use]
    pub fn limited_to(self, layout: &RecordLayout) -> Self {
        let end = layout.bytes(self.api_version).min(self.bytes.len());
        Self { bytes: &self.bytes[..end], ..self }
    }

    /// Returns the activity kind, one of [`kind`](super::constants::kind).
    #[inline]
    pub fn kind(self) -> Option<u32> {
        self.read_u32(common::KIND)
    }

    /// Reads a field of one byte.
    #[inline]
    pub fn read_u8(self, field: Field) -> Option<u8> {
        self.read::<1>(field).map(|[byte]| byte)
    }

    /// Reads a field of two bytes.
    #[inline]
    pub fn read_u16(self, field: Field) -> Option<u16> {
        self.read(field).map(u16::from_ne_bytes)
    }

    /// Reads a field of four bytes.
    #[inline]
    pub fn read_u32(self, field: Field) -> Option<u32> {
        self.read(field).map(u32::from_ne_bytes)
    }

    /// Reads a field of eight bytes.
    #[inline]
    pub fn read_u64(self, field: Field) -> Option<u64> {
        self.read(field).map(u64::from_ne_bytes)
    }

    /// Reads an address; null is `None` too.
    #[inline]
    pub fn read_address(self, field: Field) -> Option<*mut c_void> {
        let address = usize::from_ne_bytes(self.read(field)?);
        (address != 0).then(|| std::ptr::with_exposed_provenance_mut(address))
    }

    /// Reads the address of a string; `None` if it cannot be a valid address.
    #[inline]
    pub fn read_string_address(self, field: Field) -> Option<*const c_char> {
        let address = usize::from_ne_bytes(self.read(field)?);
        USER_ADDRESSES.contains(&address).then(|| std::ptr::with_exposed_provenance(address))
    }

    /// Returns the bytes of a field.
    #[inline]
    pub fn read_bytes(self, field: Field) -> Option<&'a [u8]> {
        if field.since > self.api_version {
            return None;
        }
        self.bytes.get(field.offset..field.offset + field.size)
    }

    #[inline]
    fn read<const N: usize>(self, field: Field) -> Option<[u8; N]> {
        debug_assert_eq!(field.size, N, "the field at offset {} has another size", field.offset);
        if field.since > self.api_version {
            return None;
        }
        self.bytes.get(field.offset..)?.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{self, kernel, memcpy};
    use super::*;

    fn ascending_bytes(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|offset| offset as u8).collect()
    }

    #[test]
    fn fields_are_read_at_any_alignment() {
        let bytes = ascending_bytes(300);
        for start in 0..8 {
            let record = Record::new(&bytes[start..], 28);
            let expected: [u8; 8] = bytes[start + 16..start + 24].try_into().unwrap();
            assert_eq!(record.read_u64(kernel::START), Some(u64::from_ne_bytes(expected)));
        }
    }

    #[test]
    fn reads_beyond_the_record_return_none() {
        let bytes = ascending_bytes(300);
        for layout in layout::ALL {
            for &api in &[18, 22, 24, 26, 28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500]
            {
                let record = Record::new(&bytes, api).limited_to(layout);
                for named in layout.fields {
                    let end = named.field.offset + named.field.size;
                    let exists = named.field.since <= api && end <= layout.bytes(api);
                    assert_eq!(
                        record.read_bytes(named.field).is_some(),
                        exists,
                        "{} {} in {api}",
                        layout.name,
                        named.c_name
                    );
                }
            }
        }
    }

    #[test]
    fn a_limited_record_does_not_reach_the_next_one() {
        let bytes = ascending_bytes(300);
        let next_record_field = Field { offset: 208, size: 8, since: 0 };
        let record = Record::new(&bytes, 28);
        assert!(record.read_u64(next_record_field).is_some());
        assert_eq!(record.limited_to(&kernel::LAYOUT).read_u64(next_record_field), None);
        let newer = Record::new(&bytes, 130_001).limited_to(&kernel::LAYOUT);
        assert!(newer.read_u64(next_record_field).is_some());
    }

    #[test]
    fn a_record_ends_with_its_buffer() {
        let bytes = ascending_bytes(100);
        let record = Record::new(&bytes, 28).limited_to(&kernel::LAYOUT);
        assert!(record.read_u32(kernel::CORRELATION_ID).is_some());
        assert_eq!(record.read_u64(kernel::GRID_ID), None);
        assert_eq!(record.read_string_address(kernel::NAME), None);
        assert_eq!(Record::new(&[], 28).kind(), None);
    }

    #[test]
    fn a_field_newer_than_the_version_is_none() {
        let bytes = ascending_bytes(300);
        let is_device_launched = |api| Record::new(&bytes, api).read_u8(memcpy::IS_DEVICE_LAUNCHED);
        assert_eq!((is_device_launched(28), is_device_launched(130_001)), (None, Some(84)));
    }

    #[test]
    fn fields_are_within_the_record_of_their_first_version() {
        for layout in layout::ALL {
            for named in layout.fields {
                let end = named.field.offset + named.field.size;
                let bytes = layout.bytes(named.field.since);
                assert!(end <= bytes, "{} {}", layout.name, named.c_name);
            }
        }
    }

    #[test]
    fn an_invalid_string_address_is_none() {
        let string_address = |address: usize| {
            let mut bytes = [0; 208];
            bytes[kernel::NAME.offset..][..8].copy_from_slice(&address.to_ne_bytes());
            Record::new(&bytes, 28).read_string_address(kernel::NAME)
        };
        for invalid in [0, 1, 4096, 1 << 47, 0xdead_beef_dead_beef, usize::MAX] {
            assert_eq!(string_address(invalid), None, "{invalid:#x}");
        }
        let kernel_name = c"kernel".as_ptr();
        assert_eq!(string_address(kernel_name.expose_provenance()), Some(kernel_name));
    }
}
