//! Reading a record that a library wrote, of whatever version, and never beyond its end.

use std::ffi::{c_char, c_void};
use std::ops::Range;

use super::layout::{Layout, common};

/// A field of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
    /// The API version from which it may be read; 0 for all. Before, there is padding or nothing.
    pub since: u32,
}

/// Where a process has memory: above what is never mapped, and below the kernel's half.
const TEXTS: Range<usize> = 1 << 16..1 << 47;

/// A record in a buffer. Every read gives `None` where the library is too old to write the field, or
/// the record ends before it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
    api_version: u32,
}

impl<'a> Record<'a> {
    /// The record that begins these bytes, which may go on after it, written by a library of this version.
    #[inline]
    pub const fn new(bytes: &'a [u8], api_version: u32) -> Self {
        Self { bytes, api_version }
    }

    /// The record at this address.
    ///
    /// # Safety
    ///
    /// `valid` bytes from `address` on can be read, and nobody writes them, for as long as `'a`.
    #[inline]
    #[expect(unsafe_code, reason = "the library gives records by their address")]
    pub const unsafe fn at(address: *const u8, valid: usize, api_version: u32) -> Self {
        // SAFETY: the caller's promise.
        Self::new(unsafe { std::slice::from_raw_parts(address, valid) }, api_version)
    }

    /// The same record, which ends where this layout does: later reads cannot reach what lies behind it.
    #[inline]
    #[must_use]
    pub fn ending_as(self, layout: &Layout) -> Self {
        let end = layout.bytes(self.api_version).min(self.bytes.len());
        Self { bytes: &self.bytes[..end], ..self }
    }

    /// Which kind of record it is, one of [`kind`](super::constants::kind).
    #[inline]
    pub fn kind(self) -> Option<u32> {
        self.read_u32(common::KIND)
    }

    /// A field of one byte.
    #[inline]
    pub fn read_u8(self, field: Field) -> Option<u8> {
        self.read::<1>(field).map(|[byte]| byte)
    }

    /// A field of two bytes.
    #[inline]
    pub fn read_u16(self, field: Field) -> Option<u16> {
        self.read(field).map(u16::from_ne_bytes)
    }

    /// A field of four bytes.
    #[inline]
    pub fn read_u32(self, field: Field) -> Option<u32> {
        self.read(field).map(u32::from_ne_bytes)
    }

    /// A field of four bytes, with a sign.
    #[inline]
    pub fn read_i32(self, field: Field) -> Option<i32> {
        self.read(field).map(i32::from_ne_bytes)
    }

    /// A field of eight bytes.
    #[inline]
    pub fn read_u64(self, field: Field) -> Option<u64> {
        self.read(field).map(u64::from_ne_bytes)
    }

    /// A field of eight bytes, with a sign.
    #[inline]
    pub fn read_i64(self, field: Field) -> Option<i64> {
        self.read(field).map(i64::from_ne_bytes)
    }

    /// An address; `None` for a null one too.
    #[inline]
    pub fn read_address(self, field: Field) -> Option<*mut c_void> {
        let address = usize::from_ne_bytes(self.read(field)?);
        (address != 0).then(|| std::ptr::with_exposed_provenance_mut(address))
    }

    /// The address of a text of the library's; `None` where no text can be.
    #[inline]
    pub fn read_text(self, field: Field) -> Option<*const c_char> {
        let address = usize::from_ne_bytes(self.read(field)?);
        TEXTS.contains(&address).then(|| std::ptr::with_exposed_provenance(address))
    }

    /// The bytes of a field, as they are.
    #[inline]
    pub fn read_bytes(self, field: Field) -> Option<&'a [u8]> {
        if field.since > self.api_version {
            return None;
        }
        self.bytes.get(field.offset..field.offset + field.size)
    }

    #[inline]
    fn read<const N: usize>(self, field: Field) -> Option<[u8; N]> {
        debug_assert_eq!(field.size, N, "the field at {} has another size", field.offset);
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

    fn counted(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| at as u8).collect()
    }

    #[test]
    fn a_field_is_read_where_it_lies_whatever_the_alignment() {
        let bytes = counted(300);
        for start in 0..8 {
            let record = Record::new(&bytes[start..], 28);
            let expected: [u8; 8] = bytes[start + 16..start + 24].try_into().unwrap();
            assert_eq!(record.read_u64(kernel::START), Some(u64::from_ne_bytes(expected)));
        }
    }

    #[test]
    fn nothing_is_read_beyond_the_record() {
        let bytes = counted(300);
        for layout in layout::ALL {
            for &api in &[18, 22, 24, 26, 28, 130_001, 130_101, 130_202, 130_301, 130_401, 130_500]
            {
                let record = Record::new(&bytes, api).ending_as(layout);
                for named in layout.fields {
                    let end = named.field.offset + named.field.size;
                    let is_there = named.field.since <= api && end <= layout.bytes(api);
                    assert_eq!(
                        record.read_bytes(named.field).is_some(),
                        is_there,
                        "{} {} in {api}",
                        layout.name,
                        named.c_name
                    );
                }
            }
        }
    }

    #[test]
    fn what_lies_behind_a_record_is_not_of_it() {
        let bytes = counted(300);
        let behind = Field { offset: 208, size: 8, since: 0 };
        let record = Record::new(&bytes, 28);
        assert!(record.read_u64(behind).is_some());
        assert_eq!(record.ending_as(&kernel::LAYOUT).read_u64(behind), None);
        let newer = Record::new(&bytes, 130_001).ending_as(&kernel::LAYOUT);
        assert!(newer.read_u64(behind).is_some());
    }

    #[test]
    fn a_buffer_that_ends_within_the_record_ends_the_record() {
        let bytes = counted(100);
        let record = Record::new(&bytes, 28).ending_as(&kernel::LAYOUT);
        assert!(record.read_u32(kernel::CORRELATION_ID).is_some());
        assert_eq!(record.read_u64(kernel::GRID_ID), None);
        assert_eq!(record.read_text(kernel::NAME), None);
        assert_eq!(Record::new(&[], 28).kind(), None);
    }

    #[test]
    fn what_was_padding_is_no_field() {
        let bytes = counted(300);
        let is_device_launched = |api| Record::new(&bytes, api).read_u8(memcpy::IS_DEVICE_LAUNCHED);
        assert_eq!((is_device_launched(28), is_device_launched(130_001)), (None, Some(84)));
    }

    #[test]
    fn a_field_lies_within_the_record_of_its_first_version() {
        for layout in layout::ALL {
            for named in layout.fields {
                let end = named.field.offset + named.field.size;
                let bytes = layout.bytes(named.field.since);
                assert!(end <= bytes, "{} {}", layout.name, named.c_name);
            }
        }
    }

    #[test]
    fn a_text_is_none_where_no_text_can_be() {
        let text = |address: usize| {
            let mut bytes = [0; 208];
            bytes[kernel::NAME.offset..][..8].copy_from_slice(&address.to_ne_bytes());
            Record::new(&bytes, 28).read_text(kernel::NAME)
        };
        for nowhere in [0, 1, 4096, 1 << 47, 0xdead_beef_dead_beef, usize::MAX] {
            assert_eq!(text(nowhere), None, "{nowhere:#x}");
        }
        let somewhere = c"kernel".as_ptr();
        assert_eq!(text(somewhere.expose_provenance()), Some(somewhere));
    }
}
