//! The functions that PyTorch calls at the start and end of an observed function.
//!
//! Each kind has functions of its own, so that the kind need not be read from PyTorch's private
//! fields. The end of an operator or of an autograd node finds the number of the name again rather
//! than storing it: PyTorch calls `end` for exactly the functions whose `start` it called, on the
//! same thread, and a scope that is not open is not exited. Only user scopes may end on another
//! thread than they started on, so they are found by their function ([`user_scopes`]).

use crate::autograd;
use crate::inputs;
use crate::library::{
    EndCallback, Library, ObservedKind, RecordFunction, Registration, StartCallback,
};
use crate::names::{self, IGNORED};
use crate::shapes;
use crate::user_scopes;
use marey_model::context::NodeKind;
use marey_record::api::{self, AutogradCall};
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// The library whose functions the callbacks call. Set before the first registration.
pub(crate) static LIBRARY: OnceLock<Library> = OnceLock::new();

/// Returns the registration that reads the inputs of operators, with this probability. It is added
/// after the [`registrations`], so that the scope of an operator is open when it starts, and
/// closed when it ends.
pub(crate) fn inputs_registration(sampling_probability: f64) -> Registration {
    let (start, end) = (start_callback::<OperatorInputs>(), end_callback::<OperatorInputs>);
    Registration::new(ObservedKind::Function, start, end).with_inputs(sampling_probability)
}

/// Returns the registrations for all observed kinds.
pub(crate) fn registrations() -> [Registration; 3] {
    [
        Registration::new(
            ObservedKind::Function,
            start_callback::<Operator>(),
            end_callback::<Operator>,
        ),
        Registration::new(
            ObservedKind::BackwardFunction,
            start_callback::<AutogradNode>(),
            end_callback::<AutogradNode>,
        ),
        Registration::new(
            ObservedKind::UserScope,
            start_callback::<UserScope>(),
            end_callback::<UserScope>,
        ),
    ]
}

/// Work at the start and the end of a function.
trait Observer {
    /// Whether the end of a function counts without a session too.
    const ENDS_WITHOUT_SESSION: bool = false;

    /// # Safety
    /// PyTorch is calling the start callback with this function.
    unsafe fn start(library: &Library, function: *const RecordFunction);

    /// # Safety
    /// PyTorch is calling the end callback with this function.
    unsafe fn end(library: &Library, function: *const RecordFunction);
}

/// Reads the inputs of operators.
struct OperatorInputs;

impl Observer for OperatorInputs {
    unsafe fn start(library: &Library, function: *const RecordFunction) {
        shapes::note_reading();
        // SAFETY: guaranteed by the caller.
        unsafe { inputs::begin(Operator::name_id(library, function), function) }
    }

    unsafe fn end(_library: &Library, function: *const RecordFunction) {
        inputs::end(function);
    }
}

/// The way in which functions of one kind are recorded. By default the text of a name is temporary, and a
/// function has no part in a backward pass.
trait RecordedKind {
    const NODE_KIND: NodeKind;

    /// Returns the number of a function's name.
    ///
    /// # Safety
    /// PyTorch is calling a callback with this function.
    #[inline(always)]
    unsafe fn name_id(library: &Library, function: *const RecordFunction) -> u32 {
        // SAFETY: guaranteed by the caller.
        unsafe { temporary_name_id(library, function) }
    }

    /// Returns the part of a function in a backward pass, if it has one.
    ///
    /// # Safety
    /// As for [`RecordedKind::name_id`].
    #[inline(always)]
    unsafe fn autograd_call(
        _library: &Library,
        _function: *const RecordFunction,
    ) -> Option<AutogradCall> {
        None
    }
}

struct Operator;

impl RecordedKind for Operator {
    const NODE_KIND: NodeKind = NodeKind::Operator;

    #[inline(always)]
    unsafe fn name_id(library: &Library, function: *const RecordFunction) -> u32 {
        // SAFETY: PyTorch's functions return C strings for a function that it is observing.
        unsafe {
            names::intern_operator((library.name)(function), || {
                library.overload_name.map(|overload_name| overload_name(function))
            })
        }
    }

    #[inline(always)]
    unsafe fn autograd_call(
        library: &Library,
        function: *const RecordFunction,
    ) -> Option<AutogradCall> {
        // SAFETY: guaranteed by the caller.
        unsafe { autograd::forward_call(library, function) }
    }
}

struct AutogradNode;

impl RecordedKind for AutogradNode {
    const NODE_KIND: NodeKind = NodeKind::Operator;

