//! Interns the names of operators, autograd nodes and user scopes. A name that was seen before gets
//! its id without a lock.
//!
//! An operator's name belongs to its schema, so the address identifies name and overload until a
//! library of operators is unloaded. Names of autograd nodes and of user scopes are temporary. A
//! found entry is therefore always compared with the text.

use marey_record::api;
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A name that was seen. It lives as long as the process, because any thread may be reading it.
struct SeenName {
    /// The address of the text in PyTorch, null if that text is temporary.
    address: *const c_char,
    text: Box<CStr>,
    name_id: u32,
}

/// The number of slots in the table, a power of two. PyTorch 2.15 has some 3,000 operators, of
/// which a program uses a few hundred.
const TABLE_SLOTS: usize = 8192;

/// A name is in the slot of its hash or in one of the next slots, this many in all. A name that
/// finds none of them free is interned again each time.
const MAX_PROBES: usize = 16;

/// An open-addressing table of names. A name stays where it is.
type Table = [AtomicPtr<SeenName>; TABLE_SLOTS];

/// Names of operators, by the hash of their address.
static OPERATOR_NAMES: Table = [const { AtomicPtr::new(null_mut()) }; TABLE_SLOTS];

/// Temporary names, by the hash of their text. A program may make up as many as it likes, and fills
/// this table only.
static TEMPORARY_NAMES: Table = [const { AtomicPtr::new(null_mut()) }; TABLE_SLOTS];

/// Returns the id of an operator's name, which contains the overload if `overload` returns one.
///
/// # Safety
/// `name` and the result of `overload` are C strings.
#[inline(always)]
pub(crate) unsafe fn intern_operator(
    name: *const c_char,
    overload: impl FnOnce() -> Option<*const c_char>,
) -> u32 {
    let first_slot = slot_of_address(name);
    for seen in names_from(&OPERATOR_NAMES, first_slot) {
        // SAFETY: both are C strings.
        if seen.address == name && unsafe { libc::strcmp(seen.text.as_ptr(), name) } == 0 {
            return seen.name_id;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { intern_new_operator(first_slot, name, overload()) }
}

/// Iterates over the names from a slot on, as far as a name whose hash has this slot may be.
#[inline(always)]
fn names_from(table: &'static Table, first_slot: usize) -> impl Iterator<Item = &'static SeenName> {
    (0..MAX_PROBES).map_while(move |probe| {
        // SAFETY: null, or a name that is never freed.
        unsafe { table[(first_slot + probe) % TABLE_SLOTS].load(Ordering::Acquire).as_ref() }
    })
}

/// # Safety
/// As for [`intern_operator`].
#[cold]
#[inline(never)]
unsafe fn intern_new_operator(
    first_slot: usize,
    name: *const c_char,
    overload: Option<*const c_char>,
) -> u32 {
    // SAFETY: a C string.
    let text = unsafe { CStr::from_ptr(name) };
    if !is_operator_name(text) {
        return intern_temporary(text);
    }
    // SAFETY: a C string.
    let overload = overload.map(|overload| unsafe { CStr::from_ptr(overload) }.to_string_lossy());
    let mut full_name = text.to_string_lossy().into_owned();
    if let Some(overload) = overload.filter(|overload| !overload.is_empty()) {
        full_name.push('.');
        full_name.push_str(&overload);
    }
    let name_id = if is_internal(&full_name) { IGNORED } else { api::intern(&full_name) };
    add(&OPERATOR_NAMES, first_slot, name, text, name_id);
    name_id
}

/// Returns the id of a name whose text will be overwritten.
#[inline]
pub(crate) fn intern_temporary(text: &CStr) -> u32 {
    let first_slot = slot_of_text(text);
    for seen in names_from(&TEMPORARY_NAMES, first_slot) {
        if *seen.text == *text {
            return seen.name_id;
        }
    }
    let name = text.to_string_lossy();
    let name_id = if is_internal(&name) { IGNORED } else { api::intern(&name) };
    add(&TEMPORARY_NAMES, first_slot, std::ptr::null(), text, name_id);
    name_id
}

/// The id of names that are not recorded.
pub(crate) const IGNORED: u32 = 0;

/// Adds a name, unless all its slots are taken.
fn add(table: &Table, first_slot: usize, address: *const c_char, text: &CStr, name_id: u32) {
    let free_slot = (0..MAX_PROBES)
        .map(|probe| &table[(first_slot + probe) % TABLE_SLOTS])
        .find(|slot| slot.load(Ordering::Relaxed).is_null());
    let Some(slot) = free_slot else { return };
    let name = Box::into_raw(Box::new(SeenName { address, text: text.into(), name_id }));
    let exchanged = slot.compare_exchange(null_mut(), name, Ordering::Release, Ordering::Relaxed);
    if exchanged.is_err() {
        // Another thread has filled the slot; the name is added when it is seen again.
        // SAFETY: the box was not published.
        drop(unsafe { Box::from_raw(name) });
    }
}

/// Whether a name may belong to a schema, `namespace::operator`. Code that is not an operator uses
/// such names too, with text after a space: `autograd::engine::evaluate_function: MmBackward0`.
fn is_operator_name(text: &CStr) -> bool {
    let bytes = text.to_bytes();
    !bytes.contains(&b' ') && bytes.windows(2).any(|pair| pair == b"::")
}

/// Whether a name is of PyTorch's own profiling: the operators behind `record_function`, the steps
/// of its profiler, and optimizer steps, which are scopes of `marey.torch`.
fn is_internal(name: &str) -> bool {
    ["profiler::", "ProfilerStep#", "Optimizer.step#"].iter().any(|prefix| name.starts_with(prefix))
}

const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

fn slot_of_address(address: *const c_char) -> usize {
    slot_of_hash(address as u64)
}

fn slot_of_text(text: &CStr) -> usize {
    // As FNV-1a, by words rather than bytes: some names have sixty bytes.
    let (words, end) = text.to_bytes().as_chunks::<8>();
    let end = end.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let words = words.iter().map(|&word| u64::from_ne_bytes(word));
    let hash = words.chain([end]).fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ word).wrapping_mul(GOLDEN_RATIO).rotate_left(29)
    });
    slot_of_hash(hash)
}

