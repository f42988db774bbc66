//! Reads the inputs of an operator from PyTorch's objects, at positions that are known by version.
//!
//! The C++ functions for this, `inputSizes` and `inputTypes`, allocate, and throw for tensors whose
//! sizes are symbols. Reading the objects does neither. A tensor with symbolic sizes, which only a
//! compiler's trace has, is read as empty.

use super::key::{Input, InputKey, MAX_DIMENSIONS};
use crate::library::RecordFunction;
use std::sync::atomic::{AtomicU64, Ordering};

/// The positions, in words of 8 bytes, and tags of private fields; 0 if they are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputFields {
    /// In `at::RecordFunction`: `inputs_`, a pointer to the first `c10::IValue` and their number.
    pub inputs: u8,
    /// In `c10::TensorImpl`: `sizes_and_strides_`, the number of dimensions, then their sizes, or a
    /// pointer to the sizes of more than [`INLINE_SIZES`].
    pub sizes: u8,
    /// In `c10::TensorImpl`: `data_type_`, whose lower 16 bits are a `c10::ScalarType`.
    pub dtype: u8,
    /// The tag of a `c10::IValue` that contains a list.
    pub list_tag: u8,
    /// The tag of a `c10::IValue` that contains a bool.
    pub bool_tag: u8,
}

/// The fields in use, packed as [`InputFields::pack`] does.
static FIELDS: AtomicU64 = AtomicU64::new(0);

/// Tags of `c10::IValue`, the same from PyTorch 2.2 to 2.15.
const TENSOR_TAG: u64 = 1;
const DOUBLE_TAG: u64 = 3;
const INT_TAG: u64 = 5;

/// Words of a `c10::IValue`: the payload, and the tag in the lower half of the second one.
const IVALUE_WORDS: usize = 2;

/// The words of `c10::detail::ListImpl` that point to the first `c10::IValue` and behind the last.
const LIST_BEGIN: usize = 2;
const LIST_END: usize = 3;

/// The maximum number of sizes that a tensor stores in itself.
const INLINE_SIZES: u64 = 5;

impl InputFields {
    /// Returns the fields that are packed into one word, a byte each, the first one lowest.
    pub const fn from_packed(packed: u64) -> Self {
        let [inputs, sizes, dtype, list_tag, bool_tag, ..] = packed.to_le_bytes();
        Self { inputs, sizes, dtype, list_tag, bool_tag }
    }

    const fn pack(self) -> u64 {
        let Self { inputs, sizes, dtype, list_tag, bool_tag } = self;
        u64::from_le_bytes([inputs, sizes, dtype, list_tag, bool_tag, 0, 0, 0])
    }
}

/// Sets the fields for the loaded version.
pub(crate) fn set_fields(fields: InputFields) {
    FIELDS.store(fields.pack(), Ordering::Relaxed);
}

/// Adds the inputs of a function to a key, with the values of numbers if `reads_values`. Returns
/// whether there are inputs and all of them fit.
///
/// # Safety
/// PyTorch is calling a callback that needs inputs with this function, and the fields are those of
/// its version.
pub(super) unsafe fn read_inputs(
    function: *const RecordFunction,
    reads_values: bool,
    key: &mut InputKey,
) -> bool {
    let fields = InputFields::from_packed(FIELDS.load(Ordering::Relaxed));
    let words = function.cast::<u64>();
    // SAFETY: the field is inside the object, which PyTorch keeps during the callback, with the
    // inputs that it points to.
    unsafe {
        let first_value = words.add(fields.inputs.into()).read() as *const u64;
        let count = words.add(usize::from(fields.inputs) + 1).read();
        count > 0
            && (0..count as usize).all(|index| {
                read_value(first_value.add(index * IVALUE_WORDS), fields, reads_values, key)
            })
    }
}

/// # Safety
/// As for [`read_inputs`], with the address of a value.
unsafe fn read_value(
    value: *const u64,
    fields: InputFields,
    reads_values: bool,
    key: &mut InputKey,
) -> bool {
    // SAFETY: guaranteed by the caller.
    let (payload, tag) = unsafe { (value.read(), value.add(1).read() & u64::from(u32::MAX)) };
    match tag {
        // SAFETY: the payload is the address of a tensor's implementation.
        TENSOR_TAG => unsafe { read_tensor(payload as *const u64, fields, key) },
        INT_TAG if reads_values => key.push(Input::Int(payload.cast_signed())),
        INT_TAG | DOUBLE_TAG => key.push(Input::Scalar),
        _ if tag == u64::from(fields.bool_tag) && reads_values => {
            key.push(Input::Bool(payload & 1 == 1))
        }
        _ if tag == u64::from(fields.bool_tag) => key.push(Input::Scalar),
        // SAFETY: the payload is the address of a list.
        _ if tag == u64::from(fields.list_tag) => unsafe {
            read_list(payload as *const u64, fields, reads_values, key)
        },
        _ => key.push(Input::Other),
    }
}

/// # Safety
/// As for [`read_inputs`], with the address of a list.
unsafe fn read_list(
    list: *const u64,
    fields: InputFields,
    reads_values: bool,
    key: &mut InputKey,
) -> bool {
    // SAFETY: guaranteed by the caller.
    let (first_value, end) = unsafe { (list.add(LIST_BEGIN).read(), list.add(LIST_END).read()) };
    let count = (end.wrapping_sub(first_value) / size_of::<[u64; IVALUE_WORDS]>() as u64) as usize;
    // A list of numbers has no shape, so its length matters only with its values.
    let first_value = first_value as *const u64;
    // SAFETY: the list's values are stored one after another.
    let holds_tensors =
        count > 0 && unsafe { first_value.add(1).read() & 0xffff_ffff == TENSOR_TAG };
    if !holds_tensors && !reads_values {
        return key.push(Input::Scalars(0));
    }
    let head = if holds_tensors { Input::Tensors(count) } else { Input::Scalars(count) };
    key.push(head)
        // SAFETY: as above.
        && (0..count).all(|index| unsafe {
            read_value(first_value.add(index * IVALUE_WORDS), fields, reads_values, key)
        })
}

/// # Safety
/// As for [`read_inputs`], with the address of a tensor's implementation.
unsafe fn read_tensor(tensor: *const u64, fields: InputFields, key: &mut InputKey) -> bool {
    // SAFETY: both fields are inside the object.
    let (dimensions, dtype) = unsafe {
        (tensor.add(fields.sizes.into()).read(), tensor.add(fields.dtype.into()).read() as u16)
    };
    if dimensions > MAX_DIMENSIONS {
        return false;
    }
    // SAFETY: a tensor has this many sizes, inside the object or where the word points to.
    unsafe {
        let inline_sizes = tensor.add(usize::from(fields.sizes) + 1);
        let sizes = if dimensions > INLINE_SIZES {
            inline_sizes.read() as *const u64
        } else {
            inline_sizes
        };
        let sizes = std::slice::from_raw_parts(sizes, dimensions as usize);
        key.push(Input::Tensor { dtype, sizes })
    }
}
