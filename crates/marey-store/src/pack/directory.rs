//! Parses the directory at the end of a zip, to find the members of a pack.
//!
//! This is a parser of its own because a library's reader supports every kind of zip, and a crafted
//! file can keep it busy or make it allocate without limit. `zip` 6 searches a file of 4 GiB for 13
//! seconds, and takes 3 to 6 times as long for a valid pack. This parser accepts what
//! [`super::pack`] and `zip -0` write, in one pass over the directory, and rejects everything else.
//! The layouts are those of PKWARE's APPNOTE.TXT, 4.3.7 to 4.3.16 and 4.5.3.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::{Buf, TryGetError};
use thiserror::Error;

/// Maximum length of a directory. Longer ones are rejected.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const LOCAL_HEADER_BYTES: u64 = 30;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_BYTES: u64 = 22;
const END64: u32 = 0x0606_4b50;
const END64_BYTES: u64 = 56;
const LOCATOR64: u32 = 0x0706_4b50;
const LOCATOR64_BYTES: u64 = 20;
const ZIP64_EXTRA: u16 = 1;
const STORED: u16 = 0;
const ENCRYPTED: u16 = 1;

const TRUNCATED: &str = "the directory ends within an entry";

/// The reason why a file is not a valid pack.
#[derive(Debug, Error)]
pub(super) enum DirectoryError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Broken(String),
}

impl From<TryGetError> for DirectoryError {
    fn from(_: TryGetError) -> Self {
        Self::broken(TRUNCATED)
    }
}

impl DirectoryError {
    fn broken(reason: impl Into<String>) -> Self {
        Self::Broken(reason.into())
    }
}

/// Returns the range of each member's content. The members do not overlap, and they fill the file
/// up to its directory.
pub(super) fn members(file: &File) -> Result<BTreeMap<String, Range<u64>>, DirectoryError> {
    let extent = DirectoryExtent::find(file)?;
    let mut bytes = vec![0; extent.len_bytes() as usize];
    file.read_exact_at(&mut bytes, extent.start)?;
    let mut fields = &bytes[..];
    let mut members = BTreeMap::new();
    let mut extents = Vec::new();
    for _ in 0..extent.members {
        let entry = DirectoryEntry::parse(&mut fields)?;
        let content = entry.content(file, extent.start)?;
        extents.push(entry.header_start..content.end);
        if members.insert(entry.name.clone(), content).is_some() {
            return Err(DirectoryError::Broken(format!("`{}` is listed twice", entry.name)));
        }
    }
    if !fields.is_empty() {
        return Err(DirectoryError::broken("bytes follow the directory's last entry"));
    }
    check_filled(extents, extent.start)?;
    Ok(members)
}

fn check_filled(mut extents: Vec<Range<u64>>, directory_start: u64) -> Result<(), DirectoryError> {
    extents.sort_by_key(|extent| extent.start);
    let mut filled_to = 0;
    for extent in extents {
        if extent.start != filled_to {
            return Err(gap(filled_to));
        }
        filled_to = extent.end;
    }
    if filled_to == directory_start { Ok(()) } else { Err(gap(filled_to)) }
}

fn gap(at: u64) -> DirectoryError {
    DirectoryError::Broken(format!("no member starts at byte {at}, where the previous one ends"))
}

/// The range of the directory, and its number of members.
struct DirectoryExtent {
    start: u64,
    end: u64,
    members: u64,
}

impl DirectoryExtent {
    fn find(file: &File) -> Result<Self, DirectoryError> {
        let end_start = file.metadata()?.len().checked_sub(END_BYTES);
        let end_start = end_start.ok_or_else(|| DirectoryError::broken("the file is truncated"))?;
        let extent = match Self::find_64(file, end_start)? {
            Some(extent) => extent,
            None => Self::find_32(file, end_start)?,
        };
        if extent.start > extent.end {
            return Err(DirectoryError::broken("the directory ends before it starts"));
        }
        if extent.len_bytes() > MAX_DIRECTORY_BYTES {
            let reason = format!("the directory is longer than {MAX_DIRECTORY_BYTES} bytes");
            return Err(DirectoryError::Broken(reason));
        }
        Ok(extent)
    }

    fn len_bytes(&self) -> u64 {
        self.end - self.start
    }

    fn find_32(file: &File, end_start: u64) -> Result<Self, DirectoryError> {
        let bytes: [u8; END_BYTES as usize] = read(file, end_start)?;
        let mut fields = &bytes[..];
        if fields.try_get_u32_le()? != END {
            return Err(DirectoryError::broken("the file does not end with an end record"));
        }
        take(&mut fields, 6)?; // disk numbers, members on this disk
        let members = fields.try_get_u16_le()?.into();
        fields.try_get_u32_le()?; // length: the directory ends at this record
        let start = fields.try_get_u32_le()?.into();
        Ok(Self { start, end: end_start, members })
    }