    #[inline(always)]
    unsafe fn autograd_call(
        _library: &Library,
        function: *const RecordFunction,
    ) -> Option<AutogradCall> {
        // SAFETY: guaranteed by the caller.
        unsafe { autograd::backward_call(function) }
    }
}

struct UserScope;

impl Observer for UserScope {
    const ENDS_WITHOUT_SESSION: bool = true;

    unsafe fn start(library: &Library, function: *const RecordFunction) {
        // SAFETY: guaranteed by the caller.
        let name_id = unsafe { temporary_name_id(library, function) };
        if name_id == IGNORED {
            return;
        }
        match user_scopes::begin(function) {
            Some(slot) => slot.set(api::enter_outliving(name_id, NodeKind::Scope)),
            None => api::count_lost_range(),
        }
    }

    unsafe fn end(library: &Library, function: *const RecordFunction) {
        let scope_id = user_scopes::end(function);
        if scope_id != 0 {
            // SAFETY: guaranteed by the caller.
            api::exit_anywhere(unsafe { temporary_name_id(library, function) }, scope_id);
        }
    }
}

/// Returns the number of a name whose text is temporary.
///
/// # Safety
/// PyTorch is calling a callback with this function.
#[inline(always)]
unsafe fn temporary_name_id(library: &Library, function: *const RecordFunction) -> u32 {
    // SAFETY: PyTorch returns a C string for a function that it is observing.
    names::intern_temporary(unsafe { CStr::from_ptr((library.name)(function)) })
}

impl<K: RecordedKind> Observer for K {
    #[inline(always)]
    unsafe fn start(library: &Library, function: *const RecordFunction) {
        // SAFETY: guaranteed by the caller.
        let name_id = unsafe { K::name_id(library, function) };
        if name_id != IGNORED {
            api::enter_in_current_task(name_id, K::NODE_KIND);
        }
    }

    #[inline(always)]
    unsafe fn end(library: &Library, function: *const RecordFunction) {
        // SAFETY: guaranteed by the caller.
        let (name_id, call) =
            unsafe { (K::name_id(library, function), K::autograd_call(library, function)) };
        match call {
            _ if name_id == IGNORED => {}
            Some(call) => api::exit_autograd(name_id, call),
            None => {
                api::exit(name_id);
            }
        }
    }
}

#[inline(always)]
unsafe fn observe_start<O: Observer>(function: *const RecordFunction) {
    if api::is_live()
        && let Some(library) = LIBRARY.get()
    {
        // SAFETY: PyTorch is calling the start callback with this function.
        unsafe { O::start(library, function) }
    }
}

/// The end callback. PyTorch passes what the start returned, which is null.
unsafe extern "C" fn end_callback<O: Observer>(
    function: *const RecordFunction,
    _context: *mut c_void,
) {
    if (O::ENDS_WITHOUT_SESSION || api::is_live())
        && let Some(library) = LIBRARY.get()
    {
        // SAFETY: PyTorch is calling the end callback with this function.
        unsafe { O::end(library, function) }
    }
}

const _: EndCallback = end_callback::<Operator>;

/// Returns the start callback, which returns a null `unique_ptr` as C++ would.
#[cfg(target_arch = "x86_64")]
fn start_callback<O: Observer>() -> StartCallback {
    /// The address of the result is the first argument and is returned.
    unsafe extern "C" fn start<O: Observer>(
        result: *mut *mut c_void,
        function: *const RecordFunction,
    ) -> *mut *mut c_void {
        // SAFETY: PyTorch passes the address of its result, and a function that it is observing.
        unsafe {
            result.write(std::ptr::null_mut());
            observe_start::<O>(function);
        }
        result
    }
    let start: unsafe extern "C" fn(*mut *mut c_void, *const RecordFunction) -> *mut *mut c_void =
        start::<O>;
    // SAFETY: a function's address; only PyTorch calls it, with these arguments.
    unsafe { std::mem::transmute::<_, StartCallback>(start) }
}

/// Returns the start callback, which returns a null `unique_ptr` as C++ would.
#[cfg(target_arch = "aarch64")]
fn start_callback<O: Observer>() -> StartCallback {
    unsafe extern "C" fn start<O: Observer>(function: *const RecordFunction) {
        // SAFETY: PyTorch passes a function that it is observing.
        unsafe { observe_start::<O>(function) }
    }
    /// The address of the result is in x8, which a function need not preserve.
    #[unsafe(naked)]
    unsafe extern "C" fn shell<O: Observer>() {
        std::arch::naked_asm!("str xzr, [x8]", "b {start}", start = sym start::<O>)
    }
    shell::<O>
}