fn slot_of_hash(hash: u64) -> usize {
    // Fibonacci hashing: the high bits depend on all bits of the address.
    (hash.wrapping_mul(GOLDEN_RATIO) >> (64 - TABLE_SLOTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn id_of(name: &CStr, overload: &'static CStr) -> u32 {
        // SAFETY: C strings.
        unsafe { intern_operator(name.as_ptr(), || Some(overload.as_ptr())) }
    }

    #[test]
    fn a_name_contains_its_overload() {
        let (first, second) = (c"names::add".to_owned(), c"names::add".to_owned());
        let plain = id_of(&first, c"");
        let tensor = id_of(&second, c"Tensor");
        assert_eq!(&*api::name(plain), "names::add");
        assert_eq!(&*api::name(tensor), "names::add.Tensor");
        assert_eq!(plain, id_of(&first, c"is not asked for again"));
        assert_eq!(tensor, id_of(&second, c"is not asked for again"));
    }

    #[test]
    fn memory_that_contains_another_name_has_another_id() {
        let mut memory = *b"names::one\0";
        let one = id_of(CStr::from_bytes_with_nul(&memory).unwrap(), c"");
        memory[7..10].copy_from_slice(b"two");
        let two = id_of(CStr::from_bytes_with_nul(&memory).unwrap(), c"");
        assert_eq!(&*api::name(one), "names::one");
        assert_eq!(&*api::name(two), "names::two");
    }

    #[test]
    fn a_temporary_name_is_found_by_its_text() {
        let text = c"autograd::engine::evaluate_function: MmBackward0";
        let operator_id = id_of(text, c"");
        assert_eq!(operator_id, intern_temporary(text));
        assert_eq!(&*api::name(operator_id), text.to_str().unwrap());
    }

    #[test]
    fn names_of_pytorchs_profiler_are_ignored() {
        assert_eq!(id_of(c"profiler::_record_function_enter_new", c""), IGNORED);
        assert_eq!(intern_temporary(c"ProfilerStep#12"), IGNORED);
        assert_eq!(intern_temporary(c"Optimizer.step#AdamW.step"), IGNORED);
        assert_ne!(intern_temporary(c"Optimizer.zero_grad#AdamW.zero_grad"), IGNORED);
    }

    #[test]
    fn more_names_than_slots_keep_their_ids() {
        let names: Vec<_> = (0..2 * TABLE_SLOTS)
            .map(|index| CString::new(format!("many::{index}")).unwrap())
            .collect();
        let ids: Vec<u32> = names.iter().map(|name| id_of(name, c"")).collect();
        for (name, &expected) in names.iter().zip(&ids) {
            assert_eq!(id_of(name, c""), expected);
        }
    }
}