    /// Finds the directory by the zip64 records before the end record, if there are any.
    fn find_64(file: &File, end_start: u64) -> Result<Option<Self>, DirectoryError> {
        let Some(end64_start) = end_start.checked_sub(LOCATOR64_BYTES + END64_BYTES) else {
            return Ok(None);
        };
        let bytes: [u8; (END64_BYTES + LOCATOR64_BYTES) as usize] = read(file, end64_start)?;
        let (mut end64, mut locator) = bytes.split_at(END64_BYTES as usize);
        if end64.try_get_u32_le()? != END64 || locator.try_get_u32_le()? != LOCATOR64 {
            return Ok(None);
        }
        take(&mut end64, 28)?; // length, versions, disk numbers, members on this disk
        let members = end64.try_get_u64_le()?;
        end64.try_get_u64_le()?; // length
        Ok(Some(Self { start: end64.try_get_u64_le()?, end: end64_start, members }))
    }
}

/// A directory entry.
struct DirectoryEntry {
    name: String,
    header_start: u64,
    len_bytes: u64,
}

impl DirectoryEntry {
    fn parse(fields: &mut &[u8]) -> Result<Self, DirectoryError> {
        if fields.try_get_u32_le()? != ENTRY {
            return Err(DirectoryError::broken("the directory has fewer entries than it declares"));
        }
        take(fields, 4)?; // versions
        let flags = fields.try_get_u16_le()?;
        let method = fields.try_get_u16_le()?;
        take(fields, 8)?; // time, date, checksum
        let stored_bytes = fields.try_get_u32_le()?;
        let len_bytes = fields.try_get_u32_le()?;
        let name_len = fields.try_get_u16_le()?.into();
        let extra_len = fields.try_get_u16_le()?.into();
        let comment_len = fields.try_get_u16_le()?.into();
        take(fields, 8)?; // disk number, attributes
        let header_start = fields.try_get_u32_le()?;
        let name = member_name(take(fields, name_len)?)?;
        let mut extra = zip64_extra(take(fields, extra_len)?)?;
        take(fields, comment_len)?;

        // The extra field has, in this order, those of the three numbers that do not fit into 32
        // bits here.
        let mut wide = |narrow| {
            if narrow == u32::MAX { extra.try_get_u64_le() } else { Ok(u64::from(narrow)) }
        };
        let len_bytes = wide(len_bytes)?;
        let stored_bytes = wide(stored_bytes)?;
        let header_start = wide(header_start)?;
        if method != STORED || flags & ENCRYPTED != 0 || stored_bytes != len_bytes {
            return Err(DirectoryError::Broken(format!("`{name}` is compressed or encrypted")));
        }
        Ok(Self { name, header_start, len_bytes })
    }

    /// Returns the range of the content, which depends on the local header before it.
    fn content(&self, file: &File, directory_start: u64) -> Result<Range<u64>, DirectoryError> {
        let broken =
            || DirectoryError::Broken(format!("`{}` is not before the directory", self.name));
        let fixed_end = self.header_start.checked_add(LOCAL_HEADER_BYTES).ok_or_else(broken)?;
        if fixed_end > directory_start {
            return Err(broken());
        }
        let bytes: [u8; LOCAL_HEADER_BYTES as usize] = read(file, self.header_start)?;
        let mut fields = &bytes[..];
        if fields.try_get_u32_le()? != LOCAL_HEADER {
            return Err(DirectoryError::Broken(format!("`{}` has no header", self.name)));
        }
        take(&mut fields, 22)?; // version to lengths, as in the directory
        let name_len: u64 = fields.try_get_u16_le()?.into();
        let extra_len: u64 = fields.try_get_u16_le()?.into();
        let start = fixed_end + name_len + extra_len;
        let end = start.checked_add(self.len_bytes).filter(|&end| end <= directory_start);
        Ok(start..end.ok_or_else(broken)?)
    }
}

fn member_name(bytes: &[u8]) -> Result<String, DirectoryError> {
    let name = str::from_utf8(bytes)
        .map_err(|error| DirectoryError::Broken(format!("a name is not UTF-8: {error}")))?;
    if name.starts_with('/') || name.split('/').any(|step| step == "..") {
        return Err(DirectoryError::Broken(format!("the path `{name}` leads out of the pack")));
    }
    Ok(name.to_owned())
}

/// Returns the content of the zip64 extra field, which is empty if there is none.
fn zip64_extra(mut extra: &[u8]) -> Result<&[u8], DirectoryError> {
    while !extra.is_empty() {
        let id = extra.try_get_u16_le()?;
        let len = extra.try_get_u16_le()?.into();
        let content = take(&mut extra, len)?;
        if id == ZIP64_EXTRA {
            return Ok(content);
        }
    }
    Ok(extra)
}

fn read<const N: usize>(file: &File, start: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

fn take<'a>(fields: &mut &'a [u8], len: usize) -> Result<&'a [u8], DirectoryError> {
    fields.split_off(..len).ok_or_else(|| DirectoryError::broken(TRUNCATED))
}
